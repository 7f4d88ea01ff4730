"""Small dynamic graphs, and runs whose workers are threads of this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workloads.training.threads import train_dynamic
from workloads.graphs.dynamic import DynamicGraph, load_dynamic_graph
from workloads.partition.dynamic import DynamicPartition
from workloads.training.dynamic.options import make_options
from workloads.training.dynamic.prepare import make_dynamic_jobs
from workloads.training.dynamic.worker import DynamicTraining

SOURCES = {"regression": "traffic:40:10", "classification": "contacts:40:10", "link": "social:50:10"}


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
    return train_dynamic(jobs)


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
