"""LightMetis (SWASH, section 4): one vertex partition for all snapshots, from a weighted merge of few.

A sliding window of Ns snapshots uses an original snapshot (the edges of one interval) as often as windows
hold snapshots in which its edges still live. Only the frequently used ones are kept; their edges, weighted by
that frequency, are merged into one graph that METIS splits. Every vertex lies on one worker in all snapshots,
so recurrent states never travel.

The published account leaves three things open, decided here: of originals used equally often, as all but
the first and last are when there are many, those kept are spread evenly over time; `keep` is their share
(and ten at least); and vertices of which the kept ones tell little (fewer than FEW edges) move afterwards
to where most of their neighbours in every other original are, as far as there is room.

The luck of one METIS run is 3 % of the cut of a dense graph and 10 to 30 % of a sparse one's, with which
METIS is soon done: METIS makes several cuts where they take little time, and the best is kept.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.weighted import weighted_split

KEEP, LEAST = 0.2, 10
IMBALANCE = 0.03  # METIS's own for k-way
FEW, EVERY = 10, 2
RARE = 0.01  # share of such vertices that is not worth reading the other originals for
SPARSE = 5  # directed edges a vertex
LARGE = 30_000  # vertices from which a k-way split is as good as bisections, and 2 to 3 times as fast


def usage_frequency(snapshots: int, window: int, lifetime: int) -> npt.NDArray[np.int64]:
    """How often the windows over T snapshots use each original snapshot, int64[T]: pairs of a window and a
    snapshot in it that still has the original's edges.
    """
    t = np.arange(snapshots)
    holding = np.minimum(t, snapshots - window) - np.maximum(0, t - window + 1) + 1
    before = np.concatenate([[0], np.cumsum(holding)])
    return before[np.minimum(t + lifetime, snapshots)] - before[t]


def frequent_snapshots(frequency: npt.NDArray[np.int64], keep: float) -> npt.NDArray[np.int64]:
    """Ascending numbers of the ceil(keep * T) most used originals, or LEAST if those are more; equals are
    taken evenly over time.
    """
    count = min(len(frequency), max(LEAST, math.ceil(keep * len(frequency))))
    threshold = np.sort(frequency)[-count]
    above = np.flatnonzero(frequency > threshold)
    equal = np.flatnonzero(frequency == threshold)
    wanted = count - len(above)
    spread = equal[(2 * np.arange(wanted) + 1) * len(equal) // (2 * wanted)]
    return np.sort(np.concatenate([above, spread]))


def merge_weighted(
    graph: DynamicGraph, originals: npt.NDArray[np.int64], frequency: npt.NDArray[np.int64]
) -> sp.csr_array:
    """The symmetric int64[n, n] matrix whose entries add up the frequencies of originals with that edge."""
    n = graph.num_vertices
    pairs = np.concatenate([graph.arrivals[i] for i in originals]).astype(np.int64)
    # Sorting numbers that hold both ends and the weight is the quickest way to add up equal pairs.
    wide, narrow = n.bit_length(), int(frequency.max()).bit_length()
    keys = np.repeat(frequency[originals], [len(graph.arrivals[i]) for i in originals])
    keys |= (pairs[:, 0] << wide | pairs[:, 1]) << narrow
    keys.sort()
    pair = keys >> narrow
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    weights = np.add.reduceat(keys & ((1 << narrow) - 1), first) if len(first) else keys
    rows = np.searchsorted(pair[first], np.arange(n + 1) << wide)
    upper = sp.csr_array((weights, pair[first] & ((1 << wide) - 1), rows), shape=(n, n))
    return (upper + upper.T).tocsr()


def light_metis(
    graph: DynamicGraph, workers: int, *, keep: float = KEEP, seed: int = 1
) -> npt.NDArray[np.int32]:
    """int32[n]: the worker of each vertex in all snapshots."""
    frequency = usage_frequency(graph.num_snapshots, graph.window, graph.lifetime)
    kept = frequent_snapshots(frequency, keep)
    merged = merge_weighted(graph, kept, frequency)
    joined = np.flatnonzero(np.diff(merged.indptr))
    parts = np.full(graph.num_vertices, -1, dtype=np.int32)
    if len(joined) >= workers:
        inside = merged[joined][:, joined] if len(joined) < graph.num_vertices else merged
        parts[joined] = _split(inside, workers, seed)
    told = np.bincount(np.concatenate([graph.arrivals[i] for i in kept]).reshape(-1), minlength=len(parts))
    weak = (told < FEW) | (parts < 0)
    if weak.mean() > RARE and len(kept) < graph.num_snapshots:
        _settle(graph, parts, workers, np.flatnonzero(weak), frequency)
    left = np.flatnonzero(parts < 0)
    room = _room(parts, workers)
    parts[left] = np.repeat(np.arange(workers), np.maximum(room, 0))[: len(left)]
    return parts


def _split(merged: sp.csr_array, workers: int, seed: int) -> npt.NDArray[np.int32]:
    # A cut takes longer on more edges, and into more parts.
    cuts = 1 + (merged.nnz <= SPARSE * merged.shape[0]) + (workers <= 4)
    return weighted_split(
        merged.indptr, merged.indices, merged.data, workers,
        imbalance=IMBALANCE, cuts=cuts, bisect=merged.shape[0] < LARGE, seed=seed,
    )  # fmt: skip


def _room(parts: npt.NDArray[np.int32], workers: int) -> npt.NDArray[np.int64]:
    """How many more vertices each worker may take, int64[workers]."""
    most = math.ceil((1 + IMBALANCE) * len(parts) / workers)
    return most - np.bincount(parts[parts >= 0], minlength=workers)


def _settle(
    graph: DynamicGraph,
    parts: npt.NDArray[np.int32],
    workers: int,
    weak: npt.NDArray[np.int64],
    frequency: npt.NDArray[np.int64],
) -> None:
    """Move the vertices `weak` to where most of their neighbours are, by use; the strongest pulled first."""
    number = np.full(len(parts), -1)
    number[weak] = np.arange(len(weak))
    looked = graph.arrivals[::EVERY]
    ends = np.concatenate(looked).T.reshape(-1).astype(np.intp)  # all first ends, then all second ones
    mine = number[ends]
    at = np.flatnonzero(mine >= 0)
    edges = len(ends) // 2
    other = parts[ends[np.where(at < edges, at + edges, at - edges)]]
    weight = np.repeat(frequency[::EVERY].astype(float), [len(pairs) for pairs in looked])[at % edges]
    cells = mine[at] * (workers + 1) + other + 1  # column 0: not placed yet
    pull = np.bincount(cells, weight, minlength=len(weak) * (workers + 1)).reshape(-1, workers + 1)[:, 1:]
    best, here = pull.argmax(axis=1), parts[weak]
    gain = pull.max(axis=1) - np.where(here >= 0, pull[np.arange(len(weak)), here], 0)
    moving = np.argsort(-gain, kind="stable")
    moving = moving[gain[moving] > 0]
    for worker in range(workers):
        coming = weak[moving[best[moving] == worker][: max(0, int(_room(parts, workers)[worker]))]]
        parts[coming] = worker
