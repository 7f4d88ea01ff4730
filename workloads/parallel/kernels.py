"""The kernels a training step is made of, as closures to time: forward, and backward through autograd.

SpMM in four ways: `csr`, what training runs (embedding_bag over CSR); `torch`, torch's own sparse product;
`blocked`, the dense matrix in blocks of columns that stay in cache; `fused`, product, bias and ReLU on runs
of rows, so that the sum is not written and read again. Attention in four: `dense`, `flash`, `sparse`, `topk`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, gelu, layer_norm, linear

from workloads.parallel.topk import ell_layout, topk_attention
from workloads.training.adjacency import Adjacency
from workloads.training.local_graph import LocalGraph
from workloads.training.transformer import attention
from workloads.training.transformer.layout import PairLayout, from_pairs

Make = Callable[[], tuple[Callable[[], Tensor], list[Tensor]]]
BLOCK_COLUMNS = 32
FUSED_ROWS = 512


@dataclass(frozen=True)
class Sizes:
    """V rows; E directed edges, attended pairs or (topk) table cells; d values a row, out of a product's
    result; heads of attention; keys a query keeps (topk).
    """

    V: int
    E: int = 0
    d: int = 1
    out: int = 1
    heads: int = 1
    keys: int = 1


@dataclass(frozen=True)
class Kernel:
    """kernel: "linear", "spmm/csr", "attention/sparse", ...; make: its closure and the inputs that get
    gradients.
    """

    kernel: str
    sizes: Sizes
    make: Make


def random_local(V: int, E: int, seed: int = 1) -> LocalGraph:
    """A random graph of V vertices and about E directed edges on one worker."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, V, size=(2, max(1, E // 2)))
    row, column = np.concatenate([ends, ends[::-1]], axis=1)
    keep = row != column
    number = np.unique(row[keep].astype(np.int64) * V + column[keep])
    row, column = number // V, number % V
    degrees = np.bincount(row, minlength=V)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    none = np.zeros(0, dtype=np.int64)
    everything = np.arange(V, dtype=np.int64)
    return LocalGraph(
        0, 1, everything, none, indptr, column.astype(np.int32), degrees.astype(np.int64), (none,), (0,)
    )


def random_pairs(V: int, E: int) -> PairLayout:
    """A layout of about E pairs, self loops among them."""
    local = random_local(V, max(2, E - V))
    row = np.concatenate([np.repeat(np.arange(V), np.diff(local.indptr)), np.arange(V)])
    column = np.concatenate([local.indices, np.arange(V, dtype=np.int32)])
    return from_pairs(V, V, (row, column), np.ones(len(row), dtype=np.uint8))


def linear_kernel(V: int, d: int, out: int) -> Kernel:
    """A linear map with bias; gradients of inputs, weight and bias."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        inputs = [_grad(V, d), _grad(out, d), _grad(out)]
        return (lambda: linear(*inputs)), inputs

    return Kernel("linear", Sizes(V, d=d, out=out), make)


def rows_kernel(V: int, d: int) -> Kernel:
    """Normalise, activate, add: what a layer does to rows besides."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        values = _grad(V, d)
        return (lambda: values + gelu(layer_norm(values, (d,)))), [values]

    return Kernel("rows", Sizes(V, d=d), make)


def spmm_kernel(variant: str, V: int, E: int, d: int) -> Kernel:
    """The product of a random V x V matrix with E entries and V x d values."""
    local = random_local(V, E)

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        adjacency, values = Adjacency(local, torch.float32), _grad(V, d)
        weights = adjacency.weights["gcn"]
        if variant == "csr":
            return (lambda: adjacency.aggregate(values, weights)), [values]
        if variant == "blocked":
            return (lambda: blocked(adjacency, values, weights)), [values]
        if variant == "fused":
            bias = _grad(d)
            return (lambda: fused(adjacency, values, weights, bias)), [values, bias]
        ends = torch.from_numpy(local.indptr), torch.from_numpy(local.indices.astype(np.int64))
        with warnings.catch_warnings():  # that sparse CSR is in beta is no news to who profiles it
            warnings.simplefilter("ignore")
            matrix = torch.sparse_csr_tensor(*ends, weights, (V, V))
        return (lambda: torch.sparse.mm(matrix, values)), [values]

    return Kernel(f"spmm/{variant}", Sizes(V, len(local.indices), d), make)


