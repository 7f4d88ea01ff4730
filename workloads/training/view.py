"""`View`: what a model sees of the graph on one worker: neighbourhood sums that reach across workers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from workloads.training.adjacency import Adjacency
from workloads.training.dropout import drop
from workloads.training.exchange import Exchange
from workloads.training.sequential import SLOPE, Place, sequential_attention, sequential_sum


class View:
    """Inner rows in, inner rows out. `layer` numbers the exchanges of an epoch, from 1."""

    def __init__(
        self, adjacency: Adjacency, exchange: Exchange, vertices: Tensor, *, seed: int, epoch: int
    ) -> None:
        self.adjacency, self._exchange, self._vertices = adjacency, exchange, vertices
        self._seed, self._epoch = seed, epoch

    def gcn(self, inner: Tensor, layer: int) -> Tensor:
        """The symmetrically normalised sum over neighbours and the vertex itself."""
        return torch.addcmul(self._sum(inner, layer, "gcn"), self.adjacency.self_gcn, inner)

    def mean(self, inner: Tensor, layer: int) -> Tensor:
        """The mean over neighbours; zero for a vertex without any."""
        return self._sum(inner, layer, "mean")

    def attention(self, inner: Tensor, to: Tensor, source: Tensor, layer: int) -> Tensor:
        """The sum over neighbours and the vertex itself, weighted by the softmax of leaky_relu(to + row .
        source) over them (GAT). to: float[ni]; source: float[w].
        """
        edges = self.adjacency
        if self._exchange.sequential:
            return sequential_attention(inner, to, source, self._place(layer))
        rows = self._extended(inner, layer)
        parts = self._scores(rows, source)
        own = leaky_relu(to + parts[: edges.num_inner], SLOPE)
        near = leaky_relu(to[edges.row] + parts[edges.col], SLOPE)
        top = own.detach().scatter_reduce(0, edges.row.long(), near.detach(), "amax")  # it cancels
        own, near = torch.exp(own - top), torch.exp(near - top[edges.row])
        total = own.index_add(0, edges.row, near)
        return edges.aggregate(rows, near / total[edges.row]) + (own / total)[:, None] * inner

    def _scores(self, rows: Tensor, source: Tensor) -> Tensor:
        """float[ni+nh]: what each row adds to the scores of its edges."""
        return rows @ source

    def _sum(self, inner: Tensor, layer: int, kind: str) -> Tensor:
        if self._exchange.sequential:
            return sequential_sum(inner, kind, self._place(layer))
        return self.adjacency.aggregate(self._extended(inner, layer), self.adjacency.weights[kind])

    def _place(self, layer: int) -> Place:
        return Place(self.adjacency, self._exchange, layer)

    def _extended(self, inner: Tensor, layer: int) -> Tensor:
        """float[ni+nh, w]: the inner rows and the halo's."""
        return torch.cat([inner, self._exchange.halo(inner, layer)])

    def dropout(self, inner: Tensor, share: float, place: int) -> Tensor:
        """The rows with dropout; `place` tells the model's dropouts of one epoch apart."""
        if share == 0:
            return inner
        key = np.random.SeedSequence([self._seed, self._epoch, place]).generate_state(1, np.uint32)
        return drop(inner, self._vertices, share, int(key[0]))
