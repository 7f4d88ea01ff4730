"""Partitions of dynamic graphs: LightMetis and what it is compared with; the rows that each makes travel."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.chunks import chunk_partition
from workloads.partition.light_metis import KEEP, light_metis
from workloads.partition.make import MAX_SEED, MAX_WORKERS, fill_empty
from workloads.partition.metis import metis_split

Parts = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class DynamicPartition:
    """Which worker has which vertex. spatial: int32[T, n], the worker that adds up a vertex's neighbourhood
    in a snapshot; temporal: int32[T, n], the worker with its recurrent state. parts: int32[n] where both are
    one vertex partition, else int32[T, n]. made_s: seconds that making it took.
    """

    method: str
    workers: int
    parts: Parts
    spatial: Parts
    temporal: Parts
    made_s: float
    digest: str

    @property
    def fixed(self) -> bool:
        """Whether every vertex is on one worker throughout, so that no state travels."""
        return self.parts.ndim == 1


def metis_union(graph: DynamicGraph, workers: int, seed: int) -> Parts:
    """METIS on the union of all snapshots, every edge of weight 1; int32[n]."""
    vertices = np.arange(graph.num_vertices, dtype=np.int32)
    rows = [np.repeat(vertices, np.diff(ptr)) for ptr in graph.indptr]
    indptr, indices = build_csr(graph.num_vertices, rows, list(graph.indices))
    return metis_split(indptr, indices, workers, seed=seed)


def metis_snapshots(graph: DynamicGraph, workers: int, seed: int) -> Parts:
    """METIS on each snapshot alone, its parts then named so that most vertices stay; int32[T, n]."""
    made: list[Parts] = []
    for ptr, adj in zip(graph.indptr, graph.indices, strict=True):
        parts = metis_split(ptr, adj, workers, seed=seed)
        if made:
            stays = np.zeros((workers, workers))
            np.add.at(stays, (parts, made[-1]), 1)
            _, names = linear_sum_assignment(-stays)
            parts = names[parts].astype(np.int32)
        made.append(parts)
    return np.stack(made)


def by_snapshot(graph: DynamicGraph, workers: int) -> Parts:
    """Whole snapshots on one worker, so that a window's are spread evenly; int32[T, n]."""
    run = -(-graph.window // workers)
    owner = (np.arange(graph.num_snapshots) // run % workers).astype(np.int32)
    return np.broadcast_to(owner[:, None], (graph.num_snapshots, graph.num_vertices))


def _random(graph: DynamicGraph, workers: int, seed: int) -> Parts:
    order = np.random.default_rng([seed, 42]).permutation(graph.num_vertices)
    return (order * workers // graph.num_vertices).astype(np.int32)


_METHODS: dict[str, tuple[str, Callable[[DynamicGraph, int, float, int], Parts]]] = {
    "light-metis": (
        "SWASH: METIS on a weighted merge of the most used original snapshots",
        lambda graph, workers, keep, seed: light_metis(graph, workers, keep=keep, seed=seed),
    ),
    "metis-weighted": (
        "METIS on all original snapshots, weighted by use (LightMetis that keeps all)",
        lambda graph, workers, keep, seed: light_metis(graph, workers, keep=1.0, seed=seed),
    ),
    "metis-union": (
        "METIS on the union of all snapshots",
        lambda graph, workers, keep, seed: metis_union(graph, workers, seed),
    ),
    "metis-snapshots": (
        "METIS on each snapshot; a vertex may move, its state with it",
        lambda graph, workers, keep, seed: metis_snapshots(graph, workers, seed),
    ),
    "snapshot": (
        "whole snapshots, states by vertex in runs of ids (ESDG)",
        lambda graph, workers, keep, seed: by_snapshot(graph, workers),
    ),
    "chunk": (
        "chunks of space and time (DGC)",
        lambda graph, workers, keep, seed: chunk_partition(graph, workers, seed=seed),
    ),
    "random": ("vertices at random", lambda graph, workers, keep, seed: _random(graph, workers, seed)),
}
METHODS = {name: title for name, (title, _) in _METHODS.items()}


def partition_dynamic(
    graph: DynamicGraph, workers: int, *, method: str = "light-metis", keep: float = KEEP, seed: int = 1
) -> DynamicPartition:
    """Place a dynamic graph on workers. keep: share of the original snapshots that light-metis merges.

    Equal arguments give equal partitions. Raises InputError for values outside their range.
    """
    if method not in METHODS:
        raise InputError(f"partition method: {method[:40]!r} is not known; allowed: {', '.join(METHODS)}")
    if not 1 <= workers <= min(MAX_WORKERS, graph.num_vertices):
        most = min(MAX_WORKERS, graph.num_vertices)
        raise InputError(f"workers: {workers} given; allowed: 1 to {most} for {graph.name}")
    if not 0 < keep <= 1:
        raise InputError(f"keep: {keep:g} given; allowed: more than 0, to 1")
    if not 0 <= seed < MAX_SEED:
        raise InputError(f"seed: {seed} given; allowed: 0 to {MAX_SEED - 1}")
    started = time.perf_counter()
    parts = _METHODS[method][1](graph, workers, keep, seed)
    made_s = time.perf_counter() - started
    if parts.ndim == 1:
        seen = np.bincount(np.concatenate(graph.arrivals).reshape(-1), minlength=graph.num_vertices)
        parts = fill_empty(parts, workers, seen.astype(np.int64))
    shape = (graph.num_snapshots, graph.num_vertices)
    spatial = np.broadcast_to(parts, shape)
    runs = (np.arange(graph.num_vertices) * workers // graph.num_vertices).astype(np.int32)
    temporal = np.broadcast_to(runs, shape) if method == "snapshot" else spatial
    content = np.ascontiguousarray(parts, dtype="<i4").tobytes()
    digest = hashlib.sha256(f"netfold-dynamic-partition-1 {method} {workers} ".encode() + content).hexdigest()
    return DynamicPartition(method, workers, parts, spatial, temporal, made_s, digest)


def travelling_rows(graph: DynamicGraph, partition: DynamicPartition) -> dict[str, Any]:
    """Rows that travel per propagation when every window of the time line is trained once in full.

    neighbours: embeddings that a worker needs for its sums and does not have, one per vertex and worker;
    redistributed: sums sent to where the state is; states: recurrent states of vertices that change workers
    inside a window. boundary: vertices whose embedding somebody else needs in some snapshot. balance:
    largest worker's (vertex, snapshot) pairs over the mean.
    """
    t = np.arange(graph.num_snapshots)
    starts = graph.num_snapshots - graph.window
    holding = np.minimum(t, starts) - np.maximum(0, t - graph.window + 1) + 1
    # A window carries states from one snapshot into the next where it holds both.
    carrying = np.minimum(t - 1, starts) - np.maximum(0, t - graph.window + 1) + 1
    needed = [needed_rows(graph, partition, int(at))[1] for at in t]
    spatial, temporal = partition.spatial, partition.temporal
    moved = (spatial != temporal).sum(axis=1)
    changed = np.concatenate([[0], (temporal[1:] != temporal[:-1]).sum(axis=1)])
    neighbours = int(sum(len(rows) * windows for rows, windows in zip(needed, holding, strict=True)))
    redistributed, states = int((moved * holding).sum()), int((changed * carrying).sum())
    sizes = np.bincount(spatial.reshape(-1), minlength=partition.workers)
    return {
        "method": partition.method,
        "workers": partition.workers,
        "neighbour_rows": neighbours,
        "redistributed_rows": redistributed,
        "state_rows": states,
        "rows": neighbours + redistributed + states,
        "boundary_vertices": len(np.unique(np.concatenate(needed))),
        "balance": float(sizes.max() / sizes.mean()),
        "made_s": partition.made_s,
    }


def needed_rows(
    graph: DynamicGraph, partition: DynamicPartition, t: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(reader, vertex), int64[r] each, ascending by both: workers and the vertices whose state of snapshot t
    they need and do not have: those whose neighbourhoods they add up, and their neighbours.
    """
    n = graph.num_vertices
    spatial = partition.spatial[t].astype(np.int64)
    reader = np.concatenate([np.repeat(spatial, np.diff(graph.indptr[t])), spatial])
    vertex = np.concatenate([graph.indices[t].astype(np.int64), np.arange(n)])
    remote = reader != partition.temporal[t][vertex]
    keys = np.unique(reader[remote] * n + vertex[remote])
    return keys // n, keys % n
