"""Small real graphs, runs of the local cluster, and exchanges between threads in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.workloads.training.labelled import connected_part, handwritten_digits
from tests.workloads.training.threads import Mailboxes, mailboxes, train_in_threads
from tests.workloads.training.threads import in_threads as every
from workloads.graphs import Graph, load_graph
from workloads.partition import Partition, partition_graph
from workloads.training.data import training_data
from workloads.training.exchange import Exchange
from workloads.training.job import Job, Trained
from workloads.training.launch import train_cluster
from workloads.training.local_graph import local_graph
from workloads.training.options import TrainOptions
from workloads.training.prepare import make_jobs


@pytest.fixture(scope="session")
def debian_part() -> Graph:
    """400 connected packages of the real Debian graph."""
    return connected_part(load_graph("debian"), 400)


@pytest.fixture(scope="session")
def digits() -> Graph:
    """The handwritten digits."""
    return handwritten_digits()


@pytest.fixture(scope="session")
def karate() -> Graph:
    """Zachary's club: 34 vertices, identity features."""
    return load_graph("karate")


def jobs(graph: Graph, workers: int, method: Any = "metis", **options: Any) -> list[Job]:
    """A whole run's, for each worker."""
    chosen = TrainOptions(**{"precision": "float64", "eval_every": 1000, **options})
    partition = partition_graph(graph, workers, method=method)
    return make_jobs(graph, partition, training_data(graph, 1), chosen)


@pytest.fixture(scope="session")
def on_processes() -> Callable[..., Trained]:
    """A whole run on the local cluster."""
    return lambda *graph_and_workers, **options: train_cluster(
        jobs(*graph_and_workers, **options), lambda row: None
    )


@pytest.fixture(scope="session")
def run() -> Callable[..., Trained]:
    """A whole run of all workers in this process: the same code, messages and results, at a tenth of the
    time (`test_exact_training.py` holds one against the other).
    """
    return lambda *graph_and_workers, **options: train_in_threads(jobs(*graph_and_workers, **options))


@pytest.fixture(scope="session")
def in_threads() -> Callable[..., list[Any]]:
    """Runs body(exchange, local, wire) for every worker of a partition, each in a thread; their results."""

    def go(graph: Graph, partition: Partition, body: Callable[..., Any]) -> list[Any]:
        boxes = mailboxes(partition.k)

        def work(rank: int) -> Any:
            local = local_graph(graph, partition, rank)
            wire = Mailboxes(rank, partition.k, boxes)
            exchange = Exchange(local, wire, seed=5)
            try:
                return body(exchange, local, wire)
            finally:
                exchange.close()

        return every(partition.k, work)

    return go
