"""Small real graphs with labels, for tests and benches."""

from __future__ import annotations

import numpy as np

from workloads.graphs import Graph, Provenance
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import make_graph


def connected_part(graph: Graph, count: int) -> Graph:
    """The subgraph of the first `count` vertices met from the one of highest degree, breadth first."""
    start = int(np.argmax(graph.degrees))
    seen, order, at = {start}, [start], 0
    while len(order) < count:
        for v in graph.indices[graph.indptr[order[at]] : graph.indptr[order[at] + 1]][:12].tolist():
            if v not in seen and len(order) < count:
                seen.add(v)
                order.append(v)
        at += 1
    chosen = np.sort(np.array(order))
    number = np.full(graph.num_vertices, -1, dtype=np.int64)
    number[chosen] = np.arange(count)
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    source, target = number[rows], number[graph.indices]
    inside = (source >= 0) & (target >= 0)
    return make_graph(
        f"{graph.name}:{count}",
        build_csr(count, source[inside].astype(np.int32), target[inside].astype(np.int32)),
        Provenance("real", f"{graph.provenance.source}, {count} connected vertices"),
        feature_width=graph.feature_width,
        num_classes=graph.num_classes,
        features=graph.features[chosen].copy(),
        labels=graph.labels[chosen].copy(),
    )


def handwritten_digits(neighbours: int = 8, *, every: int = 1) -> Graph:
    """Every so many of scikit-learn's 1,797 handwritten digits, each joined to its nearest ones."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    loaded = load_digits()
    data, labels = loaded.data[::every], loaded.target[::every]
    near = kneighbors_graph(data, neighbours).tocoo()
    return make_graph(
        "digits",
        build_csr(len(labels), near.row.astype(np.int32), near.col.astype(np.int32)),
        Provenance("real", f"scikit-learn digits, {neighbours} nearest neighbours"),
        feature_width=64,
        num_classes=10,
        features=(data / 16).astype(np.float32),
        labels=labels.astype(np.int32),
    )
