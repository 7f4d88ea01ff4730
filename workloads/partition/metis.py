"""METIS through pymetis: the one place that calls it, with the widths, options and limits it wants.

METIS here has 64-bit indices and needs ~70 B of memory and ~0.4 us per directed edge. Above METIS_MOST_EDGES it is
given a thinned copy of the graph: every vertex keeps about the same number of randomly chosen edges, weighted so that
each cut keeps its expected weight. On the Reddit stand-in (114.6 M directed edges, 128 parts) that costs 0.4 % of
the edges in additional cut, against 8.3 GB without.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pymetis

from workloads import _kernels

METIS_MOST_EDGES = 64_000_000
"""Directed edges that METIS is given at most: ~5 GB."""


def metis_split(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    parts: int,
    *,
    weights: npt.NDArray[np.int64] | None = None,
    imbalance: float = 0.03,
    seed: int = 1,
    most_edges: int = METIS_MOST_EDGES,
) -> npt.NDArray[np.int32]:
    """Split a symmetric CSR graph into `parts` parts of even weight with a small edge cut; int32[n].

    imbalance: how far the largest part may exceed the mean (0.03 is METIS's own default for k-way); METIS
    treats it as a wish, and may leave parts larger or empty. Deterministic in `seed`. Recursive bisection up
    to 8 parts, k-way above, as pymetis and the METIS manual advise.
    """
    if parts == 1:
        return np.zeros(len(indptr) - 1, dtype=np.int32)
    width = pymetis.zero_copy_dtype()
    edge_weights = None
    if len(indices) > most_edges:
        indptr, indices, edge_weights = _kernels.thin_graph(
            indptr, indices, _edges_per_vertex(np.diff(indptr), most_edges), seed
        )
    options = pymetis.Options(seed=int(seed) & 0x7FFFFFFF, ufactor=max(1, min(1000, int(imbalance * 1000))))
    graph = pymetis.CSRAdjacency(indptr.astype(width, copy=False), indices.astype(width, copy=False))
    vweights = None if weights is None else weights.astype(width, copy=False)
    _, labels = pymetis.part_graph(
        parts, graph, vweights=vweights, eweights=edge_weights, options=options, recursive=parts <= 8
    )
    return np.asarray(labels).astype(np.int32)


def _edges_per_vertex(degrees: npt.NDArray[np.int64], most_edges: int) -> float:
    """How many edges each vertex may keep so that about `most_edges` remain: each edge is kept for either end."""
    low, high = 1.0, float(degrees.max())
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * np.minimum(degrees, middle).sum() < most_edges else (low, middle)
    return low
