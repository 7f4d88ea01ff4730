"""A graph as a folder of .npy files and graph.json: the cache entry, and what `netfold graph convert` writes.

The arrays are memory-mapped on loading. Checksums (CRC-32) find damage; they cost 0.1 s for half a gigabyte.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.cache import new_folder
from workloads.errors import InputError
from workloads.graphs.formats.npz import read_npy
from workloads.graphs.formats.stream import readable
from workloads.graphs.graph import Graph, Provenance

FORMAT = 1
_TYPES: dict[str, type[np.generic]] = {
    "indptr": np.int64, "indices": np.int32, "features": np.float32, "labels": np.int32, "split": np.int8
}  # fmt: skip
_STEP = 1 << 26
_MAX_JSON_BYTES = 1 << 20


def _crc(array: npt.NDArray[Any]) -> int:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    crc = 0
    for start in range(0, len(data), _STEP):
        crc = zlib.crc32(data[start : start + _STEP], crc)
    return crc


def save_graph(graph: Graph, folder: Path) -> None:
    """Write the graph to `folder`, whole or not at all. Raises InputError when it cannot be written."""
    arrays = {name: array for name in _TYPES if (array := getattr(graph, name)) is not None}
    about = {
        "format": FORMAT,
        "name": graph.name,
        "feature_width": graph.feature_width,
        "num_classes": graph.num_classes,
        "digest": graph.digest,
        "provenance": vars(graph.provenance),
        "crc32": {name: _crc(array) for name, array in arrays.items()},
    }
    with new_folder(folder) as work:
        for name, array in arrays.items():
            np.save(work / f"{name}.npy", array, allow_pickle=False)
        (work / "graph.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _field(about: dict[str, Any], where: str, name: str, kind: type) -> Any:
    value = about.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{where}: {name!r} is {str(value)[:40]!r}, expected {kind.__name__}")
    return value


def read_about(where: Path, version: int, what: str) -> dict[str, Any]:
    """The JSON beside a saved graph's arrays. Raises InputError unless it is a `what`'s in that version."""
    with readable(where):
        if where.stat().st_size > _MAX_JSON_BYTES:
            raise InputError(f"{where}: larger than {_MAX_JSON_BYTES} bytes")
        text = where.read_bytes()
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    if not isinstance(about, dict) or about.get("format") != version:
        raise InputError(f"{where}: not a {what} of format {version}")
    return about


def load_saved(folder: Path) -> Graph:
    """The graph that `save_graph` wrote, memory-mapped. Raises InputError when any of it is damaged.

    That the arrays form a simple symmetric graph is vouched for by the checksums, not checked again.
    """
    where = str(folder / "graph.json")
    about = read_about(folder / "graph.json", FORMAT, "saved graph")
    checksums = _field(about, where, "crc32", dict)
    origin = _field(about, where, "provenance", dict)
    kind, source, notes = (_field(origin, where, key, str) for key in ("kind", "source", "notes"))
    seed = origin.get("seed")
    if kind not in ("real", "synthetic stand-in", "generated") or not (seed is None or type(seed) is int):
        raise InputError(f"{where}: provenance kind {kind[:40]!r} with seed {str(seed)[:40]!r}")
    arrays: dict[str, Any] = dict.fromkeys(_TYPES)
    for name, expected in _TYPES.items():
        if name in checksums or name in ("indptr", "indices"):
            array = read_npy(folder / f"{name}.npy")
            if array.dtype != expected or not array.flags.c_contiguous or array.ndim not in (1, 2):
                raise InputError(
                    f"{folder}/{name}.npy: {array.dtype}{array.shape}, expected {np.dtype(expected)}"
                )
            if _crc(array) != checksums.get(name):
                raise InputError(f"{folder}/{name}.npy: damaged (its checksum differs from graph.json)")
            arrays[name] = array
    n = len(arrays["indptr"]) - 1
    width, classes = (_field(about, where, key, int) for key in ("feature_width", "num_classes"))
    allowed: dict[str, set[tuple[int, ...]]] = {
        "indptr": {(n + 1,)},
        "indices": {(arrays["indices"].size,)},
        "features": {(n, width)},
        "labels": {(n,), (n, classes)},
        "split": {(n,)},
    }
    for name, array in arrays.items():
        if array is not None and array.shape not in allowed[name]:
            raise InputError(f"{folder}/{name}.npy: shape {array.shape} does not fit {n} vertices")
    if n < 0 or width < 0 or classes < 0 or int(arrays["indptr"][-1]) != len(arrays["indices"]):
        raise InputError(f"{folder}: indptr and indices do not belong together, or a width is negative")
    return Graph(
        name=_field(about, where, "name", str),
        feature_width=width,
        num_classes=classes,
        provenance=Provenance(kind, source, seed, notes),
        digest=_field(about, where, "digest", str),
        **arrays,
    )
