"""GraphSAINT's data sets (Flickr, Reddit, Yelp, Amazon): adj_full.npz, feats.npy, class_map.json, role.json.

adj_train.npz, where present, is the part of adj_full between training vertices; full-graph training needs it
not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.formats.arrays import feature_matrix, label_vector, scipy_sparse
from workloads.graphs.formats.npz import read_npy
from workloads.graphs.formats.stream import readable
from workloads.graphs.graph import Graph, Provenance, make_graph

_FILES = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
_ROLES = ("tr", "va", "te")


def files(path: Path) -> list[Path]:
    """The files that `read` reads. Raises InputError when one is missing."""
    missing = [name for name in _FILES if not (path / name).is_file()]
    if missing:
        raise InputError(f"{path}: lacks {', '.join(missing)}; a GraphSAINT data set has {', '.join(_FILES)}")
    return [path / name for name in _FILES]


def _json(path: Path) -> dict[str, Any]:
    try:
        with readable(path), path.open("rb") as stream:
            value = json.load(stream)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}, expected an object")
    return value


def _class_labels(path: Path, n: int) -> tuple[npt.NDArray[np.int32], int]:
    """int32[n] or int32[n, c] labels and the number of classes."""
    table = _json(path)
    if len(table) != n:
        raise InputError(f"{path}: {len(table)} vertices, adj_full.npz has {n}")
    sample = next(iter(table.values()))
    multi = isinstance(sample, list)
    width = len(sample) if multi else 0
    labels = np.full((n, width) if multi else n, -1, dtype=np.int32)
    seen = np.zeros(n, dtype=bool)
    for key, value in table.items():
        vertex = int(key) if key.isascii() and key.isdigit() and len(key) < 12 else -1
        if not 0 <= vertex < n or seen[vertex]:
            raise InputError(f"{path}: vertex {key[:40]!r}, expected each of 0..{n - 1} once")
        seen[vertex] = True
        if multi:
            if (
                not isinstance(value, list)
                or len(value) != width
                or any(type(x) is not int or x not in (0, 1) for x in value)
            ):
                raise InputError(f"{path}: vertex {vertex}: expected a list of {width} zeros and ones")
        elif type(value) is not int or not 0 <= value < n + 2**16:
            raise InputError(
                f"{path}: vertex {vertex}: class {str(value)[:40]}, allowed is 0..{n + 2**16 - 1}"
            )
        labels[vertex] = value
    if multi:
        return labels, width
    labels = label_vector(str(path), labels, n)
    return labels, int(labels.max()) + 1


def _split(path: Path, n: int) -> npt.NDArray[np.int8]:
    table = _json(path)
    split = np.full(n, -1, dtype=np.int8)
    for number, role in enumerate(_ROLES):
        ids = table.get(role)
        if not isinstance(ids, list):
            raise InputError(f"{path}: no list {role!r}; expected {', '.join(_ROLES)}")
        for vertex in ids:
            if type(vertex) is not int or not 0 <= vertex < n or split[vertex] >= 0:
                raise InputError(
                    f"{path}: {role!r} holds {str(vertex)[:40]}, expected vertices 0..{n - 1}, each once"
                )
            split[vertex] = number
    return split


def read(path: Path) -> Graph:
    """Read a GraphSAINT data set from its folder. Raises InputError."""
    adjacency, feats, class_map, role = files(path)
    csr = scipy_sparse(adjacency)
    n = len(csr[0]) - 1
    features = feature_matrix(str(feats), read_npy(feats), n)
    labels, classes = _class_labels(class_map, n)
    return make_graph(
        path.resolve().name,
        csr,
        Provenance("real", f"GraphSAINT files in {path.resolve().name}"),
        feature_width=features.shape[1],
        num_classes=classes,
        features=features,
        labels=labels,
        split=_split(role, n),
    )
