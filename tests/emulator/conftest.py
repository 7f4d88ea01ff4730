"""Small clusters for tests: a random graph, its plan, and what its propagations must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from emulator.cluster.faults import parse_faults
from emulator.cluster.settings import Settings
from emulator.cluster.topology import Topology
from emulator.cluster.virtual import VirtualCluster
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing
from workloads.graphs import load_graph
from workloads.oracle import cross_matrix
from workloads.partition import partition_graph
from workloads.plan import Plan, make_plan


@dataclass(frozen=True)
class Case:
    """plan and the matrix that a propagation multiplies by."""

    plan: Plan
    cross: sp.csr_array
    topology: Topology

    def values(self, random: np.random.Generator) -> npt.NDArray[np.int32]:
        shape = (self.plan.num_boundary, self.plan.width)
        return random.integers(-(2**20), 2**20, shape, dtype=np.int32)

    def sums(self, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        return np.asarray(self.cross @ values.astype(np.int64))

    def cluster(
        self, rules: list[str] | None = None, *, seed: int = 1, patience_ns: int = 500_000_000,
        second: Case | None = None, **more: Any,
    ) -> VirtualCluster:  # fmt: skip
        """second: job 2 on the same workers and switches."""
        timing = Timing(more.pop("rto_min_ns", 20_000), more.pop("rto_max_ns", 5_000_000), patience_ns)
        settings = Settings(timing, DcqcnConfig(), seed=seed, **more)
        faults = parse_faults(rules or [], self.topology)
        plans = {1: self.plan} | ({2: second.plan} if second else {})
        return VirtualCluster(self.topology, plans, faults, settings)


@cache
def _case(shape: tuple[tuple[str, Any], ...]) -> Case:
    wanted = {"graph": "rmat:4:3", "workers": 3, "racks": 0, "width": 40, "memory": 1500} | dict(shape)
    seed = wanted.get("graph_seed", 1)
    found = load_graph(wanted["graph"], seed=seed)
    workers, racks = wanted["workers"], wanted["racks"]
    partition = partition_graph(found, workers, method="random", seed=seed)
    plan = make_plan(
        found, partition, width=wanted["width"], memory_bytes=wanted["memory"] or None,
        residual=wanted.get("residual", "none"), blocks=wanted.get("blocks", "multilevel"),
    )  # fmt: skip
    return Case(plan, cross_matrix(found, partition), Topology(workers, racks, 2 if racks else 0))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """make_case(graph=, graph_seed=, workers=, racks=, width=, memory=, residual=, blocks=)."""
    return lambda **shape: _case(tuple(sorted(shape.items())))
