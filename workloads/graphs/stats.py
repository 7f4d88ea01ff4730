"""What a graph looks like: degrees, skew, components, and what is known of its vertices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from workloads.graphs.graph import Graph


def top_share(degrees: npt.NDArray[np.int64], share: float = 0.2) -> float:
    """The share of the edges at the `share` of vertices with the highest degrees (0 without edges)."""
    total = int(degrees.sum())
    top = int(np.ceil(share * len(degrees)))
    return (
        float(np.partition(degrees, len(degrees) - top)[len(degrees) - top :].sum() / total) if total else 0.0
    )


def gini(degrees: npt.NDArray[np.int64]) -> float:
    """Gini coefficient of the degrees: 0 all equal, towards 1 all at one vertex (0 without edges)."""
    n, total = len(degrees), int(degrees.sum())
    if not total:
        return 0.0
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return float((ranks * np.sort(degrees)).sum() / (n * total))


def describe(graph: Graph) -> dict[str, Any]:
    """A flat, JSON-able description of the graph (counts, degree statistics, arrays, provenance)."""
    n, degrees = graph.num_vertices, graph.degrees
    # scipy wants a weight per edge (one byte each) and 32-bit row starts, else it widens every index.
    small = graph.num_edges < 2**31
    starts = graph.indptr.astype(np.int32) if small else graph.indptr
    matrix = csr_array((np.ones(graph.num_edges, np.int8), graph.indices, starts), shape=(n, n))
    components, component = connected_components(matrix, directed=False)
    labelled = None if graph.labels is None else int((graph.labels.reshape(n, -1) >= 0).all(axis=1).sum())
    split = None
    if graph.split is not None:
        counts = np.bincount(graph.split.astype(np.int64) + 1, minlength=4)
        split = {
            "train": int(counts[1]),
            "valid": int(counts[2]),
            "test": int(counts[3]),
            "none": int(counts[0]),
        }
    return {
        "name": graph.name,
        "vertices": n,
        "directed_edges": graph.num_edges,
        "degree_mean": graph.num_edges / n,
        "degree_median": float(np.median(degrees)),
        "degree_min": int(degrees.min()),
        "degree_max": int(degrees.max()),
        "degree_gini": gini(degrees),
        "top_fifth_edge_share": top_share(degrees),
        "isolated_vertices": int((degrees == 0).sum()),
        "components": int(components),
        "largest_component": int(np.bincount(component).max()),
        "feature_width": graph.feature_width,
        "features_present": graph.features is not None,
        "num_classes": graph.num_classes,
        "labelled_vertices": labelled,
        "multi_label": graph.labels is not None and graph.labels.ndim == 2,
        "split": split,
        "provenance_kind": graph.provenance.kind,
        "provenance_source": graph.provenance.source,
        "provenance_seed": graph.provenance.seed,
        "provenance_notes": graph.provenance.notes,
        "digest": graph.digest,
    }
