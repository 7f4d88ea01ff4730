"""The structural encoding B as a class per attended pair: what Graphormer learns a bias for, in one byte.

Graphormer (Ying et al., NeurIPS 2021) adds to a pair's score a learned number per head for the shortest-path
distance, and one for the edges on that path. A pair's class stands for both: itself, an edge (with its kind),
a distance of 2 or more, unreachable, a graph's virtual vertex, or outside of a sparse layout, where the
distance is not known. Class 0 is no pair. The bytes lie in the layout of the attention itself, so B never
is an N x N matrix where attention is sparse. For pairs beyond an edge the edges on the path are left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.graphs.graph import Graph

NO_PAIR, SELF, FIRST_EDGE = 0, 1, 2
EDGE_KINDS = 8
TWO = FIRST_EDGE + EDGE_KINDS
FARTHEST = 5
"""Distances from here on are one class."""
UNREACHABLE = TWO + FARTHEST - 1
VIRTUAL, OUTSIDE = UNREACHABLE + 1, UNREACHABLE + 2
CLASSES = OUTSIDE + 1

Bytes = npt.NDArray[np.uint8]


def spatial_of_class() -> npt.NDArray[np.int64]:
    """int64[CLASSES]: the spatial encoding of each class: 0 self, 1 an edge, 2.. the others in order."""
    result = np.zeros(CLASSES, dtype=np.int64)
    result[FIRST_EDGE:TWO] = 1
    result[TWO:] = np.arange(2, 2 + CLASSES - TWO)
    return result


def common_neighbours(graph: Graph) -> npt.NDArray[np.int64]:
    """int64[m]: how many neighbours the two ends of each directed edge share.

    Every triangle is met once, from its vertex of lowest degree, so the work is O(m^1.5) whatever the hubs.
    """
    return _kernels.common_neighbours(graph.indptr, graph.indices)


def edge_classes(graph: Graph, kinds: npt.NDArray[np.integer] | None = None) -> Bytes:
    """uint8[m]: the class of each directed edge.

    kinds: int[m] in 0..7 where the graph says what its edges are; else the logarithm of the neighbours that
    both ends share takes their place (0, 1, 2-3, 4-7, ...).
    """
    if kinds is None:
        shared = common_neighbours(graph)
        kinds = np.minimum(np.ceil(np.log2(shared + 1)).astype(np.int64), EDGE_KINDS - 1)
    return (FIRST_EDGE + kinds).astype(np.uint8)


def distance_classes(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], classes: Bytes) -> Bytes:
    """uint8[n, n]: the class of every pair, from a layout's (indptr, indices, classes) of all n rows.

    N x N, so for dense attention alone: all breadth-first searches at once, a bit for each source, some
    columns at a time. Each row must have its self loop.
    """
    n = len(indptr) - 1
    row = np.repeat(np.arange(n), np.diff(indptr))
    result = np.full((n, n), UNREACHABLE, dtype=np.uint8)
    width = max(8, _STEP_BYTES // max(1, len(indices)) * 8)
    for start in range(0, n, width):
        sources = np.arange(start, min(start + width, n))
        own = np.zeros((n, len(sources)), dtype=bool)
        own[sources, np.arange(len(sources))] = True
        reached = np.packbits(own, axis=1)
        for distance in range(1, n):
            after = np.bitwise_or.reduceat(reached[indices], indptr[:-1], axis=0)
            fresh = np.unpackbits(after & ~reached, axis=1, count=len(sources)).astype(bool)
            if not fresh.any():
                break
            part = result[:, start : start + width]
            part[fresh] = TWO + min(max(distance, 2), FARTHEST) - 2
            reached = after
    result[row, indices] = classes
    return result


_STEP_BYTES = 64 << 20
