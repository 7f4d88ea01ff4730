"""`LocalDynamic`: what one worker knows of a dynamic graph: rows, edges, routes, targets per snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic import DynamicGraph
from workloads.plan.dynamic import needed_ends, needed_weights
from workloads.training.dynamic.placement import Placement
from workloads.training.dynamic.routes import (
    Ids,
    MergedIndex,
    Needed,
    Route,
    local_route,
    make_route,
    merged_indices,
)
from workloads.training.dynamic.task import Task


@dataclass(frozen=True, eq=False)
class Edges:
    """One snapshot's neighbourhoods on one worker, each vertex among its own neighbours: rows of the sums,
    ascending, columns of what it needs, and weights 1/sqrt((d_u+1)(d_v+1)) (Kipf and Welling's
    renormalisation).
    """

    shape: tuple[int, int]
    row: npt.NDArray[np.int32]
    col: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of one snapshot. inputs: features to where they are summed; state, summed: a layer's rows to
    where they are summed, from where states and sums are; over: sums to where states are (None: the same
    place); carry: states from the snapshot before (None: the same place); decode: the last snapshot's rows to
    the pairs (None: no pairs).
    """

    inputs: Route
    state: Route
    summed: Route
    over: Route | None
    carry: Route | None
    decode: Route | None


@dataclass(frozen=True, eq=False)
class Targets:
    """What a window that ends here predicts on this worker. rows: int64[], the rows that it answers for;
    values: float32[r, k] or int64[r], or float32[e] for pairs; left, right: int64[e], rows of the pairs'
    ends.
    """

    rows: Ids
    values: npt.NDArray[Any]
    left: Ids
    right: Ids


@dataclass(frozen=True, eq=False)
class LocalDynamic:
    """One worker's share. index, pairs_index: the merged boundary of a vertex partition and that of the
    pairs' ends, or None. features, owned, ids: per snapshot, float32[r, d] of the rows whose neighbourhoods
    it sums, the rows of the output that no other worker answers for, and the output's vertices. placed:
    routes per snapshot where there is no index.
    """

    rank: int
    workers: int
    features: tuple[npt.NDArray[np.float32], ...]
    edges: tuple[Edges, ...]
    targets: tuple[Targets | None, ...]
    index: MergedIndex | None
    pairs_index: MergedIndex | None
    owned: tuple[Ids, ...]
    ids: tuple[Ids, ...]
    placed: tuple[Routes, ...]

    def routes(self, t: int) -> Routes:
        """The routes of snapshot t."""
        if self.index is None:
            return self.placed[t]
        route = self.index.route(t)
        decode = None if self.pairs_index is None else self.pairs_index.route(t)
        return Routes(route, route, route, None, None, decode)


@dataclass(frozen=True, eq=False)
class _Whole:
    """What all workers' shares are cut from. output: int32[T, n], where the model's output rows are;
    needs[t][r]: ids that worker r needs in snapshot t; degrees[t]: float64[n].
    """

    graph: DynamicGraph
    task: Task
    placement: Placement
    output: npt.NDArray[np.int32]
    needs: list[list[Ids]]
    degrees: list[npt.NDArray[np.float64]]


def make_locals(
    graph: DynamicGraph, task: Task, placement: Placement, *, summed_output: bool
) -> list[LocalDynamic]:
    """Every worker's share. summed_output: the model's output is where the sums are, not where the states
    are.
    """
    snapshots, workers = range(graph.num_snapshots), placement.workers
    whole = _Whole(
        graph,
        task,
        placement,
        placement.spatial if summed_output else placement.temporal,
        [_needs(graph, placement, t) for t in snapshots],
        [_degrees(graph, t) for t in snapshots],
    )
    indices: list[MergedIndex] | list[None] = [None] * workers
    pairs_indices: list[MergedIndex] | list[None] = [None] * workers
    if placement.fixed and placement.copies is None:
        parts = placement.spatial[0]
        indices = merged_indices(_needed(graph, parts), parts, workers)
        if task.pairs is not None:
            pairs_indices = merged_indices(_needed_ends(graph, task, parts), parts, workers)
    return [_local(whole, rank, indices[rank], pairs_indices[rank]) for rank in range(workers)]


def pair_ends(task: Task, output: npt.NDArray[np.int32], t: int, rank: int) -> Ids:
    """The ends of the pairs that `rank` scores in a window ending at t, ascending; a pair is where its lower
    end is.
    """
    assert task.pairs is not None
    ends = task.pairs[t][0] if t < len(task.pairs) else np.zeros((0, 2), np.int64)
    return np.unique(ends[output[t][ends[:, 0]] == rank])


def _degrees(graph: DynamicGraph, t: int) -> npt.NDArray[np.float64]:
    """1 + the (weighted) degree of each vertex in snapshot t, float64[n]."""
    if graph.weights is None:
        return np.diff(graph.indptr[t]).astype(np.float64) + 1.0
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr[t]))
    return np.bincount(rows, weights=graph.weights[t], minlength=graph.num_vertices).astype(np.float64) + 1.0


def _needs(graph: DynamicGraph, placement: Placement, t: int) -> list[Ids]:
    """Per worker: its rows and their neighbours in snapshot t, ascending ids."""
    starts = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr[t]))
    needs = []
    for rank in range(placement.workers):
        wanted = np.zeros(graph.num_vertices, dtype=bool)
        wanted[placement.rows(placement.spatial, t, rank)] = True
        wanted[graph.indices[t][wanted[starts]]] = True
        needs.append(np.flatnonzero(wanted))
    return needs


