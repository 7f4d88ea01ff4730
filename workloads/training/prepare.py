"""From a graph and a partition to the workers' jobs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from workloads.graphs.graph import Graph
from workloads.partition import Partition
from workloads.training.data import TRAIN, TrainingData
from workloads.training.extractor import LEVELS, extract_mask
from workloads.training.job import Job
from workloads.training.local_graph import local_graph
from workloads.training.options import TrainOptions


@dataclass(frozen=True)
class Keeping:
    """Checkpoints: their folder, every how many epochs (0: only when interrupted), and whether to go on from
    the newest.
    """

    folder: Path
    every: int = 0
    resume: bool = False


def identity(graph: Graph, partition: Partition, options: TrainOptions) -> str:
    """What a run must have in common with the one that it continues: all but the number of epochs."""
    chosen = {name: value for name, value in asdict(options).items() if name not in ("epochs", "timeout_s")}
    told = f"{graph.digest} {partition.digest} {sorted(chosen.items())}"
    return hashlib.sha256(told.encode()).hexdigest()


def make_jobs(
    graph: Graph,
    partition: Partition,
    data: TrainingData,
    options: TrainOptions,
    *,
    ranks: Iterable[int] | None = None,
    keeping: Keeping | None = None,
) -> list[Job]:
    """One job per worker, or for the workers `ranks` only."""
    start = time.perf_counter_ns()
    mask = extract_mask(graph, partition, options.mask, options.seed)
    extractor_ns = time.perf_counter_ns() - start
    counts = tuple(int(count) for count in np.bincount(mask.levels[mask.pool], minlength=LEVELS))
    run = identity(graph, partition, options)
    train_total = int((data.split == TRAIN).sum())
    jobs = []
    for rank in range(partition.k) if ranks is None else ranks:
        local = local_graph(graph, partition, rank)
        rows = local.inner
        jobs.append(
            Job(
                options,
                local,
                data.features[rows],
                data.labels[rows],
                data.split[rows],
                mask.levels[local.vertices],
                counts,
                data.num_classes,
                train_total,
                extractor_ns,
                run,
                None if keeping is None else keeping.folder,
                0 if keeping is None else keeping.every,
                keeping is not None and keeping.resume,
            )
        )
    return jobs
