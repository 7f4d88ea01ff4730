"""How much each worker has in each turn: vertices, edges, halo; of a few replicas where there are many.

A closure's parts are METIS's where that is affordable. Where a graph is large and workers are many, every
scheme's closures would be partitioned again: their parts are then taken for those of the whole graph, made
once for each number of parts, scaled to the closure's vertices and edges (`Work.estimated`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.parallel.pieces import (
    Balance,
    Ids,
    check_sequences,
    divide,
    field_of,
    induced,
    sequence_vertices,
    target_parts,
)
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task

MOST_SHARES = 4  # closures that are made; METIS's parts are alike
MOST_EDGE_WORKERS = 4_000_000  # edges x workers up to which closures are partitioned themselves
_BITMAP_CELLS = 1 << 28
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """One turn of one replica, by part: vertices, edges, halo (rows received), sent (rows sent)."""

    vertices: Counts
    edges: Counts
    halo: Counts
    sent: Counts


@dataclass(frozen=True)
class Work:
    """shares: [replica][turn]; of `replicas` as many as were counted. estimated: some were scaled."""

    shares: list[list[Share]]
    replicas: int
    estimated: bool = False

    @property
    def sampled(self) -> bool:
        """Whether some replicas were not counted, or only estimated."""
        return self.estimated or len(self.shares) < self.replicas


@dataclass
class Known:
    """What schemes of one task share: the whole graph's parts, by number; the targets' shares, by number;
    their fields (None: everything) with how many edges they have inside, by (shares, which).
    """

    whole: dict[int, Share] = field(default_factory=dict)
    targets: dict[int, list[Ids]] = field(default_factory=dict)
    fields: dict[tuple[int, int], tuple[Ids | None, int]] = field(default_factory=dict)


def network_work(task: Task, scheme: Scheme, balance: Balance, known: Known | None = None) -> Work:
    """A network's. known: of other schemes with the same balance.

    Raises InputError for more shares than targets, more parts than vertices.
    """
    known = Known() if known is None else known
    number = scheme.data * scheme.accumulate
    if number not in known.targets:
        known.targets[number] = target_parts(task, scheme, balance)
    counted = max(1, min(scheme.data, MOST_SHARES // scheme.accumulate))
    exact = task.graph.num_edges * scheme.workers <= MOST_EDGE_WORKERS
    shares, estimated = [], False
    for replica in range(counted):
        turns = []
        for which in range(replica * scheme.accumulate, (replica + 1) * scheme.accumulate):
            inside, edges = _field(task, scheme, which, known)
            scaled = inside is not None and scheme.partition > 1 and not exact
            estimated |= scaled
            turns.append(_share(task, scheme, (inside, edges), balance, known.whole, scaled=scaled))
        shares.append(turns)
    return Work(shares, scheme.data, estimated)


def _field(task: Task, scheme: Scheme, which: int, known: Known) -> tuple[Ids | None, int]:
    key = scheme.data * scheme.accumulate, which
    if key not in known.fields:
        inside: Ids | None = field_of(task, scheme, known.targets[key[0]][which])
        assert inside is not None
        if len(inside) == task.graph.num_vertices:
            known.fields[key] = None, task.graph.num_edges
        else:
            known.fields[key] = inside, _edges_inside(task.graph, inside)
    return known.fields[key]


def _edges_inside(graph: Graph, vertices: Ids) -> int:
    chosen = np.zeros(graph.num_vertices, dtype=bool)
    chosen[vertices] = True
    return int(np.count_nonzero(chosen[graph.indices] & np.repeat(chosen, graph.degrees)))


def _share(
    task: Task,
    scheme: Scheme,
    inside: tuple[Ids | None, int],
    balance: Balance,
    whole: dict[int, Share],
    *,
    scaled: bool,
) -> Share:
    vertices, edges = inside
    graph, parts = task.graph, scheme.partition
    count = graph.num_vertices if vertices is None else len(vertices)
    if count < parts:
        raise InputError(f"{scheme.name}: a turn has {count} vertices; {parts} part(s) need one each")
    if parts == 1:
        none = np.zeros(1, dtype=np.int64)
        return Share(np.array([count]), np.array([edges]), none, none)
    if vertices is not None and not scaled:
        part = induced(graph, vertices)
        return count_parts(part, divide(part, parts, balance, task.seed), parts)
    if parts not in whole:
        whole[parts] = count_parts(graph, divide(graph, parts, balance, task.seed), parts)
    return whole[parts] if vertices is None else _scaled(whole[parts], graph, count, edges)


def _scaled(whole: Share, graph: Graph, vertices: int, edges: int) -> Share:
    """The parts of a closure with so many vertices and edges inside."""
    rows, ends = vertices / graph.num_vertices, edges / max(1, graph.num_edges)

    def of(counts: Counts, factor: float) -> Counts:
        return np.rint(counts * factor).astype(np.int64)

    return Share(of(whole.vertices, rows), of(whole.edges, ends), of(whole.halo, rows), of(whole.sent, rows))


def count_parts(graph: Graph, part_of: npt.NDArray[np.int32], parts: int) -> Share:
    """What each part of a graph has and swaps."""
    vertices = np.bincount(part_of, minlength=parts)
    edges = np.bincount(part_of, weights=graph.degrees, minlength=parts).astype(np.int64)
    row = np.repeat(part_of.astype(np.int64), graph.degrees)
    column = graph.indices.astype(np.int64)
    cross = row != part_of[column]
    # A part needs each remote neighbour once.
    needed = _distinct(row[cross] * graph.num_vertices + column[cross], parts * graph.num_vertices)
    halo = np.bincount(needed // graph.num_vertices, minlength=parts)
    sent = np.bincount(part_of[needed % graph.num_vertices], minlength=parts)
    return Share(vertices, edges, halo, sent)


def _distinct(numbers: Counts, limit: int) -> Counts:
    """Ascending, as np.unique has them, by a bitmap where one is affordable: several times faster."""
    if limit > _BITMAP_CELLS:
        return np.unique(numbers)
    there = np.zeros(limit, dtype=bool)
    there[numbers] = True
    return np.flatnonzero(there)


@dataclass(frozen=True)
class SequenceWork:
    """A transformer's: (vertices, pairs) of the sequences, [replica][turn][sequence]."""

    shares: list[list[list[tuple[int, int]]]]
    replicas: int


