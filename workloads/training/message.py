"""One worker's message to another in one exchange: rows of values as bytes, exact or quantised by row.

Layout of a quantised message: (minimum, scale) of every row, then the packed rows; both ordered by bit width,
and within a width as given. Sender and receiver know the widths (they follow from the graph and the epoch),
so no header travels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workloads.training.quantise import WIDTHS, dequantise, pack, packed_width, quantise, unpack


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
    """Size of a message of `count` rows of `width` values; bits: uint8[count], or None for exact rows."""
    if bits is None:
        return MessageSize(count * width * dtype.itemsize, 0)
    rows = torch.bincount(bits.long(), minlength=9).tolist()
    main = sum(rows[b] * packed_width(width, b) for b in WIDTHS)
    return MessageSize(main, 2 * dtype.itemsize * count)


def encode(rows: Tensor, bits: Tensor | None, generator: torch.Generator) -> Tensor:
    """The message as uint8[size]. rows: float[n, w]. Raises NotFiniteError when quantised rows are not
    finite.
    """
    if bits is None:
        return _bytes(rows)
    metas, bodies = [], []
    for width in WIDTHS:
        chosen = rows[bits == width]
        if len(chosen):
            levels, meta = quantise(chosen, width, generator)
            metas.append(_bytes(meta))
            bodies.append(pack(levels, width).reshape(-1))
    return torch.cat([*metas, *bodies]) if metas else torch.zeros(0, dtype=torch.uint8)


def decode(message: Tensor, count: int, width: int, bits: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The rows, float[count, width], from a message that the other side encoded with the same arguments."""
    if bits is None:
        return message.view(dtype).reshape(count, width)
    rows = torch.empty(count, width, dtype=dtype)
    metas = message[: 2 * dtype.itemsize * count].view(dtype).reshape(count, 2)
    at_meta, at_body = 0, 2 * dtype.itemsize * count
    for b in WIDTHS:
        chosen = torch.nonzero(bits == b).flatten()
        if not len(chosen):
            continue
        size = len(chosen) * packed_width(width, b)
        packed = message[at_body : at_body + size].reshape(len(chosen), -1)
        meta = metas[at_meta : at_meta + len(chosen)]
        rows[chosen] = dequantise(unpack(packed, b, width), meta)
        at_meta, at_body = at_meta + len(chosen), at_body + size
    return rows


def _bytes(values: Tensor) -> Tensor:
    return values.reshape(-1).view(torch.uint8)
