"""MatrixMarket coordinate files (math.nist.gov/MatrixMarket/formats.html): a square matrix is a graph."""

from __future__ import annotations

from pathlib import Path

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.formats.rows import check_vertex_count, first_line, narrow, read_rows
from workloads.graphs.graph import Graph, Provenance, make_graph

_VALUES = {"pattern": 0, "real": 1, "integer": 1}
_SYMMETRIES = ("general", "symmetric")


def read(path: Path) -> Graph:
    """Read pattern, real or integer entries, general or symmetric; values are dropped. Raises InputError."""
    banner, _ = first_line(path)
    words = banner.lower().split()
    if words[:1] != ["%%matrixmarket"] or len(words) != 5:
        raise InputError(
            f"{path}: line 1: {banner[:40]!r}, expected `%%MatrixMarket matrix coordinate VALUES SYMMETRY`"
        )
    if words[1:3] != ["matrix", "coordinate"] or words[3] not in _VALUES or words[4] not in _SYMMETRIES:
        raise InputError(
            f"{path}: line 1: `{' '.join(words[1:])}`, allowed is `matrix coordinate` with "
            f"{', '.join(_VALUES)} and {' or '.join(_SYMMETRIES)}"
        )
    size, lines = first_line(path, "%")
    fields = size.split()
    if len(fields) != 3 or not all(
        field.isascii() and field.isdigit() and len(field) < 19 for field in fields
    ):
        raise InputError(f"{path}: line {lines}: {size[:40]!r}, expected rows, columns and entries")
    rows, columns, entries = map(int, fields)
    if rows != columns:
        raise InputError(
            f"{path}: line {lines}: {rows} rows and {columns} columns, a graph's matrix is square"
        )
    sources, targets, found = [], [], 0
    for whole, _ in read_rows(path, 2, _VALUES[words[3]], comment="%", skip_lines=lines):
        found += len(whole)
        ids = narrow(path, whole, 1, min(rows, 2**31 - 1))
        sources.append(ids[:, 0])
        targets.append(ids[:, 1])
    if found != entries:
        raise InputError(f"{path}: {found} entries, line {lines} declares {entries} (truncated?)")
    check_vertex_count(path, rows, entries)
    csr = build_csr(rows, sources, targets)
    notes = f"{words[3]} {words[4]} matrix of {entries} entries; values dropped, made symmetric"
    return make_graph(path.name, csr, Provenance("real", f"MatrixMarket {path.name}", notes=notes))
