"""The on-disk cache of graphs that cost something to make: read back memory-mapped, rebuilt when damaged."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from workloads.cache import cache_root
from workloads.errors import InputError
from workloads.graphs.formats.stream import readable
from workloads.graphs.graph import Graph
from workloads.graphs.store import load_saved, save_graph

# Raise it when a reader gives another graph for the same file, or the stored form changes.
CACHE_VERSION = 1


def file_hash(path: Path) -> str:
    """sha256 (hex) of a file's content: the key must change when the file does, whatever its times say."""
    with readable(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def entry(cache: Path | None, key: Sequence[object]) -> Path:
    """The folder of the entry that `key` (plain values) addresses."""
    text = json.dumps([CACHE_VERSION, *key], sort_keys=True)
    return cache_root(cache) / "graphs" / hashlib.sha256(text.encode()).hexdigest()[:32]


def cached(cache: Path | None, key: Sequence[object], make: Callable[[], Graph]) -> Graph:
    """The graph of this key: from the cache where it is there and whole, else made and kept.

    A cache that cannot be written costs a notice on stderr, not the graph. Two processes may make the same
    entry at once: each writes under a temporary name and renames it, and what is mapped stays valid.
    """
    folder = entry(cache, key)
    there = folder.is_dir()
    if there and (kept := _kept(folder)) is not None:
        return kept
    graph = make()
    if not there and folder.is_dir() and (kept := _kept(folder)) is not None:
        # Another process was faster.
        return kept
    try:
        save_graph(graph, folder)
        return load_saved(folder)
    except InputError as error:
        print(f"netfold: graph is not cached: {error}", file=sys.stderr)
        return graph


def _kept(folder: Path) -> Graph | None:
    try:
        return load_saved(folder)
    except InputError as damage:
        print(f"netfold: cached graph is damaged and made again: {damage}", file=sys.stderr)
        return None
