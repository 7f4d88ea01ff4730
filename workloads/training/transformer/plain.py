"""Attention in plain torch operations, on any device: what the native kernels must equal.

Shapes throughout: q float[h, r, w] of r queries; k, v float[h, n, w]; table float[h, CLASSES], the bias of
each structural class; results float[h, r, w]. Scores are q.k / sqrt(w) + table[class].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.structure import OUTSIDE

_CHUNK_ROWS = 256


def dense(q: Tensor, k: Tensor, v: Tensor, classes: Tensor | None, table: Tensor | None) -> Tensor:
    """All pairs, scores as a matrix per head (GP-RAW). classes: int64[r, n], 0: no pair."""
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
    if classes is not None:
        if table is not None:
            scores = scores + table[:, classes]
        scores = scores.masked_fill(classes == 0, -math.inf)
    return torch.softmax(scores, dim=2) @ v


def pairs(q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None) -> Tensor:
    """The pairs of a layout, exact softmax over each query's."""
    row, column, classes = layout.tensors(q.device)
    scores = (q[:, row] * k[:, column]).sum(2) / math.sqrt(q.shape[2])
    if table is not None:
        scores = scores + table[:, classes]
    index = row.expand(q.shape[0], -1)
    low = torch.full(q.shape[:2], -math.inf, dtype=q.dtype, device=q.device)
    highest = low.scatter_reduce(1, index, scores.detach(), "amax")
    weights = torch.exp(scores - highest.gather(1, index))
    total = torch.zeros_like(low).fill_(0).scatter_add(1, index, weights)
    weights = weights / total.gather(1, index)
    return torch.zeros_like(q).index_add(1, row, weights[:, :, None] * v[:, column])


def full(q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None) -> Tensor:
    """All pairs, with the layout's classes where it has the pair and OUTSIDE elsewhere, rows in runs."""
    if table is None:
        chosen = [slice(at, at + _CHUNK_ROWS) for at in range(0, q.shape[1], _CHUNK_ROWS)]
        parts = [dense(q[:, rows], k, v, None, None) for rows in chosen]
        return torch.cat(parts, 1)
    parts = []
    for at in range(0, q.shape[1], _CHUNK_ROWS):
        some = layout.slice(at, min(at + _CHUNK_ROWS, q.shape[1]))
        row, column = (torch.from_numpy(end).to(q.device) for end in some.ends())
        classes = torch.full((some.rows, some.columns), OUTSIDE, dtype=torch.int64, device=q.device)
        classes[row, column] = torch.from_numpy(some.classes).to(q.device, torch.int64)
        parts.append(dense(q[:, at : at + some.rows], k, v, classes, table))
    return torch.cat(parts, 1)
