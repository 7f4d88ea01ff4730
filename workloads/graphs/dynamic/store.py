"""A dynamic graph as a folder of .npy files and dynamic.json: the cache entry, and what `convert` writes.

Snapshots follow from the arrivals and are merged again on loading; the digest vouches for all of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from workloads.cache import cache_root, new_folder
from workloads.errors import InputError
from workloads.graphs.dynamic.graph import TASKS, DynamicGraph, make_dynamic_graph
from workloads.graphs.formats.npz import read_npy
from workloads.graphs.graph import Provenance
from workloads.graphs.store import read_about

FORMAT = 1
_FIELDS = {
    "name": str,
    "vertices": int,
    "lifetime": int,
    "window": int,
    "task": str,
    "num_classes": int,
    "digest": str,
}


def save_dynamic(graph: DynamicGraph, folder: Path) -> None:
    """Write the graph to `folder`, whole or not at all. Raises InputError when it cannot be written."""
    if folder.exists() and not (folder / "dynamic.json").is_file():
        raise InputError(f"{folder}: exists and is not a saved dynamic graph; name another folder")
    about = {name: getattr(graph, name) for name in _FIELDS if name != "vertices"}
    about |= {"format": FORMAT, "vertices": graph.num_vertices, "provenance": vars(graph.provenance)}
    starts = np.concatenate([[0], np.cumsum([len(edges) for edges in graph.arrivals])])
    with new_folder(folder) as work:
        np.save(work / "arrivals.npy", np.concatenate(graph.arrivals), allow_pickle=False)
        np.save(work / "starts.npy", starts.astype(np.int64), allow_pickle=False)
        np.save(work / "features.npy", graph.features, allow_pickle=False)
        if graph.targets is not None:
            np.save(work / "targets.npy", graph.targets, allow_pickle=False)
        (work / "dynamic.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def load_dynamic(folder: Path) -> DynamicGraph:
    """The graph that `save_dynamic` wrote. Raises InputError when any of it is damaged."""
    where = folder / "dynamic.json"
    about = read_about(where, FORMAT, "saved dynamic graph")
    for name, kind in _FIELDS.items():
        if type(about.get(name)) is not kind:
            raise InputError(f"{where}: {name!r} is {str(about.get(name))[:40]!r}, expected {kind.__name__}")
    origin: Any = about.get("provenance")
    try:
        provenance = Provenance(**origin)
        hash(provenance)
    except TypeError:
        raise InputError(f"{where}: provenance is {str(origin)[:40]!r}") from None
    arrivals, starts = read_npy(folder / "arrivals.npy"), read_npy(folder / "starts.npy")
    features = read_npy(folder / "features.npy")
    targets = read_npy(folder / "targets.npy") if (folder / "targets.npy").is_file() else None
    n, count = about["vertices"], len(starts) - 1
    kinds = {"regression": np.float32, "classification": np.int64}
    fits = (
        arrivals.dtype == np.int32 and arrivals.ndim == 2 and arrivals.shape[1] == 2
        and starts.dtype == np.int64 and starts.ndim == 1 and count >= 1
        and starts[0] == 0 and starts[-1] == len(arrivals) and bool((np.diff(starts) >= 0).all())
        and features.dtype == np.float32 and features.ndim == 3 and features.shape[:2] == (count, n)
        and about["task"] in TASKS and (targets is None) == (about["task"] == "link")
        and (targets is None or (targets.dtype == kinds[about["task"]] and targets.shape[:2] == (count, n)))
        and (targets is None or targets.ndim == (3 if about["task"] == "regression" else 2))
    )  # fmt: skip
    if not fits:
        raise InputError(f"{folder}: its arrays do not belong together; is it damaged?")
    parts = [np.ascontiguousarray(arrivals[a:b]) for a, b in pairwise(starts)]
    if len(arrivals) and not 0 <= int(arrivals.min()) <= int(arrivals.max()) < n:
        raise InputError(f"{folder}/arrivals.npy: a vertex outside 0..{n - 1}")
    graph = make_dynamic_graph(
        about["name"], n, parts, provenance, lifetime=about["lifetime"], window=about["window"],
        features=np.array(features), task=about["task"], num_classes=about["num_classes"],
        targets=None if targets is None else np.array(targets),
    )  # fmt: skip
    if graph.digest != about["digest"]:
        raise InputError(f"{folder}: its content does not have the digest that dynamic.json states")
    return graph


def cached_dynamic(cache: Path | None, key: Sequence[Any], make: Callable[[], DynamicGraph]) -> DynamicGraph:
    """The graph of this key from the cache where it is there and whole, else made and kept."""
    address = sha256(json.dumps([FORMAT, *key]).encode()).hexdigest()[:32]
    folder = cache_root(cache) / "dynamic" / address
    if folder.is_dir():
        try:
            return load_dynamic(folder)
        except InputError as damage:
            print(f"netfold: cached dynamic graph is damaged and made again: {damage}", file=sys.stderr)
    graph = make()
    try:
        save_dynamic(graph, folder)
    except InputError as error:
        print(f"netfold: dynamic graph is not cached: {error}", file=sys.stderr)
    return graph
