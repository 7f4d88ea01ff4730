"""The control plane of switchgnn.p4: tables, groups and memory of every job on a switch, on any Target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from p4.control.adjacency import Needs
from p4.control.fabric import FIRST_IP, SWITCH_IP, Fabric, Switch, worker_mac
from p4.targets import Target

RECIRCULATE_SESSION, RECIRCULATE_PORT = 1, 510
# switchgnn.p4's counter `events`, in its order.
EVENTS = ("added", "results", "duplicates", "stale", "saturated", "completions", "refused")


@dataclass(frozen=True)
class SwitchJob:
    """A job as a switch sees it: its number, the values of a vertex in packets, and what it keeps."""

    number: int
    chunks: int
    needs: Needs


def defines(topology: Fabric, jobs: Sequence[SwitchJob]) -> dict[str, str]:
    """The program's sizes for these jobs: powers of two, and not too small, so that one build serves many."""
    wanted = {
        "AGGREGATORS": (sum(job.needs.aggregators for job in jobs), 16_384),
        "BLOCKS": (sum(job.needs.blocks for job in jobs), 1024),
        "ENTRIES": (sum(job.needs.entries for job in jobs), 16_384),
        "EDGES": (sum(job.needs.edges for job in jobs), 65_536),
        "WORKERS": (topology.workers * len(jobs), 256),
        "SOURCES": (topology.per_leaf + topology.leaves, 32),
    }
    return {name: str(max(least, 1 << (need - 1).bit_length())) for name, (need, least) in wanted.items()}


def build_switch(topology: Fabric, jobs: Sequence[SwitchJob]) -> Path:
    """The engine's library of switchgnn.p4 in these jobs' sizes; compiled once, then from the cache."""
    return _build(tuple(defines(topology, jobs).items()))


@cache
def _build(sizes: tuple[tuple[str, str], ...]) -> Path:
    from p4.codegen.compiled import compiled  # noqa: PLC0415  (the front end takes a while to load)
    from p4.programs import SWITCHGNN  # noqa: PLC0415

    return compiled(SWITCHGNN, defines=dict(sizes))


def install(target: Target, switch: Switch, topology: Fabric, jobs: Sequence[SwitchJob]) -> None:
    """Everything but the adjacency, which the workers load."""
    target.clone_session(RECIRCULATE_SESSION, port=RECIRCULATE_PORT)
    routes(target, switch, topology)
    blocks = entries = edges = aggregators = 0
    for place, job in enumerate(jobs):
        group, root = job.number, job.number % max(1, topology.spines)
        shape = {"chunks": job.chunks, "group": group}
        match switch.kind:
            case "star":
                data = shape | {"workers": topology.workers}
                target.insert("job", {"job": job.number}, "set_job", data)
            case "leaf":
                rack = topology.rack(switch.number)
                data = shape | {"first_worker": rack.start, "workers": len(rack), "leaf": switch.number}
                data["up_port"] = switch.port_to(f"spine{root}")
                target.insert("job", {"job": job.number}, "set_leaf", data)
            case _ if switch.number == root:
                data = {"leaves": topology.racks, "group": group}
                target.insert("job", {"job": job.number}, "set_spine", data)
            case _:
                target.insert("job", {"job": job.number}, "transit")
        memory = {
            "blocks_at": blocks, "blocks": job.needs.blocks,
            "entries_at": entries, "entries": job.needs.entries, "edges_at": edges, "edges": job.needs.edges,
            "aggregators_at": aggregators, "aggregators": job.needs.aggregators,
            "workers_at": place * topology.workers,
        }  # fmt: skip
        target.insert("memory", {"job": job.number}, "set_memory", memory)
        blocks, entries = blocks + job.needs.blocks, entries + job.needs.entries
        edges, aggregators = edges + job.needs.edges, aggregators + job.needs.aggregators
        _reach(target, switch, topology, job.number)


def routes(target: Target, switch: Switch, topology: Fabric) -> None:
    """Where ordinary packets go; all that a program needs that only forwards (ipv4.p4)."""
    for worker in range(topology.workers):
        port, mac = _port(switch, topology, worker), _mac(worker)
        target.insert("ipv4_lpm", {"dst": (FIRST_IP + worker, 32)}, "forward", {"port": port, "mac": mac})


def _reach(target: Target, switch: Switch, topology: Fabric, job: int) -> None:
    """Where a job's results and completions go."""
    if switch.kind == "spine":
        # It answers leaves: their numbers stand in the packets' worker field.
        for leaf in range(topology.racks):
            data = {"port": leaf, "mac": 0, "ip": SWITCH_IP}
            target.insert("worker", {"job": job, "worker": leaf}, "to_worker", data)
        target.multicast_group(job, [(leaf, leaf) for leaf in range(topology.racks)])
        return
    near = topology.rack(switch.number)
    for worker in range(topology.workers):
        to = {"mac": _mac(worker), "ip": FIRST_IP + worker}
        action = "to_worker" if worker in near else "to_remote_worker"
        where = {"port": _port(switch, topology, worker)} | to
        target.insert("worker", {"job": job, "worker": worker}, action, where)
        if worker in near:
            target.insert("replica", {"job": job, "egress_rid": worker}, "to_host", to)
    target.multicast_group(job, [(_port(switch, topology, worker), worker) for worker in near])


def _port(switch: Switch, topology: Fabric, worker: int) -> int:
    """The port towards a worker. Different workers behind other leaves are reached by different spines."""
    if switch.kind == "spine":
        return topology.leaf_of(worker)
    if worker in topology.rack(switch.number):
        return worker - topology.rack(switch.number).start
    return switch.port_to(f"spine{worker % topology.spines}")


def _mac(worker: int) -> int:
    return int.from_bytes(worker_mac(worker), "big")


def resume(
    target: Target,
    switch: Switch,
    topology: Fabric,
    jobs: Sequence[SwitchJob],
    passed: Mapping[int, tuple[int, int]],
) -> None:
    """After a restart: the switch knows again which barrier of each job is complete, if it knows less.

    A worker whose completion was lost is then answered, and nobody is taken to be done before its turn. To be
    called again while completions from before the restart may still arrive.
    passed: job -> (round, number) of the last barrier that any worker knows complete; (0, 0) if none.
    """
    count = {"star": topology.workers, "leaf": topology.per_leaf, "spine": topology.racks}[switch.kind]
    for job in jobs:
        round_, number = passed[job.number]
        if (round_, number) == (0, 0):
            continue
        stamp = (round_ << 16 | number) + 1
        counting = target.register_read("done_tag", job.number)
        newer = counting != 0 and ((stamp - counting) & 0xFFFFFFFF) >= 2**31
        if not newer:
            target.register_write("done_tag", job.number, stamp & 0xFFFFFFFF)
            target.register_write("done_count", job.number, count)


def take_turn(target: Target, jobs: Sequence[SwitchJob], turn: int) -> None:
    """A switch set up for the `turn`-th time anew takes the lists that are sent for this turn only."""
    for job in jobs:
        target.register_write("load_turn", job.number, turn & 0xFFFF)
