"""`load_graph`: from what a user names (a built-in, a generated shape, a file) to a `Graph`."""

from __future__ import annotations

import difflib
import os
from dataclasses import asdict
from pathlib import Path

from workloads.errors import InputError
from workloads.graphs import builtin, debian_snapshot, planted, standins
from workloads.graphs.cache import cached, file_hash
from workloads.graphs.formats.registry import FORMATS, recognise
from workloads.graphs.graph import Graph
from workloads.graphs.progress import shown

SHAPES = {
    "star": ("star:N", "a star of N vertices"),
    "ring": ("ring:N", "a ring of N vertices"),
    "rmat": (
        "rmat:SCALE[:EDGEFACTOR]",
        "R-MAT with 2^SCALE vertices and EDGEFACTOR (16) edges drawn per vertex",
    ),
    "planted": (
        "planted:N[:CLASSES]",
        "N vertices in CLASSES (10) planted communities, with labels and noisy features to train on",
    ),
}
DEBIAN = "the dependency graph of the Debian release that ships with netfold"


def catalogue() -> list[tuple[str, str, str]]:
    """(name, kind, what it is) of everything that can be named without a file."""
    rows = [("debian", "real", DEBIAN)]
    for name, shape in standins.shapes().items():
        what = f"{shape.vertices:,} vertices, {shape.directed_edges:,} directed edges"
        rows.append((name, "synthetic stand-in", what))
    rows += [(form, "generated", what) for form, what in SHAPES.values()]
    rows += [(name, "real", what) for name, (_, what) in builtin.NETWORKX.items()]
    return rows


def load_graph(
    source: str, *, scale: float = 1.0, seed: int = 1, cache: Path | None = None, features: bool = False
) -> Graph:
    """Load or generate a graph.

    source: a name (`netfold graph list` shows them), a shape such as `star:100` or `rmat:14:16`, or the path
    of a file or folder, whose format is recognised; `format:path` forces one. scale: share of the published
    vertex count, for stand-ins only. seed: for stand-ins and rmat, 0..2^63-1. features: make features for a
    stand-in too, not only declare their width. cache: folder of cached graphs (default $NETFOLD_CACHE, then
    ~/.cache/netfold). Raises InputError, also when the graph does not fit in memory.
    """
    try:
        return _load(source, scale, seed, cache, features)
    except MemoryError:
        raise InputError(f"graph {source[:80]!r}: needs more memory than this machine has") from None


def _load(source: str, scale: float, seed: int, cache: Path | None, features: bool) -> Graph:
    if not 0 <= seed < 2**63:
        raise InputError(f"seed: {seed}, allowed is 0..{2**63 - 1}")
    if source in standins.shapes():
        return _stand_in(source, scale, seed, features, cache)
    if scale != 1.0:
        raise InputError(
            f"scale: {scale:g} for graph {source[:80]!r}, allowed only for {', '.join(standins.shapes())}"
        )
    if source == "debian":
        return debian_snapshot.load_snapshot()
    if source in builtin.NETWORKX:
        return builtin.from_networkx(source)
    kind, colon, rest = source.partition(":")
    if kind in FORMATS and colon:
        return _from_file(kind, Path(rest), cache)
    if kind in SHAPES and (colon or not os.path.exists(source)):
        return _shape(source, kind, rest, seed, cache)
    if os.path.exists(source):
        return _from_file(recognise(Path(source)), Path(source), cache)
    raise InputError(_unknown(source))


def _stand_in(name: str, scale: float, seed: int, features: bool, folder: Path | None) -> Graph:
    def make() -> Graph:
        with shown(f"generating the stand-in for {name}") as progress:
            return standins.stand_in(name, scale=scale, seed=seed, features=features, progress=progress)

    shape = asdict(standins.shapes()[name])
    return cached(
        folder, ["stand-in", standins.GENERATOR_VERSION, name, shape, scale, seed, _made(features)], make
    )


def _made(features: bool) -> bool | str:
    """What of a stand-in is made beyond its edges, for the cache: with features, labels in any case."""
    return "features and labels" if features else False


def _shape(source: str, kind: str, rest: str, seed: int, folder: Path | None) -> Graph:
    if kind == "star":
        return builtin.star(source, rest)
    if kind == "ring":
        return builtin.ring(source, rest)
    if kind == "planted":
        return planted.planted(source, rest, seed)
    scale, edge_factor = builtin.rmat_sizes(source, rest)

    def make() -> Graph:
        with shown("generating R-MAT") as progress:
            return builtin.rmat(scale, edge_factor, seed, progress)

    return cached(folder, ["rmat", standins.GENERATOR_VERSION, scale, edge_factor, seed], make)


def _from_file(kind: str, path: Path, folder: Path | None) -> Graph:
    form = FORMATS[kind]
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")
    if not form.cached:
        return form.read(path)
    files = form.files(path)
    names = [file.name for file in files]
    with shown(f"reading {path}"):
        key = ["file", kind, path.resolve().name, names, [file_hash(file) for file in files]]
        return cached(folder, key, lambda: form.read(path))


def _unknown(source: str) -> str:
    names = [name for name, _, _ in catalogue()]
    close = difflib.get_close_matches(source, [*names, *SHAPES], 3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    allowed = ", ".join((*names, "a path", "FORMAT:path"))
    return f"graph {source[:80]!r}: no such name, file or folder{hint}; allowed are {allowed}"
