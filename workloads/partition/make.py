"""Making a partition: METIS, random or contiguous; balance; repair of empty workers; the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.cache import cache_root, load_cached_array, store_array
from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.partition.metis import metis_split
from workloads.partition.partition import Balance, Method, Partition, freeze_partition

MAX_WORKERS = 1024
MAX_SEED = 1 << 40
METHODS: tuple[Method, ...] = ("metis", "random", "contiguous")
BALANCES: tuple[Balance, ...] = ("unit", "degree", "feature")


def partition_graph(
    graph: Graph,
    workers: int,
    *,
    method: Method = "metis",
    balance: Balance = "unit",
    seed: int = 1,
    cache: Path | None = None,
) -> Partition:
    """Give every vertex to one of `workers` workers; each worker gets at least one vertex.

    method: "metis" minimises the edge cut; "random" and "contiguous" (runs of ascending vertex ids) are
    there for comparison. balance: the vertex weight to even out, see `vertex_weights`. Equal arguments give
    equal partitions. METIS's answers are kept in the cache folder by content (cache: see
    `workloads.cache.cache_root`). Raises InputError for a worker count outside 1..1,024 or above the number
    of vertices, for an unknown method or balance, and for a graph without edges.
    """
    n = graph.num_vertices
    if method not in METHODS:
        raise InputError(f"partition method: {method} is not known; allowed: {', '.join(METHODS)}")
    if balance not in BALANCES:
        raise InputError(f"partition balance: {balance} is not known; allowed: {', '.join(BALANCES)}")
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"workers: {workers} given; allowed: 1 to {MAX_WORKERS}")
    if not 0 <= seed < MAX_SEED:
        raise InputError(f"seed: {seed} given; allowed: 0 to {MAX_SEED - 1}")
    if workers > n:
        raise InputError(f"workers: {workers} given, but graph {graph.name} has only {n} vertices")
    if graph.num_edges == 0:
        raise InputError(f"graph {graph.name}: it has no edges, so there is nothing to propagate")
    weights = vertex_weights(graph, balance)
    if method == "metis":
        parts = _cached_metis(
            graph, workers=workers, balance=balance, weights=weights, seed=seed, cache=cache
        )
    else:
        order = np.random.default_rng(seed).permutation(n) if method == "random" else np.arange(n)
        parts = np.empty(n, dtype=np.int32)
        parts[order] = _even_runs(None if weights is None else weights[order], n, workers)
    parts = fill_empty(parts, workers, graph.degrees)
    return freeze_partition(graph, parts, workers, method=method, balance=balance, seed=seed)


def vertex_weights(graph: Graph, balance: Balance) -> npt.NDArray[np.int64] | None:
    """The weight of each vertex in units of one value's work, int64[n]; None when all are equal.

    "unit": vertices, so features in memory. "degree": 1 + neighbours, so aggregation work. "feature": a first
    GCN layer's work, in which a vertex's transform costs feature_width multiply-adds per hidden value and its
    aggregation one per neighbour: feature_width + neighbours.
    """
    if balance == "unit":
        return None
    return graph.degrees + (max(1, graph.feature_width) if balance == "feature" else 1)


def fill_empty(
    parts: npt.NDArray[np.int32], workers: int, degrees: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Give each empty worker the vertex of lowest degree of the worker that is largest at that moment.

    METIS may leave parts empty when there are few vertices per part. Needs workers <= len(parts).
    """
    sizes = np.bincount(parts, minlength=workers)
    empty = np.flatnonzero(sizes == 0)
    if len(empty) == 0:
        return parts
    parts = parts.copy()
    for worker in empty:
        largest = int(np.argmax(sizes))
        members = np.flatnonzero(parts == largest)
        moved = members[np.argmin(degrees[members])]
        parts[moved] = worker
        sizes[largest] -= 1
        sizes[worker] = 1
    return parts


def _even_runs(weights: npt.NDArray[np.int64] | None, n: int, workers: int) -> npt.NDArray[np.int32]:
    """Cut a sequence of vertices into `workers` runs of about equal weight."""
    if weights is None:
        return (np.arange(n, dtype=np.int64) * workers // n).astype(np.int32)
    middle = np.cumsum(weights) - weights / 2
    return np.minimum(middle * workers / weights.sum(), workers - 1).astype(np.int32)


def _cached_metis(
    graph: Graph,
    *,
    workers: int,
    balance: Balance,
    weights: npt.NDArray[np.int64] | None,
    seed: int,
    cache: Path | None,
) -> npt.NDArray[np.int32]:
    recipe = f"netfold-metis-1 {graph.digest} {workers} {balance} {seed}"
    file = cache_root(cache) / "partitions" / f"{hashlib.sha256(recipe.encode()).hexdigest()[:32]}.npy"
    stored = load_cached_array(file)
    if stored is not None and stored.shape == (graph.num_vertices,) and stored.dtype == np.int32:
        parts = stored.astype(np.int32)
        if parts.min() >= 0 and parts.max() < workers:
            return parts
    parts = metis_split(graph.indptr, graph.indices, workers, weights=weights, seed=seed)
    store_array(file, parts)
    return parts
