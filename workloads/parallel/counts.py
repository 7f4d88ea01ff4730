"""How much each worker has in each turn: vertices, edges, halo; of a few replicas where there are many."""

from __future__ import annotations

from dataclasses import dataclass

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
    """shares: [replica][turn]; of `replicas` as many as were counted."""

    shares: list[list[Share]]
    replicas: int

    @property
    def sampled(self) -> bool:
        """Whether some replicas were not counted."""
        return len(self.shares) < self.replicas


def network_work(task: Task, scheme: Scheme, balance: Balance, known: dict[int, Share] | None = None) -> Work:
    """A network's. known: parts -> the whole graph's share, made once for all closures that are everything.

    Raises InputError for more shares than targets, more parts than vertices.
    """
    targets = target_parts(task, scheme)
    counted = max(1, min(scheme.data, MOST_SHARES // scheme.accumulate))
    shares = []
    whole = {} if known is None else known
    for replica in range(counted):
        turns = targets[replica * scheme.accumulate : (replica + 1) * scheme.accumulate]
        shares.append([_share(task, scheme, field_of(task, scheme, one), balance, whole) for one in turns])
    return Work(shares, scheme.data)


def _share(task: Task, scheme: Scheme, field: Ids, balance: Balance, whole: dict[int, Share]) -> Share:
    if len(field) < task.graph.num_vertices:
        return _of_graph(induced(task.graph, field), task, scheme, balance)
    if scheme.partition not in whole:
        whole[scheme.partition] = _of_graph(task.graph, task, scheme, balance)
    return whole[scheme.partition]


def _of_graph(graph: Graph, task: Task, scheme: Scheme, balance: Balance) -> Share:
    parts = scheme.partition
    if graph.num_vertices < parts:
        raise InputError(
            f"{scheme.name}: a turn has {graph.num_vertices} vertices; {parts} part(s) need one each"
        )
    if parts == 1:
        none = np.zeros(1, dtype=np.int64)
        return Share(np.array([graph.num_vertices]), np.array([graph.num_edges]), none, none)
    return count_parts(graph, divide(graph, parts, balance, task.seed), parts)


def count_parts(graph: Graph, part_of: npt.NDArray[np.int32], parts: int) -> Share:
    """What each part of a graph has and swaps."""
    vertices = np.bincount(part_of, minlength=parts)
    edges = np.bincount(part_of, weights=graph.degrees, minlength=parts).astype(np.int64)
    row = np.repeat(part_of.astype(np.int64), graph.degrees)
    column = graph.indices.astype(np.int64)
    cross = row != part_of[column]
    # A part needs each remote neighbour once.
    needed = np.unique(row[cross] * graph.num_vertices + column[cross])
    halo = np.bincount(needed // graph.num_vertices, minlength=parts)
    sent = np.bincount(part_of[needed % graph.num_vertices], minlength=parts)
    return Share(vertices, edges, halo, sent)


@dataclass(frozen=True)
class SequenceWork:
    """A transformer's: (vertices, pairs) of the sequences, [replica][turn][sequence]."""

    shares: list[list[list[tuple[int, int]]]]
    replicas: int


def sequence_work(task: Task, scheme: Scheme) -> SequenceWork:
    """Counts of attended pairs are those of topology attention: edges inside a sequence and self loops."""
    check_sequences(task, scheme)
    sizes = _sequence_sizes(task)
    step = scheme.data * scheme.accumulate
    shares = [
        [sizes[replica * scheme.accumulate + turn :: step] for turn in range(scheme.accumulate)]
        for replica in range(scheme.data)
    ]
    return SequenceWork(shares, scheme.data)


def _sequence_sizes(task: Task) -> list[tuple[int, int]]:
    sequences = sequence_vertices(task)
    number = np.empty(task.graph.num_vertices, dtype=np.int64)
    for index, vertices in enumerate(sequences):
        number[vertices] = index
    row = np.repeat(number, task.graph.degrees)
    inside = np.bincount(row[row == number[task.graph.indices]], minlength=len(sequences))
    return [(len(v), int(m) + len(v)) for v, m in zip(sequences, inside, strict=True)]
