"""Plans of directed sums: who sends what is any list of edges between nodes, not a symmetric graph.

What dynamic training exchanges is directed: chosen rows go one way, their gradients the other. A node is
any value of its own on one worker (a vertex in one position of a window, or the gradient that a worker has
for it).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from workloads.plan.plan import Plan, freeze_plan

Ids = npt.NDArray[np.int64]


def directed_plan(
    sources: Ids,
    targets: Ids,
    owner: npt.NDArray[np.int32],
    *,
    workers: int,
    width: int,
    values_per_packet: int,
    name: str,
    in_switch: bool = False,
    seed: int = 1,
) -> Plan:
    """The plan in which target adds up its sources' vectors of `width` values.

    sources, targets: int64[e], nodes of each edge, never on the same worker; owner: int32[nodes].
    Host-based: a source is sent once to each distinct worker of its targets. in_switch: workers' partial
    sums are added by a switch (presum), in one block, targets in random order. Nodes without an edge are
    left out; the plan's `boundary` lists the others, ascending.
    """
    nodes = np.unique(np.concatenate([sources, targets]))
    first, second = np.searchsorted(nodes, sources), np.searchsorted(nodes, targets)
    count = len(nodes)
    none = np.zeros(0, dtype=np.int32)
    if in_switch:
        order = np.random.default_rng([seed, 43]).permutation(count)
        slot = np.empty(count, dtype=np.int64)
        slot[order] = np.arange(count)
        ptr, adj = _csr(slot[second], slot[first], count)
        arrays = {
            "block_level": np.zeros(1, dtype=np.int32), "block_ptr": np.array([0, count], dtype=np.int64),
            "block_vertices": order.astype(np.int32), "adj_ptr": ptr, "adj": adj,
            "residual_ptr": np.zeros(count + 1, dtype=np.int64), "residual_adj": none,
        }  # fmt: skip
    else:
        ptr, adj = _csr(first, second, count)
        zero = np.zeros(1, dtype=np.int64)
        arrays = {
            "block_level": none, "block_ptr": zero, "block_vertices": none.copy(), "adj_ptr": zero.copy(),
            "adj": none.copy(), "residual_ptr": ptr, "residual_adj": adj,
        }  # fmt: skip
    held = owner[nodes].astype(np.int32)
    return freeze_plan(
        num_workers=workers, width=width, values_per_packet=values_per_packet,
        chunks=-(-width // values_per_packet), aggregators=0, memory_bytes=0, aggregator_bytes=0,
        per_vertex_bytes=0, per_edge_bytes=0, order="random", blocks_mode="single" if in_switch else "none",
        residual_mode="none", seed=seed, graph_name=name,
        graph_digest=hashlib.sha256(np.stack([sources, targets]).tobytes()).hexdigest(),
        partition_digest=hashlib.sha256(held.tobytes()).hexdigest(),
        boundary=nodes.astype(np.int32), owner=held, **arrays,
    )  # fmt: skip


def _csr(rows: Ids, columns: Ids, n: int) -> tuple[Ids, npt.NDArray[np.int32]]:
    order = np.lexsort((columns, rows))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    return ptr, columns[order].astype(np.int32)
