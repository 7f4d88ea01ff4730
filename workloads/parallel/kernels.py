"""The kernels a training step is made of, as closures to time: forward, and backward through autograd.

What the trainers run is timed as the trainers run it: `gcn`, `mean` and `attend` are a propagation of theirs
with all it copies, `layer` a transformer's layer but for its attention, `adam` the update of several weights.
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
from torch.nn.functional import cross_entropy, embedding_bag, gelu, layer_norm, linear, relu

from workloads.errors import InputError
from workloads.parallel.topk import ell_layout, topk_attention
from workloads.parallel.transformer import forward_of_layer
from workloads.training.adjacency import Adjacency
from workloads.training.gradients import reduce_gradients
from workloads.training.local_graph import LocalGraph
from workloads.training.transformer import attention
from workloads.training.transformer.layout import PairLayout, from_pairs
from workloads.training.transformer.structure import CLASSES
from workloads.training.view import View
from workloads.training.wire import Wire

Make = Callable[[], tuple[Callable[[], Tensor], list[Tensor]]]
BLOCK_COLUMNS = 32
FUSED_ROWS = 512


@dataclass(frozen=True)
class Sizes:
    """V rows; E directed edges, attended pairs or (topk) table cells; d values a row, out of a product's
    result; heads of attention; keys a query keeps (topk). Of a propagation, out: rows of the halo; of a
    layer, out: values of its heads, keys: its feed-forward network's width; of an update, V weights in keys
    tensors.
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


