"""DGL's Reddit: reddit_graph.npz (a scipy sparse matrix) and reddit_data.npz (feature, label, node_types)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workloads.errors import InputError
from workloads.graphs.formats.arrays import feature_matrix, label_vector, scipy_sparse
from workloads.graphs.formats.npz import read_npz
from workloads.graphs.graph import Graph, Provenance, make_graph

# DGL numbers the parts 1 (training), 2 (validation), 3 (test).
_FIRST_PART, _LAST_PART = 1, 3
GRAPHS = ("reddit_graph.npz", "reddit_self_loop_graph.npz")


def files(path: Path) -> list[Path]:
    """The two files that `read` reads. Raises InputError when one is missing."""
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    data = path / "reddit_data.npz"
    if graph is None or not data.is_file():
        raise InputError(f"{path}: needs reddit_graph.npz and reddit_data.npz, as DGL unpacks reddit.zip")
    return [graph, data]


def read(path: Path) -> Graph:
    """Read DGL's Reddit from its folder. Raises InputError."""
    graph, data = files(path)
    csr = scipy_sparse(graph)
    n = len(csr[0]) - 1
    arrays = read_npz(data, {"feature": True, "label": True, "node_types": True})
    features = feature_matrix(f"{data}: array 'feature'", arrays.pop("feature"), n)
    labels = label_vector(f"{data}: array 'label'", arrays["label"], n)
    types = label_vector(f"{data}: array 'node_types'", arrays["node_types"], n)
    if types.min() < _FIRST_PART or types.max() > _LAST_PART:
        raise InputError(f"{data}: array 'node_types': {types.min()}..{types.max()}, allowed is 1..3")
    return make_graph(
        path.resolve().name,
        csr,
        Provenance("real", f"DGL Reddit files {graph.name}, {data.name}"),
        feature_width=features.shape[1],
        num_classes=int(labels.max()) + 1,
        features=features,
        labels=labels,
        split=(types - 1).astype(np.int8),
    )
