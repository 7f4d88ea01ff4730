"""Which boundary rows SWASH's flexible communication sends: interval k, windows s, share p, most important
first.

Functions of graph, partition and knobs alone; nobody needs to be asked, so the choice itself costs no bytes.
The merged boundary gives every (reader, vertex) pair that some snapshot needs one number for all snapshots.
`netfold train-dynamic` chooses with the same functions, so a plan names the very rows that it sends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.dynamic import DynamicGraph
from workloads.graphs.dynamic.pairs import Pairs
from workloads.partition.dynamic import DynamicPartition

Ids = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]
_NONE = np.zeros(0, dtype=np.int64)
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
    weights[t]: float32[], the weight that the vertex's row has in the reader's sums (of pairs' ends: how many
    of the reader's pairs it is in).
    """

    workers: int
    reader: Ids
    owner: Ids
    vertex: Ids
    rows: tuple[Ids, ...]
    weights: tuple[Weights, ...]


def merge_boundary(graph: DynamicGraph, partition: DynamicPartition) -> MergedBoundary:
    """The merged boundary of a vertex partition. Raises InputError for one whose vertices change workers."""
    if not partition.fixed:
        raise InputError(
            f"partition {partition.method}: vertices change workers; flexible communication needs a vertex "
            "partition, such as light-metis"
        )
    parts = partition.parts.astype(np.int64)
    needs = [needed_weights(graph, parts, t) for t in range(graph.num_snapshots)]
    return _merged(graph.num_vertices, parts, partition.workers, needs)


def merge_ends(graph: DynamicGraph, partition: DynamicPartition, pairs: Pairs) -> MergedBoundary:
    """The same for the ends that pairs need of other workers; pairs: of `graphs.dynamic.pairs.link_pairs`."""
    parts = partition.parts.astype(np.int64)
    needs = [needed_ends(parts, ends) for ends, _ in pairs]
    return _merged(graph.num_vertices, parts, partition.workers, needs)


def _merged(n: int, parts: Ids, workers: int, needs: list[tuple[Ids, Weights]]) -> MergedBoundary:
    keys, weights = [], []
    for key, weight in needs:
        reader, vertex = key // n, key % n
        wide = (reader * workers + parts[vertex]) * n + vertex
        order = np.argsort(wide)
        keys.append(wide[order])
        weights.append(weight[order])
    union = np.unique(np.concatenate(keys))
    pair, vertex = union // n, union % n
    rows = tuple(np.searchsorted(union, key) for key in keys)
    return MergedBoundary(workers, pair // workers, pair % workers, vertex, rows, tuple(weights))


def needed_weights(graph: DynamicGraph, parts: Ids, t: int) -> tuple[Ids, Weights]:
    """What workers need of each other in snapshot t of a vertex partition: int64[r], reader * n + vertex,
    ascending, and float32[r], the weight of the vertex's row in all of the reader's sums.
    """
    row, column, weight = cross_edges(graph, parts, t)
    keys, at = np.unique(parts[row] * graph.num_vertices + column, return_inverse=True)
    return keys, np.bincount(at, weight, minlength=len(keys)).astype(np.float32)


def needed_ends(parts: Ids, ends: Ids) -> tuple[Ids, Weights]:
    """The same of pairs (int64[e, 2]; one is scored where its lower end is): upper ends that lie elsewhere,
    and in how many of the reader's pairs each is.
    """
    reader = parts[ends[:, 0]]
    remote = reader != parts[ends[:, 1]]
    keys, counts = np.unique(reader[remote] * len(parts) + ends[remote, 1], return_counts=True)
    return keys, counts.astype(np.float32)


def cross_edges(graph: DynamicGraph, parts: Ids, t: int) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """(v, u, weight) of every directed cross edge of snapshot t: v sums up u's row with that weight,
    w / sqrt((d_u + 1)(d_v + 1)), degrees and w of the edges' weights where there are any.
    """
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr[t]))
    column = graph.indices[t].astype(np.int64)
    cross = parts[row] != parts[column]
    degree = 1.0 + np.diff(graph.indptr[t]).astype(np.float64)
    if graph.weights is not None:
        degree = 1.0 + np.bincount(row, graph.weights[t], graph.num_vertices).astype(np.float64)
    scale = 1 / np.sqrt(degree)
    weight = scale[row[cross]] * scale[column[cross]]
    if graph.weights is not None:
        weight = weight * graph.weights[t][cross]
    return row[cross], column[cross], weight


def training_windows(graph: DynamicGraph) -> Ids:
    """The last snapshots of the windows of an epoch, ascending."""
    return np.arange(graph.window - 1, graph.train_end)


def communicating_windows(knobs: Knobs, epoch: int, windows: int) -> list[int]:
    """Numbers of the epoch's windows that communicate, ascending."""
    if epoch % knobs.interval:
        return []
    count = min(knobs.windows or windows, windows)
    return windows_of_an_epoch(count, windows, when=knobs.when, seed=knobs.seed, epoch=epoch)


