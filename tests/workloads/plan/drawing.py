"""What the plan tests draw from: small graphs, odd shapes, partitions and switch memories."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from workloads.graphs import Graph
from workloads.graphs.graph import Provenance, make_graph
from workloads.partition import Partition
from workloads.partition.partition import freeze_partition

Edges = list[tuple[int, int]]


def graph_of(n: int, edges: Edges) -> Graph:
    """The simple symmetric graph with these undirected edges."""
    pairs = np.array(sorted({(min(a, b), max(a, b)) for a, b in edges if a != b}), dtype=np.int64).reshape(
        -1, 2
    )
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    matrix.sort_indices()
    csr = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    return make_graph("drawn", csr, Provenance("generated", "test"))


def placed(graph: Graph, parts: list[int]) -> Partition:
    """A partition by hand."""
    array = np.array(parts, dtype=np.int32)
    return freeze_partition(graph, array, int(array.max()) + 1, method="random", balance="unit", seed=0)


def alone(graph: Graph) -> Partition:
    """Every vertex its own worker: all edges cross."""
    return placed(graph, list(range(graph.num_vertices)))


def star(n: int) -> Edges:
    """Hub 0 and n - 1 leaves."""
    return [(0, leaf) for leaf in range(1, n)]


def ring(n: int) -> Edges:
    """A cycle."""
    return [(v, (v + 1) % n) for v in range(n)]


def clique(n: int) -> Edges:
    """Everything joined."""
    return [(a, b) for a in range(n) for b in range(a)]


def pairs(n: int) -> Edges:
    """n / 2 components of one edge."""
    return [(2 * i, 2 * i + 1) for i in range(n // 2)]


def barbell(n: int) -> Edges:
    """Two cliques joined by one edge."""
    half = n // 2
    return [*clique(half), *((a + half, b + half) for a, b in clique(half)), (0, half)]


SHAPES = {"star": star, "ring": ring, "clique": clique, "pairs": pairs, "barbell": barbell}


@st.composite
def partitioned_graphs(draw: st.DrawFn) -> tuple[Graph, Partition]:
    """A graph of up to 40 vertices with at least one edge, on up to 8 workers, none empty."""
    n = draw(st.integers(2, 40))
    if draw(st.booleans()):
        edges = SHAPES[draw(st.sampled_from(sorted(SHAPES)))](n)
    else:
        edge = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
        edges = [(0, draw(st.integers(1, n - 1))), *draw(st.lists(edge, max_size=150))]
    workers = draw(st.integers(1, min(n, 8)))
    rest = draw(st.lists(st.integers(0, workers - 1), min_size=n - workers, max_size=n - workers))
    parts = draw(st.permutations([*range(workers), *rest]))
    graph = graph_of(n, edges)
    return graph, placed(graph, parts)
