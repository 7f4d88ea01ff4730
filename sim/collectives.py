"""How long collectives take on a cluster, simulated packet by packet: all-to-all, all-reduce, all-gather.

Reductions at hosts and switches are free here; what is simulated is the network. `bytes` is what a
collective's user would say: all-reduce, the size of the vector every worker holds; all-gather, that of the
gathered whole; all-to-all, what one worker sends in total.

An all-reduce inside the switches of a leaf-spine is two tiers of stars: each leaf adds up its rack's members
of a group, each spine adds up the leaves' sums of its share of the packets and replicates the result down.
A simulated propagation has no such replication between tiers, so the tiers are simulated apart, at packet
level, and joined as the pipeline they are: the slower tier's time plus the faster one's for a single packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim import wire
from sim.collectives_plans import Groups, all_to_all_plan, clique_plan, ring_plan
from sim.engine import simulate
from sim.scenario import Scenario
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems import SYSTEMS
from workloads.systems.system import System

VALUE_BYTES = 4
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "all-to-all": ("direct",),
    "all-gather": ("ring", "direct"),
    "all-reduce": ("ring", "direct", "in-network"),
}
ADDING = SYSTEMS["strawman-ul"]  # adds and returns; memory is judged by `switch_window`, not by blocks


@dataclass(frozen=True)
class Timed:
    """One simulated collective: bytes as its user would say, and what the network did."""

    bytes: int
    time_ns: int
    sent_bytes: int  # by all workers together, frames and all
    packet_hops: int


def check_kind(kind: str, algorithm: str) -> None:
    """Raises InputError for a collective or algorithm that is not known."""
    if kind not in ALGORITHMS:
        raise InputError(f"collective: {kind[:40]!r} given; allowed: {', '.join(ALGORITHMS)}")
    if algorithm not in ALGORITHMS[kind]:
        allowed = ", ".join(ALGORITHMS[kind])
        raise InputError(f"algorithm of {kind}: {algorithm[:40]!r} given; allowed: {allowed}")


def axis_groups(grid: Sequence[int], axis: int) -> list[list[int]]:
    """The groups along one axis of a grid of workers (the last axis is consecutive workers)."""
    ranks = np.arange(int(np.prod(grid))).reshape(tuple(grid))
    along: list[list[int]] = np.moveaxis(ranks, axis, -1).reshape(-1, grid[axis]).tolist()
    return along


def time_collective(scenario: Scenario, kind: str, algorithm: str, groups: Groups, size: int) -> Timed:
    """Simulate one collective of `size` bytes in every group at once, on an otherwise idle cluster.

    The size is rounded up to whole values per message. Raises InputError for unknown kinds, groups that are
    not disjoint or not equally large, and workers that the cluster does not have.
    """
    check_kind(kind, algorithm)
    members = _checked(scenario, groups)
    if size < 1:
        raise InputError(f"collective bytes: {size} given; at least 1")
    if members == 1:
        return Timed(size, 0, 0, 0)
    if algorithm == "in-network":
        return _in_switches(scenario, groups, size)
    workers, per_packet = scenario.cluster.workers, scenario.switch.values_per_packet
    if kind == "all-to-all":
        width = _values(size / (members - 1))
        plan, steps = all_to_all_plan(workers, groups, width, per_packet), 1
    elif algorithm == "direct":
        plan = all_to_all_plan(workers, groups, _values(size / members), per_packet)
        steps = 2 if kind == "all-reduce" else 1
    else:
        plan = ring_plan(workers, groups, _values(size / members / 2), per_packet)
        steps = (members - 1) * (2 if kind == "all-reduce" else 1)
    return _run(scenario, SYSTEMS["host"], plan, steps, size)


def lower_bound_ns(scenario: Scenario, kind: str, algorithm: str, members: int, size: int) -> float:
    """What no schedule can beat: payload through one host's link, which carries it at least this often."""
    share = (members - 1) / members
    through = {"all-to-all": 1.0, "all-gather": share, "all-reduce": 2 * share}[kind]
    if algorithm == "in-network":
        through = 1.0
    return through * size * 8e9 / scenario.cluster.host_link_bps if members > 1 else 0.0


def switch_window(scenario: Scenario) -> float:
    """Share of the line rate that a switch's memory sustains as a window of aggregators: at least a round
    trip's worth of packets must find a slot (SwitchML, NSDI 2021, section 3.6: the pool's size). 0: none.
    """
    cluster, switch = scenario.cluster, scenario.switch
    if not switch.memory_bytes:
        return 1.0
    frame = wire.FRAME_OVERHEAD_BYTES + wire.GAP_BYTES + VALUE_BYTES * switch.values_per_packet
    links = 4 if cluster.leaves else 2
    round_trip_ns: float = links * cluster.link_delay_ns + (links - 1) * cluster.switch_latency_ns
    round_trip_ns += 2 * links * frame * 8e9 / cluster.host_link_bps
    needed = round_trip_ns * 1e-9 * cluster.host_link_bps / 8 / frame
    return min(1.0, switch.aggregators / needed)


