"""What each worker computes on: for a network, parts of receptive fields; for a transformer, sequences.

Data parallelism of a network on one graph divides the training vertices: a replica takes its targets'
closure, everything within as many hops as the model propagates, and computes exactly what it would see of
the whole graph. Targets are divided along METIS's parts, so that closures overlap little. Turns divide them
further. A closure is then divided over the partition axis like a graph of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse

from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task
from workloads.partition import partition_graph
from workloads.partition.balance import weighted_partition
from workloads.training.local_graph import LocalGraph, local_graph
from workloads.training.transformer.layout import PairLayout, topology

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Balance:
    """What a part should weigh: alpha per vertex and beta per directed edge (from the profile), and the share
    of the work that each part should get (none: equal).
    """

    alpha: float = 1.0
    beta: float = 0.0
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Piece:
    """A network's share on one worker in one turn. vertices: int64[ni], ids of the local graph's inner
    vertices; targets: int64[], which of these count for the loss.
    """

    local: LocalGraph
    vertices: Ids
    targets: Ids


@dataclass(frozen=True, eq=False)
class SequencePiece:
    """A transformer's sequence, on every worker that shares it. vertices: int64[S]."""

    vertices: Ids
    layout: PairLayout
    targets: Ids


def induced(graph: Graph, vertices: Ids) -> Graph:
    """The subgraph of ascending `vertices`, renumbered."""
    matrix = scipy.sparse.csr_matrix(
        (np.ones(graph.num_edges, dtype=np.int8), graph.indices, graph.indptr),
        shape=(graph.num_vertices, graph.num_vertices),
    )
    inside = matrix[vertices][:, vertices]
    inside.sort_indices()
    return replace(
        graph,
        indptr=inside.indptr.astype(np.int64),
        indices=inside.indices.astype(np.int32),
        features=None,
        labels=None,
        split=None,
        digest=f"{graph.digest[:24]}-{hash_of(vertices)}",
    )


def hash_of(vertices: Ids) -> str:
    """A short content address of vertex ids."""
    return hashlib.sha256(vertices.astype("<i8").tobytes()).hexdigest()[:24]


def closure(graph: Graph, targets: Ids, hops: int) -> Ids:
    """Ascending ids of all vertices within `hops` of the targets."""
    reached = np.zeros(graph.num_vertices, dtype=bool)
    reached[targets] = True
    fresh = targets
    for _ in range(hops):
        if not len(fresh) or reached.all():
            break
        counts = graph.degrees[fresh]
        starts = np.repeat(graph.indptr[fresh] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        near = graph.indices[starts + np.arange(len(starts))]
        found = np.unique(near[~reached[near]]).astype(np.int64)
        reached[found] = True
        fresh = found
    return np.flatnonzero(reached)


def target_parts(task: Task, scheme: Scheme) -> list[Ids]:
    """The targets of every replica's every turn, turns of one replica side by side."""
    shares = scheme.data * scheme.accumulate
    targets = task.targets
    if shares == 1:
        return [targets]
    if shares > len(targets):
        raise InputError(f"{scheme.name}: {shares} shares of {len(targets)} training vertices")
    weights = np.zeros(task.graph.num_vertices, dtype=np.int64)
    weights[targets] = 1  # equal shares of what is learned on
    parts = weighted_partition(task.graph, shares, weights + (weights.sum() == 0), seed=task.seed)[targets]
    return [targets[parts == share] for share in range(shares)]


def field_of(task: Task, scheme: Scheme, targets: Ids) -> Ids:
    """What one turn computes on: the closure of its targets, or the whole graph where nothing is divided."""
    if scheme.data * scheme.accumulate == 1:
        return np.arange(task.graph.num_vertices)
    return closure(task.graph, targets, task.model.layers)


def divide(graph: Graph, parts: int, balance: Balance, seed: int) -> npt.NDArray[np.int32]:
    """The part of each vertex, by METIS with alpha * |V| + beta * |E| evened out; int32[n]."""
    if parts == 1:
        return np.zeros(graph.num_vertices, dtype=np.int32)
    weights = balance_weights(graph.degrees, balance)
    return weighted_partition(graph, parts, weights, shares=balance.shares or None, seed=seed)


def balance_weights(degrees: Ids, balance: Balance) -> Ids:
    """alpha + beta * degree per vertex as whole numbers from 1 (METIS's), int64[n]."""
    raw = balance.alpha + balance.beta * degrees.astype(np.float64)
    least = raw[raw > 0].min(initial=np.inf)
    if not np.isfinite(least):
        return np.ones(len(degrees), dtype=np.int64)
    return np.maximum(1, np.rint(np.minimum(raw / max(least, raw.max() * 1e-6) * 16, 1e6))).astype(np.int64)


def network_pieces(task: Task, scheme: Scheme, rank: int, balance: Balance) -> list[Piece]:
    """The turns of worker `rank`."""
    place = scheme.coordinates(rank)
    graph, every = task.graph, target_parts(task, scheme)
    first = place["data"] * scheme.accumulate
    pieces = []
    for targets in every[first : first + scheme.accumulate]:
        field = field_of(task, scheme, targets)
        whole = len(field) == graph.num_vertices
        inside = graph if whole else induced(graph, field)
        if len(field) < scheme.partition:
            raise InputError(f"{scheme.name}: a turn has {len(field)} vertices for {scheme.partition} parts")
        parts = divide(inside, scheme.partition, balance, task.seed)
        local = local_graph(inside, _Parts(parts, scheme.partition), place["partition"])  # type: ignore[arg-type]
        # Degrees are those of the whole graph: the edge of a closure must not look like the graph's.
        local = replace(local, degrees=graph.degrees[field[local.vertices]])
        vertices = field[local.inner]
        counted = np.zeros(graph.num_vertices, dtype=bool)
        counted[targets] = True
        pieces.append(Piece(local, vertices, np.flatnonzero(counted[vertices])))
    return pieces


@dataclass(frozen=True, eq=False)
class _Parts:
    """What `local_graph` reads of a partition."""

    parts: npt.NDArray[np.int32]
    k: int


def sequence_vertices(task: Task) -> list[Ids]:
    """The vertices of every sequence of a step."""
    if task.sequences == 1:
        return [np.arange(task.graph.num_vertices)]
    parts = partition_graph(task.graph, task.sequences, seed=task.seed).parts
    return [np.flatnonzero(parts == part) for part in range(task.sequences)]


def check_sequences(task: Task, scheme: Scheme) -> None:
    """Raises InputError where a replica's turn would have no sequence."""
    shares = scheme.data * scheme.accumulate
    if shares > task.sequences:
        raise InputError(f"{scheme.name}: {shares} shares of {task.sequences} sequence(s) a step")


def sequence_pieces(task: Task, scheme: Scheme, rank: int) -> list[list[SequencePiece]]:
    """The sequences of each turn of worker `rank`."""
    check_sequences(task, scheme)
    every = sequence_vertices(task)
    shares = scheme.data * scheme.accumulate
    first = scheme.coordinates(rank)["data"] * scheme.accumulate
    return [
        [_sequence(task, every[number]) for number in range(first + turn, len(every), shares)]
        for turn in range(scheme.accumulate)
    ]


def _sequence(task: Task, vertices: Ids) -> SequencePiece:
    inside = task.graph if len(vertices) == task.graph.num_vertices else induced(task.graph, vertices)
    counted = np.zeros(task.graph.num_vertices, dtype=bool)
    counted[task.targets] = True
    return SequencePiece(vertices, topology(inside), np.flatnonzero(counted[vertices]))
