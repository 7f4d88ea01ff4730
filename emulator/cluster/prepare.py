"""From a scenario to what a cluster runs: the same file as `netfold run`, with what does not apply named.

Timing keys of the simulation (latencies, recirculation, compute) mean nothing to real packets through a real
program: they are listed as unused. What the program cannot do is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from emulator.cluster.topology import Topology
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.frames import MOST_BLOCKS
from emulator.wire import FRAME_BYTES, VALUES_PER_PACKET
from sim.scenario import Scenario
from workloads.compute import layer_widths
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.oracle import cross_matrix
from workloads.partition import Partition, partition_graph
from workloads.plan import Plan, make_plan
from workloads.systems import System, find_systems

MOST_WORKERS = 64
DEFAULT_SYSTEM = "switchgnn"
FCS_BYTES = 4
_USED = {
    "graph": ("source", "scale", "seed"),
    "partition": ("method", "balance", "seed"),
    "plan": ("residual", "seed"),
    "model": ("layers", "hidden", "use_pp"),
    "cluster": ("workers", "topology", "host_link_bps", "link_delay_ns"),
    "switch": ("memory_bytes", "aggregator_bytes"),
    "congestion": (
        *("control", "ecn_kmin_bytes", "dcqcn_g", "dcqcn_alpha_timer_ns", "dcqcn_increase_timer_ns"),
        *("dcqcn_byte_counter_bytes", "dcqcn_fast_recovery_rounds", "dcqcn_rai_bps", "dcqcn_rhai_bps"),
        *("dcqcn_min_rate_bps", "cnp_interval_ns"),
    ),
    "host": ("tx_burst",),
    "loss": ("rate", "mean_burst"),
    "reliability": ("rto_min_ns",),
    "run": ("systems", "seed", "value_mode"),
}


@dataclass(frozen=True)
class Propagation:
    """One propagation of an epoch: layer from 1, "forward" or "backward", values per vertex."""

    layer: int
    direction: str
    width: int


@dataclass(frozen=True)
class Prepared:
    """Everything a cluster needs. plans: by job number, 1, 2, ...; job_of: width -> job number.

    cross: the oracle's matrix over boundary indices, whose product with the values a propagation must equal.
    """

    graph: Graph
    partition: Partition
    system: System
    topology: Topology
    plans: dict[int, Plan]
    job_of: dict[int, int]
    propagations: list[Propagation]
    cross: sp.csr_array
    unused: list[str]


def prepare(scenario: Scenario) -> Prepared:
    """Load, partition and plan. Raises InputError for what cannot be emulated."""
    system = _system(scenario)
    _refuse(scenario)
    cluster = scenario.cluster
    topology = Topology(cluster.workers, cluster.leaves, cluster.spines)
    chosen = scenario.graph
    graph = load_graph(chosen.source, scale=chosen.scale, seed=chosen.seed)
    balance: Any = system.balance or scenario.partition.balance
    method: Any = scenario.partition.method
    partition = partition_graph(
        graph, cluster.workers, method=method, balance=balance, seed=scenario.partition.seed
    )
    cross = cross_matrix(graph, partition)
    if not cross.nnz:
        raise InputError(f"graph.source: no edge of {graph.name} joins two workers")
    propagations = _epoch(scenario, graph)
    plans, job_of = {}, {}
    for number, width in enumerate(sorted({p.width for p in propagations}), 1):
        plans[number] = _plan(scenario, system, graph, partition, width)
        job_of[width] = number
    return Prepared(graph, partition, system, topology, plans, job_of, propagations, cross, _unused(scenario))


def _system(scenario: Scenario) -> System:
    systems = find_systems([scenario.run.systems or DEFAULT_SYSTEM], static=True)
    if len(systems) != 1:
        names = ", ".join(system.name for system in systems)
        raise InputError(f"run.systems: {names} given; a cluster emulates one system, name it with --system")
    [system] = systems
    first_come = system.switching == "fcfs"
    if first_come or system.presum or system.pipeline_bins > 1 or system.bin_vertices:
        raise InputError(
            f"run.systems: {system.name} cannot be emulated: switchgnn.p4 reserves aggregators by the plan; "
            "allowed: switchgnn, switchgnn-no-gamr, switchgnn-residual, host"
        )
    return system


def _refuse(scenario: Scenario) -> None:
    if not 2 <= scenario.cluster.workers <= MOST_WORKERS:
        raise InputError(
            f"cluster.workers: {scenario.cluster.workers} given; an emulated cluster has 2 to {MOST_WORKERS} "
            "(--workers)"
        )
    if scenario.switch.values_per_packet != VALUES_PER_PACKET:
        raise InputError(
            f"switch.aggregator_bytes: {scenario.switch.aggregator_bytes} given; the wire format carries "
            f"{VALUES_PER_PACKET} values, which are 128 bytes"
        )
    if scenario.background.load:
        raise InputError("background.load: the emulator has no background traffic; set it to 0")
    if scenario.switch.hierarchy != "aggregate":
        raise InputError('switch.hierarchy: the leaves of switchgnn.p4 aggregate; set it to "aggregate"')
    if scenario.run.memory_sweep:
        raise InputError("run.memory_sweep: a cluster emulates one memory size; set switch.memory_bytes")


def _epoch(scenario: Scenario, graph: Graph) -> list[Propagation]:
    """The propagations of one epoch, in its order (workloads/compute.py)."""
    model = scenario.model
    widths = layer_widths(model, graph)
    layers = range(1, model.layers + 1)
    forward = [Propagation(n, "forward", widths[n - 1]) for n in layers if not (n == 1 and model.use_pp)]
    return forward + [Propagation(n, "backward", widths[n - 1]) for n in reversed(layers) if n > 1]


def _plan(scenario: Scenario, system: System, graph: Graph, partition: Partition, width: int) -> Plan:
    limited = system.blocks == "multilevel" and not system.unlimited_memory
    recipe: Any = {
        "blocks": system.blocks,
        "order": system.order,
        "residual": scenario.plan.residual if system.residual == "scenario" else system.residual,
        "memory_bytes": (scenario.switch.memory_bytes or None) if limited else None,
        "aggregator_bytes": scenario.switch.aggregator_bytes,
        "values_per_packet": VALUES_PER_PACKET,
        "seed": scenario.plan.seed,
    }
    plan = make_plan(graph, partition, width=width, **recipe)
    largest = int(np.diff(plan.block_ptr).max(initial=0))
    if plan.num_blocks >= MOST_BLOCKS:
        raise InputError(f"switch.memory_bytes: {plan.num_blocks} blocks; the wire numbers {MOST_BLOCKS - 1}")
    if largest >= 2**16 or plan.chunks >= 2**16:
        raise InputError(f"switch.memory_bytes: a block of {largest} vertices; switchgnn.p4 has 65535 slots")
    return plan


def _unused(scenario: Scenario) -> list[str]:
    """Keys that say something and mean nothing here."""
    found = []
    standard = Scenario(cluster=scenario.cluster)
    for section in fields(scenario):
        values, defaults = getattr(scenario, section.name), getattr(standard, section.name)
        used = _USED.get(section.name, ())
        found += [
            f"{section.name}.{item.name}"
            for item in fields(values)
            if item.name not in used and getattr(values, item.name) != getattr(defaults, item.name)
        ]
    return [key for key in found if not key.startswith("cluster.")]


def dcqcn_config(scenario: Scenario) -> DcqcnConfig:
    """The reaction point's parameters."""
    c = scenario.congestion
    return DcqcnConfig(
        line_bps=float(scenario.cluster.host_link_bps),
        g=c.dcqcn_g,
        alpha_timer_ns=c.dcqcn_alpha_timer_ns,
        increase_timer_ns=c.dcqcn_increase_timer_ns,
        byte_counter_bytes=c.dcqcn_byte_counter_bytes,
        fast_recovery_rounds=c.dcqcn_fast_recovery_rounds,
        rai_bps=float(c.dcqcn_rai_bps),
        rhai_bps=float(c.dcqcn_rhai_bps),
        min_rate_bps=float(c.dcqcn_min_rate_bps),
        cnp_interval_ns=c.cnp_interval_ns,
    )


def ecn_frames(scenario: Scenario) -> int:
    """Frames in an egress queue from which on they are marked: Kmin; 0 without congestion control."""
    if scenario.congestion.control == "none":
        return 0
    return max(1, scenario.congestion.ecn_kmin_bytes // (FRAME_BYTES + FCS_BYTES))


def loss_rules(scenario: Scenario) -> list[str]:
    """The scenario's [loss] as a fault on every link."""
    if not scenario.loss.rate:
        return []
    return [f"*: loss={scenario.loss.rate}, burst={scenario.loss.mean_burst}"]
