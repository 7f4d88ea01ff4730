"""`load_graph`: from what a user names (a built-in, a generated shape, a file) to a `Graph`."""

from __future__ import annotations

import difflib
from pathlib import Path

from workloads.errors import InputError
from workloads.graphs import builtin, debian_snapshot
from workloads.graphs.graph import Graph

NAMED = ("debian", *builtin.NETWORKX)
SHAPES = {"star": builtin.star, "ring": builtin.ring}


def load_graph(source: str, *, scale: float = 1.0, seed: int = 1, cache: Path | None = None) -> Graph:
    """Load or generate a graph.

    source: a name (`netfold graph list` shows them), a shape such as `star:100` or `rmat:14:16`, or the path of
    a file or folder, whose format is recognised; `format:path` forces one. scale: share of the published vertex
    count, for stand-ins. seed: for stand-ins and rmat. cache: folder of cached graphs (default $NETFOLD_CACHE,
    then ~/.cache/netfold). Raises InputError.
    """
    kind, _, rest = source.partition(":")
    if source == "debian":
        return debian_snapshot.load_snapshot()
    if source in builtin.NETWORKX:
        return builtin.from_networkx(source)
    if kind in SHAPES and rest:
        return SHAPES[kind](source, rest)
    close = difflib.get_close_matches(source, NAMED, 3)
    raise InputError(
        f"graph {source!r}: no such name or file"
        + (f"; did you mean {' or '.join(close)}?" if close else "")
        + f"; allowed are {', '.join((*NAMED, *(f'{shape}:N' for shape in SHAPES)))} or a path"
    )
