"""Compute times of one epoch of a GCN, modelled with a roofline; every output that uses them says *modelled*.

Each kernel takes max(flops / peak rate, bytes / memory bandwidth) of the device (Williams et al., "Roofline",
CACM 2009). Launch overhead is not modelled, and a sparse product is charged one full row read per edge (no
cache reuse): small partitions come out faster, dense ones slower than on a real device. Values are float32.

Phases of one epoch of an L-layer GCN with widths d_0 (features), d_1..d_{L-1} (hidden), d_L (classes):
  forward  l = 1..L    propagate H^(l-1) at width d_(l-1), then multiply by W^l (d_(l-1) x d_l), activate.
                       With use_pp the input layer's aggregation is precomputed: layer 1 propagates nothing.
  backward l = L..1    dW^l = (A H)^T dZ and d(AH) = dZ W^T, then propagate d(AH) at width d_(l-1).
                       Layer 1 propagates nothing: nobody needs the gradient of the input features.
  all-reduce           of the weight gradients: a ring over the hosts' links, computed, not simulated.
So 4 layers, hidden width 256 and use_pp propagate six times at width 256: forward 2, 3, 4, backward 4, 3, 2.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.partition import Partition

VALUE_BYTES = 4  # float32, and int32 vertex ids
CHUNK_EDGES = 4_000_000
CHUNK_CELLS = 32_000_000  # row-by-worker cells of one chunk's marking table (bytes)


class ModelShape(Protocol):
    """What this module needs to know of the trained network."""

    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def use_pp(self) -> bool: ...


@dataclass(frozen=True)
class Device:
    """A compute device: peak float32 rate and memory bandwidth, with their source."""

    name: str
    title: str
    flops_per_s: float
    memory_bytes_per_s: float
    source: str


@dataclass(frozen=True)
class Phase:
    """One step of the epoch: compute, then a propagation, then compute.

    layer: 1-based; 0 for the all-reduce. direction: "forward" or "backward". name: for people.
    width: values per vertex of the propagation; 0 for none. pre_ns, post_ns: int64[workers]. plan: the key of
    its plan where several have the same width; 0: the width is the key.
    """

    layer: int
    direction: str
    width: int
    pre_ns: NDArray[np.int64]
    post_ns: NDArray[np.int64]
    name: str = ""
    plan: int = 0

    @property
    def plan_key(self) -> int:
        """The key of the plan that it propagates by."""
        return self.plan or self.width


@dataclass(frozen=True)
class WorkCounts:
    """Per worker, int64[workers]: its vertices, its boundary vertices, directed edges inside it and directed
    cross edges into it, and its distinct remote neighbours (halo)."""

    vertices: NDArray[np.int64]
    boundary: NDArray[np.int64]
    local_edges: NDArray[np.int64]
    cross_edges: NDArray[np.int64]
    halo: NDArray[np.int64]


def load_device(name: str) -> Device:
    """The device of this name in workloads/devices.toml. Raises InputError for an unknown one."""
    table = tomllib.loads(files("workloads").joinpath("devices.toml").read_text(encoding="utf-8"))
    if name not in table:
        raise InputError(f"compute.device: {name[:40]!r} given; known are {', '.join(table)}")
    return Device(name=name, **table[name])


def layer_widths(model: ModelShape, graph: Graph) -> list[int]:
    """d_0..d_L: feature width, hidden widths, classes.

    A graph that declares no features or no classes (star, ring, R-MAT) is given the hidden width for them.
    """
    first, last = graph.feature_width or model.hidden, graph.num_classes or model.hidden
    return [first, *[model.hidden] * (model.layers - 1), last]


def propagation_widths(model: ModelShape, graph: Graph) -> list[int]:
    """The distinct widths at which an epoch propagates, ascending: one plan is needed for each."""
    widths = layer_widths(model, graph)
    return sorted(set(widths[1:-1]) | (set() if model.use_pp else {widths[0]}))


def count_work(graph: Graph, partition: Partition) -> WorkCounts:
    """Count each worker's work in one pass over the edges, in chunks of whole rows."""
    workers = partition.k
    parts = partition.parts.astype(np.int64)
    boundary, local, cross, halo = (np.zeros(workers, dtype=np.int64) for _ in range(4))
    row, rows_at_most = 0, max(1, CHUNK_CELLS // workers)
    while row < graph.num_vertices:
        stop = int(np.searchsorted(graph.indptr, graph.indptr[row] + CHUNK_EDGES, side="right")) - 1
        stop = min(max(stop, row + 1), row + rows_at_most, graph.num_vertices)
        degrees = np.diff(graph.indptr[row : stop + 1])
        own = np.repeat(parts[row:stop], degrees)
        other = parts[graph.indices[graph.indptr[row] : graph.indptr[stop]]]
        inside = own == other
        local += np.bincount(own[inside], minlength=workers)
        cross += np.bincount(own[~inside], minlength=workers)
        touched = np.zeros((stop - row, workers), dtype=bool)
        touched[np.repeat(np.arange(stop - row), degrees)[~inside], other[~inside]] = True
        halo += touched.sum(axis=0)
        boundary += np.bincount(parts[row:stop][touched.any(axis=1)], minlength=workers)
        row = stop
    vertices = np.bincount(parts, minlength=workers).astype(np.int64)
    return WorkCounts(vertices, boundary, local, cross, halo)


def compute_table(
    graph: Graph,
    partition: Partition,
    model: ModelShape,
    device: Device,
    *,
    cross_sum: str = "receiver",
    counts: WorkCounts | None = None,
) -> list[Phase]:
    """The epoch's phases, modelled, without the all-reduce (see `allreduce_phase`).

    cross_sum says who adds up cross edges ("receiver", "switch", "sender": see workloads/systems/system.py).
    counts spares the pass over the edges when the caller has them.
    """
    work = counts or count_work(graph, partition)
    kernels = Kernels(device, work, cross_sum)
    widths = layer_widths(model, graph)
    phases = []
    for layer in range(1, model.layers + 1):
        into, out = widths[layer - 1], widths[layer]
        dense = kernels.gemm(work.vertices, into, out) + kernels.elementwise(work.vertices, out, 2)
        if layer == 1 and model.use_pp:
            phases.append(_phase(layer, "forward", 0, 0 * dense, dense))
        else:
            pre, post = kernels.propagation(into)
            phases.append(_phase(layer, "forward", into, pre, post + dense))
    for layer in range(model.layers, 0, -1):
        into, out = widths[layer - 1], widths[layer]
        weights = kernels.elementwise(work.vertices, out, 3) + kernels.gemm(work.vertices, into, out)
        if layer == 1:
            phases.append(_phase(layer, "backward", 0, weights, 0 * weights))
        else:
            pre, post = kernels.propagation(into)
            inputs = kernels.gemm(work.vertices, out, into)
            phases.append(_phase(layer, "backward", into, weights + inputs + pre, post))
    return phases


def allreduce_phase(
    model: ModelShape, graph: Graph, workers: int, *, link_bps: float, hop_ns: float
) -> Phase:
    """The weight gradients' all-reduce as a phase without propagation.

    A ring of 2 (P-1) steps, each of 1/P of the bytes at the host link's rate plus one hop (Patarasuk & Yuan,
    JPDC 2009). Computed, not simulated.
    """
    widths = layer_widths(model, graph)
    gradient_bytes = VALUE_BYTES * sum(a * b + b for a, b in pairwise(widths))
    took = ring_allreduce_ns(gradient_bytes, workers, link_bps=link_bps, hop_ns=hop_ns)
    total = np.full(workers, took, dtype=np.int64)
    return Phase(0, "backward", 0, total, np.zeros_like(total), "weight-gradient all-reduce (modelled)")


def ring_allreduce_ns(size_bytes: int, workers: int, *, link_bps: float, hop_ns: float) -> int:
    """Time of a ring all-reduce of so many bytes: 2 (P-1) steps of 1/P of them and a hop each."""
    step_ns = size_bytes / workers * 8e9 / link_bps + hop_ns
    return round(2 * (workers - 1) * step_ns)


def _phase(
    layer: int, direction: str, width: int, pre: NDArray[np.float64], post: NDArray[np.float64]
) -> Phase:
    name = f"layer {layer} {direction}"
    return Phase(layer, direction, width, _whole(pre), _whole(post), name)


def _whole(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(seconds * 1e9).astype(np.int64)


class Kernels:
    """Seconds per worker of the kernels a GCN needs, on one device."""

    def __init__(self, device: Device, work: WorkCounts, cross_sum: str) -> None:
        self.device, self.work, self.cross_sum = device, work, cross_sum

    def _time(self, flops: NDArray[np.floating], moved_bytes: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.maximum(flops / self.device.flops_per_s, moved_bytes / self.device.memory_bytes_per_s)

    def gemm(self, rows: NDArray[np.int64], inner: int, out: int) -> NDArray[np.float64]:
        """rows x inner times inner x out; the backward products of the same three sizes cost the same."""
        moved = VALUE_BYTES * (rows * (inner + out) + inner * out * (rows > 0)).astype(float)
        return self._time(2.0 * rows * inner * out, moved)

    def elementwise(self, rows: NDArray[np.int64], width: int, accesses: int) -> NDArray[np.float64]:
        """Read or write rows x width values so many times."""
        values = rows.astype(np.float64) * width * accesses
        return self._time(values, VALUE_BYTES * values)

    def spmm(self, edges: NDArray[np.int64], rows: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Sum one row of `width` per edge into `rows` rows: per edge a row and an index are read."""
        moved = VALUE_BYTES * (edges.astype(float) * (width + 1) + rows.astype(float) * (width + 2))
        return self._time(edges.astype(float) * width, moved)

    def propagation(self, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(before, after) the exchange: gather what is sent; sum what is local and what arrived.

        What arrives lies in memory as rows: one per cross edge where the receiver sums, else one finished sum
        per boundary vertex.
        """
        work = self.work
        arrived = work.cross_edges if self.cross_sum == "receiver" else work.boundary
        after = self.spmm(work.local_edges + arrived, work.vertices, width)
        if self.cross_sum == "sender":
            return self.spmm(work.cross_edges, work.halo, width), after
        return self.elementwise(work.boundary, width, 2), after
