"""Attention over each query's k strongest neighbours, in a fixed-width (ELLPACK) layout.

The pattern depends on content and changes in every pass, so it is not kept as CSR: all neighbours lie in a
table [n, widest] made once, the k of highest score are chosen without gradient, and attention runs on
[n, k] tables of one size. Rows with fewer than k neighbours are padded and masked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workloads.training.transformer.layout import PairLayout


@dataclass(frozen=True, eq=False)
class EllLayout:
    """columns, classes: int64[n, widest], padded with 0; valid: bool[n, widest]."""

    columns: Tensor
    classes: Tensor
    valid: Tensor


def ell_layout(layout: PairLayout, most: int = 512) -> EllLayout:
    """A layout's pairs as a table. Rows wider than `most` keep `most` of their pairs, evenly chosen: a hub's
    row must not set the width of all.
    """
    counts = np.diff(layout.indptr)
    width = int(min(counts.max(initial=1), most))
    place = np.arange(width)[None, :]
    kept = np.minimum(counts, width)[:, None]
    stride = np.where(counts > width, counts / width, 1.0)[:, None]
    valid = place < kept
    at = layout.indptr[:-1, None] + np.minimum(place * stride, np.maximum(counts[:, None] - 1, 0)).astype(int)
    at = np.where(valid, at, 0)
    columns = np.where(valid, layout.indices[at], 0).astype(np.int64)
    classes = np.where(valid, layout.classes[at], 0).astype(np.int64)
    return EllLayout(torch.from_numpy(columns), torch.from_numpy(classes), torch.from_numpy(valid))


def topk_attention(
    q: Tensor, k: Tensor, v: Tensor, layout: EllLayout, *, most: int, table: Tensor | None = None
) -> Tensor:
    """float[h, n, w] each; every head keeps its `most` strongest neighbours of each query."""
    most = min(most, layout.columns.shape[1])
    heads = []
    for head in range(q.shape[0]):
        with torch.no_grad():
            scores = _scores(q[head], k[head], layout.columns)
            if table is not None:
                scores = scores + table[head][layout.classes]
            chosen = torch.topk(scores.masked_fill(~layout.valid, -math.inf), most, dim=1, sorted=False)
        columns = layout.columns.gather(1, chosen.indices)
        kept = _scores(q[head], k[head], columns)
        if table is not None:
            kept = kept + table[head][layout.classes.gather(1, chosen.indices)]
        kept = kept.masked_fill(chosen.values == -math.inf, -math.inf)
        weights = torch.softmax(kept, dim=1)
        heads.append((weights[:, None, :] @ v[head][columns])[:, 0])
    return torch.stack(heads)


def _scores(q: Tensor, k: Tensor, columns: Tensor) -> Tensor:
    return (k[columns] @ q[:, :, None])[:, :, 0] / math.sqrt(q.shape[1])