def sequence_work(task: Task, scheme: Scheme, balance: Balance) -> SequenceWork:
    """Attended pairs: of topology attention edges inside a sequence and self loops; all pairs otherwise, in a
    set those within a graph. Virtual vertices included.
    """
    check_sequences(task, scheme)
    step = scheme.data * scheme.accumulate
    if task.graphs is not None:
        sizes = [[one] for one in _batch_sizes(task, scheme, balance)]
    else:
        every = _sequence_sizes(task)
        sizes = [every[share::step] for share in range(step)]
    shares = [sizes[at : at + scheme.accumulate] for at in range(0, step, scheme.accumulate)]
    return SequenceWork(shares, scheme.data)


def _batch_sizes(task: Task, scheme: Scheme, balance: Balance) -> list[tuple[int, int]]:
    assert task.graphs is not None
    found = []
    for members in target_parts(task, scheme, balance):
        chosen = [task.graphs.graphs[member] for member in members]
        rows = sum(graph.num_vertices + 1 for graph in chosen)
        if task.model.attention in ("sparse", "topk"):
            pairs = sum(graph.num_edges + 3 * graph.num_vertices + 1 for graph in chosen)
        else:
            pairs = sum((graph.num_vertices + 1) ** 2 for graph in chosen)
        found.append((rows, pairs))
    return found


def _sequence_sizes(task: Task) -> list[tuple[int, int]]:
    sequences = sequence_vertices(task)
    if task.model.attention not in ("sparse", "topk"):
        return [(len(vertices), len(vertices) ** 2) for vertices in sequences]
    number = np.empty(task.graph.num_vertices, dtype=np.int64)
    for index, vertices in enumerate(sequences):
        number[vertices] = index
    row = np.repeat(number, task.graph.degrees)
    inside = np.bincount(row[row == number[task.graph.indices]], minlength=len(sequences))
    return [(len(v), int(m) + len(v)) for v, m in zip(sequences, inside, strict=True)]
