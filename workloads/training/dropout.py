"""Dropout whose mask depends on the vertex and not on the worker that holds it.

A random generator's stream would depend on the partition; a hash of (key, vertex, column) does not, so any
number of workers drops the same values.
"""

from __future__ import annotations

import torch
from torch import Tensor

_RESOLUTION = 1 << 24


def drop(values: Tensor, vertices: Tensor, share: float, key: int) -> Tensor:
    """values float[n, w] with about `share` of them zeroed and the rest scaled by 1/(1-share).

    vertices: int32[n] ids; key: 32 bits, another for every (seed, epoch, layer).
    """
    return values * kept(vertices, values.shape[1], share, key).to(values.dtype).div_(1 - share)


def kept(vertices: Tensor, width: int, share: float, key: int) -> Tensor:
    """bool[n, width]: the values that stay."""
    rows = _mix(_wrap(vertices, 0x9E3779B1) ^ _signed(key))
    columns = _wrap(torch.arange(1, width + 1, dtype=torch.int32, device=vertices.device), 0x85EBCA77)
    hashed = _mix(rows[:, None] + columns)
    return (hashed & (_RESOLUTION - 1)) >= int(share * _RESOLUTION)


def _mix(words: Tensor) -> Tensor:
    """MurmurHash3's 32-bit finaliser (Appleby), on int32 that wraps; the masks make its shifts logical."""
    words = words ^ ((words >> 16) & 0xFFFF)
    words = _wrap(words, 0x85EBCA6B)
    words ^= (words >> 13) & 0x7FFFF
    words = _wrap(words, 0xC2B2AE35)
    words ^= (words >> 16) & 0xFFFF
    return words


def _wrap(words: Tensor, factor: int) -> Tensor:
    return words * torch.tensor(_signed(factor), dtype=torch.int32, device=words.device)


def _signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >= 1 << 31 else word
