"""Multi-level blocks: split the boundary graph until every part fits, then the cut edges, until none is
left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.plan.capacity import Capacity
from workloads.plan.plan import BlocksMode, Order
from workloads.plan.split import LevelSplitter
from workloads.plan.traffic import ByteModel

ORDER_MODES: dict[Order, int] = {"gamr": 0, "degree": 1, "random": 2}


@dataclass(frozen=True)
class Rest:
    """The cross edges not yet in a block, in CSR over the vertices that still have one.

    vertices: int32[c] boundary indices, ascending; ptr: int64[c+1]; adj: int32[] positions in `vertices`.
    """

    vertices: npt.NDArray[np.int32]
    ptr: npt.NDArray[np.int64]
    adj: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Level:
    """The blocks of one level: boundary indices in upload order, and each block's adjacency by slots."""

    vertices: npt.NDArray[np.int32]
    block_ptr: npt.NDArray[np.int64]
    adj_ptr: npt.NDArray[np.int64]
    adj: npt.NDArray[np.int32]


def build_levels(
    rest: Rest,
    owner: npt.NDArray[np.int32],
    num_workers: int,
    *,
    blocks: BlocksMode,
    capacity: Capacity,
    order: Order,
    host_model: ByteModel | None,
    seed: int,
    progress: Callable[[str], None] | None,
) -> tuple[list[Level], Rest]:
    """Blocks level by level, and the cross edges left for host-based sending.

    With `host_model`, the recursion stops where what is left moves fewer bytes host-based than by any number
    of further levels: of all L, the one with the smallest (bytes of levels before L) + (host-based bytes of
    what is left at L). The search ends when no continuation can be better, since each vertex that still has
    an edge must be uploaded or sent at least once more; it sees some levels more than it keeps.
    """
    if blocks == "none":
        return [], rest
    levels: list[Level] = []
    splitter = LevelSplitter(capacity)
    best, best_bytes, spent = (0, rest), float("inf"), 0
    while len(rest.adj):
        if host_model is not None:
            sends = len(_kernels.distinct_owners(rest.ptr, rest.adj, owner[rest.vertices], num_workers)[1])
            total = spent + host_model.host_bytes(sends)
            if total < best_bytes:
                best, best_bytes = (len(levels), rest), total
            if spent + host_model.least_bytes(len(rest.vertices)) >= best_bytes:
                break
        level_seed = seed * 1_000_003 + len(levels)
        if blocks == "single" or capacity.fits(len(rest.vertices), len(rest.adj)):
            labels, parts = np.zeros(len(rest.vertices), dtype=np.int32), 1
        else:
            labels, parts = splitter.split(rest.ptr, rest.adj, level_seed)
        edges_before = len(rest.adj)
        level, rest = cut_level(rest, labels, parts, order, level_seed)
        levels.append(level)
        if host_model is not None:
            spent += host_model.in_network_bytes(len(level.vertices))
        if progress is not None:
            progress(
                f"level {len(levels) - 1}: {len(level.block_ptr) - 1} blocks, {len(level.vertices)} uploads, "
                f"{len(level.adj)} of {edges_before} directed edges"
            )
    if host_model is not None and (len(rest.adj) or spent >= best_bytes):
        return levels[: best[0]], best[1]
    return levels, rest


def cut_level(
    rest: Rest, labels: npt.NDArray[np.int32], parts: int, order: Order, seed: int
) -> tuple[Level, Rest]:
    """Turn a split into the level's blocks and the graph of the cut edges."""
    kept = _kernels.kept_degrees(rest.ptr, rest.adj, labels)
    uploads, block_ptr = _kernels.order_blocks(
        rest.ptr, rest.adj, labels, kept, parts, ORDER_MODES[order], seed
    )
    adj_ptr, adj = _kernels.emit_blocks(rest.ptr, rest.adj, labels, kept, uploads, block_ptr)
    vertices, ptr, cut = _kernels.cut_graph(rest.ptr, rest.adj, labels, kept)
    level = Level(rest.vertices[uploads], block_ptr, adj_ptr, adj)
    return level, Rest(rest.vertices[vertices], ptr, cut)


def join_levels(levels: list[Level], left: Rest, num_boundary: int) -> dict[str, Any]:
    """The plan's block and residual arrays, by name. Empties `levels` as it goes, to hold the edges once."""
    block_level = np.repeat(
        np.arange(len(levels), dtype=np.int32), [len(level.block_ptr) - 1 for level in levels]
    )
    block_vertices = np.concatenate([np.empty(0, np.int32), *(level.vertices for level in levels)])
    block_ptr = _join_pointers([level.block_ptr for level in levels])
    adj_ptr = _join_pointers([level.adj_ptr for level in levels])
    adj = np.empty(adj_ptr[-1], dtype=np.int32)
    end = len(adj)
    while levels:
        last = levels.pop().adj
        adj[end - len(last) : end] = last
        end -= len(last)
    counts = np.zeros(num_boundary + 1, dtype=np.int64)
    counts[left.vertices.astype(np.int64) + 1] = np.diff(left.ptr)
    return {
        "block_level": block_level.astype(np.int32),
        "block_ptr": block_ptr,
        "block_vertices": block_vertices,
        "adj_ptr": adj_ptr,
        "adj": adj,
        "residual_ptr": np.cumsum(counts),
        "residual_adj": left.vertices[left.adj],
    }


def _join_pointers(pointers: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """One pointer array for ragged arrays laid end to end."""
    sizes = [np.diff(pointer) for pointer in pointers]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([np.empty(0, np.int64), *sizes]))])
