"""From a dynamic graph on workers to the directed sums of every window: who sends which node's values to
whom.

A T-GCN of L blocks (GCN + GRU): the first block sums input features, every other one the states of the block
before, all positions of a window at once; gradients travel back for the rows that were sent. A node is
position * n + vertex; further ones, above Ns * n, stand for the gradient that a reader has of a row, and for
workers as such.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition
from workloads.plan.dynamic import Ids, Knobs, MergedBoundary, WindowSends, chosen_sums, cross_edges

KINDS = ("features", "embeddings", "gradients", "states")


@dataclass(frozen=True, eq=False)
class Step:
    """One exchange of a window. kind: of its bytes; direction: "forward" or "backward"; sources, targets:
    int64[e], the nodes of each edge; owner: int32[nodes], the worker of each node. pairs: whether it is of
    link prediction's pairs, whose ends are rows that nobody adds up.
    """

    kind: str
    direction: str
    sources: Ids
    targets: Ids
    owner: npt.NDArray[np.int32]
    pairs: bool = False

    @property
    def rows(self) -> int:
        """Rows that hosts send: distinct (source, worker)."""
        workers = int(self.owner.max(initial=0)) + 1
        return len(np.unique(self.sources * workers + self.owner[self.targets]))

    @property
    def partial_sums(self) -> int:
        """Partial sums that hosts send to a summing switch: distinct (target, worker)."""
        workers = int(self.owner.max(initial=0)) + 1
        return len(np.unique(self.targets * workers + self.owner[self.sources]))

    @property
    def sums(self) -> int:
        """Sums that the switch hands out: distinct targets."""
        return len(np.unique(self.targets))


def row_steps(
    graph: DynamicGraph, partition: DynamicPartition, boundary: MergedBoundary, window: WindowSends
) -> tuple[Step, Step]:
    """The exchange of the chosen rows, and that of their gradients, on a vertex partition."""
    n, parts = graph.num_vertices, partition.parts.astype(np.int64)
    first = window.last - graph.window + 1
    sources, targets, chosen = [], [], []
    for position, rows in enumerate(window.rows):
        row, column, _ = cross_edges(graph, parts, first + position)
        keys = boundary.reader[rows] * n + boundary.vertex[rows]
        sent = np.isin(parts[row] * n + column, keys)
        sources.append(position * n + column[sent])
        targets.append(position * n + row[sent])
        chosen.append(position * n + boundary.vertex[rows])
    reader = np.concatenate([boundary.reader[rows] for rows in window.rows]).astype(np.int32)
    nodes = np.tile(partition.parts, graph.window)
    rows_sent = np.concatenate(chosen)
    gradients = len(nodes) + np.arange(len(rows_sent))
    forward = Step("embeddings", "forward", np.concatenate(sources), np.concatenate(targets), nodes)
    owner = np.concatenate([nodes, reader])
    return forward, Step("gradients", "backward", gradients, rows_sent, owner)


def sum_steps(
    graph: DynamicGraph, partition: DynamicPartition, knobs: Knobs, window: WindowSends, time: int
) -> tuple[Step, Step]:
    """The same for a switch that adds up: of the chosen vertices all remote neighbours contribute."""
    n, parts = graph.num_vertices, partition.parts.astype(np.int64)
    first = window.last - graph.window + 1
    sources, targets = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for position, rows in enumerate(window.rows):
        if not len(rows):
            continue
        row, column, _ = cross_edges(graph, parts, first + position)
        taken = np.isin(row, chosen_sums(graph, parts, first + position, knobs, time))
        sources.append(position * n + column[taken])
        targets.append(position * n + row[taken])
    nodes = np.tile(partition.parts, graph.window)
    source, target = np.concatenate(sources), np.concatenate(targets)
    return (
        Step("embeddings", "forward", source, target, nodes),
        Step("gradients", "backward", target, source, nodes),
    )


def placed_steps(graph: DynamicGraph, partition: DynamicPartition, last: int) -> list[Step]:
    """The exchanges of a window whose vertices change workers (snapshot and chunk partitions): states to
    where they are summed ("embeddings"), sums to where the states are and states on to the next snapshot's
    worker ("states"), and each backward.

    The states' way through a window is one exchange here, position by position in the trained model: its
    bytes are those, its time a lower bound.
    """
    n, size = graph.num_vertices, graph.window
    first = last - size + 1
    spatial, temporal = partition.spatial[first : last + 1], partition.temporal[first : last + 1]
    reads, moves, carries = [], [], []
    for position in range(size):
        reader, vertex = _needed(graph, partition, first + position, partition.temporal)
        reads.append((position * n + vertex, reader))
        over = np.flatnonzero(spatial[position] != temporal[position])
        moves.append((position * n + over, temporal[position][over].astype(np.int64)))
        if position:
            gone = np.flatnonzero(temporal[position] != temporal[position - 1])
            carries.append(((position - 1) * n + gone, temporal[position][gone].astype(np.int64)))
    kept, summed = temporal.reshape(-1), spatial.reshape(-1)
    steps: list[Step] = []
    for kind, found, owner in (
        ("embeddings", reads, kept),
        ("states", moves, summed),
        ("states", carries, kept),
    ):
        node = np.concatenate([nodes for nodes, _ in found])
        to = np.concatenate([workers for _, workers in found])
        steps += _there_and_back(kind, node, to, owner, partition.workers)
    return [step for step in steps if len(step.sources)]


def end_steps(partition: DynamicPartition, last: int, reader: Ids, vertex: Ids) -> tuple[Step, Step]:
    """The exchange of the pairs' ends (reader, vertex: int64[r]) after a window's last block, and that of
    their gradients.
    """
    owner = partition.temporal[last]
    there, back = _there_and_back("embeddings", vertex, reader, owner, partition.workers)
    return replace(there, pairs=True), replace(back, pairs=True)


def input_step(graph: DynamicGraph, partition: DynamicPartition, last: int) -> Step:
    """The exchange of a window's input features."""
    n, first = graph.num_vertices, last - graph.window + 1
    found = [_needed(graph, partition, t, partition.spatial) for t in range(first, last + 1)]
    node = np.concatenate([position * n + vertex for position, (_, vertex) in enumerate(found)])
    reader = np.concatenate([readers for readers, _ in found])
    owner = partition.spatial[first : last + 1].reshape(-1)
    return _there_and_back("features", node, reader, owner, partition.workers)[0]


