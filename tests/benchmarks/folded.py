"""All of a job's workers in one process and one thread: for benches that train many small models.

The workers' graphs are laid side by side and become the one graph of a single worker, whose halo is every
worker's and which sends to itself. What runs is the code of `netfold train`, with the same messages, widths
and staleness; sums run in another order and rounding draws other numbers. The counted clock takes the mean
worker where a cluster takes the busiest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.job import Job
from workloads.training.local_graph import LocalGraph
from workloads.training.wire import Wire
from workloads.training.worker import Training


class AtOnce:
    """A lane that does each transfer when it is submitted. A stale epoch still reads what it should: the
    other buffer.
    """

    def submit(self, transfer: Callable[[], None]) -> Done:
        """Do it."""
        with torch.no_grad():
            transfer()
        return Done()

    def lend(self, values: Tensor) -> None: ...
    def close(self) -> None: ...


class Done:
    """The ticket of a transfer that is over. Each has its own: the exchange tells by them which records are
    still under way, and would keep every record of the run as such if they were one.
    """

    def wait(self) -> None: ...

    def elapsed_ns(self) -> int:
        """Not measured."""
        return 0


class Loopback(Wire):
    """Sends to itself. workers: how many are folded, for the bytes of the weights' all-reduce."""

    def __init__(self, workers: int) -> None:
        super().__init__(0, 1)
        self._folded = workers

    def all_to_all(self, outgoing: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """What was sent."""
        return outgoing

    def all_reduce(self, values: Tensor) -> int:
        """The sum is there already; the bytes that all workers' rings would have sent."""
        return 2 * (self._folded - 1) * values.nbytes


def folded_graph(locals_: Sequence[LocalGraph]) -> LocalGraph:
    """The workers' graphs as one: all inner vertices by worker, then all halos by worker."""
    inner_at = np.concatenate([[0], np.cumsum([len(local.inner) for local in locals_])])
    halo_at = inner_at[-1] + np.concatenate([[0], np.cumsum([len(local.halo) for local in locals_])])
    edge_at = np.concatenate([[0], np.cumsum([len(local.indices) for local in locals_])])
    indices, send = [], []
    for local in locals_:
        rank, own = local.rank, len(local.inner)
        numbers = local.indices.astype(np.int64)
        indices.append(numbers + np.where(numbers < own, inner_at[rank], halo_at[rank] - own))
        send += [inner_at[peer.rank] + peer.send[rank] for peer in locals_]
    degrees = [local.degrees[: len(local.inner)] for local in locals_]
    degrees += [local.degrees[len(local.inner) :] for local in locals_]
    starts = [local.indptr[:-1] + at for local, at in zip(locals_, edge_at, strict=False)]
    return LocalGraph(
        0,
        1,
        np.concatenate([local.inner for local in locals_]),
        np.concatenate([local.halo for local in locals_]),
        np.concatenate([*starts, edge_at[-1:]]),
        np.concatenate(indices).astype(np.int32),
        np.concatenate(degrees),
        (np.concatenate(send),),
        (int(halo_at[-1] - inner_at[-1]),),
    )


def train_folded(jobs: Sequence[Job]) -> Training:
    """A whole run of all the workers' jobs; its `rows` and `exchange.traffic` are the whole job's."""
    local, workers = folded_graph([job.local for job in jobs]), len(jobs)
    inner = [len(job.local.inner) for job in jobs]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(job, name) for job in jobs])

    levels = [job.levels[:count] for job, count in zip(jobs, inner, strict=True)]
    levels += [job.levels[count:] for job, count in zip(jobs, inner, strict=True)]
    options = replace(jobs[0].options, link_gbps=jobs[0].options.link_gbps * workers)
    job = replace(
        jobs[0],
        options=options,
        local=local,
        features=joined("features"),
        labels=joined("labels"),
        split=joined("split"),
        levels=np.concatenate(levels),
    )
    training = Training(job, torch.device("cpu"), [Loopback(workers) for _ in range(3)])
    for exchange in (training.exchange, training.evaluation):
        exchange.close()
        exchange.lane = AtOnce()
    for epoch in range(options.epochs):
        training.epoch(epoch, False)
    return training
