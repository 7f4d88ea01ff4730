"""From a scenario of dynamic training to runnable jobs: one epoch of sliding windows, a plan per exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim.job import Job, Variant
from sim.scenario import Scenario
from workloads.compute import Device, Phase, load_device, ring_allreduce_ns
from workloads.compute_dynamic import BACKWARD, copied_vertices, weight_bytes, window_ns
from workloads.errors import InputError
from workloads.graphs.dynamic import DynamicGraph, load_dynamic_graph
from workloads.graphs.dynamic.pairs import Pairs, link_pairs
from workloads.partition.dynamic import DynamicPartition, partition_dynamic, travelling_rows
from workloads.plan.directed import directed_plan
from workloads.plan.dynamic import (
    Knobs,
    MergedBoundary,
    WindowSends,
    merge_boundary,
    merge_ends,
    needed_ends,
    sends,
    training_windows,
)
from workloads.plan.windows import KINDS, Step, end_steps, input_step, placed_steps, row_steps, sum_steps
from workloads.systems.system import System

BASE_MEMORY_BYTES = 150_000_000
VALUE_RANGE = 2**15
FIRST_KEY = 1 << 20  # keys of plans lie above every width, which is a key elsewhere


@dataclass
class Epoch:
    """What one system does in an epoch: phases, folders of plans by key, values by key, planned bytes."""

    phases: list[Phase] = field(default_factory=list)
    plans: dict[int, Path] = field(default_factory=dict)
    values: dict[int, Path] = field(default_factory=dict)
    payload_bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    memory_bytes: int = 0


def prepare_dynamic(
    scenario: Scenario,
    variants: list[Variant],
    work: Path,
    *,
    stage: Callable[[str], None],
    cache: Path | None,
) -> tuple[list[Job], dict[str, str], dict[str, Any]]:
    """(jobs, what could not be prepared, facts), as `sim.prepare.prepare` has them, for dynamic systems."""
    device = load_device(scenario.compute.device)
    if scenario.compute.table:
        raise InputError("compute.table: given for dynamic training; its compute times are modelled only")
    chosen = scenario.graph
    stage(f"loading dynamic graph {chosen.source}")
    graph = load_dynamic_graph(
        chosen.source, scale=chosen.scale, seed=chosen.seed, lifetime=scenario.dynamic.lifetime or None,
        window=scenario.dynamic.window or None, snapshots=scenario.dynamic.snapshots or None, cache=cache,
    )  # fmt: skip
    maker = _Maker(scenario, graph, device, work, stage)
    jobs, failures = [], {}
    for variant in variants:
        try:
            epoch = maker.epoch(variant)
        except InputError as error:
            failures[variant.label] = str(error)
            continue
        jobs.append(Job(variant, epoch.plans, epoch.phases, epoch.values, epoch.memory_bytes))
        maker.planned[variant.label] = epoch.payload_bytes
    if not jobs:
        raise InputError(next(iter(failures.values())))
    return jobs, failures, maker.facts(device)


class _Maker:
    """Partitions by method and epochs by system, each made once."""

    def __init__(
        self,
        scenario: Scenario,
        graph: DynamicGraph,
        device: Device,
        work: Path,
        stage: Callable[[str], None],
    ) -> None:
        self.scenario, self.graph, self.device, self.work, self.stage = scenario, graph, device, work, stage
        self.partitions: dict[str, DynamicPartition] = {}
        self.boundaries: dict[str, MergedBoundary] = {}
        self.ends: dict[str, MergedBoundary] = {}
        linking = graph.task == "link"
        self.pairs: Pairs | None = link_pairs(graph, scenario.run.seed) if linking else None
        self.epochs: dict[str, Epoch] = {}
        self.planned: dict[str, dict[str, int]] = {}

    def partition(self, method: str) -> DynamicPartition:
        if method not in self.partitions:
            cluster, seed = self.scenario.cluster, self.scenario.partition.seed
            self.stage(f"partitioning over {cluster.workers} workers, {method}")
            keep = self.scenario.dynamic.keep
            self.partitions[method] = partition_dynamic(
                self.graph, cluster.workers, method=method, keep=keep, seed=seed
            )
        return self.partitions[method]

    def boundary(self, partition: DynamicPartition) -> MergedBoundary:
        if partition.method not in self.boundaries:
            self.boundaries[partition.method] = merge_boundary(self.graph, partition)
        return self.boundaries[partition.method]

    def ends_of(self, partition: DynamicPartition) -> MergedBoundary | None:
        if self.pairs is not None and partition.method not in self.ends:
            self.ends[partition.method] = merge_ends(self.graph, partition, self.pairs)
        return self.ends.get(partition.method)

    def epoch(self, variant: Variant) -> Epoch:
        system = variant.system
        if system.name not in self.epochs:
            self.epochs[system.name] = self._make(system)
        return self.epochs[system.name]

    def _make(self, system: System) -> Epoch:
        made, scenario, graph = Epoch(), self.scenario, self.graph
        layers, hidden = scenario.model.layers, scenario.model.hidden
        partition = self.partition(scenario.dynamic.placing or system.placing)
        if (system.flexible or system.presum or system.copies) and not partition.fixed:
            raise InputError(
                f"dynamic.placing: {partition.method} moves vertices; {system.name} needs a vertex partition"
            )
        copies = None
        if system.copies:
            ends = self.ends_of(partition)
            read = None if ends is None else (ends.reader, ends.vertex)
            copies = copied_vertices(graph, partition, layers - 1, read)
        windows = self._windows(system, partition)
        reduce_ns = self._reduce_ns(layers, hidden)
        largest = 0
        self.stage(f"planning {system.name}, {len(windows)} windows")
        for window in windows:
            first, other = window_ns(
                graph, partition, window.last, device=self.device, hidden=hidden, copies=copies
            )
            backward, zero = [], np.zeros_like(first)
            inputs, forward, back = self._steps(system, partition, window)
            ends_there, ends_back = self._end_steps(system, partition, window)
            for layer in range(1, layers + 1):
                compute = first if layer == 1 else other
                arriving = inputs if layer == 1 else []
                # The states' ways follow every block's sums, embeddings only those from the second on.
                arriving = arriving + [s for s in forward if layer > 1 or s.kind == "states"]
                largest = max(
                    largest, self._add(made, system, arriving, compute, layer=layer, direction="forward")
                )
                leaving = [s for s in back if layer > 1 or s.kind == "states"]
                backward.append((layer, leaving, BACKWARD * compute))
            for steps, way in ((ends_there, "forward"), (ends_back, "backward")):
                if steps:  # scoring a pair is a product of two rows: its time is not counted
                    size = self._add(made, system, steps, zero, layer=layers, direction=way)
                    largest = max(largest, size)
            for layer, leaving, compute in reversed(backward):
                largest = max(
                    largest, self._add(made, system, leaving, compute, layer=layer, direction="backward")
                )
            made.phases.append(
                Phase(0, "backward", 0, zero + reduce_ns, zero, "weight-gradient all-reduce (modelled)")
            )
        made.memory_bytes = BASE_MEMORY_BYTES + 3 * largest
        return made

    def _windows(self, system: System, partition: DynamicPartition) -> list[WindowSends]:
        """The epoch's windows with the rows that they send."""
        nothing = np.zeros(0, dtype=np.int64)
        none = (nothing,) * self.graph.window
        lasts = training_windows(self.graph).tolist()
        if system.copies or not partition.fixed:
            return [WindowSends(number, last, none, nothing) for number, last in enumerate(lasts)]
        knobs, epoch = self._knobs(system), self.scenario.dynamic.epoch
        boundary, ends = self.boundary(partition), self.ends_of(partition)
        *_, windows = sends(self.graph, boundary, knobs, epoch + 1, ends)
        return windows

    def _knobs(self, system: System) -> Knobs:
        asked = self.scenario.dynamic
        if not system.flexible:
            return Knobs()
        return Knobs(
            asked.interval, asked.windows, asked.share, asked.choose, asked.when, asked.cache_windows,
            self.scenario.run.seed,
        )  # fmt: skip

    def _steps(
        self, system: System, partition: DynamicPartition, window: WindowSends
    ) -> tuple[list[Step], list[Step], list[Step]]:
        """(input features, forward, backward) exchanges of a window."""
        inputs = [input_step(self.graph, partition, window.last)] if system.inputs_each else []
        if system.copies:
            return [], [], []
        if not partition.fixed:
            steps = placed_steps(self.graph, partition, window.last)
        elif system.presum:
            time = self.scenario.dynamic.epoch * len(training_windows(self.graph)) + window.number
            steps = list(sum_steps(self.graph, partition, self._knobs(system), window, time))
        else:
            steps = list(row_steps(self.graph, partition, self.boundary(partition), window))
        used = [step for step in steps if len(step.sources)]
        return (
            [step for step in inputs if len(step.sources)],
            [step for step in used if step.direction == "forward"],
            [step for step in used if step.direction == "backward"][::-1],
        )

    def _end_steps(
        self, system: System, partition: DynamicPartition, window: WindowSends
    ) -> tuple[list[Step], list[Step]]:
        """(forward, backward) exchange of the pairs' ends; workers that compute copies have them."""
        if self.pairs is None or system.copies:
            return [], []
        ends = self.ends_of(partition) if partition.fixed else None
        if ends is not None:
            reader, vertex = ends.reader[window.ends], ends.vertex[window.ends]
        else:
            owner = partition.temporal[window.last].astype(np.int64)
            keys, _ = needed_ends(owner, self.pairs[window.last][0])
            reader, vertex = keys // len(owner), keys % len(owner)
        there, back = end_steps(partition, window.last, reader, vertex)
        return ([there], [back]) if len(vertex) else ([], [])

    def _add(
        self,
        made: Epoch,
        system: System,
        steps: list[Step],
        compute: Any,
        *,
        layer: int,
        direction: str,
    ) -> int:
        """Phases of a block's exchanges and compute; the bytes of the largest plan."""
        zero, largest = np.zeros_like(compute), 0
        if not steps:
            made.phases.append(Phase(layer, direction, 0, compute, zero, f"layer {layer} {direction}"))
        for place, step in enumerate(steps):
            width = self.graph.feature_width if step.kind == "features" else self.scenario.model.hidden
            key, size = self._plan(made, system, step, width)
            largest = max(largest, size)
            last = place + 1 == len(steps)
            name = f"pairs {direction}" if step.pairs else f"layer {layer} {direction} {step.kind}"
            before = compute if direction == "backward" and not place else zero
            after = compute if direction == "forward" and last else zero
            made.phases.append(Phase(layer, direction, width, before, after, name, key))
            values = step.rows * width
            if self._in_switch(system, step):
                packet = self.scenario.switch.values_per_packet
                values = step.partial_sums * -(-width // packet) * packet
            made.payload_bytes[step.kind] += 4 * values
        return largest

    @staticmethod
    def _in_switch(system: System, step: Step) -> bool:
        return system.presum and step.kind in ("embeddings", "gradients") and not step.pairs

    def _plan(self, made: Epoch, system: System, step: Step, width: int) -> tuple[int, int]:
        """(key, bytes) of the exchange's plan; exchanges of the same edges share one."""
        plan = directed_plan(
            step.sources, step.targets, step.owner, workers=self.scenario.cluster.workers, width=width,
            values_per_packet=self.scenario.switch.values_per_packet, name=self.graph.name,
            in_switch=self._in_switch(system, step), seed=self.scenario.plan.seed,
        )  # fmt: skip
        folder = self.work / f"plan-{plan.digest[:24]}"
        key = next((key for key, known in made.plans.items() if known == folder), 0)
        if not key:
            key = FIRST_KEY + len(made.plans)
            made.plans[key] = folder
            if not folder.exists():
                plan.save(folder)
            if self.scenario.run.value_mode:
                made.values[key] = self._values(step, plan.boundary, width, folder)
        return key, sum(value.nbytes for value in vars(plan).values() if isinstance(value, np.ndarray))

    def _values(self, step: Step, nodes: Any, width: int, folder: Path) -> Path:
        """Random fixed-point values of all nodes and the sums that targets must receive."""
        random = np.random.default_rng(self.scenario.run.seed)
        values = random.integers(-VALUE_RANGE, VALUE_RANGE, (len(step.owner), width), dtype=np.int32)
        sums = np.zeros((len(step.owner), width), dtype=np.int64)
        edges = np.unique(np.stack([step.sources, step.targets]), axis=1)
        np.add.at(sums, edges[1], values[edges[0]])
        path = folder.with_suffix(".npz")
        np.savez(path, features=values, expected=sums[nodes])
        return path

    def _reduce_ns(self, layers: int, hidden: int) -> int:
        cluster = self.scenario.cluster
        links = 4 if cluster.leaves else 2
        hop_ns = links * cluster.link_delay_ns + (links - 1) * cluster.switch_latency_ns
        size = weight_bytes(self.graph, layers, hidden)
        return ring_allreduce_ns(size, cluster.workers, link_bps=cluster.host_link_bps, hop_ns=hop_ns)

    def facts(self, device: Device) -> dict[str, Any]:
        """What summary.json tells of graph, partitions and planned bytes."""
        graph, edges = self.graph, self.graph.snapshot_edges
        return {
            "graph": {
                "name": graph.name,
                "kind": graph.provenance.kind,
                "source": graph.provenance.source,
                "seed": graph.provenance.seed,
                "vertices": graph.num_vertices,
                "directed_edges": int(edges.sum()),
                "snapshots": graph.num_snapshots,
                "window": graph.window,
                "lifetime": graph.lifetime,
                "epoch_windows": len(training_windows(graph)),
                "feature_width": graph.feature_width,
                "classes": graph.num_classes,
                "digest": graph.digest,
            },
            "partitions": {method: travelling_rows(graph, made) for method, made in self.partitions.items()},
            "plans": {},
            "planned_payload_bytes": self.planned,
            "widths": [self.scenario.model.hidden],
            "compute": f"modelled (roofline, {device.title})",
        }
