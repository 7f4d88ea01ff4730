"""What each worker computes on: for a network, parts of receptive fields; for a transformer, sequences.

Of a set of graphs every share is some of them, the heaviest first to whoever has least (by alpha per vertex
and beta per edge): nothing is cut and nothing is computed twice.

Data parallelism of a network on one graph divides the training vertices: a replica takes its targets'
closure, everything within as many hops as the model propagates, and computes exactly what it would see of
the whole graph. Targets are divided along METIS's parts, so that closures overlap little. Turns divide them
further. A closure is then divided over the partition axis like a graph of its own.
"""

from __future__ import annotations

import hashlib
import heapq
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
from workloads.training.transformer.graph_set import batch
from workloads.training.transformer.layout import topology
from workloads.training.transformer.parallel import even_bounds
from workloads.training.transformer.tokens import Tokens

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
    vertices; targets: int64[], which of these count for the loss. Of a set, groups: int64[ni], which of the
    turn's graphs, `members`, each vertex is of, and targets are all of them.
    """

    local: LocalGraph
    vertices: Ids
    targets: Ids
    groups: Ids | None = None
    members: Ids | None = None


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
        now = np.zeros(graph.num_vertices, dtype=bool)
        now[graph.indices[starts + np.arange(len(starts))]] = True
        fresh = np.flatnonzero(now & ~reached)
        reached |= now
    return np.flatnonzero(reached)


def target_parts(task: Task, scheme: Scheme, balance: Balance) -> list[Ids]:
    """The targets of every replica's every turn, turns of one replica side by side."""
    shares = scheme.data * scheme.accumulate
    targets = task.targets
    if shares == 1:
        return [targets]
    if shares > len(targets):
        what = "vertices" if task.graphs is None else "graphs"
        raise InputError(f"{scheme.name}: {shares} shares of {len(targets)} training {what}")
    if task.graphs is not None:
        return _even_shares(task, shares, balance)
    weights = np.zeros(task.graph.num_vertices, dtype=np.int64)
    weights[targets] = 1  # equal shares of what is learned on
    parts = weighted_partition(task.graph, shares, weights + (weights.sum() == 0), seed=task.seed)[targets]
    return [targets[parts == share] for share in range(shares)]


def _even_shares(task: Task, shares: int, balance: Balance) -> list[Ids]:
    """A set's training graphs, dealt out: ascending numbers, sums of weights about equal."""
    assert task.graphs is not None
    sizes = [(g.num_vertices, g.num_edges) for g in task.graphs.graphs]
    weight = [balance.alpha * n + balance.beta * m for n, m in sizes]
    held: list[tuple[float, int, list[int]]] = [(0.0, share, []) for share in range(shares)]
    for member in sorted(task.targets.tolist(), key=lambda member: -weight[member]):
        total, share, members = heapq.heappop(held)
        heapq.heappush(held, (total + weight[member], share, [*members, member]))
    return [np.array(sorted(members), dtype=np.int64) for _, _, members in sorted(held, key=lambda h: h[1])]


def field_of(task: Task, scheme: Scheme, targets: Ids) -> Ids:
    """What one turn computes on: the closure of its targets, or the whole graph where nothing is divided;
    of a set, the vertices of its graphs.
    """
    if task.graphs is not None:
        return np.concatenate([np.arange(task.starts[g], task.starts[g + 1]) for g in targets])
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
    graph, every = task.graph, target_parts(task, scheme, balance)
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
        if task.graphs is not None:
            group = np.searchsorted(task.starts[targets], vertices, side="right") - 1
            pieces.append(Piece(local, vertices, np.arange(len(targets)), group, targets))
            continue
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
    """The vertices of every sequence of a step, of one graph."""
    if task.sequences == 1:
        return [np.arange(task.graph.num_vertices)]
    parts = partition_graph(task.graph, task.sequences, seed=task.seed).parts
    return [np.flatnonzero(parts == part) for part in range(task.sequences)]


def check_sequences(task: Task, scheme: Scheme) -> None:
    """Raises InputError where a replica's turn would have no sequence."""
    shares = scheme.data * scheme.accumulate
    if task.graphs is None and shares > task.sequences:
        raise InputError(f"{scheme.name}: {shares} shares of {task.sequences} sequence(s) a step")


def sequence_tokens(task: Task, scheme: Scheme, rank: int, balance: Balance) -> list[list[Tokens]]:
    """The sequences of each turn of worker `rank`, its own rows of them. Of a set, a turn is one sequence."""
    check_sequences(task, scheme)
    place = scheme.coordinates(rank)
    seat = place["sequence"], scheme.sequence
    shares = scheme.data * scheme.accumulate
    first = place["data"] * scheme.accumulate
    if task.graphs is not None:
        every = target_parts(task, scheme, balance)[first : first + scheme.accumulate]
        spots = np.split(task.places, task.starts[1:-1])
        return [[batch(task.graphs, members, seat, spots)] for members in every]
    sequences = sequence_vertices(task)
    return [
        [_tokens(task, sequences[number], seat) for number in range(first + turn, len(sequences), shares)]
        for turn in range(scheme.accumulate)
    ]


def _tokens(task: Task, vertices: Ids, seat: tuple[int, int]) -> Tokens:
    n = len(vertices)
    inside = task.graph if n == task.graph.num_vertices else induced(task.graph, vertices)
    bounds = even_bounds(n, seat[1])
    own = slice(bounds[seat[0]], bounds[seat[0] + 1])
    mine = vertices[own]
    data, whole = task.data, np.array([0, n])
    return Tokens(
        bounds,
        np.asarray(data.features[mine], dtype=np.float32),
        task.graph.degrees[mine],
        task.places[mine],
        mine.astype(np.int32),
        data.labels[mine],
        data.split[mine],
        topology=topology(inside),
        starts=whole,
        segments=whole,
        every=None,
        train_total=task.train_total,
    )
