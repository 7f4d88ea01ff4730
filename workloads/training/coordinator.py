"""SYLVIE's Coordinator: at an epoch's end the workers add up what each has to report; all get the sums.

No worker is special, and no weights pass here: a ring sums a few numbers of every worker.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workloads.training.wire import Wire

KINDS = ("embeddings", "gradients", "scales", "weights", "control")


@dataclass(frozen=True)
class Report:
    """One worker's epoch. loss: its part of the mean over all training vertices, so that a worker with few of
    them does not weigh more (the paper's mean over partitions, weighted by their training vertices). sent:
    its bytes of each kind but the last. scores: float64[6], (a, b) of each part of the split. stop: it was
    told to stop.
    """

    loss: float
    sent: tuple[int, ...]
    wall_ns: int
    scores: Tensor
    stop: bool


@dataclass(frozen=True)
class Epoch:
    """The same epoch of all workers. sent: bytes of each kind. busiest_bytes: of the worker that sent most;
    slowest_ns: of the one that took longest; stop: whether any was told to stop.
    """

    loss: float
    sent: tuple[int, ...]
    busiest_bytes: int
    slowest_ns: float
    scores: Tensor
    stop: bool


def coordinate(mine: Report, wire: Wire) -> Epoch:
    """Every worker calls it with its own report; all get the same result, bit for bit."""
    rank, workers, kinds = wire.rank, wire.workers, len(mine.sent)
    head = [mine.loss, float(mine.stop), *map(float, mine.sent), *mine.scores.tolist()]
    values = torch.zeros(len(head) + 2 * workers, dtype=torch.float64)
    values[: len(head)] = torch.tensor(head, dtype=torch.float64)
    bytes_by_worker, ns_by_worker = values[len(head) :].split(workers)
    bytes_by_worker[rank], ns_by_worker[rank] = sum(mine.sent), mine.wall_ns
    wire.all_reduce(values)
    loss, stop, *rest = values[: len(head)].tolist()
    # In each of the ring's 2 (P-1) steps, the workers together send every value once.
    control = 2 * (workers - 1) * values.numel() * values.element_size()
    return Epoch(
        loss,
        (*(int(count) for count in rest[:kinds]), control),
        int(bytes_by_worker.max()),
        float(ns_by_worker.max()),
        values[2 + kinds : len(head)],
        bool(stop),
    )
