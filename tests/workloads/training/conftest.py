"""Small real graphs, runs of the local cluster, and exchanges between threads in one process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from workloads.graphs import Graph, Provenance, load_graph
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import make_graph
from workloads.partition import Partition, partition_graph
from workloads.training.data import training_data
from workloads.training.exchange import Exchange
from workloads.training.job import Trained
from workloads.training.launch import train_cluster
from workloads.training.local_graph import local_graph
from workloads.training.options import TrainOptions
from workloads.training.prepare import make_jobs
from workloads.training.wire import Wire


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


def train(graph: Graph, workers: int, method: Any = "metis", **options: Any) -> Trained:
    """A whole run on the local cluster."""
    chosen = TrainOptions(**{"precision": "float64", "eval_every": 1000, **options})
    partition = partition_graph(graph, workers, method=method)
    return train_cluster(make_jobs(graph, partition, training_data(graph, 1), chosen), lambda row: None)


@pytest.fixture(scope="session")
def run() -> Callable[..., Trained]:
    """`train` as a fixture, for tests that cannot import this file."""
    return train


class ThreadWire(Wire):
    """A wire between threads: mailboxes in place of sockets."""

    def __init__(self, rank: int, workers: int, boxes: dict[tuple[int, int], queue.Queue[Any]]) -> None:
        super().__init__(rank, workers)
        self._boxes = boxes

    def swap(self, message: torch.Tensor, to: int, arriving: torch.Tensor, source: int) -> None:
        if message.numel():
            self._boxes[self.rank, to].put(message.clone())
        if arriving.numel():
            arriving.copy_(self._boxes[source, self.rank].get(timeout=20))


@pytest.fixture(scope="session")
def in_threads() -> Callable[..., list[Any]]:
    """Runs body(exchange, local, wire) for every worker of a partition, each in a thread; their results."""

    def go(graph: Graph, partition: Partition, body: Callable[..., Any]) -> list[Any]:
        k = partition.k
        boxes: dict[tuple[int, int], queue.Queue[Any]] = {
            (a, b): queue.Queue() for a in range(k) for b in range(k)
        }
        results: list[Any] = [None] * k

        def work(rank: int) -> None:
            local = local_graph(graph, partition, rank)
            wire = ThreadWire(rank, k, boxes)
            exchange = Exchange(local, wire, seed=5)
            try:
                results[rank] = body(exchange, local, wire)
            except Exception as error:
                results[rank] = error
            finally:
                exchange.close()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(k)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    return go
