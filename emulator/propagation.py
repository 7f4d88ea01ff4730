"""Graph propagation through the switch for torch: forward A H, backward A^T G, by real packets.

    sums = SwitchSum(graph, partition, cluster, job_of)
    view = GraphView(graph, sums)               # what workloads.training.models ask of a graph
    scores = model(view, features)              # gradients go through the switch as well

`LocalSum` has the same interface and adds up in this process, so a model cannot tell them apart. Edges
inside a worker are added up by that worker (scipy, float64); cross edges go through the cluster in fixed
point. A propagation's scale is the largest power of two with which no sum can leave int32, from the largest
value that any worker has to send: a maximum that workers would agree on by one all-reduce of four bytes. The
features of a first layer never change; equal values are sent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from emulator.protocol.codec import Codec, scale_for
from workloads.graphs import Graph
from workloads.oracle import cross_matrix
from workloads.partition import Partition
from workloads.training.dropout import drop

Floats = npt.NDArray[np.floating]


class Cluster(Protocol):
    """What carries cross edges: emulator.cluster's clusters."""

    def propagate(self, number: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]: ...


class NeighbourSum:
    """A x for tensors float[n, w]; differentiable: the gradient is A^T g, and A is symmetric."""

    def __call__(self, values: Tensor) -> Tensor:
        result: Tensor = _Sum.apply(values, self)
        return result

    def add_up(self, values: Floats) -> Floats:
        """The sums themselves, outside autograd."""
        raise NotImplementedError


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, sums: NeighbourSum) -> Tensor:
        ctx.sums = sums
        return torch.from_numpy(sums.add_up(values.detach().numpy())).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0]
        return torch.from_numpy(ctx.sums.add_up(grad.contiguous().numpy())).to(grad.dtype), None


class LocalSum(NeighbourSum):
    """Everything in this process."""

    def __init__(self, graph: Graph) -> None:
        self._matrix = _adjacency(graph)

    def add_up(self, values: Floats) -> Floats:
        return np.asarray(self._matrix @ values)


class SwitchSum(NeighbourSum):
    """Cross edges through a cluster. job_of: width -> job number of the plan for it.

    ``steps``: the fixed-point step of each propagation so far (a value is off by half of it at most);
    ``saturated``: values that did not fit, which the scale rules out.
    """

    def __init__(
        self, graph: Graph, partition: Partition, cluster: Cluster, job_of: Mapping[int, int]
    ) -> None:
        whole = _adjacency(graph)
        rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
        inside = partition.parts[rows] == partition.parts[graph.indices]
        pairs = (np.ones(int(inside.sum())), (rows[inside], graph.indices[inside]))
        self._inside = sp.csr_array(pairs, shape=whole.shape)
        self._boundary = np.unique(rows[~inside])
        self._contributions = int(np.diff(cross_matrix(graph, partition).indptr).max(initial=1))
        self._cluster, self._job_of = cluster, dict(job_of)
        self.steps: list[float] = []
        self.saturated = 0
        self._constant: dict[int, tuple[Floats, Floats]] = {}

    def add_up(self, values: Floats) -> Floats:
        width = values.shape[1]
        sums = np.asarray(self._inside @ values, np.float64)
        send = values[self._boundary]
        before = self._constant.get(width)
        if before is None or not np.array_equal(before[0], send):
            codec = Codec(scale_for(float(np.abs(send).max(initial=0.0)), self._contributions))
            crossed = codec.decode(self._cluster.propagate(self._job_of[width], codec.encode(send)))
            self.steps.append(codec.step)
            self.saturated += codec.saturated
            before = self._constant[width] = (send, crossed)
        sums[self._boundary] += before[1]
        return sums


class ExactCluster:
    """What a cluster must give, without one: the same integers added up here. cross: the oracle's matrix."""

    def __init__(self, cross: sp.csr_array) -> None:
        self._cross = cross.astype(np.int64)

    def propagate(self, number: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        return np.asarray(self._cross @ values.astype(np.int64))


class GraphView:
    """A graph for workloads.training.models, all workers' vertices together. `layer` is not needed."""

    def __init__(self, graph: Graph, sums: NeighbourSum, *, seed: int = 1) -> None:
        degrees = torch.from_numpy(graph.degrees.astype(np.float64))[:, None]
        self._scale = 1 / torch.sqrt(degrees + 1)
        self._degrees = torch.clamp(degrees, min=1)
        self._vertices = torch.arange(graph.num_vertices, dtype=torch.int32)
        self._sums, self._seed = sums, seed
        self.epoch = 0

    def gcn(self, inner: Tensor, layer: int) -> Tensor:
        """The symmetrically normalised sum over neighbours and the vertex itself (Kipf and Welling)."""
        scale = self._scale.to(inner.dtype)
        scaled = inner * scale
        return (self._sums(scaled) + scaled) * scale

    def mean(self, inner: Tensor, layer: int) -> Tensor:
        """The mean over neighbours."""
        return self._sums(inner) / self._degrees.to(inner.dtype)

    def dropout(self, inner: Tensor, share: float, place: int) -> Tensor:
        """The rows with dropout, the same for every way to add up."""
        if share == 0:
            return inner
        key = np.random.SeedSequence([self._seed, self.epoch, place]).generate_state(1, np.uint32)
        return drop(inner, self._vertices, share, int(key[0]))


def _adjacency(graph: Graph) -> sp.csr_array:
    ones = np.ones(graph.num_edges)
    n = graph.num_vertices
    return sp.csr_array((ones, graph.indices, graph.indptr), shape=(n, n))
