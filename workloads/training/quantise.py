"""Stochastic integer quantisation of message vectors, and packing to 1, 2, 4 or 8 bits (SYLVIE, section 6).

scale = (max - min) / (2^b - 1); q = stochastic_round((h - min) / scale); restored = scale * q + min. Rounding
up with probability equal to the fraction makes the restored value unbiased. A constant vector has scale 0: q
is 0 and it is restored exactly.

These are the tensor operations that an accelerator runs; on a CPU workloads/native/quantise.cpp does the same
about ten times faster.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.errors import InputError

WIDTHS = (1, 2, 4, 8)


class NotFiniteError(InputError):
    """A vector to be quantised holds NaN or infinity, or its range overflows."""

    def __init__(self, where: str = "a vector to be quantised") -> None:
        super().__init__(f"NaN, infinity or an overflowing range in {where}")


def quantise(rows: Tensor, bits: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(q: uint8[n, D] in 0..2^bits-1, meta: float[n, 2], each row its minimum and then its scale).

    rows: float[n, D], each row quantised on its own range. q means nothing where `finite(meta)` is false.
    """
    low, high = torch.aminmax(rows, dim=1, keepdim=True)
    scale = (high - low) / (2**bits - 1)
    steps = (rows - low) / torch.where(scale > 0, scale, 1)
    steps += torch.rand(rows.shape, generator=generator, dtype=rows.dtype, device=rows.device)
    levels = steps.floor_().clamp_(0, 2**bits - 1).to(torch.uint8)
    return levels, torch.cat([low, scale], dim=1)


def finite(meta: Tensor) -> Tensor:
    """bool[]: whether the rows held neither NaN nor infinity and no range overflowed."""
    return torch.isfinite(meta).all()


def dequantise(levels: Tensor, meta: Tensor) -> Tensor:
    """float[n, D], in meta's type: scale * q + min."""
    return torch.addcmul(meta[:, :1], levels.to(meta.dtype), meta[:, 1:])


def packed_width(width: int, bits: int) -> int:
    """Bytes of one packed vector: bits * width / 8 exactly; where that is no whole number, the vector's last
    byte is filled up with zero bits, so that every vector starts on a byte.
    """
    return -(-width * bits // 8)


def pack(levels: Tensor, bits: int) -> Tensor:
    """uint8[n, packed_width]: 8 / bits values to a byte, the first in the lowest bits; padded with zeros."""
    if bits == 8:
        return levels
    per_byte = 8 // bits
    rows, width = levels.shape
    padded = levels.new_zeros(rows, packed_width(width, bits) * per_byte)
    padded[:, :width] = levels
    packed = padded[:, ::per_byte].clone()
    for place in range(1, per_byte):
        packed |= padded[:, place::per_byte] << (place * bits)
    return packed


def unpack(packed: Tensor, bits: int, width: int) -> Tensor:
    """uint8[n, width]: the inverse of pack."""
    if bits == 8:
        return packed
    per_byte = 8 // bits
    levels = packed.new_empty(packed.shape[0], packed.shape[1] * per_byte)
    for place in range(per_byte):
        levels[:, place::per_byte] = (packed >> (place * bits)) & (2**bits - 1)
    return levels[:, :width]
