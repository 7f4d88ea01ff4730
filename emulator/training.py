"""A GCN trained through the switch, and the same one in a single process to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch

from emulator.cluster.prepare import Propagation
from emulator.propagation import GraphView, NeighbourSum
from workloads.graphs import Graph
from workloads.training.data import TRAIN, TrainingData
from workloads.training.models import MODELS
from workloads.training.score import loss_sum, score_parts
from workloads.training.view import View


@dataclass(frozen=True)
class Shape:
    """The model and how it is trained."""

    layers: int = 4
    hidden: int = 16
    epochs: int = 60
    lr: float = 0.01
    seed: int = 1

    def widths(self, data: TrainingData) -> list[int]:
        """Widths that a propagation can have: of the features, and hidden."""
        return sorted({data.features.shape[1], self.hidden} if self.layers > 1 else {data.features.shape[1]})

    def propagations(self, data: TrainingData) -> list[Propagation]:
        """One epoch's, in order: backward stops at the first layer, whose features are constant."""
        widths = [data.features.shape[1], *[self.hidden] * (self.layers - 1)]
        forward = [Propagation(n, "forward", w) for n, w in enumerate(widths, 1)]
        return forward + [Propagation(n, "backward", self.hidden) for n in range(self.layers, 1, -1)]


@dataclass
class History:
    """losses: of each epoch's training vertices; scores: share of right test vertices after each epoch."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


def train(
    graph: Graph,
    data: TrainingData,
    sums: NeighbourSum,
    shape: Shape,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> History:
    """Full-graph training in float64 on `sums`. Weights are drawn from the seed, so runs can be compared."""
    torch.manual_seed(shape.seed)
    width = data.features.shape[1]
    model = MODELS["gcn"](width, shape.hidden, data.num_classes, shape.layers, 0.0).to(torch.float64)
    optimiser = torch.optim.Adam(model.parameters(), lr=shape.lr)
    view = GraphView(graph, sums, seed=shape.seed)
    features = torch.tensor(data.features, dtype=torch.float64)
    labels = torch.tensor(data.labels)
    members = [torch.from_numpy((data.split == part).nonzero()[0]) for part in range(3)]
    history = History()
    for epoch in range(shape.epochs):
        on_epoch(epoch)
        view.epoch = epoch
        scores = model(cast(View, view), features)
        loss = loss_sum(scores[members[TRAIN]], labels[members[TRAIN]]) / len(members[TRAIN])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.losses.append(float(loss.detach()))
        right, of = score_parts(scores[members[2]].detach(), labels[members[2]])
        history.scores.append(right / of)
    on_epoch(shape.epochs)
    return history
