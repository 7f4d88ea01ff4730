"""METIS with any vertex weights and any shares: what a profile's alpha * |V| + beta * |E| needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.cache import cache_root, load_cached_array, store_array
from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.partition.make import fill_empty
from workloads.partition.metis import metis_split


def weighted_partition(
    graph: Graph,
    parts: int,
    weights: npt.NDArray[np.int64],
    *,
    shares: Sequence[float] | None = None,
    seed: int = 1,
    cache: Path | None = None,
) -> npt.NDArray[np.int32]:
    """The part of each vertex, int32[n], none empty: METIS, which evens out the parts' sums of `weights`.

    weights: int64[n], 0 or more. shares: the share of the whole weight that each part should get; None:
    equal. Kept in the cache folder by content. Raises InputError for weights or shares of other lengths, or
    below zero, and for more parts than vertices.
    """
    n = graph.num_vertices
    if not 1 <= parts <= n:
        raise InputError(f"parts: {parts} given; allowed: 1 to {n}, the vertices of {graph.name}")
    if weights.shape != (n,) or weights.min(initial=0) < 0:
        raise InputError(f"partition weights: {weights.shape} given; expected {n} numbers of 0 or more")
    if shares is not None and (len(shares) != parts or min(shares) <= 0):
        raise InputError(f"partition shares: {len(shares)} given; expected {parts} above 0")
    wanted = None if shares is None else [share / sum(shares) for share in shares]
    told = f"netfold-weighted-1 {graph.digest} {parts} {seed} {wanted} ".encode() + weights.tobytes()
    file = cache_root(cache) / "partitions" / f"{hashlib.sha256(told).hexdigest()[:32]}.npy"
    kept = load_cached_array(file)
    if kept is not None and kept.shape == (n,) and kept.dtype == np.int32 and kept.max(initial=0) < parts:
        return kept.astype(np.int32)
    found = metis_split(graph.indptr, graph.indices, parts, weights=weights, shares=wanted, seed=seed)
    found = fill_empty(found, parts, graph.degrees)
    store_array(file, found)
    return found
