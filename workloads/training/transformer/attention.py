"""The attention kinds on one interface: (q, k, v, which pairs, bias table) -> values.

q: float[h, r, w], r queries of h heads; k, v: float[h, n, w]; table: float[h, CLASSES], a learned bias for
each structural class of a pair, or None; result float[h, r, w]. `structure` says what the classes are.

- dense (GP-RAW): all pairs, an r x n matrix of scores per head; any N x N classes.
- flash (GP-FLASH): all pairs by torch's scaled_dot_product_attention, memory linear in n, no bias.
- sparse (GP-SPARSE): the pairs of a `PairLayout`, memory linear in n and pairs.
- cluster (TorchGT): a `ClusterLayout`'s tiles and its other pairs.
- full: all pairs, biased where a `PairLayout` has the pair; memory linear in n and pairs. TorchGT's
  interleaved fully connected layer.

On a CPU sparse, cluster and full run on native kernels (`native`), float32 and float64, and keep nothing but
their result and a number per query and head for the backward pass; elsewhere on plain torch operations. In
bfloat16 they compute in float32 and round the result.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from workloads.training.transformer import native, plain
from workloads.training.transformer.clusters import ClusterLayout
from workloads.training.transformer.layout import PairLayout


def dense(
    q: Tensor, k: Tensor, v: Tensor, classes: Tensor | None = None, table: Tensor | None = None
) -> Tensor:
    """classes: int64[r, n], 0 where a pair must not attend; None: all pairs without bias."""
    return plain.dense(q, k, v, classes, table)


def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All pairs without bias."""
    return scaled_dot_product_attention(q[None], k[None], v[None])[0]


def sparse(q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None = None) -> Tensor:
    """The layout's pairs; a query without any gets zeros."""
    if q.dtype == torch.bfloat16:
        return sparse(q.float(), k.float(), v.float(), layout, table).to(q.dtype)
    if native.usable(q):
        return native.attend(q, k, v, layout, table, full=False)
    return plain.pairs(q, k, v, layout, table)


def cluster(q: Tensor, k: Tensor, v: Tensor, layout: ClusterLayout, table: Tensor | None = None) -> Tensor:
    """The tiles and the rest of a layout, one softmax over both."""
    if q.dtype == torch.bfloat16:
        return cluster(q.float(), k.float(), v.float(), layout, table).to(q.dtype)
    if native.usable(q):
        return native.attend(q, k, v, layout, table, full=False)
    return plain.pairs(q, k, v, layout.as_pairs(), table)


def full(q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None = None) -> Tensor:
    """All pairs, biased by class where the layout has the pair, as OUTSIDE elsewhere."""
    if q.dtype == torch.bfloat16:
        return full(q.float(), k.float(), v.float(), layout, table).to(q.dtype)
    if native.usable(q):
        return native.attend(q, k, v, layout, table, full=True)
    return plain.full(q, k, v, layout, table)
