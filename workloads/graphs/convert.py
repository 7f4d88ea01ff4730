"""Write a graph as SNAP edge list, MatrixMarket, METIS .graph or netfold's own folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from workloads.errors import InputError
from workloads.files import write_whole
from workloads.graphs.graph import Graph
from workloads.graphs.store import save_graph

_ROWS = 1 << 14


Progress = Callable[[int, int], None]


def _undirected(
    graph: Graph, progress: Progress, *, base: int = 0, higher_first: bool = False
) -> Iterator[str]:
    """A line per undirected edge, lower end first unless told otherwise, counted from `base`."""
    for start in range(0, graph.num_vertices, _ROWS):
        progress(start, graph.num_vertices)
        ends = graph.indptr[start : start + _ROWS + 1]
        rows = np.repeat(np.arange(start, start + len(ends) - 1), np.diff(ends))
        columns = graph.indices[ends[0] : ends[-1]]
        chosen = columns < rows if higher_first else columns > rows
        text = io.StringIO()
        np.savetxt(text, np.column_stack([rows[chosen], columns[chosen]]) + base, fmt="%d")
        yield text.getvalue()


def _snap(graph: Graph, progress: Progress) -> Iterator[str]:
    yield f"# {graph.name}\n# Nodes: {graph.num_vertices} Edges: {graph.num_edges // 2}\n"
    yield from _undirected(graph, progress)


def _matrix_market(graph: Graph, progress: Progress) -> Iterator[str]:
    # A symmetric file holds the lower triangle (row > column), numbered from 1.
    n = graph.num_vertices
    yield f"%%MatrixMarket matrix coordinate pattern symmetric\n% {graph.name}\n"
    yield f"{n} {n} {graph.num_edges // 2}\n"
    yield from _undirected(graph, progress, base=1, higher_first=True)


def _metis(graph: Graph, progress: Progress) -> Iterator[str]:
    yield f"% {graph.name}\n{graph.num_vertices} {graph.num_edges // 2}\n"
    for vertex in range(graph.num_vertices):
        if vertex % _ROWS == 0:
            progress(vertex, graph.num_vertices)
        row = graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]]
        yield " ".join(map(str, (row + 1).tolist())) + "\n"


_WRITERS: dict[str, Callable[[Graph, Progress], Iterator[str]]] = {
    "metis": _metis,
    "mtx": _matrix_market,
    "snap": _snap,
}
TARGETS = ("metis", "mtx", "netfold", "snap")


def convert(graph: Graph, out: Path, target: str, progress: Progress = lambda done, total: None) -> None:
    """Write `graph` to `out` in one of TARGETS, whole or not at all. Only netfold's folder keeps features."""
    if target == "netfold":
        if out.exists() and not (out / "graph.json").is_file():
            raise InputError(f"{out}: exists and is not a saved graph; name another folder")
        save_graph(graph, out)
        return
    if out.is_dir():
        raise InputError(f"{out}: is a folder, expected the name of a file")

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8") as stream:
            stream.writelines(_WRITERS[target](graph, progress))

    write_whole(out, write)
