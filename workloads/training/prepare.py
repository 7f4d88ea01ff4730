"""From a graph and a partition to the workers' jobs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workloads.graphs.graph import Graph
from workloads.partition import Partition
from workloads.training.data import TRAIN, TrainingData
from workloads.training.extractor import LEVELS, extract_mask
from workloads.training.local_graph import local_graph
from workloads.training.options import TrainOptions
from workloads.training.worker import Job


def make_jobs(
    graph: Graph,
    partition: Partition,
    data: TrainingData,
    options: TrainOptions,
    *,
    ranks: Iterable[int] | None = None,
) -> list[Job]:
    """One job per worker, or for the workers `ranks` only."""
    mask = extract_mask(graph, partition, options.mask, options.seed)
    counts = tuple(int(count) for count in np.bincount(mask.levels[mask.pool], minlength=LEVELS))
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
            )
        )
    return jobs
