"""Splitting one level into parts that fit the switch: METIS, and what stands in where METIS cannot.

Every level makes progress, so the recursion ends: a level whose split keeps no edge inside a part is packed
along a breadth-first walk instead, whose first two vertices are joined and fit together (`block_capacity`
has checked that two joined vertices fit). So each level takes at least one edge out of the rest. In practice
a level takes its fair share: of a level with V vertices and room for C in a block, a random split keeps
about C/V of the edges, and a METIS split that keeps less than half of that is given up for the packing. On a
star the hub's block takes C - 1 edges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.partition.metis import metis_split
from workloads.plan.capacity import Capacity

METIS_SMALLEST_PART = 8
"""Below this many vertices per part METIS has nothing left to coarsen to, and packing is as good and always
ends.
"""


def split_level(
    ptr: npt.NDArray[np.int64], adj: npt.NDArray[np.int32], capacity: Capacity, seed: int
) -> tuple[npt.NDArray[np.int32], int]:
    """Labels int32[n] and their number, so that the vertices and inner edges of every label fit
    `capacity`.
    """
    n = len(ptr) - 1
    degrees = np.diff(ptr)
    weights = capacity.vertex_bytes + degrees * capacity.edge_bytes
    parts = max(-(-n // capacity.most_vertices), int(-(-weights.sum() // capacity.budget_bytes)))
    if n < parts * METIS_SMALLEST_PART:
        return _pack(ptr, adj, np.zeros(n, dtype=np.int32), np.ones(1, dtype=np.uint8), capacity)
    slack = parts * capacity.most_vertices / n - 1
    labels = metis_split(
        ptr,
        adj,
        parts,
        weights=weights if capacity.edge_bytes else None,
        imbalance=min(slack, 0.3),
        seed=seed,
    )
    labels, parts = _enforce(ptr, adj, labels, parts, capacity)
    kept = int(_kernels.kept_degrees(ptr, adj, labels).sum(dtype=np.int64))
    if kept * n * 2 < len(adj) * min(n, capacity.most_vertices):
        packed, bins = _pack(ptr, adj, np.zeros(n, dtype=np.int32), np.ones(1, dtype=np.uint8), capacity)
        if int(_kernels.kept_degrees(ptr, adj, packed).sum(dtype=np.int64)) > kept:
            return packed, bins
    return labels, parts


def _enforce(
    ptr: npt.NDArray[np.int64],
    adj: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int32],
    parts: int,
    capacity: Capacity,
) -> tuple[npt.NDArray[np.int32], int]:
    """Bring parts that METIS left too large under capacity: move vertices to parts with room, or repack the
    part.
    """
    if capacity.edge_bytes == 0:
        return _kernels.repair_capacity(ptr, adj, labels, parts, capacity.most_vertices), parts
    kept = _kernels.kept_degrees(ptr, adj, labels)
    vertices = np.bincount(labels[kept > 0], minlength=parts)
    edges = np.bincount(labels, weights=kept, minlength=parts).astype(np.int64)
    over = (vertices * capacity.vertex_bytes + edges * capacity.edge_bytes > capacity.budget_bytes) | (
        vertices > capacity.most_vertices
    )
    return _pack(ptr, adj, labels, over.astype(np.uint8), capacity) if over.any() else (labels, parts)


def _pack(
    ptr: npt.NDArray[np.int64],
    adj: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int32],
    repack: npt.NDArray[np.uint8],
    capacity: Capacity,
) -> tuple[npt.NDArray[np.int32], int]:
    """Replace the marked parts by bins filled along a breadth-first walk; see the kernel."""
    # Whole aggregators bound the vertices too: charge a vertex what makes the byte budget imply that bound.
    vertex_bytes = max(capacity.vertex_bytes, -(-capacity.budget_bytes // (capacity.most_vertices + 1)))
    return _kernels.pack_bins(
        ptr, adj, labels, repack, capacity.budget_bytes, vertex_bytes, capacity.edge_bytes
    )
