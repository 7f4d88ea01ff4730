"""Which boundary rows SWASH's flexible communication sends: interval k, windows s, share p, most important
first.

Pure functions of graph, partition and knobs; nobody needs to be asked, so the choice itself costs no bytes.
The merged boundary gives every (reader, vertex) pair that some snapshot needs one number for all snapshots.
The rules are those of `netfold train-dynamic`, written again from the definition and held against its
counted bytes by tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition, needed_rows

Ids = npt.NDArray[np.int64]
CHOICES = ("importance", "weight", "random")
TIMINGS = ("even", "first", "random")


@dataclass(frozen=True)
class Knobs:
    """interval k: every k-th epoch communicates; windows s: of such an epoch that do, 0 = all; share p: of
    a snapshot's rows, per pair of workers; choose: which rows; when: which windows; cache_windows: windows
    whose caches are kept, each with its own ages; seed: of what is random. Raises InputError.
    """

    interval: int = 1
    windows: int = 0
    share: float = 1.0
    choose: str = "importance"
    when: str = "even"
    cache_windows: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least, most in (
            ("interval", 1, 10_000),
            ("windows", 0, 1_000_000),
            ("share", 1e-6, 1),
            ("cache_windows", 0, 10_000),
        ):
            given = getattr(self, name)
            if not least <= given <= most:
                raise InputError(f"{name}: {given} given; allowed: {least} to {most}")
        for name, allowed in (("choose", CHOICES), ("when", TIMINGS)):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}: {getattr(self, name)!r} given; allowed: {', '.join(allowed)}")


@dataclass(frozen=True, eq=False)
class MergedBoundary:
    """Every pair (reader, vertex) that some snapshot needs, once: reader, owner, vertex: int64[u],
    ascending by reader, owner, vertex. rows[t]: int64[], the numbers that snapshot t needs, ascending;
    weights[t]: float32[], the weight that the vertex's row has in the reader's sums.
    """

    workers: int
    reader: Ids
    owner: Ids
    vertex: Ids
    rows: tuple[Ids, ...]
    weights: tuple[npt.NDArray[np.float32], ...]


def merge_boundary(graph: DynamicGraph, partition: DynamicPartition) -> MergedBoundary:
    """The merged boundary of a vertex partition. Raises InputError for one whose vertices change workers."""
    if not partition.fixed:
        raise InputError(
            f"partition {partition.method}: vertices change workers; flexible communication needs a vertex "
            "partition, such as light-metis"
        )
    n, workers, parts = graph.num_vertices, partition.workers, partition.parts.astype(np.int64)
    keys, weights = [], []
    for t in range(graph.num_snapshots):
        reader, vertex = needed_rows(graph, partition, t)
        key = (reader * workers + parts[vertex]) * n + vertex
        order = np.argsort(key)
        keys.append(key[order])
        weights.append(_weights(graph, parts, t, workers, keys[-1]))
    union = np.unique(np.concatenate(keys))
    pair, vertex = union // n, union % n
    rows = tuple(np.searchsorted(union, key) for key in keys)
    return MergedBoundary(workers, pair // workers, pair % workers, vertex, rows, tuple(weights))


def _weights(graph: DynamicGraph, parts: Ids, t: int, workers: int, keys: Ids) -> npt.NDArray[np.float32]:
    """float32[r]: the sum of 1 / sqrt((d_u + 1)(d_v + 1)) over a reader's edges with the vertex."""
    row, column, weight = cross_edges(graph, parts, t)
    n = graph.num_vertices
    at = np.searchsorted(keys, (parts[row] * workers + parts[column]) * n + column)
    return np.bincount(at, weight, minlength=len(keys)).astype(np.float32)


def cross_edges(graph: DynamicGraph, parts: Ids, t: int) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """(v, u, weight) of every directed cross edge of snapshot t: v sums up u's row with that weight."""
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr[t]))
    column = graph.indices[t].astype(np.int64)
    cross = parts[row] != parts[column]
    row, column = row[cross], column[cross]
    scale = 1 / np.sqrt(1.0 + np.diff(graph.indptr[t]))
    return row, column, scale[row] * scale[column]


def training_windows(graph: DynamicGraph) -> Ids:
    """The last snapshots of the windows of an epoch, ascending."""
    return np.arange(graph.window - 1, graph.train_end)


