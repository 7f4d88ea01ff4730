"""From a scenario to runnable jobs: graph, partitions, plans and compute times, shared between the systems.

Plans are saved into a working folder and freed, so that each simulation's own process maps them from disk and
this process stays small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.dynamic import prepare_dynamic
from sim.job import Job, Variant
from sim.quantities import parse_quantity
from sim.scenario import Scenario
from workloads.compute import (
    Phase,
    WorkCounts,
    allreduce_phase,
    compute_table,
    count_work,
    load_device,
    propagation_widths,
)
from workloads.compute_table import load_compute_table, measured_phases, table_path
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.oracle import cross_sums
from workloads.partition import Partition, partition_graph
from workloads.plan import Plan, make_plan
from workloads.systems import System, find_systems
from workloads.traces.record import check_trace, trace_facts

# Measured: 153 MB for a plan of 21 MB (reddit stand-in at scale 0.05, 32 workers), 120 MB for a tiny one.
BASE_MEMORY_BYTES = 150_000_000
PLAN_MEMORY_FACTOR = 3  # of the largest plan's arrays: mapped, re-indexed, and queue records beside them
VALUE_RANGE = 2**15  # value mode's random features: sums of 65,535 of them still fit int32


@dataclass(frozen=True)
class Prepared:
    """The jobs, what could not be prepared (label -> reason), and JSON-able facts of graph and partitions."""

    jobs: list[Job]
    failures: dict[str, str]
    facts: dict[str, Any]


def expand(scenario: Scenario) -> list[Variant]:
    """Every simulation of a scenario, in listing order.

    In-network systems run once per recirculation mode, then once per size of the memory sweep. Raises
    InputError for unknown systems and malformed sizes.
    """
    systems = find_systems([scenario.run.systems])
    modes = ("free", "tofino") if scenario.run.recirculation == "both" else (scenario.run.recirculation,)
    variants = []
    for system in systems:
        for mode in modes if system.in_network else ("free",):
            label = f"{system.name}-{mode}" if system.in_network else system.name
            variants.append(_variant(label, system, scenario, mode, scenario.switch.memory_bytes))
    seen = {scenario.switch.memory_bytes}
    for size in [part.strip() for part in scenario.run.memory_sweep.split(",") if part.strip()]:
        memory = 0 if size.lower() == "unlimited" else parse_quantity(size, "bytes", "run.memory_sweep")
        if memory == 0 and size.lower() != "unlimited":
            raise InputError('run.memory_sweep: 0 given; write "unlimited" or a positive size')
        if memory in seen:
            continue
        seen.add(memory)
        for system in systems:
            if system.in_network and not system.unlimited_memory:
                label = f"{system.name}-free@{''.join(size.split())}"
                variants.append(_variant(label, system, scenario, "free", memory))
    return variants


def _variant(label: str, system: System, scenario: Scenario, mode: str, memory: int) -> Variant:
    switch = replace(scenario.switch, recirculation=mode, memory_bytes=memory)
    return Variant(label, replace(system, hierarchy=switch.hierarchy), replace(scenario, switch=switch))


def prepare(
    scenario: Scenario,
    variants: list[Variant],
    work: Path,
    *,
    stage: Callable[[str], None],
    cache: Path | None,
) -> Prepared:
    """Load, partition, plan and model for all variants.

    `work` receives plans and values; `stage` is told of each step. Raises InputError where none can run;
    what is impossible for one variant only is a failure entry.
    """
    dynamic = [variant for variant in variants if variant.system.dynamic]
    if dynamic:
        if len(dynamic) < len(variants):
            static = next(variant for variant in variants if not variant.system.dynamic)
            raise InputError(
                f"--system: {dynamic[0].system.name} trains a dynamic graph, {static.system.name} a static "
                "one; run them apart"
            )
        return Prepared(*prepare_dynamic(scenario, variants, work, stage=stage, cache=cache))
    device = load_device(scenario.compute.device)
    table = load_compute_table(scenario.compute.table) if scenario.compute.table else None
    trace = trace_facts(table_path(scenario.compute.table)) if scenario.compute.table else {}
    stage(f"loading graph {scenario.graph.source}")
    chosen = scenario.graph
    graph = load_graph(chosen.source, scale=chosen.scale, seed=chosen.seed, cache=cache)
    maker = _Maker(scenario, graph, work, stage=stage, cache=cache)
    jobs, failures = [], {}
    for variant in variants:
        try:
            if variant.scenario.switch.model == "p4":
                from sim import p4_model  # noqa: PLC0415  (the P4 front end takes a while to load)

                stage(f"checking {variant.scenario.switch.program}")
                p4_model.check(variant.scenario, variant.system)
            partition, counts = maker.partition(variant.system)
            phases = compute_table(
                graph, partition, scenario.model, device, cross_sum=variant.system.cross_sum, counts=counts
            )
            phases.append(_allreduce(scenario, graph))
            if table is not None:
                check_trace(trace, graph, partition)
                phases = measured_phases(table, phases, variant.system.name)
            plans, memory = maker.plans(variant)
            bins = variant.system.bins_for(graph.num_vertices, partition.k)
            binned = replace(variant, system=replace(variant.system, pipeline_bins=bins))
            jobs.append(Job(binned, plans, phases, maker.values(partition), memory))
        except InputError as error:
            failures[variant.label] = str(error)
    if not jobs:
        raise InputError(next(iter(failures.values())))
    compute = f"modelled (roofline, {device.title})"
    if table is not None:
        compute = f"measured on {trace['device']}" if trace else f"measured table {scenario.compute.table}"
    return Prepared(jobs, failures, _facts(graph, maker, compute))


class _Maker:
    """Partitions and plans by recipe, each made once."""

    def __init__(
        self,
        scenario: Scenario,
        graph: Graph,
        work: Path,
        *,
        stage: Callable[[str], None],
        cache: Path | None,
    ) -> None:
        self.scenario, self.graph, self.work = scenario, graph, work
        self.stage, self.cache = stage, cache
        self.widths = propagation_widths(scenario.model, graph)
        self.partitions: dict[str, tuple[Partition, WorkCounts]] = {}
        self.impossible: dict[str, InputError] = {}
        self.plan_sizes: dict[Path, int] = {}
        self.plan_facts: dict[str, dict[str, Any]] = {}
        self.value_files: dict[tuple[str, int], Path] = {}

    def partition(self, system: System) -> tuple[Partition, WorkCounts]:
        """The partition of a system and its workers' counts; one that cannot be made fails every time."""
        balance = system.balance or self.scenario.partition.balance
        if balance in self.impossible:
            raise self.impossible[balance]
        if balance not in self.partitions:
            try:
                self.partitions[balance] = self._make_partition(balance)
            except InputError as error:
                self.impossible[balance] = error
                raise
        return self.partitions[balance]

    def _make_partition(self, balance: str) -> tuple[Partition, WorkCounts]:
        workers = self.scenario.cluster.workers
        self.stage(f"partitioning over {workers} workers, {balance} balance")
        chosen: Any = {"method": self.scenario.partition.method, "balance": balance}
        seed = self.scenario.partition.seed
        partition = partition_graph(self.graph, workers, seed=seed, cache=self.cache, **chosen)
        counts = count_work(self.graph, partition)
        if not counts.cross_edges.any():
            raise InputError(f"graph.source: no edge of {self.graph.name} joins two workers")
        return partition, counts

    def plans(self, variant: Variant) -> tuple[dict[int, Path], int]:
        """Folders of the variant's plans by width, and its process's estimated memory."""
        system, switch = variant.system, variant.scenario.switch
        partition, _ = self.partition(system)
        limited = system.blocks == "multilevel" and not system.unlimited_memory
        residual = variant.scenario.plan.residual if system.residual == "scenario" else system.residual
        recipe: Any = {
            "blocks": system.blocks,
            "order": system.order,
            "residual": residual,
            "memory_bytes": (switch.memory_bytes or None) if limited else None,
            "aggregator_bytes": switch.aggregator_bytes,
            "values_per_packet": switch.values_per_packet,
            "seed": variant.scenario.plan.seed,
        }
        folders = {}
        for width in self.widths:
            key = f"{partition.digest} {width} {sorted(recipe.items(), key=str)}"
            folder = self.work / f"plan-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
            if folder not in self.plan_sizes:
                self.stage(f"planning {system.name} at width {width}")
                plan = make_plan(
                    self.graph, partition, width=width, cache=self.cache, progress=self.stage, **recipe
                )
                plan.save(folder)
                self.plan_sizes[folder] = _plan_bytes(plan)
                self.plan_facts[folder.name] = _plan_facts(plan)
            folders[width] = folder
        largest = max((self.plan_sizes[folder] for folder in folders.values()), default=0)
        registers = 0
        if switch.model == "p4" and system.in_network:
            from sim import p4_model  # noqa: PLC0415

            registers = p4_model.memory_bytes(variant.scenario, [Plan.load(f) for f in folders.values()])
        return folders, BASE_MEMORY_BYTES + PLAN_MEMORY_FACTOR * largest + registers

    def values(self, partition: Partition) -> dict[int, Path]:
        """Random fixed-point features and the oracle's sums, per width, when packets are to carry numbers."""
        if not self.scenario.run.value_mode:
            return {}
        files = {}
        for width in self.widths:
            path = self.value_files.get((partition.digest, width))
            if path is None:
                self.stage(f"computing the oracle at width {width}")
                random = np.random.default_rng(self.scenario.run.seed)
                shape = (self.graph.num_vertices, width)
                features = random.integers(-VALUE_RANGE, VALUE_RANGE, size=shape, dtype=np.int32)
                path = self.work / f"values-{len(self.value_files)}.npz"
                sums = cross_sums(self.graph, partition, features)
                np.savez(path, features=features, expected=sums)
                self.value_files[partition.digest, width] = path
            files[width] = path
        return files


