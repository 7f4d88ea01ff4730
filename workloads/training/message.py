"""One worker's message to another in one exchange: rows of values as bytes, exact or quantised by row.

Layout of a quantised message: (minimum, scale) of every row, then the packed rows; both ordered by bit width,
and within a width as given. Sender and receiver know the widths (they follow from the graph and the epoch),
so no header travels. On a CPU the quantiser is native (workloads/native/quantise.cpp), elsewhere it is
workloads/training/quantise.py's; the layout is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workloads import _kernels
from workloads.training.quantise import (
    WIDTHS,
    NotFiniteError,
    dequantise,
    finite,
    pack,
    packed_width,
    quantise,
    unpack,
)


@dataclass(frozen=True)
class MessageSize:
    """Bytes of a message: of the values themselves, and of the rows' minima and scales."""

    main_bytes: int
    scale_bytes: int

    @property
    def total(self) -> int:
        """All bytes on the wire."""
        return self.main_bytes + self.scale_bytes


def message_size(count: int, width: int, bits: Tensor | None, dtype: torch.dtype) -> MessageSize:
    """Size of a message of `count` rows of `width` values; bits: uint8[count] on the CPU, or None for exact
    rows.
    """
    if bits is None:
        return MessageSize(count * width * dtype.itemsize, 0)
    rows = torch.bincount(bits.long(), minlength=9).tolist()
    main = sum(rows[b] * packed_width(width, b) for b in WIDTHS)
    return MessageSize(main, 2 * dtype.itemsize * count)


def encode(rows: Tensor, bits: Tensor | None, seed: int, unchecked: list[Tensor] | None = None) -> Tensor:
    """The message as uint8[size], on the rows' device. rows: float[n, w]; bits: uint8[n] on the CPU; seed:
    64 bits, from which alone the rounding follows.

    Raises NotFiniteError when quantised rows are not finite. On an accelerator that would wait for it: with
    `unchecked`, whether they are finite is left there as bool[] and `check` raises later.
    """
    if bits is None:
        return as_bytes(rows.contiguous())
    if not rows.is_cuda:
        size = message_size(len(rows), rows.shape[1], bits, rows.dtype).total
        message = torch.empty(size, dtype=torch.uint8)
        contiguous = rows.detach().contiguous().numpy()
        if not _kernels.quantise_message(contiguous, bits.numpy(), seed, message.numpy()):
            raise NotFiniteError
        return message
    generator = torch.Generator(rows.device).manual_seed(seed % 2**63)
    metas, bodies = [], []
    for width in WIDTHS:
        chosen = rows[(bits == width).nonzero().flatten().to(rows.device, non_blocking=True)]
        if len(chosen):
            levels, meta = quantise(chosen, width, generator)
            metas.append(as_bytes(meta))
            bodies.append(pack(levels, width).reshape(-1))
            if unchecked is not None:
                unchecked.append(finite(meta))
            else:
                check([finite(meta)])
    return torch.cat([*metas, *bodies]) if metas else rows.new_zeros(0, dtype=torch.uint8)


def check(finite_flags: list[Tensor]) -> None:
    """Raises NotFiniteError when one of them is false."""
    if finite_flags and not bool(torch.stack(finite_flags).all()):
        raise NotFiniteError


def decode(message: Tensor, count: int, width: int, bits: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The rows, float[count, width], from a message that the other side encoded with the same arguments."""
    if bits is None:
        return message.view(dtype).reshape(count, width)
    rows = torch.empty(count, width, dtype=dtype, device=message.device)
    if not message.is_cuda:
        _kernels.dequantise_message(message.numpy(), bits.numpy(), rows.numpy())
        return rows
    metas = message[: 2 * dtype.itemsize * count].view(dtype).reshape(count, 2)
    at_meta, at_body = 0, 2 * dtype.itemsize * count
    for b in WIDTHS:
        chosen = torch.nonzero(bits == b).flatten()
        if not len(chosen):
            continue
        size = len(chosen) * packed_width(width, b)
        packed = message[at_body : at_body + size].reshape(len(chosen), -1)
        meta = metas[at_meta : at_meta + len(chosen)]
        rows[chosen.to(rows.device, non_blocking=True)] = dequantise(unpack(packed, b, width), meta)
        at_meta, at_body = at_meta + len(chosen), at_body + size
    return rows


def as_bytes(values: Tensor) -> Tensor:
    """uint8[]: the same memory."""
    return values.reshape(-1).view(torch.uint8)
