"""Chunk-based partition of a dynamic graph, after DGC (Chen et al., SIGMOD 2023), as publicly described.

Vertices of all snapshots are the nodes of one graph: joined with their neighbours in the same snapshot and
with themselves in the next. Label propagation coarsens it into chunks of limited size, and chunks are
assigned to workers, largest first, where most of their edges lead while the load stays even. So a vertex may
lie on other workers in other snapshots; both its embeddings and its recurrent states then travel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from workloads.graphs.dynamic import DynamicGraph

ROUNDS = 5
CHUNKS_PER_WORKER = 16
IMBALANCE = 0.05


def chunk_partition(graph: DynamicGraph, workers: int, *, seed: int = 1) -> npt.NDArray[np.int32]:
    """int32[T, n]: the worker of each vertex in each snapshot."""
    joined = spatio_temporal(graph)
    load = 1.0 + np.diff(joined.indptr)
    most = float(load.sum()) / (workers * CHUNKS_PER_WORKER)
    chunk = _limited(_propagated(joined, seed), load, most)
    placed = _assigned(joined, chunk, load, workers)
    return placed[chunk].reshape(graph.num_snapshots, graph.num_vertices)


def spatio_temporal(graph: DynamicGraph) -> sp.csr_array:
    """The symmetric matrix of edges between nodes t * n + v, of weight 1."""
    n, count = graph.num_vertices, graph.num_snapshots
    snapshots = [
        sp.csr_array((np.ones(len(adj)), adj, ptr), shape=(n, n))
        for ptr, adj in zip(graph.indptr, graph.indices, strict=True)
    ]
    earlier = np.arange(n * (count - 1))
    ends = (np.concatenate([earlier, earlier + n]), np.concatenate([earlier + n, earlier]))
    over_time = sp.coo_array((np.ones(2 * len(earlier)), ends), shape=(n * count,) * 2)
    return sp.csr_array(sp.block_diag(snapshots, format="csr") + over_time.tocsr())


def _propagated(joined: sp.csr_array, seed: int) -> npt.NDArray[np.int64]:
    """Label propagation: each round, a random half of the nodes takes its neighbours' most frequent label."""
    random = np.random.default_rng([seed, 41])
    nodes = joined.shape[0]
    label = np.arange(nodes)
    rows = np.repeat(np.arange(nodes), np.diff(joined.indptr))
    for _ in range(ROUNDS):
        keys, counts = np.unique(rows * nodes + label[joined.indices], return_counts=True)
        order = np.lexsort((counts, keys // nodes))
        last = np.flatnonzero(np.diff(keys[order] // nodes, append=nodes))
        found = keys[order[last]]
        chosen = random.random(len(found)) < 0.5
        label[(found // nodes)[chosen]] = (found % nodes)[chosen]
    return label


def _limited(
    label: npt.NDArray[np.int64], load: npt.NDArray[np.float64], most: float
) -> npt.NDArray[np.int64]:
    """Dense chunk numbers; a label with more load than `most` is cut into runs of nodes."""
    order = np.argsort(label, kind="stable")
    before = np.cumsum(load[order]) - load[order]
    first = np.r_[True, np.diff(label[order]) > 0]
    since = before - np.repeat(before[first], np.diff(np.append(np.flatnonzero(first), len(label))))
    piece = (since // most).astype(np.int64)
    starts = first | np.r_[False, np.diff(piece) != 0]
    chunk = np.empty(len(label), dtype=np.int64)
    chunk[order] = np.cumsum(starts) - 1
    return chunk


def _assigned(
    joined: sp.csr_array, chunk: npt.NDArray[np.int64], load: npt.NDArray[np.float64], workers: int
) -> npt.NDArray[np.int32]:
    """int32[chunks]: the worker of each chunk."""
    chunks = int(chunk.max()) + 1
    member = sp.csr_array((np.ones(len(chunk)), (chunk, np.arange(len(chunk)))), shape=(chunks, len(chunk)))
    between = (member @ joined @ member.T).tocsr()
    weight = np.bincount(chunk, load, minlength=chunks)
    room = np.full(workers, (1 + IMBALANCE) * load.sum() / workers)
    placed = np.full(chunks, -1, dtype=np.int32)
    for one in np.argsort(-weight, kind="stable"):
        span = slice(between.indptr[one], between.indptr[one + 1])
        near = placed[between.indices[span]]
        pull = np.bincount(near[near >= 0], between.data[span][near >= 0], minlength=workers)
        fits = room >= weight[one]
        best = np.lexsort((-room, -pull, ~fits))[0] if fits.any() else int(room.argmax())
        placed[one] = best
        room[best] -= weight[one]
    return placed
