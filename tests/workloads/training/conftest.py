"""Small real graphs, runs of the local cluster, and exchanges between threads in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workloads.training.threads import Mailboxes, mailboxes, train_in_threads
from tests.workloads.training.threads import in_threads as every
from workloads.graphs import Graph, Provenance, load_graph
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import make_graph
from workloads.partition import Partition, partition_graph
from workloads.training.data import training_data
from workloads.training.exchange import Exchange
from workloads.training.job import Job, Trained
from workloads.training.launch import train_cluster
from workloads.training.local_graph import local_graph
from workloads.training.options import TrainOptions
from workloads.training.prepare import make_jobs


def induced(graph: Graph, count: int) -> Graph:
    """The subgraph of the first `count` vertices met from the one of highest degree, breadth first."""
    start = int(np.argmax(graph.degrees))
    seen, order, at = {start}, [start], 0
    while len(order) < count:
        for v in graph.indices[graph.indptr[order[at]] : graph.indptr[order[at] + 1]][:12]:
            if int(v) not in seen and len(order) < count:
                seen.add(int(v))
                order.append(int(v))
        at += 1
    chosen = np.sort(np.array(order))
    number = np.full(graph.num_vertices, -1, dtype=np.int64)
    number[chosen] = np.arange(count)
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    keep = (number[rows] >= 0) & (number[graph.indices] >= 0)
    csr = build_csr(count, number[rows][keep].astype(np.int32), number[graph.indices][keep].astype(np.int32))
    return make_graph(
        f"{graph.name}, {count} vertices",
        csr,
        Provenance("real", graph.provenance.source),
        feature_width=graph.feature_width,
        num_classes=graph.num_classes,
        features=graph.features[chosen].copy(),
        labels=graph.labels[chosen].copy(),
    )


@pytest.fixture(scope="session")
def debian_part() -> Graph:
    """400 connected packages of the real Debian graph."""
    return induced(load_graph("debian"), 400)


@pytest.fixture(scope="session")
def digits() -> Graph:
    """scikit-learn's 1,797 handwritten digits, each joined to its 8 nearest."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    data = load_digits()
    near = kneighbors_graph(data.data, 8).tocoo()
    csr = build_csr(len(data.target), near.row.astype(np.int32), near.col.astype(np.int32))
    return make_graph(
        "digits",
        csr,
        Provenance("real", "scikit-learn digits, 8 nearest neighbours"),
        feature_width=64,
        num_classes=10,
        features=(data.data / 16).astype(np.float32),
        labels=data.target.astype(np.int32),
    )


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
