"""Message-passing networks, divided: every linear map by its outputs, every propagation by its columns.

Activations are whole on all members of a tensor group and everything between is computed by each of them, so
any model of `workloads.training.models` is divided without a change of its own. Each propagation of width w
sends w/P columns of the halo and gathers the columns afterwards; each map gathers its outputs, and its input
gradients are added up. Maps to a single number are not divided. GAT's scores are sums over columns, a number
per vertex, which are added up before the softmax; so are their gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu
from torch.utils.checkpoint import checkpoint

from workloads.parallel.grid import Channel, run_of
from workloads.parallel.ops import copied, gather_columns, split_columns, summed
from workloads.training.models import GCN, MODELS, GraphSAGE, Model
from workloads.training.view import View


class DividedLinear(nn.Module):
    """One member's rows of a linear map's weight: its outputs, gathered."""

    def __init__(self, whole: nn.Linear, channel: Channel) -> None:
        super().__init__()
        self.channel, self.outputs = channel, whole.out_features
        own = run_of(whole.out_features, channel.workers, channel.rank)
        self.weight = nn.Parameter(whole.weight.detach()[own].clone())
        self.bias = None if whole.bias is None else nn.Parameter(whole.bias.detach()[own].clone())
        for parameter in self.parameters():
            mark_divided(parameter, 0, whole.out_features)

    def forward(self, values: Tensor) -> Tensor:
        """float[n, inputs] -> float[n, outputs], whole on all members."""
        own = linear(copied(values, self.channel), self.weight, self.bias)
        return gather_columns(own, self.channel, self.outputs)


def mark_divided(parameter: nn.Parameter, dim: int, total: int, unit: int = 1) -> None:
    """Note that this is one member's run of a whole parameter, cut along `dim` of size `total` in units."""
    parameter.divided = (dim, total, unit)  # type: ignore[attr-defined]


def divide_linears(module: nn.Module, channel: Channel) -> None:
    """Replace every linear map inside, but those to a single number, by this member's part of it."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            if child.out_features == 1:
                continue
            setattr(module, name, DividedLinear(child, channel))
        else:
            divide_linears(child, channel)


class ColumnView(View):
    """A view whose sums each member computes for its own columns."""

    def __init__(self, *parts: Any, channel: Channel, seed: int, epoch: int) -> None:
        super().__init__(*parts, seed=seed, epoch=epoch)
        self._channel = channel

    def gcn(self, inner: Tensor, layer: int) -> Tensor:
        """As `View.gcn`."""
        return self._gathered(super().gcn(self._own(inner), layer), inner)

    def mean(self, inner: Tensor, layer: int) -> Tensor:
        """As `View.mean`."""
        return self._gathered(super().mean(self._own(inner), layer), inner)

    def attention(self, inner: Tensor, to: Tensor, source: Tensor, layer: int) -> Tensor:
        """As `View.attention`."""
        own = split_columns(source[None], self._channel)[0]
        result = super().attention(self._own(inner), copied(to, self._channel), own, layer)
        return self._gathered(result, inner)

    def _scores(self, rows: Tensor, source: Tensor) -> Tensor:
        # Each member's gradient of a score is of its own columns: `copied` adds them up.
        return copied(summed(rows @ source, self._channel), self._channel)

    def _own(self, inner: Tensor) -> Tensor:
        return split_columns(inner, self._channel)

    def _gathered(self, own: Tensor, inner: Tensor) -> Tensor:
        return gather_columns(own, self._channel, inner.shape[1])


def make_network(name: str, widths: tuple[int, int, int], layers: int, seed: int, channel: Channel) -> Model:
    """One member's model; all members draw the same whole weights and keep their runs."""
    torch.manual_seed(seed)
    features, hidden, classes = widths
    model = MODELS[name](features, hidden, classes, layers, 0.0)
    if channel.workers > 1:
        divide_linears(model, channel)
    return model


def forward(model: Model, view: View, inner: Tensor, *, checkpoints: bool) -> Tensor:
    """The model's class scores. checkpoints: layers keep only their inputs; all workers must agree."""
    if not checkpoints:
        return model(view, inner)
    if isinstance(model, GCN | GraphSAGE):
        for layer in range(1, model.layers + 1):
            inner = checkpoint(_layer, model, view, inner, layer, use_reentrant=False)
        return inner
    raise TypeError(f"checkpoints of {type(model).__name__}: `check_scheme` allows none")


def _layer(model: Model, view: View, inner: Tensor, layer: int) -> Tensor:
    if isinstance(model, GCN):
        inner = model.dense[layer - 1](view.gcn(inner, layer))
    elif isinstance(model, GraphSAGE):
        inner = model.own[layer - 1](inner) + model.near[layer - 1](view.mean(inner, layer))
    return relu(inner) if layer < model.layers else inner