def random_share(V: int, E: int, halo: int, seed: int = 1) -> LocalGraph:
    """V vertices with exactly E directed edges, some of them twice, to each other and a halo."""
    rng = np.random.default_rng(seed)
    row = np.sort(rng.integers(0, V, E))
    column = rng.integers(0, V + halo, E).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=V))]).astype(np.int64)
    degrees = np.full(V + halo, max(1, E // V), dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    inner, remote = np.arange(V, dtype=np.int64), np.arange(V, V + halo, dtype=np.int64)
    return LocalGraph(0, 1, inner, remote, indptr, column, degrees, (none,), (0,))


def random_pairs(V: int, E: int) -> PairLayout:
    """A layout of about E pairs, self loops among them."""
    local = random_local(V, max(2, E - V))
    row = np.concatenate([np.repeat(np.arange(V), np.diff(local.indptr)), np.arange(V)])
    column = np.concatenate([local.indices, np.arange(V, dtype=np.int32)])
    return from_pairs(V, V, (row, column), np.ones(len(row), dtype=np.uint8))


def linear_kernel(V: int, d: int, out: int, *, first: bool = False) -> Kernel:
    """A linear map with bias; gradients of weight and bias and, but for a model's first, of inputs."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        values, weights = _grad(V, d), [_grad(out, d), _grad(out)]
        if first:
            values = values.detach()
        return (lambda: linear(values, *weights)), weights if first else [values, *weights]

    return Kernel("linear/first" if first else "linear", Sizes(V, d=d, out=out), make)


def relu_kernel(V: int, d: int) -> Kernel:
    """What follows a network's linear map."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        values = _grad(V, d)
        return (lambda: relu(values)), [values]

    return Kernel("relu", Sizes(V, d=d), make)


def loss_kernel(V: int, classes: int) -> Kernel:
    """Cross entropy of every second row's scores: V rows count."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        scores, labels = _grad(2 * V, classes), torch.zeros(V, dtype=torch.int64)
        at = torch.arange(0, 2 * V, 2)
        return (lambda: cross_entropy(scores[at], labels, reduction="sum")), [scores]

    return Kernel("loss", Sizes(V, d=classes), make)


def propagation_kernel(kind: str, V: int, E: int, d: int, halo: int = 0) -> Kernel:
    """gcn, mean or attend: a view's propagation of V vertices with E edges to them and to `halo` others,
    whose rows are there.
    """

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        local = random_share(V, E, halo)
        view = _Given(Adjacency(local, torch.float32), _grad(halo, d))
        values = _grad(V, d)
        if kind == "gcn":
            return (lambda: view.gcn(values, 1)), [values, view.rows]
        if kind == "mean":
            return (lambda: view.mean(values, 1)), [values, view.rows]
        to, source = _grad(V), _grad(d)
        return (lambda: view.attention(values, to, source, 1)), [values, view.rows, to, source]

    return Kernel(kind, Sizes(V, E, d, halo), make)


class _Given(View):
    """A view whose halo is given: no transfer."""

    def __init__(self, adjacency: Adjacency, rows: Tensor) -> None:
        super().__init__(adjacency, _Exact(), torch.zeros(0), seed=1, epoch=0)  # type: ignore[arg-type]
        self.rows = rows

    def _extended(self, inner: Tensor, layer: int) -> Tensor:
        return torch.cat([inner, self.rows])


class _Exact:
    """An exchange that a view asks nothing but this."""

    sequential = False


def layer_kernel(style: str, V: int, d: int, *, heads: int, out: int, inner: int) -> Kernel:
    """A transformer's layer on V rows, but for its attention, with so many heads of `out` values together."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        forward, weights = forward_of_layer(d, heads, out // heads, inner, style)
        values = _grad(V, d)
        return (lambda: forward(values)), [values, *weights]

    return Kernel(f"layer/{style}", Sizes(V, d=d, out=out, heads=heads, keys=inner), make)


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
        table = _grad(heads, CLASSES)
        if variant == "sparse":
            return (lambda: attention.sparse(q, k, v, pairs, table)), [q, k, v, table]
        if ell is not None:
            return (lambda: topk_attention(q, k, v, ell, most=keys, table=table)), [q, k, v, table]
        whole = attention.flash if variant == "flash" else attention.dense
        return (lambda: whole(q, k, v)), [q, k, v]

    return Kernel(f"attention/{variant}", Sizes(V, count, d, heads=heads, keys=keys), make)


def adam_kernel(count: int, tensors: int = 1) -> Kernel:
    """Adam's step on `count` weights in so many tensors; there is no backward pass."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        weights = _weights(count, tensors)
        optimiser = torch.optim.Adam(weights)

        def step() -> Tensor:
            optimiser.step()
            return weights[0].detach()

        return step, []

    return Kernel("adam", Sizes(count, keys=tensors), make)


def gradients_kernel(count: int, tensors: int = 1) -> Kernel:
    """Gradients into one message, and out of it."""

    def make() -> tuple[Callable[[], Tensor], list[Tensor]]:
        weights, alone = _weights(count, tensors), torch.nn.Module()
        alone.weights = torch.nn.ParameterList(weights)
        nobody = Wire(0, 1)

        def pack() -> Tensor:
            reduce_gradients(alone, nobody)
            return weights[0].detach()

        return pack, []

    return Kernel("gradients", Sizes(count, keys=tensors), make)


def _weights(count: int, tensors: int) -> list[torch.nn.Parameter]:
    """`tensors` of them, half large and half small, as weights and biases are."""
    large = max(1, tensors - tensors // 2)
    small = min(64, count // (2 * tensors) + 1)
    sizes = [max(1, (count - small * (tensors - large)) // large)] * large + [small] * (tensors - large)
    weights = [torch.nn.Parameter(torch.rand(size)) for size in sizes]
    for weight in weights:
        weight.grad = torch.rand_like(weight)
    return weights


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


def kernel_of(name: str, sizes: Sizes) -> Kernel:
    """The kernel of these sizes; of random graphs, E only about. Raises InputError for an unknown name."""
    V, E, d, out, heads, keys = sizes.V, sizes.E, sizes.d, sizes.out, sizes.heads, sizes.keys
    family, _, variant = name.partition("/")
    makers: dict[str, Callable[[], Kernel]] = {
        "linear": lambda: linear_kernel(V, d, out, first=variant == "first"),
        "relu": lambda: relu_kernel(V, d),
        "rows": lambda: rows_kernel(V, d),
        "loss": lambda: loss_kernel(V, d),
        "layer": lambda: layer_kernel(variant, V, d, heads=heads, out=out, inner=keys),
        "adam": lambda: adam_kernel(V, keys),
        "gradients": lambda: gradients_kernel(V, keys),
        "message": lambda: message_kernel(V, d),
        "spmm": lambda: spmm_kernel(variant, V, E, d),
        "attention": lambda: attention_kernel(variant, V, E, d=d, heads=heads, keys=keys),
    }
    makers |= {
        kind: lambda: propagation_kernel(family, V, E, d, halo=out) for kind in ("gcn", "mean", "attend")
    }
    if family not in makers:
        raise InputError(f"kernel: {name[:40]!r} given; allowed: {', '.join(makers)}")
    return makers[family]()


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
