"""`cluster`: runs one system on a small graph through the real engine, with or without values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from sim.engine import Run, simulate
from sim.scenario import ClusterSection, RunSection, Scenario, SwitchSection
from workloads.compute import Phase
from workloads.graphs import load_graph
from workloads.graphs.graph import Graph
from workloads.oracle import cross_sums
from workloads.partition import Partition, partition_graph
from workloads.plan import Plan, make_plan
from workloads.systems import SYSTEMS, System


@dataclass
class Experiment:
    """One graph on some workers; `run` simulates a system on it and `expected` is A·H of the same numbers."""

    graph: Graph
    workers: int = 8
    topology: str = "star"
    width: int = 64
    aggregators: int = 0  # 0: unlimited
    phases: int = 2
    compute_ns: int = 2000
    seed: int = 1
    largest: int = 1000  # absolute value of the features
    sections: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partition: Partition = partition_graph(self.graph, self.workers, seed=1)
        rng = np.random.default_rng(self.seed)
        self.x = rng.integers(-self.largest, self.largest + 1, (self.graph.num_vertices, self.width)).astype(
            np.int32
        )
        self.compute = rng.integers(0, self.compute_ns + 1, (2 * self.phases, self.workers))

    @property
    def memory_bytes(self) -> int:
        return self.aggregators * 128

    def plan(self, system: System) -> Plan:
        limited = system.switching == "reserved" and not system.unlimited_memory and self.aggregators
        return make_plan(
            self.graph,
            self.partition,
            width=self.width,
            memory_bytes=self.memory_bytes if limited else None,
            blocks=system.blocks,
            order=system.order,
            residual="none" if system.residual == "scenario" else system.residual,
            seed=self.seed,
        )

    def scenario(self, **sections: Any) -> Scenario:
        merged = {**self.sections, **sections}
        merged.setdefault("switch", SwitchSection())
        merged["switch"] = replace(merged["switch"], memory_bytes=self.memory_bytes)
        merged.setdefault("run", RunSection(seed=self.seed))
        merged.setdefault("cluster", ClusterSection())
        merged["cluster"] = replace(merged["cluster"], workers=self.workers, topology=self.topology)
        return Scenario(**merged)

    def run(self, name: str, *, values: bool = True, stock: bool = False, plan: Plan | None = None,
            system: dict[str, Any] | None = None, **sections: Any) -> Run:  # fmt: skip
        chosen = SYSTEMS[name]
        chosen = replace(chosen, **{"pipeline_bins": chosen.min_bins, **(system or {})})
        plan = plan or self.plan(chosen)
        phases = [
            Phase(2 + i, "forward", self.width, self.compute[2 * i], self.compute[2 * i + 1])
            for i in range(self.phases)
        ]
        features = {self.width: self.x[plan.boundary]} if values else None
        return simulate(
            self.scenario(**sections),
            chosen,
            {self.width: plan},
            phases,
            features=features,
            stock_events=stock,
        )

    def expected(self) -> np.ndarray:
        return cross_sums(self.graph, self.partition, self.x)


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """Experiment on a named graph."""

    def build(source: str = "karate", **named: Any) -> Experiment:
        return Experiment(load_graph(source), **named)

    return build


@pytest.fixture
def experiment_on() -> type[Experiment]:
    """Experiment on a Graph at hand."""
    return Experiment
