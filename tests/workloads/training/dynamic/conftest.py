"""Small dynamic graphs, and runs whose workers are threads of this process."""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pytest
import torch

from workloads.graphs.dynamic import DynamicGraph, load_dynamic_graph
from workloads.partition.dynamic import DynamicPartition
from workloads.training.dynamic.options import make_options
from workloads.training.dynamic.prepare import make_dynamic_jobs
from workloads.training.dynamic.worker import DynamicJob, DynamicTraining
from workloads.training.wire import Wire

SOURCES = {"regression": "traffic:40:10", "classification": "contacts:40:10", "link": "social:50:10"}


class Mailboxes(Wire):
    """A wire between threads: queues in place of sockets."""

    def __init__(self, rank: int, workers: int, boxes: dict[tuple[int, int], queue.Queue[Any]]) -> None:
        super().__init__(rank, workers)
        self._boxes = boxes

    def swap(self, message: torch.Tensor, to: int, arriving: torch.Tensor, source: int) -> None:
        if message.numel():
            self._boxes[self.rank, to].put(message.clone())
        if arriving.numel():
            arriving.copy_(self._boxes[source, self.rank].get(timeout=60))


def split(graph: DynamicGraph, workers: int, system: str) -> DynamicPartition:
    """A partition that cuts a lot: vertices at random, whole snapshots, or each vertex of each snapshot at
    random.
    """
    n, count = graph.num_vertices, graph.num_snapshots
    random = np.random.default_rng(7)
    parts = random.integers(0, workers, (count, n) if system == "chunk" else n).astype(np.int32)
    spatial = temporal = np.broadcast_to(parts, (count, n))
    if system == "snapshot":
        parts = spatial = np.broadcast_to(
            (np.arange(count) // 2 % workers).astype(np.int32)[:, None], (count, n)
        )
    return DynamicPartition("test", workers, parts, spatial, temporal, 0.0, f"{system} {workers}")


def train(graph: DynamicGraph, workers: int, **given: Any) -> list[DynamicTraining]:
    """Every worker after a whole run, worker 0 first."""
    options = make_options({"precision": "float64", "eval_every": 1000, "hidden": 6, "epochs": 2} | given)
    jobs = make_dynamic_jobs(graph, split(graph, workers, options.system), options)
    return run_in_threads(jobs)


def run_in_threads(jobs: list[DynamicJob]) -> list[DynamicTraining]:
    """Train; workers are threads of this process."""
    workers, options = len(jobs), jobs[0].options
    pairs = [(a, b) for a in range(workers) for b in range(workers)]
    groups = [{pair: queue.Queue() for pair in pairs} for _ in range(2)]
    made = [
        DynamicTraining(job, torch.device("cpu"), [Mailboxes(rank, workers, boxes) for boxes in groups])
        for rank, job in enumerate(jobs)
    ]
    failures: list[BaseException] = []

    def work(worker: DynamicTraining) -> None:
        try:
            worker.mix_once()
            for epoch in range(options.epochs):
                worker.epoch(epoch, False)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.5)
    if failures:
        raise failures[0]
    return made


@pytest.fixture(scope="session")
def go():
    """`train` as a fixture, for tests that cannot import this file."""
    return train


@pytest.fixture(scope="session", name="split")
def _split():
    """`split` as a fixture."""
    return split


@pytest.fixture(scope="session")
def graphs() -> dict[str, DynamicGraph]:
    """One small graph per task."""
    return {task: load_dynamic_graph(source, window=4) for task, source in SOURCES.items()}
