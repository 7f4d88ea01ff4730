"""The models: GCN, GraphSAGE, SGC, GCNII, JKNet, DAGNN and one-head GAT, each written once for any workers.

A model maps a worker's inner features to its inner vertices' class scores through a `View`; `layers` counts
its propagations. Weights are drawn from torch's seeded generator, so every worker starts with the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, relu

from workloads.training.view import View


class Model(nn.Module):
    """widths: features, hidden, classes. In evaluation (`eval()`) nothing is dropped."""

    def __init__(self, features: int, hidden: int, classes: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.widths = [features, *[hidden] * (layers - 1), classes]
        self.hidden, self.layers, self.share = hidden, layers, dropout
        self.build()

    def build(self) -> None:
        """Create the weights."""
        raise NotImplementedError

    def drop(self, view: View, inner: Tensor, place: int) -> Tensor:
        """Dropout while training."""
        return view.dropout(inner, self.share, place) if self.training else inner


class GCN(Model):
    """Kipf and Welling, ICLR 2017."""

    def build(self) -> None:
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(self.widths))

    def forward(self, view: View, inner: Tensor) -> Tensor:
        for layer, dense in enumerate(self.dense, 1):
            inner = dense(view.gcn(self.drop(view, inner, layer), layer))
            if layer < self.layers:
                inner = relu(inner)
        return inner


class GraphSAGE(Model):
    """Hamilton et al., NeurIPS 2017, mean aggregator over all neighbours."""

    def build(self) -> None:
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(self.widths))
        self.near = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(self.widths))

    def forward(self, view: View, inner: Tensor) -> Tensor:
        for layer, (own, near) in enumerate(zip(self.own, self.near, strict=True), 1):
            inner = self.drop(view, inner, layer)
            inner = own(inner) + near(view.mean(inner, layer))
            if layer < self.layers:
                inner = relu(inner)
        return inner


class SGC(Model):
    """Wu et al., ICML 2019: propagate the features `layers` times, then one linear map."""

    def build(self) -> None:
        self.dense = nn.Linear(self.widths[0], self.widths[-1])

    def forward(self, view: View, inner: Tensor) -> Tensor:
        for layer in range(1, self.layers + 1):
            inner = view.gcn(inner, layer)
        return self.dense(self.drop(view, inner, 1))


class GCNII(Model):
    """Chen et al., ICML 2020: initial residual (alpha 0.1) and identity mapping (lambda 0.5)."""

    def build(self) -> None:
        hidden = self.hidden
        self.first, self.last = nn.Linear(self.widths[0], hidden), nn.Linear(hidden, self.widths[-1])
        self.dense = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(self.layers))

    def forward(self, view: View, inner: Tensor) -> Tensor:
        inner = initial = relu(self.first(self.drop(view, inner, 0)))
        for layer, dense in enumerate(self.dense, 1):
            near = 0.9 * view.gcn(self.drop(view, inner, layer), layer) + 0.1 * initial
            beta = math.log(0.5 / layer + 1)
            inner = relu((1 - beta) * near + beta * dense(near))
        return self.last(self.drop(view, inner, self.layers + 1))


class JKNet(Model):
    """Xu et al., ICML 2018: GCN layers, all of whose outputs, concatenated, are classified."""

    def build(self) -> None:
        widths = [self.widths[0], *[self.hidden] * self.layers]
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.last = nn.Linear(self.hidden * self.layers, self.widths[-1])

    def forward(self, view: View, inner: Tensor) -> Tensor:
        outputs = []
        for layer, dense in enumerate(self.dense, 1):
            inner = relu(dense(view.gcn(self.drop(view, inner, layer), layer)))
            outputs.append(inner)
        return self.last(torch.cat(outputs, dim=1))


class DAGNN(Model):
    """Liu et al., KDD 2020: an MLP, then `layers` propagations of the class scores, adaptively weighted."""

    def build(self) -> None:
        self.first = nn.Linear(self.widths[0], self.hidden)
        self.second = nn.Linear(self.hidden, self.widths[-1])
        self.gate = nn.Linear(self.widths[-1], 1)

    def forward(self, view: View, inner: Tensor) -> Tensor:
        inner = relu(self.first(self.drop(view, inner, 0)))
        inner = self.second(self.drop(view, inner, 1))
        total = torch.sigmoid(self.gate(inner)) * inner
        for layer in range(1, self.layers + 1):
            inner = view.gcn(inner, layer)
            total = torch.addcmul(total, torch.sigmoid(self.gate(inner)), inner)
        return total


class GAT(Model):
    """Velickovic et al., ICLR 2018, one head, with self loops; the transformed rows travel."""

    def build(self) -> None:
        self.dense = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(self.widths))
        self.target = nn.ModuleList(nn.Linear(b, 1, bias=False) for b in self.widths[1:])
        self.source = nn.ModuleList(nn.Linear(b, 1, bias=False) for b in self.widths[1:])
        self.bias = nn.ParameterList(torch.zeros(b) for b in self.widths[1:])

    def forward(self, view: View, inner: Tensor) -> Tensor:
        for layer in range(1, self.layers + 1):
            inner = self.dense[layer - 1](self.drop(view, inner, layer))
            to, source = self.target[layer - 1](inner)[:, 0], next(self.source[layer - 1].parameters())[0]
            inner = view.attention(inner, to, source, layer) + self.bias[layer - 1]
            if layer < self.layers:
                inner = elu(inner)
        return inner


MODELS: dict[str, Callable[[int, int, int, int, float], Model]] = {
    "gcn": GCN,
    "sage": GraphSAGE,
    "gat": GAT,
    "gcnii": GCNII,
    "dagnn": DAGNN,
    "sgc": SGC,
    "jknet": JKNet,
}
