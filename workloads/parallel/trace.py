"""What a model's step consists of, found by running it on tiny graphs: its ops, and what it keeps per vertex.

Any model of `workloads.training.models` is traced as it is: a view that notes its sums, hooks that note its
linear maps, and autograd's saved tensors counted on graphs of different sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from workloads.parallel.gnn import forward, make_network
from workloads.parallel.grid import Channel
from workloads.parallel.kernels import random_local
from workloads.parallel.transformer import forward_of_layer
from workloads.training.adjacency import Adjacency
from workloads.training.exchange import EpochPlan, Exchange
from workloads.training.memory import kept_for_backward
from workloads.training.view import View
from workloads.training.wire import Wire

TRACED = ((48, 96), (48, 384), (96, 384))  # vertices, edges: enough to tell what grows with which


@dataclass(frozen=True)
class Op:
    """kind: "gcn", "mean" or "attend", propagations of `width` values, or "linear" (width, out). grad: its
    input gets a gradient, so the backward pass goes through it.
    """

    kind: str
    width: int
    out: int
    grad: bool


@dataclass(frozen=True)
class Trace:
    """ops: in order. parameters, tensors: numbers of weights and of what holds them. kept_vertex, kept_edge:
    bytes that a forward pass keeps, float32.
    """

    ops: tuple[Op, ...]
    parameters: int
    tensors: int
    kept_vertex: float
    kept_edge: float


class _Noting(View):
    """A view that notes what it is asked for."""

    def __init__(self, *parts: Any, ops: list[Op]) -> None:
        super().__init__(*parts, seed=1, epoch=0)
        self._ops = ops

    def gcn(self, inner: Tensor, layer: int) -> Tensor:
        self._note("gcn", inner)
        return super().gcn(inner, layer)

    def mean(self, inner: Tensor, layer: int) -> Tensor:
        self._note("mean", inner)
        return super().mean(inner, layer)

    def attention(self, inner: Tensor, to: Tensor, source: Tensor, layer: int) -> Tensor:
        self._note("attend", inner)
        return super().attention(inner, to, source, layer)

    def _note(self, kind: str, inner: Tensor) -> None:
        self._ops.append(Op(kind, inner.shape[1], inner.shape[1], inner.requires_grad))


@cache
def trace_network(
    name: str, widths: tuple[int, int, int], layers: int, *, checkpoints: bool = False
) -> Trace:
    """The trace of a model of these widths: features, hidden, classes."""
    runs = [_run(name, widths, layers, (vertices, edges), checkpoints) for vertices, edges in TRACED]
    (ops, counts, first, _, e0), (_, _, second, v1, e1), (_, _, third, v2, e2) = runs
    per_edge = max(0.0, (second - first) / (e1 - e0))
    per_vertex = (third - second - per_edge * (e2 - e1)) / (v2 - v1)
    return Trace(ops, *counts, per_vertex, per_edge)


def _run(
    name: str, widths: tuple[int, int, int], layers: int, size: tuple[int, int], checkpoints: bool
) -> tuple[tuple[Op, ...], tuple[int, int], int, int, int]:
    local = random_local(*size)
    alone = Channel((0,), 0, None)
    model = make_network(name, widths, layers, 1, alone)
    ops: list[Op] = []
    hooks = [
        module.register_forward_pre_hook(_note_linear(ops))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    exchange = Exchange(local, Wire(0, 1), 1)
    exchange.begin(EpochPlan(0))
    adjacency = Adjacency(local, torch.float32)
    view = _Noting(adjacency, exchange, torch.zeros(len(local.inner), dtype=torch.int32), ops=ops)
    features = torch.rand(len(local.inner), widths[0])
    resident = [*model.parameters(), features, *adjacency.weights.values(), *_tensors(adjacency)]
    with kept_for_backward(resident, measure=True) as kept:
        forward(model, view, features, checkpoints=checkpoints)
    exchange.close()
    for hook in hooks:
        hook.remove()
    sizes = [parameter.numel() for parameter in model.parameters()]
    return tuple(ops), (sum(sizes), len(sizes)), kept(), len(local.inner), len(local.indices)


@cache
def layer_kept(d: int, heads: int, width: int, inner: int, style: str) -> float:
    """Bytes per row, float32, that a transformer's layer keeps for its backward pass besides attention."""
    kept = []
    for rows in _TRACED_ROWS:
        layer, weights = forward_of_layer(d, heads, width, inner, style)
        values = torch.rand(rows, d, requires_grad=True)
        with kept_for_backward(weights, measure=True) as told:
            layer(values)
        kept.append(told())
    return (kept[1] - kept[0]) / (_TRACED_ROWS[1] - _TRACED_ROWS[0])


_TRACED_ROWS = (16, 48)


def _tensors(adjacency: Adjacency) -> list[Tensor]:
    return [value for value in vars(adjacency).values() if isinstance(value, Tensor)]


def _note_linear(ops: list[Op]) -> Any:
    def note(module: nn.Linear, inputs: tuple[Tensor, ...]) -> None:
        ops.append(Op("linear", module.in_features, module.out_features, inputs[0].requires_grad))

    return note
