"""The shape of a plan: levels, blocks, uploads and bytes, and how they compare with host-based sending."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.plan.derived import count_all_host_sends, host_sends
from workloads.plan.plan import Plan
from workloads.plan.traffic import ByteModel


def plan_shape(plan: Plan) -> dict[str, Any]:
    """A JSON-able dict. Bytes are on hosts' links in both directions, by `workloads.plan.traffic.ByteModel`.

    levels: per level its blocks, block vertices (min, mean, max), uploads (results are as many), directed
    edges, share of the edges it found left, and bytes. host_bytes is what sending everything host-based
    would move; bytes_ratio = plan bytes / host bytes.
    """
    model = ByteModel(plan.width, plan.values_per_packet)
    sizes = np.diff(plan.block_ptr)
    edges = np.diff(plan.adj_ptr[plan.block_ptr])
    levels = []
    left = len(plan.adj) + len(plan.residual_adj)
    total_edges = left
    for level in range(int(plan.block_level.max(initial=-1)) + 1):
        here = plan.block_level == level
        uploads, inside = int(sizes[here].sum()), int(edges[here].sum())
        levels.append(
            {
                "level": level,
                "blocks": int(here.sum()),
                "vertices_min": int(sizes[here].min()),
                "vertices_mean": float(sizes[here].mean()),
                "vertices_max": int(sizes[here].max()),
                "uploads": uploads,
                "edges": inside,
                "edges_share_of_left": inside / left,
                "bytes": model.in_network_bytes(uploads),
            }
        )
        left -= inside
    sends = len(host_sends(plan).send_workers)
    host = count_all_host_sends(plan)
    host_bytes = model.host_bytes(host)
    in_network = model.in_network_bytes(plan.num_uploads)
    residual = model.host_bytes(sends)
    nb = plan.num_boundary
    return {
        "graph": plan.graph_name,
        "workers": plan.num_workers,
        "width": plan.width,
        "chunks": plan.chunks,
        "aggregators": plan.aggregators,
        "memory_bytes": plan.memory_bytes,
        "per_vertex_bytes": plan.per_vertex_bytes,
        "per_edge_bytes": plan.per_edge_bytes,
        "order": plan.order,
        "blocks_mode": plan.blocks_mode,
        "residual_mode": plan.residual_mode,
        "seed": plan.seed,
        "boundary_vertices": nb,
        "cross_edges": total_edges,
        "isolated_workers": int((np.bincount(plan.owner, minlength=plan.num_workers) == 0).sum()),
        "num_levels": len(levels),
        "num_blocks": plan.num_blocks,
        "uploads": plan.num_uploads,
        "uploads_per_boundary_vertex": plan.num_uploads / max(1, nb),
        "passes": len(plan.adj) * plan.chunks,
        "residual_edges": len(plan.residual_adj),
        "residual_sends": sends,
        "host_sends": host,
        "replication_factor": host / max(1, nb),
        "in_network_bytes": in_network,
        "residual_bytes": residual,
        "total_bytes": in_network + residual,
        "host_bytes": host_bytes,
        "bytes_ratio": (in_network + residual) / host_bytes if host_bytes else 1.0,
        "digest": plan.digest,
        "levels": levels,
    }
