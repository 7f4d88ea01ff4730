"""Attention over single pairs in Triton, for CUDA devices: shapes as in `plain`.

FlexAttention works in blocks of 128 x 128 and has nothing to skip where pairs lie scattered; here a program
takes one query of one head and gathers its keys, as the CPU's kernels do. The backward pass computes the
scores again, once by queries and once by keys (the layout turned), so that sums need no atomics but the bias
table's. `TRITON_INTERPRET=1` runs the same code on a CPU, for tests.
"""

# ruff: noqa: PLR0917  # kernels have many arguments, and Triton's language no types
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.structure import CLASSES

CHUNK = 32
"""Keys that a program takes at once."""
TABLE = 32
"""CLASSES, up to a power of two."""


@triton.jit
def _loaded(first, second, indices, classes, start, last, h, count, width, d, CHUNK: tl.constexpr):
    """Of up to CHUNK pairs: the other end, its class, its rows of two arrays, and which pairs there are."""
    pair = start + tl.arange(0, CHUNK)
    there = pair < last
    other = tl.load(indices + pair, mask=there, other=0).to(tl.int64)
    kind = tl.load(classes + pair, mask=there, other=0).to(tl.int32)
    at = (h * count + other)[:, None] * width + d[None, :]
    both = there[:, None] & (d < width)[None, :]
    rows = tl.load(first + at, mask=both, other=0.0).to(tl.float32)
    more = tl.load(second + at, mask=both, other=0.0).to(tl.float32)
    return other, kind, rows, more, there


@triton.jit
def _forward(
    q, k, v, table, indptr, indices, classes, out, lse, rows, columns, width, scale,
    W: tl.constexpr, CHUNK: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, W)
    wide = d < width
    at_query = (h * rows + i) * width + d
    query = tl.load(q + at_query, mask=wide, other=0.0).to(tl.float32)
    first = tl.load(indptr + i)
    last = tl.load(indptr + i + 1)
    top = -1e30
    total = 0.0
    result = tl.zeros((W,), tl.float32)
    for start in range(first, last, CHUNK):
        _, kind, keys, values, there = _loaded(
            k, v, indices, classes, start, last, h, columns, width, d, CHUNK
        )
        scores = tl.sum(keys * query[None, :], 1) * scale + tl.load(table + h * TABLE + kind)
        scores = tl.where(there, scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 0))
        weights = tl.where(there, tl.exp(scores - higher), 0.0)
        fade = tl.exp(top - higher)
        result = result * fade + tl.sum(values * weights[:, None], 0)
        total = total * fade + tl.sum(weights, 0)
        top = higher
    some = total > 0
    safe = tl.where(some, total, 1.0)
    tl.store(out + at_query, (result / safe).to(out.dtype.element_ty), mask=wide)
    tl.store(lse + h * rows + i, tl.where(some, top + tl.log(safe), 0.0))


@triton.jit
def _backward_queries(
    q, k, v, table, indptr, indices, classes, grad, lse, delta, dq, dtable, rows, columns, width, scale,
    W: tl.constexpr, CHUNK: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, W)
    wide = d < width
    at_query = (h * rows + i) * width + d
    query = tl.load(q + at_query, mask=wide, other=0.0).to(tl.float32)
    back = tl.load(grad + at_query, mask=wide, other=0.0).to(tl.float32)
    own_lse = tl.load(lse + h * rows + i)
    own_delta = tl.load(delta + h * rows + i)
    first = tl.load(indptr + i)
    last = tl.load(indptr + i + 1)
    result = tl.zeros((W,), tl.float32)
    biases = tl.zeros((TABLE,), tl.float32)
    for start in range(first, last, CHUNK):
        _, kind, keys, values, there = _loaded(
            k, v, indices, classes, start, last, h, columns, width, d, CHUNK
        )
        scores = tl.sum(keys * query[None, :], 1) * scale + tl.load(table + h * TABLE + kind)
        weights = tl.where(there, tl.exp(scores - own_lse), 0.0)
        change = weights * (tl.sum(values * back[None, :], 1) - own_delta)
        result += tl.sum(keys * change[:, None], 0)
        biases += tl.sum(tl.where(kind[:, None] == tl.arange(0, TABLE)[None, :], change[:, None], 0.0), 0)
    tl.store(dq + at_query, (result * scale).to(dq.dtype.element_ty), mask=wide)
    tl.atomic_add(dtable + h * TABLE + tl.arange(0, TABLE), biases)


