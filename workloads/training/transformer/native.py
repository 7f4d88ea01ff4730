"""Attention on the CPU's native kernels, with its gradient: shapes as in `plain`, float32 and float64;
bfloat16 is computed in float32 and kept as it is.

The forward pass keeps its result and one number per query and head; the backward pass computes the scores
again, so memory grows with vertices and pairs of the layout, and the layout is shared by all layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads import _kernels
from workloads.training.transformer.clusters import ClusterLayout
from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.structure import CLASSES

_NO_TILES = (
    np.zeros(1, dtype=np.int64),
    np.zeros(0, dtype=np.int32),
    np.zeros((0, 8, 8), dtype=np.uint8),
)


def attend(
    q: Tensor, k: Tensor, v: Tensor, layout: PairLayout | ClusterLayout, table: Tensor | None, *, full: bool
) -> Tensor:
    """The pairs of a layout, or all pairs with the layout's classes where it has them (`full`)."""
    if table is None:
        table = torch.zeros(q.shape[0], CLASSES, dtype=_computed(q.dtype))
    result: Tensor = _Attend.apply(q, k, v, table, _handle(layout, full))
    return result


def _handle(layout: PairLayout | ClusterLayout, full: bool) -> Any:
    """The kernels' view of a layout, kept with it; it is checked when made."""
    if full not in layout.handles:
        if isinstance(layout, ClusterLayout):
            pairs = layout.rest
            tiles = (layout.tile_ptr, layout.tile_columns, layout.tile_classes)
        else:
            pairs, tiles = layout, _NO_TILES
        parts = (pairs.indptr, pairs.indices, pairs.classes, *tiles)
        layout.handles[full] = _kernels.AttentionLayout(*parts, layout.columns, full)
    return layout.handles[full]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        handle = given[4]
        dtype = _computed(given[0].dtype)
        q, k, v, table = (part.to(dtype).contiguous() for part in given[:4])
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:2])
        arrays = [part.numpy() for part in (q, k, v, table, out, lse)]
        _kernels.attention_forward(handle, *arrays, torch.get_num_threads())
        result = out.to(given[0].dtype)
        ctx.save_for_backward(*given[:4], result, lse)
        ctx.handle = handle
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *given, out, lse = ctx.saved_tensors
        states = [part.detach().to(lse.dtype).contiguous() for part in (*given, out, lse, grads[0])]
        into = [torch.zeros_like(part) for part in states[:4]]
        arrays = [part.numpy() for part in (*states, *into)]
        _kernels.attention_backward(ctx.handle, *arrays, torch.get_num_threads())
        found = (part.to(own.dtype) for part, own in zip(into, given, strict=True))
        return (*found, None)


def _computed(dtype: torch.dtype) -> torch.dtype:
    """What the kernels compute in: they know no bfloat16."""
    return torch.float32 if dtype == torch.bfloat16 else dtype
