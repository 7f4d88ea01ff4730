"""Tables of numbers in text files, a block at a time (the parser is C++: workloads/native/text.cpp)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs.csr import MAX_VERTICES
from workloads.graphs.formats.stream import line_blocks, open_stream, readable

# A header may declare this many vertices whatever the edges; more only with edges to go with them.
_FREE_VERTICES = 10_000_000
_VERTICES_PER_EDGE = 100


def read_rows(
    path: Path, ints: int, reals: int = 0, *, comma: bool = False, comment: str = "", skip_lines: int = 0
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """(int64[r, ints], float32[r, reals]) per block; empty lines and comments are skipped.

    skip_lines: lines at the start that the caller has read. Raises InputError (file, line, what was found).
    """
    with open_stream(path) as stream, readable(path):
        for _ in range(skip_lines):
            stream.readline()
        line = 1 + skip_lines
        for block in line_blocks(path, stream):
            try:
                whole, numbers, lines = _kernels.parse_rows(block, line, ints, reals, comma, comment)
            except ValueError as error:
                raise InputError(f"{path}: {error}") from None
            line += lines
            if len(whole):
                yield whole, numbers


def read_ragged(
    path: Path, *, comment: str, skip_lines: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """(values, values per line) per block, for lines of any number of whole numbers; empty lines count."""
    with open_stream(path) as stream, readable(path):
        for _ in range(skip_lines):
            stream.readline()
        line = 1 + skip_lines
        for block in line_blocks(path, stream):
            try:
                values, counts, lines = _kernels.parse_ragged(block, line, comment)
            except ValueError as error:
                raise InputError(f"{path}: {error}") from None
            line += lines
            yield values, counts


def first_line(path: Path, comment: str = "") -> tuple[str, int]:
    """The first line that is neither empty nor a comment ("" at the end), and the number of lines read."""
    with open_stream(path) as stream, readable(path):
        read = 0
        while raw := stream.readline(1 << 20):
            read += 1
            text = raw.decode("utf-8", errors="replace").strip()
            if text and not (comment and text[0] in comment):
                return text, read
    return "", read


def read_column(path: Path, *, low: int, high: int) -> npt.NDArray[np.int64]:
    """One whole number per line, each in low..high."""
    parts = [np.empty(0, np.int64)]
    for whole, _ in read_rows(path, 1):
        values = whole[:, 0]
        bad = np.flatnonzero((values < low) | (values > high))
        if len(bad):
            raise InputError(f"{path}: found {values[bad[0]]}, allowed is {low}..{high}")
        parts.append(values)
    return np.concatenate(parts)


def narrow(path: Path, ids: npt.NDArray[np.int64], low: int, high: int) -> npt.NDArray[np.int32]:
    """Vertex ids as int32, counted from `low`. Raises InputError when one is outside low..high."""
    if len(ids):
        least, most = int(ids.min()), int(ids.max())
        if least < low or most > high:
            raise InputError(f"{path}: vertex {least if least < low else most}, allowed is {low}..{high}")
    return (ids - low).astype(np.int32)


def check_vertex_count(path: Path, n: int, edges: int) -> None:
    """Refuse a declared vertex count that no memory was meant to hold."""
    allowed = min(MAX_VERTICES, max(_FREE_VERTICES, _VERTICES_PER_EDGE * edges))
    if not 0 < n <= allowed:
        raise InputError(f"{path}: {n} vertices declared, allowed is 1..{allowed} with {edges} edges")
