"""Making a plan from a partitioned graph: the boundary graph, its blocks level by level, and the residual."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.partition.make import MAX_SEED
from workloads.partition.partition import Partition
from workloads.plan.blocks import Rest, build_levels, join_levels
from workloads.plan.capacity import (
    AGGREGATOR_BYTES,
    PAPER_ACCOUNTING,
    VALUES_PER_PACKET,
    block_capacity,
    require_room_for_an_edge,
)
from workloads.plan.plan import BlocksMode, Order, Plan, ResidualMode, freeze_plan
from workloads.plan.store import keep_plan, kept_plan, plan_folder
from workloads.plan.traffic import ByteModel

MAX_WIDTH = 1 << 20
Progress = Callable[[str], None]


def make_plan(
    graph: Graph,
    partition: Partition,
    *,
    width: int,
    memory_bytes: int | None,
    blocks: BlocksMode = "multilevel",
    order: Order = "gamr",
    residual: ResidualMode = "none",
    aggregator_bytes: int = AGGREGATOR_BYTES,
    per_vertex_bytes: int = PAPER_ACCOUNTING[0],
    per_edge_bytes: int = PAPER_ACCOUNTING[1],
    values_per_packet: int = VALUES_PER_PACKET,
    seed: int = 1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plan one propagation of vectors of `width` values. Equal arguments give equal plans.

    memory_bytes: the switch's budget for one block, None = unlimited; it also pays per_vertex_bytes and
    per_edge_bytes (see `workloads.plan.capacity`). blocks: "multilevel" as SwitchGNN (ATC'25); "single", one
    block with all boundary vertices whatever the memory, the strawman's; "none", everything host-based.
    order: the upload order within a block. residual: "host" stops the recursion where host-based sending of
    what is left moves fewer bytes. cache: folder for plans already made, see `workloads.cache.cache_root`.
    progress: told of each level in a line. Raises InputError for values out of range and for memory too
    small for two joined vertices.
    """
    _check_input(graph, partition)
    _check_numbers(width, memory_bytes, values_per_packet, aggregator_bytes)
    if min(per_vertex_bytes, per_edge_bytes) < 0:
        raise InputError(
            f"per-vertex and per-edge bytes: {per_vertex_bytes} and {per_edge_bytes} given; "
            "allowed: 0 or more"
        )
    if not 0 <= seed < MAX_SEED:
        raise InputError(f"seed: {seed} given; allowed: 0 to {MAX_SEED - 1}")
    for what, value, allowed in (
        ("blocks", blocks, BlocksMode),
        ("order", order, Order),
        ("residual", residual, ResidualMode),
    ):
        if value not in get_args(allowed):
            raise InputError(f"plan {what}: {value} is not known; allowed: {', '.join(get_args(allowed))}")
    chunks = -(-width // values_per_packet)
    capacity = block_capacity(
        memory_bytes,
        chunks,
        aggregator_bytes=aggregator_bytes,
        per_vertex_bytes=per_vertex_bytes,
        per_edge_bytes=per_edge_bytes,
    )
    if blocks == "multilevel":
        require_room_for_an_edge(capacity)
    # All that decides the result but the graph and the partition, which their digests stand for.
    scalars: dict[str, Any] = {
        "num_workers": partition.k,
        "width": width,
        "values_per_packet": values_per_packet,
        "chunks": chunks,
        "aggregators": capacity.aggregators,
        "memory_bytes": memory_bytes or 0,
        "aggregator_bytes": aggregator_bytes,
        "per_vertex_bytes": per_vertex_bytes,
        "per_edge_bytes": per_edge_bytes,
        "order": order,
        "blocks_mode": blocks,
        "residual_mode": residual,
        "seed": seed,
        "graph_name": graph.name,
        "graph_digest": graph.digest,
        "partition_digest": partition.digest,
    }
    folder = plan_folder(cache, repr(scalars))
    kept = kept_plan(folder)
    if kept is not None:
        return kept
    boundary, ptr, adj = _kernels.boundary_graph(graph.indptr, graph.indices, partition.parts)
    owner = partition.parts[boundary]
    levels, left = build_levels(
        Rest(np.arange(len(boundary), dtype=np.int32), ptr, adj),
        owner,
        partition.k,
        blocks=blocks,
        capacity=capacity,
        order=order,
        host_model=ByteModel(width, values_per_packet) if residual == "host" else None,
        seed=seed,
        progress=progress,
    )
    del ptr, adj  # the levels hold the edges now
    plan = freeze_plan(**scalars, boundary=boundary, owner=owner, **join_levels(levels, left, len(boundary)))
    if blocks == "multilevel":
        keep_plan(folder, plan)
    return plan


def _check_input(graph: Graph, partition: Partition) -> None:
    if graph.num_edges == 0:
        raise InputError(f"graph {graph.name}: it has no edges, so there is nothing to propagate")
    if len(partition.parts) != graph.num_vertices:
        raise InputError(
            f"partition: it has {len(partition.parts)} vertices, graph {graph.name} has {graph.num_vertices}"
        )


def _check_numbers(
    width: int, memory_bytes: int | None, values_per_packet: int, aggregator_bytes: int
) -> None:
    if not 1 <= width <= MAX_WIDTH:
        raise InputError(f"width: {width} values per vertex given; allowed: 1 to {MAX_WIDTH}")
    if not 1 <= values_per_packet <= 1024:
        raise InputError(f"values per packet: {values_per_packet} given; allowed: 1 to 1024")
    if aggregator_bytes < 1:
        raise InputError(f"aggregator bytes: {aggregator_bytes} given; allowed: 1 or more")
    if memory_bytes is not None and not 1 <= memory_bytes <= 1 << 50:
        raise InputError(f"switch memory: {memory_bytes} B given; allowed: 1 B to 1 PiB, or unlimited")
