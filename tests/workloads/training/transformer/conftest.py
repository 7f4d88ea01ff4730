"""Workers as threads of one process, with mailboxes in place of sockets."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from workloads.training.data import training_data
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.prepare import prepare_graph, prepare_set
from workloads.training.transformer.worker import TransformerTraining
from workloads.training.wire import Wire


class Mailboxes(Wire):
    """A worker's wire between threads."""

    def __init__(self, rank: int, workers: int, boxes: dict[tuple[int, int], Any]) -> None:
        super().__init__(rank, workers)
        self._boxes = boxes

    def swap(self, message: torch.Tensor, to: int, arriving: torch.Tensor, source: int) -> None:
        if message.numel():
            self._boxes[self.rank, to].put(message.clone())
        if arriving.numel():
            arriving.copy_(self._boxes[source, self.rank].get(timeout=60))


def in_threads(workers: int, body: Callable[[Wire], Any]) -> list[Any]:
    """body(wire) of every worker, each in a thread."""
    boxes = {(a, b): queue.Queue() for a in range(workers) for b in range(workers)}
    results: list[Any] = [None] * workers

    def work(rank: int) -> None:
        try:
            results[rank] = body(Mailboxes(rank, workers, boxes))
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def trained(graph: Any, workers: int, change: Any = None, **options: Any) -> tuple[Any, list[Any]]:
    """(what was prepared, the workers' trainings) after all epochs. change: called with what was prepared."""
    many = hasattr(graph, "graphs")
    standard = {"epochs": 3, "precision": "float64", "clusters": 0 if many else 4, "sub_block": 8}
    chosen = TransformerOptions(**standard | options)
    cpu = torch.device("cpu")
    if many:
        prepared = prepare_set(graph, chosen, workers, cpu)
    else:
        prepared = prepare_graph(graph, training_data(graph, 1), chosen, workers, cpu)
    if change is not None:
        change(prepared)
    boxes = {(a, b): queue.Queue() for a in range(workers) for b in range(workers)}
    trainings = [  # weights come from torch's one global generator, so not in threads
        TransformerTraining(job, cpu, Mailboxes(rank, workers, boxes))
        for rank, job in enumerate(prepared.jobs)
    ]

    def work(wire: Wire) -> None:
        for epoch in range(chosen.epochs):
            trainings[wire.rank].epoch(epoch, False)

    in_threads(workers, work)
    return prepared, trainings


@pytest.fixture(scope="session")
def run_threads() -> Callable[..., tuple[Any, list[Any]]]:
    """`trained`, for tests that cannot import this file."""
    return trained


@pytest.fixture(scope="session")
def threads() -> Callable[..., list[Any]]:
    """`in_threads`, for tests that cannot import this file."""
    return in_threads
