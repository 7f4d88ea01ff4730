"""Splitting one level into parts that fit the switch: METIS, streaming where METIS finds no more, packing.

Every level makes progress, so the recursion ends: a split that keeps no edge inside a part is replaced by
packing along a breadth-first walk, whose first two vertices are joined and fit together
(`require_room_for_an_edge`). So each level takes at least one edge out of the rest. In practice it takes a
fair share: of a level with V vertices and room for C in a block a random split keeps about C/V of the edges,
and a split that keeps less than half of that is given up for the packing if that keeps more. On a star the
hub's block takes about C - 1 edges.

METIS costs time and memory in proportion to the edges, and what a level leaves has ever less structure. So
each level is also split by streaming, in a tenth of the time, and the better of the two is taken. From the
first large level on which METIS keeps less than METIS_WORTH times the edges that streaming keeps, METIS is
no longer asked while a level is large. Measured on a Reddit-size block model (128 workers, 256 values) at
10 MB: METIS alone took 447 s and ended with 19.7 uploads per boundary vertex in 33 levels; streaming while a
level had more than 8 M edges, METIS below, took 68 s and ended with 18.8 in 32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.partition.metis import metis_split
from workloads.plan.capacity import Capacity

METIS_SMALLEST_PART = 8
"""Below this many vertices per part METIS has nothing left to coarsen to, and packing is as good."""

LARGE_LEVEL_EDGES = 8_000_000
"""Directed edges from which asking METIS takes several seconds."""

METIS_WORTH = 1.1
STREAM_PASSES = 8
"""On the Reddit stand-in the kept edges no longer grow after eight passes."""

Split = tuple[npt.NDArray[np.int32], int]


class LevelSplitter:
    """Splits the levels of one plan in turn; remembers whether METIS was still worth its time."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.metis_worth = True

    def split(self, ptr: npt.NDArray[np.int64], adj: npt.NDArray[np.int32], seed: int) -> Split:
        """Labels int32[n] and their number, so that the vertices and inner edges of every label fit.

        ptr, adj: the level's symmetric graph; every vertex has a neighbour.
        """
        capacity = self.capacity
        n = len(ptr) - 1
        weights = capacity.vertex_bytes + np.diff(ptr) * capacity.edge_bytes
        parts = max(-(-n // capacity.most_vertices), -(-int(weights.sum()) // capacity.budget_bytes))
        if n < parts * METIS_SMALLEST_PART:
            return self._pack_all(ptr, adj)
        large = len(adj) >= LARGE_LEVEL_EDGES
        room = min(capacity.most_vertices, -(-n * 103 // (parts * 100)))
        labels = _kernels.stream_split(ptr, adj, parts, max(room, -(-n // parts)), STREAM_PASSES, seed)
        best = self._enforce(ptr, adj, labels, parts)
        kept = _kept(ptr, adj, best[0])
        if self.metis_worth or not large:
            labels = metis_split(
                ptr,
                adj,
                parts,
                weights=weights if capacity.edge_bytes else None,
                imbalance=min(parts * capacity.most_vertices / n - 1, 0.3),
                seed=seed,
            )
            other = self._enforce(ptr, adj, labels, parts)
            by_metis = _kept(ptr, adj, other[0])
            if large:
                self.metis_worth = by_metis >= METIS_WORTH * kept
            if by_metis > kept:
                best, kept = other, by_metis
        if kept * n * 2 < len(adj) * min(n, capacity.most_vertices):
            packed = self._pack_all(ptr, adj)
            if _kept(ptr, adj, packed[0]) > kept:
                return packed
        return best

    def _enforce(
        self,
        ptr: npt.NDArray[np.int64],
        adj: npt.NDArray[np.int32],
        labels: npt.NDArray[np.int32],
        parts: int,
    ) -> Split:
        """Bring parts above capacity under it: move vertices to parts with room, or repack the part."""
        capacity = self.capacity
        if capacity.edge_bytes == 0:
            return _kernels.repair_capacity(ptr, adj, labels, parts, capacity.most_vertices), parts
        kept = _kernels.kept_degrees(ptr, adj, labels)
        vertices = np.bincount(labels, minlength=parts)
        edges = np.bincount(labels, weights=kept, minlength=parts).astype(np.int64)
        over = np.array(
            [not capacity.fits(int(v), int(e)) for v, e in zip(vertices, edges, strict=True)], dtype=np.uint8
        )
        return self._pack(ptr, adj, labels, over) if over.any() else (labels, parts)

    def _pack_all(self, ptr: npt.NDArray[np.int64], adj: npt.NDArray[np.int32]) -> Split:
        return self._pack(ptr, adj, np.zeros(len(ptr) - 1, dtype=np.int32), np.ones(1, dtype=np.uint8))

    def _pack(
        self,
        ptr: npt.NDArray[np.int64],
        adj: npt.NDArray[np.int32],
        labels: npt.NDArray[np.int32],
        repack: npt.NDArray[np.uint8],
    ) -> Split:
        """Replace the marked parts by bins filled along a breadth-first walk; see the kernel."""
        capacity = self.capacity
        return _kernels.pack_bins(
            ptr,
            adj,
            labels,
            repack,
            capacity.most_vertices,
            capacity.budget_bytes,
            capacity.vertex_bytes,
            capacity.edge_bytes,
        )


def _kept(ptr: npt.NDArray[np.int64], adj: npt.NDArray[np.int32], labels: npt.NDArray[np.int32]) -> int:
    """Directed edges inside parts."""
    return int(_kernels.kept_degrees(ptr, adj, labels).sum(dtype=np.int64))
