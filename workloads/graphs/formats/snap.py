"""SNAP edge lists: two vertex ids a line (and perhaps one more number), `#` comments, ids of any size.

Ids are renumbered in ascending order, so a vertex without an edge does not exist here. Where a comment
declares `Edges: N` and fewer lines follow, the file is taken to be truncated.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.formats.rows import first_line, read_rows
from workloads.graphs.formats.stream import open_stream, readable
from workloads.graphs.graph import Graph, Provenance, make_graph

_COMMENT = "#%"
_MAX_COMMENT_LINES = 1000


def _declared_edges(path: Path) -> int | None:
    with open_stream(path) as stream, readable(path):
        for _ in range(_MAX_COMMENT_LINES):
            line = stream.readline(1 << 16)
            if not line.startswith(b"#"):
                return None
            if found := re.search(rb"Edges:\s*(\d{1,18})\b", line):
                return int(found.group(1))
    return None


def _renumber(chunks: list[npt.NDArray[np.int64]]) -> tuple[int, list[npt.NDArray[np.int32]]]:
    """Vertex count, and the chunks with ids replaced by their rank among all ids."""
    low = min(int(chunk.min()) for chunk in chunks)
    high = max(int(chunk.max()) for chunk in chunks)
    values = sum(chunk.size for chunk in chunks)
    if high - low < 8 * values + 1_000_000:
        used = np.zeros(high - low + 1, dtype=bool)
        for chunk in chunks:
            used[chunk - low] = True
        rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return int(rank[-1]) + 1, [rank[chunk - low] for chunk in chunks]
    ids = np.unique(np.concatenate([np.unique(chunk) for chunk in chunks]))
    return len(ids), [np.searchsorted(ids, chunk).astype(np.int32) for chunk in chunks]


def read(path: Path) -> Graph:
    """Read an edge list, plain or compressed. Raises InputError (file, line)."""
    line, _ = first_line(path, _COMMENT)
    if not line:
        raise InputError(f"{path}: no edge in it; an edge list has two vertex ids a line")
    comma = "," in line
    fields = len(line.split(",") if comma else line.split())
    if fields not in (2, 3):
        raise InputError(f"{path}: first edge line {line[:40]!r} has {fields} fields, allowed are 2 or 3")
    chunks = []
    for whole, _ in read_rows(path, 2, fields - 2, comma=comma, comment=_COMMENT):
        if int(whole.min()) < 0:
            raise InputError(f"{path}: negative vertex id {whole.min()}, allowed is 0 and up")
        chunks.append(whole)
    lines = sum(len(chunk) for chunk in chunks)
    declared = _declared_edges(path)
    if declared is not None and lines < declared:
        raise InputError(f"{path}: {lines} edges, its comment declares {declared} (truncated?)")
    n, ranked = _renumber(chunks)
    csr = build_csr(n, [chunk[:, 0] for chunk in ranked], [chunk[:, 1] for chunk in ranked])
    notes = f"{lines} edge lines; ids renumbered in ascending order"
    return make_graph(path.name, csr, Provenance("real", f"SNAP edge list {path.name}", notes=notes))
