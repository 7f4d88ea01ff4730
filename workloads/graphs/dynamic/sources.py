"""`load_dynamic_graph`: from what a user names to a `DynamicGraph`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import InputError
from workloads.graphs.cache import file_hash
from workloads.graphs.dynamic import contacts, social, traffic
from workloads.graphs.dynamic.graph import DynamicGraph, check_lifetime, make_dynamic_graph
from workloads.graphs.dynamic.store import cached_dynamic, load_dynamic
from workloads.graphs.dynamic.streams import (
    LIFETIME,
    READERS,
    SNAPSHOTS,
    WINDOW,
    cut_stream,
    read_stream,
    recognise_stream,
)
from workloads.graphs.graph import Provenance
from workloads.graphs.progress import shown


@dataclass(frozen=True)
class Generator:
    """A generated dynamic graph: its function (n, T, seed, lifetime, window), defaults and what it is."""

    make: Callable[[int, int, int, int, int], DynamicGraph]
    vertices: int
    snapshots: int
    lifetime: int
    window: int
    what: str


GENERATORS = {
    "traffic": Generator(
        traffic.traffic, 2000, 96, traffic.LIFETIME, traffic.WINDOW,
        "sensors along roads: regression, the speeds that follow",
    ),
    "contacts": Generator(
        contacts.contacts, 4000, 60, contacts.LIFETIME, contacts.WINDOW,
        "contacts with an infection: classification, infectious or not",
    ),
    "social": Generator(
        social.social, 4000, 60, social.LIFETIME, social.WINDOW, "a growing social graph: link prediction"
    ),
}  # fmt: skip
MOST_VERTICES, MOST_SNAPSHOTS = 1_000_000, 2_000
MOST_CELLS = 50_000_000  # vertices times snapshots: features and targets of ~20 values each


def catalogue() -> list[tuple[str, str]]:
    """(name, what it is) of everything that can be named without a file."""
    return [
        (f"{name}[:N[:T]]", f"{made.what} ({made.vertices:,} vertices, {made.snapshots} snapshots)")
        for name, made in GENERATORS.items()
    ]


def load_dynamic_graph(
    source: str,
    *,
    scale: float = 1.0,
    seed: int = 1,
    lifetime: int | None = None,
    window: int | None = None,
    snapshots: int | None = None,
    cache: Path | None = None,
) -> DynamicGraph:
    """Load or generate a dynamic graph.

    source: `traffic`, `contacts` or `social`, with sizes `traffic:N[:T]`, or the path of an edge stream or
    of a folder that `netfold dynamic convert` wrote; `format:path` forces a format. scale: share of the
    default number of vertices, for a generated graph without sizes. lifetime z and window Ns, in snapshots,
    and for streams the number of snapshots: the source's own where None. cache: folder of cached graphs
    (default $NETFOLD_CACHE, then ~/.cache/netfold). Raises InputError, also when the graph does not fit in
    memory.
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"seed: {seed}, allowed is 0..{2**63 - 1}")
    if lifetime is not None:
        check_lifetime(lifetime)  # before anything is generated or read with it
    asked = {"lifetime": lifetime, "window": window}
    kind, colon, rest = source.partition(":")
    try:
        if kind in GENERATORS and (colon or not os.path.exists(source)):
            if snapshots is not None:
                raise InputError(f"snapshots: given for {source[:80]!r}; write {kind}:N:T instead")
            return _generated(source, scale, seed, asked)
        if scale != 1.0:
            raise InputError(
                f"scale: {scale:g} for {source[:80]!r}; allowed only for {', '.join(GENERATORS)}"
            )
        if kind in READERS and colon:
            return _from_file(kind, Path(rest), asked, snapshots, cache)
        path = Path(source)
        if path.is_dir():
            return _saved(path, asked, snapshots)
        if os.path.exists(source):
            return _from_file(recognise_stream(path), path, asked, snapshots, cache)
    except MemoryError:
        raise InputError(f"dynamic graph {source[:80]!r}: needs more memory than this machine has") from None
    close = difflib.get_close_matches(kind, GENERATORS, 2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    names = ", ".join((*GENERATORS, "a path", "FORMAT:path"))
    raise InputError(
        f"dynamic graph {source[:80]!r}: no such name, file or folder{hint}; allowed are {names}"
    )


def _generated(source: str, scale: float, seed: int, asked: dict[str, int | None]) -> DynamicGraph:
    kind, colon, sizes = source.partition(":")
    made = GENERATORS[kind]
    if colon and scale != 1.0:
        raise InputError(f"scale: {scale:g} beside sizes in {source[:80]!r}; give one of them")
    if not 0 < scale <= 100:
        raise InputError(f"scale: {scale:g} given, allowed is more than 0 to 100")
    first, second_colon, second = sizes.partition(":")
    n = _whole(source, "vertices", first, MOST_VERTICES) if colon else round(made.vertices * scale)
    count = _whole(source, "snapshots", second, MOST_SNAPSHOTS) if second_colon else made.snapshots
    if n < 20 or count < 5 or n * count > MOST_CELLS:
        raise InputError(
            f"dynamic graph {source[:80]!r}: {n} vertices, {count} snapshots; allowed are 20 or more, 5 or "
            f"more, and together at most {MOST_CELLS} vertices times snapshots"
        )
    lifetime, window = asked["lifetime"], asked["window"]
    with shown(f"generating {kind}"):
        return made.make(
            n,
            count,
            seed,
            made.lifetime if lifetime is None else lifetime,
            min(made.window, count * 6 // 10) if window is None else window,
        )


def _from_file(
    kind: str, path: Path, asked: dict[str, int | None], snapshots: int | None, cache: Path | None
) -> DynamicGraph:
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file")
    count = SNAPSHOTS if snapshots is None else snapshots
    if not 5 <= count <= MOST_SNAPSHOTS:
        raise InputError(f"snapshots: {count} given; allowed: 5 to {MOST_SNAPSHOTS}")
    lifetime = LIFETIME if asked["lifetime"] is None else asked["lifetime"]
    window = min(WINDOW, count * 6 // 10) if asked["window"] is None else asked["window"]

    def make() -> DynamicGraph:
        name = path.name.removesuffix(".gz").removesuffix(".xz")
        notes = f"cut into {count} equal intervals of time; directions dropped"
        provenance = Provenance("real", f"{kind} {path.name}", notes=notes)
        return cut_stream(
            read_stream(kind, path), name, provenance, snapshots=count, lifetime=lifetime, window=window
        )

    with shown(f"reading {path}"):
        key = ["stream", kind, path.name, file_hash(path), count, lifetime, window]
        return cached_dynamic(cache, key, make)


def _saved(folder: Path, asked: dict[str, int | None], snapshots: int | None) -> DynamicGraph:
    if not (folder / "dynamic.json").is_file():
        raise InputError(f"{folder}: not a folder that `netfold dynamic convert` or `build-debian` wrote")
    if snapshots is not None:
        raise InputError(f"snapshots: given for {folder}, whose snapshots are cut already")
    graph = load_dynamic(folder)
    lifetime = graph.lifetime if asked["lifetime"] is None else asked["lifetime"]
    window = graph.window if asked["window"] is None else asked["window"]
    if (lifetime, window) == (graph.lifetime, graph.window):
        return graph
    return make_dynamic_graph(
        graph.name, graph.num_vertices, graph.arrivals, graph.provenance, lifetime=lifetime, window=window,
        features=graph.features, task=graph.task, targets=graph.targets, num_classes=graph.num_classes,
    )  # fmt: skip


def _whole(source: str, what: str, text: str, most: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not 1 <= value <= most:
        raise InputError(
            f"dynamic graph {source[:80]!r}: {what} {text[:40]!r}, allowed is a whole number 1..{most}"
        )
    return value