def attention_kernel(variant: str, V: int, E: int, *, d: int, heads: int, keys: int = 16) -> Kernel:
    """One attention of V queries over V keys, d values over all heads."""
    pairs = random_pairs(V, E)
    ell = ell_layout(pairs) if variant == "topk" else None
    count = {"sparse": pairs.pairs, "topk": 0 if ell is None else ell.columns.numel()}.get(variant, V * V)

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        q, k, v = (_grad(heads, V, d // heads) for _ in range(3))
        if variant == "sparse":
            return (lambda: attention.sparse(q, k, v, pairs, None)), [q, k, v]
        if ell is not None:
            return (lambda: topk_attention(q, k, v, ell, most=keys)), [q, k, v]
        whole = attention.flash if variant == "flash" else attention.dense
        return (lambda: whole(q, k, v)), [q, k, v]

    return Kernel(f"attention/{variant}", Sizes(V, count, d, heads=heads, keys=keys), make)


def adam_kernel(count: int) -> Kernel:
    """Adam's step on `count` weights; there is no backward pass."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        weight = torch.nn.Parameter(torch.rand(count))
        weight.grad = torch.rand(count)
        optimiser = torch.optim.Adam([weight])

        def step() -> Tensor:
            optimiser.step()
            return weight.detach()

        return step, []

    return Kernel("adam", Sizes(count), make)


def message_kernel(V: int, d: int) -> Kernel:
    """What an exchange does to its rows on either side: choose, copy out, copy in."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        values, at = torch.rand(2 * V, d), torch.randint(0, 2 * V, (V,))
        place = torch.empty(V, d)

        def swap() -> Tensor:
            message = values[at].contiguous().view(torch.uint8).clone()
            place[:] = message.view(torch.float32)
            return torch.cat([values, place])

        return swap, []

    return Kernel("message", Sizes(V, d=d), make)


def blocked(adjacency: Adjacency, values: Tensor, weights: Tensor, columns: int = BLOCK_COLUMNS) -> Tensor:
    """The weighted sums, a block of columns at a time."""
    parts = [adjacency.aggregate(part.contiguous(), weights) for part in values.split(columns, dim=1)]
    return torch.cat(parts, dim=1)


def fused(adjacency: Adjacency, values: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """relu(sums + bias), on runs of rows that stay in cache."""
    return _Fused.apply(values, weights, bias, adjacency)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, bias: Tensor, adjacency: Adjacency) -> Tensor:
        result = values.new_empty(adjacency.num_inner, values.shape[1])
        starts = adjacency._offsets
        for first in range(0, adjacency.num_inner, FUSED_ROWS):
            last = min(first + FUSED_ROWS, adjacency.num_inner)
            low, high = int(starts[first]), int(starts[last])
            part = result[first:last]
            if low == high:
                part.zero_()
            else:
                sums = embedding_bag(
                    adjacency.col[low:high],
                    values,
                    starts[first : last + 1] - low,
                    mode="sum",
                    per_sample_weights=weights[low:high],
                    include_last_offset=True,
                )
                part.copy_(sums)
            part.add_(bias).relu_()
        ctx.adjacency = adjacency
        ctx.save_for_backward(result, weights)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        result, weights = ctx.saved_tensors
        through = grads[0] * (result > 0)
        return ctx.adjacency.sum_columns(through, weights), None, through.sum(0), None


def _grad(*shape: int) -> Tensor:
    return torch.rand(*shape).requires_grad_()
