"""The traffic of a run, by formula: what every kind of message must add up to, from graph and partition
alone.

Nothing here looks at routes or messages; the tests compare it with what the wire counted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition
from workloads.training.dynamic.options import DynamicOptions
from workloads.training.dynamic.task import Task

Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


def planned_bytes(
    graph: DynamicGraph,
    task: Task,
    partition: DynamicPartition,
    options: DynamicOptions,
    *,
    epochs: Iterable[dict[int, float]],
    parameters: int,
) -> dict[str, int]:
    """Bytes by kind of a whole run, of all workers. epochs: per epoch the windows that communicate and the
    share p that each sends (exact systems: every window, 1.0); parameters: of the model.

    A window sends ceil(p c) of the c rows that one worker needs of another in a snapshot, per layer;
    gradients travel back for the same rows. Not for dynahb, whose workers need more than their
    neighbourhoods.
    """
    item = 8 if options.precision == "float64" else 4
    spatial, temporal, workers = partition.spatial, partition.temporal, partition.workers
    ends, size = task.windows[0], graph.window
    evolving, layers, hidden = options.model == "evolvegcn", options.layers, options.hidden
    source = spatial if evolving else temporal
    span = range(int(ends[-1]) + 1)
    rows = [_pairs_needed(graph, t, spatial, source) for t in span]
    inputs = [int(_pairs_needed(graph, t, spatial, spatial).sum()) for t in span]
    sites = _sites(options, size)
    width = graph.feature_width
    total = dict.fromkeys(("features", "embeddings", "gradients", "states", "topk", "weights"), 0)
    if options.inputs == "once":
        total["features"] = sum(inputs) * width * item
    for talking in epochs:
        for number, last in enumerate(ends):
            first = int(last) - size + 1
            total["weights"] += 2 * (workers - 1) * parameters * item
            if options.inputs == "each":
                start = size - 1 if evolving and layers == 1 else 0
                total["features"] += sum(inputs[first + start : int(last) + 1]) * width * item
            total["states"] += 2 * _moved(options, spatial, temporal, first, int(last)) * item
            if number not in talking:
                continue
            share = talking[number]
            for positions, wide in sites:
                sent = sum(int(np.ceil(share * rows[first + at]).sum()) for at in positions)
                total["embeddings"] += sent * wide * item
            if task.pairs is not None:
                read = _ends_needed(task, int(last), source, workers)
                total["embeddings"] += int(np.ceil(share * read).sum()) * hidden * item
            if evolving:
                total["topk"] += _tops(options, width, size, workers, item)
    total["gradients"] = total["embeddings"]
    return total


def _sites(options: DynamicOptions, size: int) -> list[tuple[range, int]]:
    """Positions and width of each exchange of hidden rows in a window."""
    layers, hidden = options.layers, options.hidden
    if options.model == "tgcn":
        return [(range(size), hidden)] * (layers - 1)
    if options.model == "gclstm":
        return [(range(size - 1), 2 * hidden)] * layers
    return [(range(size if layer + 1 < layers else 0), hidden) for layer in range(1, layers)] + [
        (range(size - 1, size), hidden)
    ] * (layers > 1)


def _pairs_needed(graph: DynamicGraph, t: int, reader: Places, owner: Places) -> Counts:
    """int64[P, P]: distinct vertices that worker i needs of worker j in snapshot t: those whose
    neighbourhoods it sums, and their neighbours.
    """
    n = graph.num_vertices
    row = np.repeat(np.arange(n), np.diff(graph.indptr[t]))
    at = np.concatenate([reader[t][row], reader[t]]).astype(np.int64)
    vertex = np.concatenate([graph.indices[t], np.arange(n)])
    return _distinct(at, vertex, owner[t])


def _ends_needed(task: Task, t: int, owner: Places, workers: int) -> Counts:
    """int64[]: distinct upper ends that a worker needs of another; a pair is where its lower end is."""
    assert task.pairs is not None
    ends = task.pairs[t][0]
    return _distinct(owner[t][ends[:, 0]].astype(np.int64), ends[:, 1], owner[t])


def _distinct(reader: Counts, vertex: Counts, owner: Places) -> Counts:
    """Counts of the distinct (reader, vertex) per pair of different workers."""
    n = len(owner)
    keys = np.unique(reader * n + vertex)
    pairs = np.stack([keys // n, owner[keys % n]])
    pairs = pairs[:, pairs[0] != pairs[1]]
    return np.unique(pairs, axis=1, return_counts=True)[1].astype(np.int64)


def _moved(options: DynamicOptions, spatial: Places, temporal: Places, first: int, last: int) -> int:
    """Values of sums that go to where the states are, and of states that change workers, in one window."""
    if options.model == "evolvegcn":
        return 0
    layers, hidden = options.layers, options.hidden
    over = [int((spatial[t] != temporal[t]).sum()) for t in range(first, last + 1)]
    carried = [int((temporal[t] != temporal[t - 1]).sum()) for t in range(first + 1, last + 1)]
    if options.model == "tgcn":
        return layers * hidden * (sum(over) + sum(carried))
    return 4 * hidden * sum(over) + layers * 2 * hidden * (sum(over[:-1]) + sum(carried))


def _tops(options: DynamicOptions, features: int, size: int, workers: int, item: int) -> int:
    """Bytes of a window's summaries: every worker offers scores and ids to all others, the chosen rows go to
    all others, and so do their gradients back.
    """
    hidden, total = options.hidden, 0
    for layer in range(options.layers):
        wide = hidden if layer else features
        total += workers * (workers - 1) * size * hidden * 16
        total += 2 * (workers - 1) * size * hidden * wide * item
    return total
