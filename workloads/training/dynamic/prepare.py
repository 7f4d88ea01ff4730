"""From a dynamic graph and a partition to what each worker is given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from workloads.errors import InputError
from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition
from workloads.training.dynamic.local import make_locals, pair_ends
from workloads.training.dynamic.models import MODELS
from workloads.training.dynamic.options import VERTEX_SYSTEMS, DynamicOptions
from workloads.training.dynamic.placement import Placement, with_copies
from workloads.training.dynamic.task import Task, make_task
from workloads.training.dynamic.worker import DynamicJob
from workloads.training.prepare import Keeping


def place(graph: DynamicGraph, task: Task, options: DynamicOptions, partition: DynamicPartition) -> Placement:
    """Where the chosen system computes what. Raises InputError where it needs a vertex partition and has
    none.
    """
    workers = partition.workers
    whole = Placement(workers, partition.spatial, partition.temporal)
    if options.system in VERTEX_SYSTEMS and not partition.fixed:
        raise InputError(
            f"partition: {partition.method} moves vertices between workers; allowed with {options.system}: a "
            "partition of vertices"
        )
    if options.system != "dynahb" or workers == 1:
        return whole
    ends = [np.zeros(0, dtype=np.int64)] * workers
    if task.pairs is not None:
        snapshots = range(len(task.pairs))
        ends = [
            np.unique(np.concatenate([pair_ends(task, whole.temporal, t, rank) for t in snapshots]))
            for rank in range(workers)
        ]
    hops = MODELS[options.model].hops(options.layers, graph.window)
    return with_copies(graph, partition.parts, hops, ends)


def make_dynamic_jobs(
    graph: DynamicGraph,
    partition: DynamicPartition,
    options: DynamicOptions,
    *,
    ranks: Iterable[int] | None = None,
    keeping: Keeping | None = None,
) -> list[DynamicJob]:
    """One job per worker, or for the workers `ranks` only."""
    if options.model == "evolvegcn" and options.hidden > graph.num_vertices:
        raise InputError(
            f"hidden: {options.hidden} given; allowed with evolvegcn: 1 to the vertices, {graph.num_vertices}"
        )
    task = make_task(graph, options.seed)
    placement = place(graph, task, options, partition)
    locals_ = make_locals(graph, task, placement, summed_output=MODELS[options.model].summed_output)
    run = _identity(graph, partition, options)
    return [
        DynamicJob(
            options,
            locals_[rank],
            task.kind,
            graph.window,
            task.windows,
            task.counts,
            task.outputs,
            task.target_scale,
            run,
            None if keeping is None else keeping.folder,
            0 if keeping is None else keeping.every,
            keeping is not None and keeping.resume,
        )
        for rank in (range(partition.workers) if ranks is None else ranks)
    ]


def _identity(graph: DynamicGraph, partition: DynamicPartition, options: DynamicOptions) -> str:
    """What a run must have in common with the one that it continues: all but the number of epochs."""
    chosen = {name: value for name, value in asdict(options).items() if name not in ("epochs", "timeout_s")}
    told = f"{graph.digest} {partition.digest} {sorted(chosen.items())}"
    return hashlib.sha256(told.encode()).hexdigest()
