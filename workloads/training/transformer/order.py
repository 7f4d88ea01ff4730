"""The order of a graph's vertices in the sequence: METIS clusters beside each other, breadth first inside.

An order is int64[n]: vertex order[i] of the graph is token i. Everything that belongs to a vertex (features,
labels, split, both ends of pairs, their classes) is taken in this order, and `restored` puts results back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from workloads.graphs.graph import Graph
from workloads.partition import partition_graph


@dataclass(frozen=True, eq=False)
class Order:
    """order: int64[n]; starts: int64[k+1], the first token of each cluster, and n."""

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    @property
    def clusters(self) -> int:
        """Number of clusters, k."""
        return len(self.starts) - 1


def make_order(graph: Graph, kind: str, clusters: int, seed: int) -> Order:
    """metis: k clusters of small cut, each in reverse Cuthill-McKee order, so that neighbours stay close
    inside too; natural: as numbered; random. The latter two have no clusters: k even runs stand for them.
    """
    n = graph.num_vertices
    clusters = min(clusters, n)
    even = np.arange(clusters + 1, dtype=np.int64) * n // clusters
    if kind == "natural" or graph.num_edges == 0:
        return Order(np.arange(n, dtype=np.int64), even)
    if kind == "random":
        return Order(np.random.default_rng(seed).permutation(n), even)
    parts = partition_graph(graph, clusters, seed=seed).parts
    ones = np.ones(graph.num_edges, dtype=np.int8)
    matrix = sparse.csr_matrix((ones, graph.indices, graph.indptr), shape=(n, n))
    runs = []
    for cluster in range(clusters):
        members = np.flatnonzero(parts == cluster)
        inside = matrix[members][:, members]
        runs.append(members[reverse_cuthill_mckee(inside.tocsr(), symmetric_mode=True)])
    sizes = [len(run) for run in runs]
    return Order(
        np.concatenate(runs).astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    )


def restored(values: npt.NDArray[Any], order: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Rows in the order of tokens, back in the order of vertices."""
    result = np.empty_like(values)
    result[order] = values
    return result