def _needed(
    graph: DynamicGraph, partition: DynamicPartition, t: int, where: npt.NDArray[np.int32]
) -> tuple[Ids, Ids]:
    """(reader, vertex) that sums need of others in snapshot t, where rows are by `where` int32[T, n]."""
    n = graph.num_vertices
    spatial = partition.spatial[t].astype(np.int64)
    reader = np.concatenate([np.repeat(spatial, np.diff(graph.indptr[t])), spatial])
    vertex = np.concatenate([graph.indices[t].astype(np.int64), np.arange(n)])
    remote = reader != where[t][vertex]
    keys = np.unique(reader[remote] * n + vertex[remote])
    return keys // n, keys % n


def _there_and_back(
    kind: str, node: Ids, to: Ids, owner: npt.NDArray[np.int32], workers: int
) -> tuple[Step, Step]:
    """Rows of nodes that go to workers, and what comes back for each."""
    nodes = len(owner)
    everyone = np.arange(workers, dtype=np.int32)
    forward = Step(kind, "forward", node, nodes + to, np.concatenate([owner, everyone]))
    back = nodes + workers + np.arange(len(node))
    ends = np.concatenate([owner, everyone, to.astype(np.int32)])
    home = nodes + owner[node].astype(np.int64)
    kind = "gradients" if kind == "embeddings" else kind
    return forward, Step(kind, "backward", back, home, ends)