def _needed(graph: DynamicGraph, parts: npt.NDArray[np.int32]) -> Needed:
    """Remote neighbours and their importance."""
    wide = parts.astype(np.int64)
    return _joined(graph, [needed_weights(graph, wide, t) for t in range(graph.num_snapshots)])


def _needed_ends(graph: DynamicGraph, task: Task, parts: npt.NDArray[np.int32]) -> Needed:
    """Remote ends of pairs and their importance; the last snapshot has no pairs."""
    wide = parts.astype(np.int64)
    assert task.pairs is not None
    every = [ends for ends, _ in task.pairs] + [np.zeros((0, 2), np.int64)]
    return _joined(graph, [needed_ends(wide, ends) for ends in every])


def _joined(graph: DynamicGraph, needs: list[tuple[Ids, npt.NDArray[np.float32]]]) -> Needed:
    return Needed(graph.num_vertices, tuple(keys for keys, _ in needs), tuple(weight for _, weight in needs))


def _local(
    whole: _Whole, rank: int, index: MergedIndex | None, pairs_index: MergedIndex | None
) -> LocalDynamic:
    graph, task, placement, output = whole.graph, whole.task, whole.placement, whole.output
    features, edges, routes, targets, owned, everyone = [], [], [], [], [], []
    for t in range(graph.num_snapshots):
        rows = placement.rows(placement.spatial, t, rank)
        outs = placement.rows(output, t, rank)
        layout = (
            whole.needs[t][rank] if index is None else np.concatenate([rows, index.halo[index.numbers(t)]])
        )
        edges.append(_edges(whole, t, rows, layout))
        features.append(task.features[t][rows])
        owned.append(np.flatnonzero(output[t][outs] == rank))
        everyone.append(outs)
        decode, target = None, None
        if task.pairs is None:
            assert task.targets is not None
            values = task.targets[t][outs]
            chosen = owned[-1]
            if task.kind == "classification":
                chosen = chosen[values[chosen] >= 0]
            target = Targets(chosen, values[chosen], chosen[:0], chosen[:0])
        elif t < len(task.pairs):
            decode, target = _pair_targets(whole, t, rank, pairs_index)
        if index is None:
            routes.append(Routes(*_routes(whole, t, rank), decode))
        targets.append(target)
    return LocalDynamic(
        rank,
        placement.workers,
        tuple(features),
        tuple(edges),
        tuple(targets),
        index,
        pairs_index,
        tuple(owned),
        tuple(everyone),
        tuple(routes),
    )


def _edges(whole: _Whole, t: int, rows: Ids, layout: Ids) -> Edges:
    """Of the neighbourhoods of `rows` in snapshot t; layout: the vertex of each column."""
    graph, degrees = whole.graph, whole.degrees[t]
    position = np.zeros(graph.num_vertices, dtype=np.int64)
    position[layout] = np.arange(len(layout))
    counts = np.diff(graph.indptr[t])[rows]
    firsts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    at = np.arange(counts.sum()) + np.repeat(graph.indptr[t][rows] - firsts, counts)
    number, near = np.repeat(np.arange(len(rows)), counts), graph.indices[t][at]
    weight = 1 / np.sqrt(degrees[rows[number]] * degrees[near])
    if graph.weights is not None:
        weight = weight * graph.weights[t][at]
    row = np.concatenate([np.arange(len(rows)), number])
    col = np.concatenate([position[rows], position[near]])
    values = np.concatenate([1 / degrees[rows], weight])
    # In ascending order of vertices: a sum then has one order, on any number of workers.
    order = np.lexsort((np.concatenate([rows, near]), row))
    return Edges(
        (len(rows), len(layout)), row[order].astype(np.int32), col[order].astype(np.int32), values[order]
    )


def _routes(whole: _Whole, t: int, rank: int) -> tuple[Route, Route, Route, Route | None, Route | None]:
    placement, needs = whole.placement, whole.needs
    spatial, temporal = placement.spatial, placement.temporal
    have = placement.rows(spatial, t, rank)
    inputs = make_route(rank, have, spatial[t], needs[t])
    if placement.copies is not None:
        alone = local_route(have, needs[t][rank])
        return inputs, alone, alone, None, None
    keep = placement.rows(temporal, t, rank)

    def everyone(at: int) -> list[Ids]:
        return [placement.rows(temporal, at, worker) for worker in range(placement.workers)]

    state = make_route(rank, keep, temporal[t], needs[t])
    over = None
    if not np.array_equal(spatial[t], temporal[t]):
        over = make_route(rank, have, spatial[t], everyone(t))
    carry = None
    if t and not np.array_equal(temporal[t], temporal[t - 1]):
        carry = make_route(rank, placement.rows(temporal, t - 1, rank), temporal[t - 1], everyone(t))
    return inputs, state, inputs, over, carry


def _pair_targets(whole: _Whole, t: int, rank: int, index: MergedIndex | None) -> tuple[Route, Targets]:
    task, placement, output = whole.task, whole.placement, whole.output
    outs = placement.rows(output, t, rank)
    assert task.pairs is not None
    ends, labels = task.pairs[t]
    mine = output[t][ends[:, 0]] == rank
    if index is not None:
        route = index.route(t)
        layout = np.concatenate([outs, index.halo[index.numbers(t)]])
    else:
        wanted = [pair_ends(task, output, t, worker) for worker in range(placement.workers)]
        layout = wanted[rank]
        copies = placement.copies is not None
        route = local_route(outs, layout) if copies else make_route(rank, outs, output[t], wanted)
    position = np.zeros(len(output[t]), dtype=np.int64)
    position[layout] = np.arange(len(layout))
    left, right = position[ends[mine, 0]], position[ends[mine, 1]]
    return route, Targets(np.zeros(0, np.int64), labels[mine], left, right)