def _allreduce(scenario: Scenario, graph: Graph) -> Phase:
    cluster = scenario.cluster
    links = 4 if cluster.leaves else 2
    hop_ns = links * cluster.link_delay_ns + (links - 1) * cluster.switch_latency_ns
    return allreduce_phase(
        scenario.model, graph, cluster.workers, link_bps=cluster.host_link_bps, hop_ns=hop_ns
    )


def _plan_bytes(plan: Plan) -> int:
    return sum(value.nbytes for value in vars(plan).values() if isinstance(value, np.ndarray))


def _plan_facts(plan: Plan) -> dict[str, Any]:
    return {
        "width": plan.width,
        "memory_bytes": plan.memory_bytes,
        "blocks_mode": plan.blocks_mode,
        "order": plan.order,
        "residual_mode": plan.residual_mode,
        "boundary_vertices": plan.num_boundary,
        "blocks": plan.num_blocks,
        "levels": int(plan.block_level.max(initial=-1)) + 1,
        "uploads": plan.num_uploads,
        "block_edges": len(plan.adj),
        "residual_edges": len(plan.residual_adj),
    }


def _facts(graph: Graph, maker: _Maker, compute: str) -> dict[str, Any]:
    degrees = np.sort(graph.degrees)[::-1]
    top = max(1, graph.num_vertices // 5)
    return {
        "graph": {
            "name": graph.name,
            "kind": graph.provenance.kind,
            "source": graph.provenance.source,
            "seed": graph.provenance.seed,
            "vertices": graph.num_vertices,
            "directed_edges": graph.num_edges,
            "feature_width": graph.feature_width,
            "classes": graph.num_classes,
            "top20_edge_share": float(degrees[:top].sum() / max(1, graph.num_edges)),
            "digest": graph.digest,
        },
        "partitions": {balance: made.stats(graph) for balance, (made, _) in maker.partitions.items()},
        "plans": maker.plan_facts,
        "widths": maker.widths,
        "compute": compute,
    }
