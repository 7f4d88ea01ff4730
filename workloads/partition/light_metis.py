"""LightMetis (SWASH, section 4): one vertex partition for all snapshots, from a weighted merge of few.

A sliding window of Ns snapshots uses an original snapshot (the edges of one interval) as often as windows
hold snapshots in which its edges still live. Only the frequently used ones are kept; their edges, weighted by
that frequency, are merged into one graph that METIS splits. Every vertex lies on one worker in all snapshots,
so recurrent states never travel.

The published account leaves three things open, decided here: of originals used equally often, as all but
the first and last are when there are many, those kept are spread evenly over time; `keep` is their share
(and ten at least); and vertices of which the kept ones tell little (fewer than FEW edges) are placed
afterwards, where most of their neighbours in every other original are, as far as there is room.

A sparse graph has a small cut, in which the luck of one METIS run is 10 to 30 %, and METIS is soon done with
it: there METIS makes several cuts, and the best is kept.
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
FEW, EVERY = 5, 2
SPARSE = 5  # directed edges a vertex


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
    pairs = np.concatenate([graph.arrivals[i] for i in originals])
    weights = np.repeat(frequency[originals], [len(graph.arrivals[i]) for i in originals])
    upper = sp.coo_array((weights, (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
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
    if weak.any() and len(kept) < graph.num_snapshots:
        _settle(graph, parts, workers, np.flatnonzero(weak), frequency)
    left = np.flatnonzero(parts < 0)
    room = _room(parts, workers)
    parts[left] = np.repeat(np.arange(workers), np.maximum(room, 0))[: len(left)]
    return parts


def _split(merged: sp.csr_array, workers: int, seed: int) -> npt.NDArray[np.int32]:
    sparse = merged.nnz <= SPARSE * merged.shape[0]
    cuts = (3 if workers <= 4 else 2) if sparse else 1  # a cut into more parts takes longer
    return weighted_split(
        merged.indptr, merged.indices, merged.data, workers,
        imbalance=IMBALANCE, cuts=cuts, bisect=True if sparse else None, seed=seed,
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
    number = np.full(len(parts), -1, dtype=np.int64)
    number[weak] = np.arange(len(weak))
    looked = graph.arrivals[::EVERY]
    ends = np.ascontiguousarray(np.concatenate(looked).T)
    weights = np.repeat(frequency[::EVERY], [len(edges) for edges in looked])
    first, second = number[ends[0]] >= 0, number[ends[1]] >= 0
    mine = number[np.concatenate([ends[0][first], ends[1][second]])]
    other = parts[np.concatenate([ends[1][first], ends[0][second]])]
    weight = np.concatenate([weights[first], weights[second]]).astype(float)
    placed = other >= 0
    cells = mine[placed] * workers + other[placed]
    pull = np.bincount(cells, weight[placed], minlength=len(weak) * workers).reshape(-1, workers)
    best, here = pull.argmax(axis=1), parts[weak]
    gain = pull.max(axis=1) - np.where(here >= 0, pull[np.arange(len(weak)), here], 0)
    moving = np.argsort(-gain, kind="stable")
    moving = moving[gain[moving] > 0]
    for worker in range(workers):
        coming = weak[moving[best[moving] == worker][: max(0, int(_room(parts, workers)[worker]))]]
        parts[coming] = worker