def windows_of_an_epoch(count: int, windows: int, *, when: str, seed: int, epoch: int) -> list[int]:
    """Which `count` of an epoch's windows communicate, ascending."""
    if when == "first":
        return list(range(count))
    if when == "random":
        return sorted(np.random.default_rng([seed, 72, epoch]).permutation(windows)[:count].tolist())
    return [-(-i * windows // count) for i in range(count)]


def most_important(weight: Weights, last: Ids, share: float, time: int, *, how: str, seed: list[int]) -> Ids:
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


def run_of_window(window: int, windows: int, sets: int) -> int:
    """An epoch's windows are divided into as many runs as there are sets of caches; the run, and so the set,
    of a window. The first window is a run of its own: nothing but its rows of the epoch before is old enough
    for it.
    """
    if not window or sets < 2:
        return 0
    return 1 + (window - 1) * (sets - 1) // (windows - 1)


class SentTimes:
    """When each of `rows` rows was last sent at each position, in windows trained since the start: what both
    ends of every pair of workers know, and choose by. sets: of caches; windows: of an epoch.
    """

    def __init__(self, sets: int, windows: int, positions: int, rows: int) -> None:
        self._sets, self._windows = min(sets, windows), windows
        self.times = np.full((max(1, self._sets), positions, rows), -1, dtype=np.int64)

    def choose(
        self, numbers: Ids, weight: Weights, *, position: int, time: int, share: float, how: str,
        seed: list[int],
    ) -> Ids:  # fmt: skip
        """Ascending places in `numbers` of the rows that one worker sends another, noted as sent. weight:
        float32[], their importance; seed: of a random choice, the same at both ends.
        """
        window, times = time % self._windows, self.times[:, position]
        which = run_of_window(window, self._windows, self._sets)
        aged = how == "importance" and share < 1
        last = self._last(times, numbers, which, window) if aged else _NONE
        places = most_important(weight, last, share, time, how=how, seed=seed)
        times[which, numbers[places]] = time
        return places

    def _last(self, times: Ids, numbers: Ids, which: int, window: int) -> Ids:
        """When the rows that a cache would give were sent (the newest set's that is not of a later window),
        -1 where it has none.
        """
        last = np.full(len(numbers), -1, dtype=np.int64)
        for run in range(which, -1, -1):
            open_rows = np.flatnonzero(last < 0)
            found = times[run, numbers[open_rows]]
            good = (found >= 0) & (found % self._windows <= window)
            last[open_rows[good]] = found[good]
        return last


@dataclass(frozen=True, eq=False)
class WindowSends:
    """One window of an epoch. last: its last snapshot; rows: per position int64[], the numbers in the merged
    boundary whose rows are sent, ascending (none where the window does not communicate); ends: the same in
    the merged boundary of pairs' ends.
    """

    number: int
    last: int
    rows: tuple[Ids, ...]
    ends: Ids

    @property
    def count(self) -> int:
        """Rows sent in one exchange of all positions."""
        return sum(len(rows) for rows in self.rows)


def sends(
    graph: DynamicGraph,
    boundary: MergedBoundary,
    knobs: Knobs,
    epochs: int,
    ends: MergedBoundary | None = None,
) -> Iterator[list[WindowSends]]:
    """What each epoch from the first on sends, window by window: one list per epoch. ends: of `merge_ends`,
    for links.
    """
    lasts, size = training_windows(graph), graph.window
    sent = SentTimes(knobs.cache_windows, len(lasts), size, len(boundary.vertex))
    # Pairs' ends are not cached.
    sent_ends = None if ends is None else SentTimes(0, len(lasts), 1, len(ends.vertex))
    for epoch in range(epochs):
        talking = set(communicating_windows(knobs, epoch, len(lasts)))
        made = []
        for number, last in enumerate(lasts.tolist()):
            time = epoch * len(lasts) + number
            rows, chosen_ends = [_NONE] * size, _NONE
            if number in talking:
                rows = [
                    _chosen(boundary, last - size + 1 + at, sent, knobs, (time, at)) for at in range(size)
                ]
                if ends is not None and sent_ends is not None:
                    knobs_of_ends = replace(knobs, choose="random", seed=knobs.seed + 1)
                    chosen_ends = _chosen(ends, last, sent_ends, knobs_of_ends, (time, 0))
            made.append(WindowSends(number, last, tuple(rows), chosen_ends))
        yield made


def _chosen(boundary: MergedBoundary, t: int, sent: SentTimes, knobs: Knobs, when: tuple[int, int]) -> Ids:
    """Numbers of the rows of snapshot t that are sent: the share of every pair of workers. when: (time,
    position).
    """
    rows, weight, (time, position) = boundary.rows[t], boundary.weights[t], when
    pair = boundary.owner[rows] * boundary.workers + boundary.reader[rows]
    found = [_NONE]
    for one in np.unique(pair):
        mine = np.flatnonzero(pair == one)
        owner, reader = divmod(int(one), boundary.workers)
        places = sent.choose(
            rows[mine], weight[mine], position=position, time=time, share=knobs.share, how=knobs.choose,
            seed=[knobs.seed, time, position, owner, reader],
        )  # fmt: skip
        found.append(rows[mine[places]])
    return np.sort(np.concatenate(found))


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
