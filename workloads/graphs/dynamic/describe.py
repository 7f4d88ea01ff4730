"""What a dynamic graph looks like, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.graphs.dynamic.graph import DynamicGraph


def describe(graph: DynamicGraph) -> dict[str, Any]:
    """One flat dict of JSON-able values for `netfold dynamic info`."""
    edges = graph.snapshot_edges
    arrived = np.array([len(pairs) for pairs in graph.arrivals])
    keys = np.concatenate(graph.arrivals).astype(np.int64)
    distinct = len(np.unique(keys[:, 0] * graph.num_vertices + keys[:, 1]))
    labelled = None
    if graph.task == "classification" and graph.targets is not None:
        labelled = np.bincount(graph.targets[graph.targets >= 0], minlength=graph.num_classes).tolist()
    return {
        "name": graph.name,
        "vertices": graph.num_vertices,
        "snapshots": graph.num_snapshots,
        "lifetime": graph.lifetime,
        "window": graph.window,
        "windows": graph.num_windows,
        "directed_edges_mean": float(edges.mean()),
        "directed_edges_most": int(edges.max()),
        "arrivals": int(arrived.sum()),
        "distinct_edges": distinct,
        "seen_again": float(arrived.sum() / max(1, distinct)),
        "feature_width": graph.feature_width,
        "task": graph.task,
        "target_width": graph.target_width,
        "labels": labelled,
        "train_snapshots": graph.train_end,
        "validation_snapshots": graph.val_end - graph.train_end,
        "test_snapshots": graph.num_snapshots - graph.val_end,
        "provenance_kind": graph.provenance.kind,
        "provenance_source": graph.provenance.source,
        "provenance_seed": graph.provenance.seed,
        "provenance_notes": graph.provenance.notes,
        "digest": graph.digest,
    }


def sizes(graph: DynamicGraph) -> list[dict[str, int]]:
    """One row per snapshot: what arrived, what is alive, vertices with an edge, bytes of its arrays."""
    return [
        {
            "snapshot": t,
            "arrivals": len(graph.arrivals[t]),
            "directed_edges": len(graph.indices[t]),
            "vertices_with_edges": int((np.diff(graph.indptr[t]) > 0).sum()),
            "bytes": graph.indptr[t].nbytes + graph.indices[t].nbytes + graph.features[t].nbytes,
        }
        for t in range(graph.num_snapshots)
    ]
