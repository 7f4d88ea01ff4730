"""A scenario on a cluster: its propagations, each checked against A H, and what was counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from emulator.cluster.bmv2 import bmv2_switch, require_bmv2
from emulator.cluster.faults import parse_faults
from emulator.cluster.measured import Measured
from emulator.cluster.prepare import Prepared, dcqcn_config, ecn_frames, loss_rules
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.cluster.virtual import VirtualCluster
from emulator.protocol.endpoint import Timing
from sim.scenario import Scenario

VALUE_RANGE = 2**15  # random values: sums of 65,535 of them still fit int32
MOST_RTO_NS = 1_000_000_000
Progress = Callable[[int, int], None]


class Cluster(Protocol):
    """What runs propagations: `virtual.VirtualCluster` or `processes.ProcessCluster`."""

    def load(self) -> None: ...
    def propagate(self, number: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]: ...
    def elapsed_ns(self) -> int: ...
    def measured(self) -> Measured: ...
    def close(self) -> None: ...


def settings(scenario: Scenario, patience_s: float) -> Settings:
    """A cluster's settings from a scenario."""
    least = scenario.reliability.rto_min_ns
    patience_ns = int(patience_s * 1e9)
    timing = Timing(least, max(least, min(MOST_RTO_NS, patience_ns // 4)), patience_ns)
    return Settings(
        timing,
        dcqcn_config(scenario),
        rate_bps=float(scenario.cluster.host_link_bps),
        delay_ns=scenario.cluster.link_delay_ns,
        burst=scenario.host.tx_burst,
        ecn_frames=ecn_frames(scenario),
        seed=scenario.run.seed,
    )


def make_cluster(
    scenario: Scenario,
    prepared: Prepared,
    rules: list[str],
    *,
    in_process: bool,
    bmv2: bool,
    patience_s: float,
    captures: Path | None,
) -> Cluster:
    """The cluster of a scenario: processes in real time, or one process in virtual time (BMv2 always)."""
    faults = parse_faults([*loss_rules(scenario), *rules], prepared.topology)
    chosen = settings(scenario, patience_s)
    if bmv2:
        require_bmv2()
        return VirtualCluster(
            prepared.topology, prepared.plans, faults, chosen, captures=captures, make_switch=bmv2_switch
        )
    make = VirtualCluster if in_process else ProcessCluster
    return make(prepared.topology, prepared.plans, faults, chosen, captures=captures)


def run(cluster: Cluster, scenario: Scenario, prepared: Prepared, count: int, progress: Progress) -> Measured:
    """`count` propagations of the scenario's epoch, over and over if it has fewer. Raises ClusterError."""
    started = time.perf_counter()
    random = np.random.default_rng(scenario.run.seed)
    before = cluster.elapsed_ns()
    cluster.load()
    loading = cluster.elapsed_ns() - before
    durations, equal = [], []
    for at in range(count):
        progress(at, count)
        step = prepared.propagations[at % len(prepared.propagations)]
        shape = (prepared.cross.shape[0], step.width)
        values = random.integers(-VALUE_RANGE, VALUE_RANGE, size=shape, dtype=np.int32)
        before = cluster.elapsed_ns()
        sums = cluster.propagate(prepared.job_of[step.width], values)
        durations.append(cluster.elapsed_ns() - before)
        equal.append(bool(np.array_equal(sums, prepared.cross @ values.astype(np.int64))))
    progress(count, count)
    measured = cluster.measured()
    measured.durations_ns, measured.equal, measured.loading_ns = durations, equal, loading
    measured.wall_s = time.perf_counter() - started
    return measured
