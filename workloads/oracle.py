"""The oracle: what a propagation must deliver, A_cross x with scipy in exact int64, and the check of a plan
against it.

Nothing here calls the kernels that plans are built by.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from workloads.graphs.graph import Graph
from workloads.partition.partition import Partition
from workloads.plan.plan import Plan


def cross_matrix(graph: Graph, partition: Partition) -> sp.csr_array:
    """The symmetric 0/1 matrix of cross edges over boundary indices, int64[nb, nb]."""
    n = graph.num_vertices
    rows = np.repeat(np.arange(n), graph.degrees)
    cross = partition.parts[rows] != partition.parts[graph.indices]
    rows, columns = rows[cross], graph.indices[cross]
    whole = sp.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(n, n))
    boundary = np.unique(rows)
    return whole[boundary][:, boundary]


def cross_sums(graph: Graph, partition: Partition, x: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """r_v = sum of x_u over v's cross neighbours u, for every boundary vertex v in Plan's order.

    x: integer [n] or [n, width] over all vertices. Returns int64[nb, ...]; exact while the sums fit int64.
    """
    boundary = _boundary(graph, partition)
    return np.asarray(cross_matrix(graph, partition) @ x[boundary].astype(np.int64))


def plan_sums(plan: Plan, x: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """The same sums as the plan makes them: every block's partial results plus the residual's. x as in
    `cross_sums`.
    """
    values = x[plan.boundary].astype(np.int64)
    nb = plan.num_boundary
    residual = (np.ones(len(plan.residual_adj), dtype=np.int64), plan.residual_adj, plan.residual_ptr)
    total = np.asarray(sp.csr_array(residual, shape=(nb, nb)) @ values)
    for vertices, ptr, adj in _blocks(plan):
        block = sp.csr_array((np.ones(len(adj), dtype=np.int64), adj, ptr), shape=(len(vertices),) * 2)
        total[vertices] += block @ values[vertices]
    return total


def validate_plan(plan: Plan, graph: Graph, partition: Partition) -> None:
    """Raise AssertionError, saying what and where, unless the plan keeps every promise of `Plan`'s docstring.

    Checks: boundary and owner; every directed cross edge exactly once, over blocks and residual; symmetry
    within each block and the residual; slots in range and ascending; no vertex twice in a block or without
    an edge there; capacity; levels ascending; and the sums on random vectors.
    """
    parts = np.asarray(partition.parts)
    boundary = _boundary(graph, partition)
    _require(
        np.array_equal(plan.boundary, boundary), "boundary is not the ascending ids of boundary vertices"
    )
    _require(np.array_equal(plan.owner, parts[boundary]), "owner differs from the partition")
    nb = len(boundary)
    limited = plan.memory_bytes > 0 and plan.blocks_mode == "multilevel"
    found = [_directed(np.arange(nb), plan.residual_ptr, plan.residual_adj, nb)]
    _require(_symmetric(found[0], nb), "the residual is not symmetric")
    for b, (vertices, ptr, adj) in enumerate(_blocks(plan)):
        size = len(vertices)
        _require(len(np.unique(vertices)) == size > 0, f"block {b}: a vertex twice, or no vertex")
        _require(bool((np.diff(ptr) > 0).all()), f"block {b}: a vertex without an edge")
        _require(bool(((adj >= 0) & (adj < size)).all()), f"block {b}: a slot out of range")
        rows = np.repeat(np.arange(size), np.diff(ptr))
        _require(
            bool((np.diff(rows * size + adj) > 0).all()), f"block {b}: slots are not ascending and distinct"
        )
        edges = rows * size + adj
        _require(_symmetric(edges, size), f"block {b}: its adjacency is not symmetric")
        found.append(vertices[rows].astype(np.int64) * nb + vertices[adj])
        if limited:
            memory = (
                size * (plan.chunks * plan.aggregator_bytes + plan.per_vertex_bytes)
                + len(adj) * plan.per_edge_bytes
            )
            _require(size * plan.chunks <= plan.aggregators, f"block {b}: more aggregators than there are")
            _require(memory <= plan.memory_bytes, f"block {b}: {memory} B of {plan.memory_bytes} B")
    _require(bool((np.diff(plan.block_level) >= 0).all()), "block levels are not ascending")
    cross = cross_matrix(graph, partition)
    expected = _directed(np.arange(nb), cross.indptr, cross.indices, nb)
    _require(
        np.array_equal(np.sort(np.concatenate(found)), np.sort(expected)),
        "not every cross edge is there exactly once",
    )
    x = np.random.default_rng(7).integers(-(2**31), 2**31, size=(graph.num_vertices, 2))
    _require(np.array_equal(plan_sums(plan, x), cross_sums(graph, partition, x)), "the sums differ from A x")


def _blocks(plan: Plan) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]]]:
    """(vertices, local ptr, adj) of each block."""
    out = []
    for first, last in zip(plan.block_ptr[:-1], plan.block_ptr[1:], strict=True):
        ptr = np.asarray(plan.adj_ptr[first : last + 1])
        out.append(
            (
                np.asarray(plan.block_vertices[first:last]),
                ptr - ptr[0],
                np.asarray(plan.adj[ptr[0] : ptr[-1]]),
            )
        )
    return out


def _boundary(graph: Graph, partition: Partition) -> npt.NDArray[np.int64]:
    """Ascending ids of boundary vertices."""
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    return np.unique(rows[partition.parts[rows] != partition.parts[graph.indices]])


def _directed(
    rows: npt.NDArray[np.integer], ptr: npt.NDArray[np.integer], adj: npt.NDArray[np.integer], n: int
) -> npt.NDArray[np.int64]:
    return np.repeat(rows.astype(np.int64), np.diff(ptr)) * n + adj


def _symmetric(edges: npt.NDArray[np.int64], n: int) -> bool:
    """Whether the set of directed edges row * n + column is its own transpose."""
    return np.array_equal(np.sort(edges), np.sort(edges % max(1, n) * n + edges // max(1, n)))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"plan: {what}")
