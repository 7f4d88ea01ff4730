"""`View`: what a model sees of the graph on one worker: neighbourhood sums that reach across workers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from workloads.training.adjacency import Adjacency
from workloads.training.dropout import drop


class Halo(Protocol):
    """The boundary exchange as a model needs it (workloads/training/exchange.py)."""

    def halo(self, inner: Tensor, layer: int) -> Tensor: ...


class View:
    """Inner rows in, inner rows out. `layer` numbers the exchanges of an epoch, from 1."""

    def __init__(
        self, adjacency: Adjacency, exchange: Halo, vertices: Tensor, *, seed: int, epoch: int
    ) -> None:
        self.adjacency, self._exchange, self._vertices = adjacency, exchange, vertices
        self._seed, self._epoch = seed, epoch

    def extended(self, inner: Tensor, layer: int) -> Tensor:
        """float[ni+nh, w]: the inner rows and the halo's."""
        return torch.cat([inner, self._exchange.halo(inner, layer)])

    def gcn(self, inner: Tensor, layer: int) -> Tensor:
        """The symmetrically normalised sum over neighbours and the vertex itself."""
        adjacency = self.adjacency
        return adjacency.aggregate(self.extended(inner, layer), adjacency.gcn) + adjacency.self_gcn * inner

    def mean(self, inner: Tensor, layer: int) -> Tensor:
        """The mean over neighbours; zero for a vertex without any."""
        return self.adjacency.aggregate(self.extended(inner, layer), self.adjacency.mean)

    def dropout(self, inner: Tensor, share: float, place: int) -> Tensor:
        """The rows with dropout; `place` tells the model's dropouts of one epoch apart."""
        if share == 0:
            return inner
        key = np.random.SeedSequence([self._seed, self._epoch, place]).generate_state(1, np.uint32)
        return drop(inner, self._vertices, share, int(key[0]))
