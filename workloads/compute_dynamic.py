"""Compute times of a T-GCN's windows, modelled with the roofline of workloads/compute.py; outputs say
*modelled*.

A window of Ns snapshots: each of the L blocks multiplies its input by the convolution's weights, sums it
over the neighbourhoods, and runs a GRU cell (six products of width hidden) over the positions. Backward
takes twice as long as forward, as every product has two.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from workloads.compute import VALUE_BYTES, Device, Kernels, WorkCounts
from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition

BACKWARD = 2


def window_ns(
    graph: DynamicGraph,
    partition: DynamicPartition,
    last: int,
    *,
    device: Device,
    hidden: int,
    copies: NDArray[np.bool_] | None,
) -> list[NDArray[np.int64]]:
    """Forward times of the first and of every other block, int64[workers] each. copies: bool[workers, n],
    what each worker computes beside its own vertices, or None.
    """
    workers = partition.workers
    vertices, states, edges = (np.zeros(workers, dtype=np.int64) for _ in range(3))
    for t in range(last - graph.window + 1, last + 1):
        degrees = np.diff(graph.indptr[t])
        vertices += np.bincount(partition.spatial[t], minlength=workers)
        states += np.bincount(partition.temporal[t], minlength=workers)
        edges += np.bincount(partition.spatial[t], degrees, minlength=workers).astype(np.int64)
        if copies is not None:
            vertices += copies.sum(axis=1)
            states += copies.sum(axis=1)
            edges += (copies @ degrees).astype(np.int64)
    none = np.zeros(workers, dtype=np.int64)
    kernels = Kernels(device, WorkCounts(vertices, none, edges, none, none), "receiver")
    gru = 6 * kernels.gemm(states, hidden, hidden) + kernels.elementwise(states, hidden, 10)
    times = []
    for into in (graph.feature_width, hidden):
        seconds = kernels.gemm(vertices, into, hidden) + kernels.spmm(edges, vertices, hidden) + gru
        times.append(np.rint(seconds * 1e9).astype(np.int64))
    return times


def weight_bytes(graph: DynamicGraph, layers: int, hidden: int) -> int:
    """Bytes of a T-GCN's weights: convolutions, GRU cells, and the head."""
    into = [graph.feature_width] + [hidden] * (layers - 1)
    values = sum(width * hidden + hidden + 6 * hidden * hidden + 6 * hidden for width in into)
    outputs = graph.target_width or 1
    return VALUE_BYTES * (values + hidden * outputs + outputs)


def copied_vertices(
    graph: DynamicGraph,
    partition: DynamicPartition,
    hops: int,
    ends: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> NDArray[np.bool_]:
    """bool[workers, n]: all that a worker's vertices depend on within `hops` propagations in any snapshot,
    its own left out. ends: (worker, vertex), what it reads beside its own vertices' rows: ends of pairs.
    """
    n = graph.num_vertices
    pairs = np.concatenate(graph.arrivals)
    union = sp.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    union = union + union.T
    own = partition.parts == np.arange(partition.workers)[:, None]
    reached = own.astype(np.float64)
    if ends is not None:
        reached[ends] = 1
    for _ in range(hops):
        reached = ((reached + (union @ reached.T).T) > 0).astype(np.float64)
    return (reached > 0) & ~own
