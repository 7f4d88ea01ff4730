"""METIS .graph files (METIS manual 5.1.0, section 4.1.1): line i lists the neighbours of vertex i, from 1.

Header `n m [fmt [ncon]]`; the digits of fmt say whether vertex sizes, vertex weights (ncon of them) and edge
weights are there. All of these are read over: netfold weighs vertices itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.formats.rows import check_vertex_count, first_line, narrow, read_ragged
from workloads.graphs.graph import Graph, Provenance, make_graph

_MAX_CONSTRAINTS = 1000


def _header(path: Path) -> tuple[int, int, int, bool, int]:
    """(vertices, undirected edges, numbers before the neighbours, whether edges have weights, lines read)."""
    text, lines = first_line(path, "%")
    fields = text.split()
    if not 2 <= len(fields) <= 4 or not all(f.isascii() and f.isdigit() and len(f) < 19 for f in fields):
        raise InputError(
            f"{path}: line {lines}: header {text[:40]!r}, expected `vertices edges [fmt [ncon]]`"
        )
    fmt = fields[2].zfill(3) if len(fields) > 2 else "000"
    if len(fmt) != 3 or set(fmt) - {"0", "1"}:
        raise InputError(f"{path}: line {lines}: fmt {fields[2]!r}, allowed are three digits of 0 and 1")
    constraints = int(fields[3]) if len(fields) > 3 else 1
    if not 1 <= constraints <= _MAX_CONSTRAINTS:
        raise InputError(f"{path}: line {lines}: ncon {constraints}, allowed is 1..{_MAX_CONSTRAINTS}")
    before = int(fmt[0]) + (constraints if fmt[1] == "1" else 0)
    return int(fields[0]), int(fields[1]), before, fmt[2] == "1", lines


def read(path: Path) -> Graph:
    """Read a METIS graph. Raises InputError, also when an edge is listed at one of its ends only."""
    n, edges, before, weighted, lines = _header(path)
    sources, targets, row, listed = [], [], 0, 0
    for all_values, all_counts in read_ragged(path, comment="%", skip_lines=lines):
        values, counts = all_values, all_counts
        if row + len(counts) > n:
            # An editor may have left empty lines at the end; anything else is one vertex too many.
            spare = counts[max(n - row, 0) :]
            if spare.any():
                raise InputError(f"{path}: more than the {n} vertex lines that the header declares")
            counts = counts[: max(n - row, 0)]
        step = 2 if weighted else 1
        bad = np.flatnonzero((counts < before) | ((counts - before) % step != 0))
        if len(bad):
            raise InputError(
                f"{path}: vertex {row + int(bad[0]) + 1}: {counts[bad[0]]} numbers, expected {before}"
                + (" and pairs of neighbour and weight" if weighted else " or more")
            )
        starts = np.cumsum(counts) - counts
        position = np.arange(len(values)) - np.repeat(starts, counts)
        neighbour = (position >= before) & ((position - before) % step == 0)
        owner = np.repeat(np.arange(row, row + len(counts), dtype=np.int64), counts)
        targets.append(narrow(path, values[neighbour], 1, min(n, 2**31 - 1)))
        sources.append(owner[neighbour].astype(np.int32))
        listed += len(targets[-1])
        row += len(counts)
    if row != n:
        raise InputError(f"{path}: {row} vertex lines, the header declares {n} (truncated?)")
    if listed != 2 * edges:
        raise InputError(
            f"{path}: {listed} neighbours listed, the header declares {edges} edges, so {2 * edges}"
        )
    check_vertex_count(path, n, edges)
    csr = build_csr(n, sources, targets)
    if len(csr[1]) > listed:
        raise InputError(f"{path}: an edge is listed at one of its ends only")
    notes = "vertex and edge weights dropped" if before or weighted else ""
    return make_graph(path.name, csr, Provenance("real", f"METIS graph {path.name}", notes=notes))