def communicating_windows(knobs: Knobs, epoch: int, windows: int) -> list[int]:
    """Numbers of the epoch's windows that communicate, ascending."""
    if epoch % knobs.interval:
        return []
    count = min(knobs.windows or windows, windows)
    if knobs.when == "first":
        return list(range(count))
    if knobs.when == "random":
        return sorted(np.random.default_rng([knobs.seed, 72, epoch]).permutation(windows)[:count].tolist())
    return [-(-i * windows // count) for i in range(count)]


def most_important(
    weight: npt.NDArray[np.float32], last: Ids, share: float, time: int, *, how: str, seed: list[int]
) -> Ids:
    """Ascending places of the ceil(share * c) chosen of c rows. last: when each was sent, -1 never: under
    "importance" those go first, then the largest weight times age.
    """
    if share >= 1:
        return np.arange(len(weight))
    count = math.ceil(share * len(weight))
    if how == "random":
        order = np.random.default_rng(seed).permutation(len(weight))
    elif how == "weight":
        order = np.argsort(-weight, kind="stable")
    else:
        value = weight.astype(np.float64) * np.where(last < 0, 1, time - last)
        order = np.lexsort((-value, last >= 0))
    return np.sort(order[:count])


@dataclass(frozen=True, eq=False)
class WindowSends:
    """One window of an epoch. last: its last snapshot; rows: per position int64[], the numbers in the merged
    boundary whose rows are sent, ascending (none where the window does not communicate).
    """

    number: int
    last: int
    rows: tuple[Ids, ...]

    @property
    def count(self) -> int:
        """Rows sent in one exchange of all positions."""
        return sum(len(rows) for rows in self.rows)


def sends(
    graph: DynamicGraph, boundary: MergedBoundary, knobs: Knobs, epochs: int
) -> Iterator[list[WindowSends]]:
    """What each epoch from the first on sends, window by window: one list per epoch."""
    lasts, size = training_windows(graph), graph.window
    sets = max(1, knobs.cache_windows)
    sent = np.full((sets, size, len(boundary.vertex)), -1, dtype=np.int64)
    for epoch in range(epochs):
        talking = set(communicating_windows(knobs, epoch, len(lasts)))
        made = []
        for number, last in enumerate(lasts.tolist()):
            time = epoch * len(lasts) + number
            rows = [np.zeros(0, dtype=np.int64)] * size
            if number in talking:
                for position in range(size):
                    ages = sent[number % sets, position]
                    rows[position] = _chosen(
                        boundary, last - size + 1 + position, ages, knobs, (time, position)
                    )
                    ages[rows[position]] = time
            made.append(WindowSends(number, last, tuple(rows)))
        yield made


def _chosen(boundary: MergedBoundary, t: int, ages: Ids, knobs: Knobs, when: tuple[int, int]) -> Ids:
    """Numbers of the rows of snapshot t that are sent: the share of every pair of workers. when: (time,
    position).
    """
    rows, weight, time = boundary.rows[t], boundary.weights[t], when[0]
    if knobs.share >= 1:
        return rows
    pair = boundary.owner[rows] * boundary.workers + boundary.reader[rows]
    found = []
    for one in np.unique(pair):
        mine = np.flatnonzero(pair == one)
        owner, reader = divmod(int(one), boundary.workers)
        seed = [knobs.seed, time, when[1], owner, reader]
        places = most_important(
            weight[mine], ages[rows[mine]], knobs.share, time, how=knobs.choose, seed=seed
        )
        found.append(rows[mine[places]])
    return np.sort(np.concatenate(found)) if found else rows


def chosen_sums(graph: DynamicGraph, parts: Ids, t: int, knobs: Knobs, time: int) -> Ids:
    """The boundary vertices of snapshot t whose sums a switch refreshes, ascending: the share p of every
    owner's, those with the largest weight of remote neighbours first.

    A switch hands out sums, not rows, so what a worker caches of it is a sum per vertex: it is refreshed
    whole or not at all, and all workers contribute to it or none.
    """
    row, _, weight = cross_edges(graph, parts, t)
    vertices, at = np.unique(row, return_inverse=True)
    value = np.bincount(at, weight, minlength=len(vertices)).astype(np.float32)
    found = [vertices[:0]]
    for owner in np.unique(parts[vertices]):
        mine = np.flatnonzero(parts[vertices] == owner)
        never = np.full(len(mine), -1, dtype=np.int64)
        seed = [knobs.seed, time, t, int(owner)]
        places = most_important(value[mine], never, knobs.share, time, how=knobs.choose, seed=seed)
        found.append(vertices[mine[places]])
    return np.sort(np.concatenate(found))