@triton.jit
def _backward_keys(
    q, k, v, table, indptr, indices, classes, grad, lse, delta, dk, dv, rows, columns, width, scale,
    W: tl.constexpr, CHUNK: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    """indptr, indices, classes: the layout turned, the queries of each key."""
    j = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, W)
    wide = d < width
    at_key = (h * columns + j) * width + d
    key = tl.load(k + at_key, mask=wide, other=0.0).to(tl.float32)
    value = tl.load(v + at_key, mask=wide, other=0.0).to(tl.float32)
    first = tl.load(indptr + j)
    last = tl.load(indptr + j + 1)
    key_change = tl.zeros((W,), tl.float32)
    value_change = tl.zeros((W,), tl.float32)
    for start in range(first, last, CHUNK):
        i, kind, queries, back, there = _loaded(
            q, grad, indices, classes, start, last, h, rows, width, d, CHUNK
        )
        scores = tl.sum(queries * key[None, :], 1) * scale + tl.load(table + h * TABLE + kind)
        own_lse = tl.load(lse + h * rows + i, mask=there, other=0.0)
        own_delta = tl.load(delta + h * rows + i, mask=there, other=0.0)
        weights = tl.where(there, tl.exp(scores - own_lse), 0.0)
        change = weights * (tl.sum(back * value[None, :], 1) - own_delta)
        key_change += tl.sum(queries * change[:, None], 0)
        value_change += tl.sum(back * weights[:, None], 0)
    tl.store(dk + at_key, (key_change * scale).to(dk.dtype.element_ty), mask=wide)
    tl.store(dv + at_key, value_change.to(dv.dtype.element_ty), mask=wide)


def attend(q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None) -> Tensor:
    """The pairs of a layout, in float32 whatever the states are; a query without any gets zeros."""
    if table is None:
        table = torch.zeros(q.shape[0], CLASSES, device=q.device)
    by_query, by_key = _turned(layout, q.device)
    result: Tensor = _Attend.apply(q, k, v, table, by_query, by_key)
    return result


def _turned(layout: PairLayout, device: torch.device) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(indptr, indices, classes) by query, and by key, on a device; kept with the layout."""
    at = ("triton", device)
    if at not in layout.handles:
        row, column = layout.ends()
        order = np.argsort(column, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=layout.columns))])
        turned = indptr.astype(np.int64), row[order].astype(np.int32), layout.classes[order]
        both = ((layout.indptr, layout.indices, layout.classes), turned)
        by_query, by_key = (tuple(torch.from_numpy(part).to(device) for part in side) for side in both)
        layout.handles[at] = by_query, by_key
    found: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] = layout.handles[at]
    return found


def _constants(width: int) -> dict[str, int]:
    return {"W": max(8, triton.next_power_of_2(width)), "CHUNK": CHUNK, "TABLE": TABLE}


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        by_query, by_key = given[4:]
        q, k, v = (part.contiguous() for part in given[:3])
        heads, rows, width = q.shape
        sizes = (rows, k.shape[1], width, 1 / math.sqrt(width))
        table = torch.nn.functional.pad(given[3].float(), (0, TABLE - CLASSES)).contiguous()
        out, lse = torch.empty_like(q), torch.empty(heads, rows, dtype=torch.float32, device=q.device)
        _forward[rows, heads](q, k, v, table, *by_query, out, lse, *sizes, **_constants(width))
        ctx.save_for_backward(q, k, v, table, out, lse)
        ctx.layouts, ctx.sizes, ctx.dtype = (by_query, by_key), sizes, given[3].dtype
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, lse = ctx.saved_tensors
        by_query, by_key = ctx.layouts
        grad, constants = grads[0].to(q.dtype).contiguous(), _constants(q.shape[2])
        delta = (grad.float() * out.float()).sum(2).contiguous()
        dq, dk, dv, dtable = (torch.zeros_like(part) for part in (q, k, v, table))
        shared = (grad, lse, delta)
        states = (q, k, v, table)
        heads = q.shape[0]
        _backward_queries[q.shape[1], heads](*states, *by_query, *shared, dq, dtable, *ctx.sizes, **constants)
        _backward_keys[k.shape[1], heads](*states, *by_key, *shared, dk, dv, *ctx.sizes, **constants)
        return dq, dk, dv, dtable[:, :CLASSES].to(ctx.dtype), None, None
