"""Workers as threads of one process, with mailboxes in place of sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.workloads.training.threads import Mailboxes, mailboxes
from tests.workloads.training.threads import in_threads as every
from workloads.training.data import training_data
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.prepare import prepare_graph, prepare_set
from workloads.training.transformer.worker import TransformerTraining
from workloads.training.wire import Wire


def in_threads(workers: int, body: Callable[[Wire], Any]) -> list[Any]:
    """body(wire) of every worker, each in a thread."""
    boxes = mailboxes(workers)
    return every(workers, lambda rank: body(Mailboxes(rank, workers, boxes)))


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
    boxes = mailboxes(workers)
    trainings = [  # weights come from torch's one global generator, so not in threads
        TransformerTraining(job, cpu, Mailboxes(rank, workers, boxes))
        for rank, job in enumerate(prepared.jobs)
    ]

    def work(rank: int) -> None:
        for epoch in range(chosen.epochs):
            trainings[rank].epoch(epoch, False)

    every(workers, work)
    return prepared, trainings


@pytest.fixture(scope="session")
def run_threads() -> Callable[..., tuple[Any, list[Any]]]:
    """`trained`, for tests that cannot import this file."""
    return trained


@pytest.fixture(scope="session")
def threads() -> Callable[..., list[Any]]:
    """`in_threads`, for tests that cannot import this file."""
    return in_threads