def _in_switches(scenario: Scenario, groups: Groups, size: int) -> Timed:
    per_packet = scenario.switch.values_per_packet
    packets = -(-size // (VALUE_BYTES * per_packet))
    cluster = scenario.cluster
    if not cluster.leaves:
        whole = _star(scenario, groups, packets, size)
        return replace(whole, time_ns=round(whole.time_ns / switch_window(scenario)))
    per_leaf = cluster.hosts_per_leaf
    racks = [sorted({worker // per_leaf for worker in group}) for group in groups]
    together = [len(group) // len(rack) for group, rack in zip(groups, racks, strict=True)]
    if any(len(group) % len(rack) for group, rack in zip(groups, racks, strict=True)):
        raise InputError("in-network all-reduce: each rack must hold equally many members of a group")
    crossing = [rack for rack in racks if len(rack) > 1]
    tiers: list[tuple[Timed, Timed]] = []  # (all packets, one packet)
    inside = _rack_groups(groups, per_leaf)
    if max(together) > 1:
        tiers.append(_tier(_as_star(scenario, per_leaf, cluster.host_link_bps), inside, packets, size))
    else:  # nothing to add up under a leaf: the host's link still carries every packet
        one = size * _frame(scenario) / (VALUE_BYTES * per_packet) * 8e9 / cluster.host_link_bps
        hop = 2 * (cluster.link_delay_ns + cluster.switch_latency_ns)
        tiers.append((Timed(size, round(one + hop), 0, 0), Timed(1, hop, 0, 0)))
    if crossing:
        share = -(-packets // cluster.spines)
        spine = _as_star(scenario, cluster.leaves, cluster.fabric_link_bps)
        tiers.append(_tier(spine, crossing, share, size))
    slow = max(tiers, key=lambda tier: tier[0].time_ns)
    extra = sum(tier[1].time_ns for tier in tiers if tier is not slow)
    sent = len(groups) * len(groups[0]) * packets * _frame(scenario)
    hops = sum(tier[0].packet_hops for tier in tiers)
    return Timed(size, round((slow[0].time_ns + extra) / switch_window(scenario)), sent, hops)


def _rack_groups(groups: Groups, per_leaf: int) -> list[list[int]]:
    """The first rack's parts of the groups: all racks look alike."""
    return [part for group in groups if len(part := [worker for worker in group if worker < per_leaf]) > 1]


def _as_star(scenario: Scenario, hosts: int, link_bps: int) -> Scenario:
    cluster = replace(
        scenario.cluster,
        workers=max(hosts, 2),
        topology="star",
        host_link_bps=link_bps,
        fabric_link_bps=link_bps,
    )
    return replace(scenario, cluster=cluster)


def _tier(star: Scenario, groups: Groups, packets: int, size: int) -> tuple[Timed, Timed]:
    """(all packets, a single one) through one switch."""
    return _star(star, groups, packets, size), _star(star, groups, 1, size)


def _star(scenario: Scenario, groups: Groups, packets: int, size: int) -> Timed:
    # One pass and a multicast group do what the plan's clique does with a pass per receiver.
    star = replace(scenario, switch=replace(scenario.switch, recirculation="free"))
    if len({len(group) for group in groups}) > 1:
        raise InputError("in-network all-reduce: groups cross different numbers of racks")
    plan = clique_plan(scenario.cluster.workers, groups, packets, scenario.switch.values_per_packet)
    return _run(star, ADDING, plan, 1, size)


def _run(scenario: Scenario, system: System, plan: Plan, steps: int, size: int) -> Timed:
    idle = np.zeros(scenario.cluster.workers, dtype=np.int64)
    phases = [Phase(step + 1, "forward", plan.width, idle, idle) for step in range(steps)]
    summary = simulate(scenario, system, {plan.width: plan}, phases).summary
    return Timed(size, int(summary["epoch_time_ns"]), int(summary["up_bytes"]), int(summary["packet_hops"]))


def _frame(scenario: Scenario) -> int:
    return wire.FRAME_OVERHEAD_BYTES + wire.GAP_BYTES + VALUE_BYTES * scenario.switch.values_per_packet


def _values(size: float) -> int:
    return max(1, -(-round(size) // VALUE_BYTES))


def _checked(scenario: Scenario, groups: Groups) -> int:
    sizes = {len(group) for group in groups}
    flat = [worker for group in groups for worker in group]
    if len(sizes) != 1 or not flat:
        raise InputError(f"collective groups: sizes {sorted(sizes)} given; all must be equally large")
    if len(set(flat)) != len(flat):
        raise InputError("collective groups: a worker is in two of them")
    if min(flat) < 0 or max(flat) >= scenario.cluster.workers:
        raise InputError(
            f"collective groups: worker {max(flat)} given; cluster.workers is {scenario.cluster.workers}"
        )
    return sizes.pop()
