"""switch.model = "p4": the switches of a run as compiled P4 programs, set up as the emulator sets them up.

Each switch is an `Engine` of its own. p4/control/switchgnn.py fills its tables and groups, and the adjacency
goes in by the same `load` packets, through the program, that an emulated worker sends; here before the clock
starts, so that a run counts them, and tells how long they take, but does not simulate it: a training loads
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from p4.codegen.build import BuildError
from p4.codegen.compiled import check_file, compiled
from p4.control.adjacency import MOST_BLOCKS, Array, Ints, needs, words
from p4.control.fabric import MOST_PORTS, Fabric, Switch
from p4.control.switchgnn import EVENTS, SwitchJob, defines, install, routes
from p4.lang import P4Error
from p4.programs import FOLDER
from p4.targets import Engine, TargetError
from p4.targets.engine import Batch
from sim import wire, wire_format
from sim.scenario import Scenario
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems import SYSTEMS
from workloads.systems.system import System

LOAD_BATCH = 8192  # packets
MOST_SLOTS = 65_535  # of a block: switchgnn.p4 multiplies a slot by chunks in 32 bits
# What decides how much memory a switch that sums up needs; others get the smallest build.
SMALLEST = {"AGGREGATORS": "16384", "BLOCKS": "1024", "ENTRIES": "16384", "EDGES": "65536", "WORKERS": "256"}


@dataclass
class Switches:
    """The engines of a run, leaves first, and what loading them took."""

    engines: list[Engine]
    sources: list[tuple[str, int, str, str]]  # library, address, program, node: for sim._native
    names: list[str]
    load_packets: int = 0
    load_ns: int = 0  # what the most loaded switch's packets take on one host link

    def close(self) -> None:
        for engine in self.engines:
            engine.close()

    def counters(self) -> dict[str, int]:
        """switchgnn.p4's events, all switches together; what a program does not count is left out."""
        totals = dict.fromkeys(EVENTS, 0)
        for engine in self.engines:
            if any(counter.name.rpartition(".")[2] == "events" for counter in engine.schema.counters):
                for number, event in enumerate(EVENTS):
                    totals[event] += engine.counter_read("events", number)[0]
        return totals


def find_program(where: str, name: str) -> Path:
    """A scenario's program: a path, or the name of one of p4/programs. Raises InputError."""
    for path in (Path(name), FOLDER / name, FOLDER / name.removeprefix("p4/programs/")):
        if path.is_file():
            return path
    ours = ", ".join(sorted(path.name for path in FOLDER.glob("*.p4")))
    raise InputError(f"{where}: {name!r}: no such file; a path, or one of {ours}")


def check(scenario: Scenario, system: System) -> None:
    """Whether the system runs on P4 switches, and their programs are valid P4. Raises InputError."""
    if system.switching not in ("reserved", "forward") or system.presum:
        served = ", ".join(s.name for s in SYSTEMS.values() if s.switching == "reserved" and not s.presum)
        others = ", ".join(s.name for s in SYSTEMS.values() if s.switching == "forward")
        raise InputError(
            f"switch.model = p4: no program for {system.name}; switchgnn.p4 serves {served}, "
            f"any IPv4 forwarder serves {others}"
        )
    if system.in_network and scenario.switch.hierarchy != "aggregate" and scenario.cluster.leaves > 1:
        raise InputError(
            f"switch.hierarchy: {scenario.switch.hierarchy} given; P4 leaves add up their racks: aggregate"
        )
    cluster = scenario.cluster
    ports = Fabric(cluster.workers, cluster.leaves, cluster.spines).most_ports
    if ports > MOST_PORTS:
        raise InputError(f"switch.model = p4: {ports} ports on one switch; at most {MOST_PORTS}")
    for where, name in programs(scenario).items():
        path = find_program(where, name)
        _in_one_line(where, path, partial(check_file, path))


def programs(scenario: Scenario) -> dict[str, str]:
    """key -> program, of leaves (or the one switch) and, where there are any, of spines."""
    switch = scenario.switch
    chosen = {"switch.program": switch.program}
    if scenario.cluster.spines and switch.spine_program:
        chosen["switch.spine_program"] = switch.spine_program
    return chosen


def memory_bytes(scenario: Scenario, plans: Sequence[Plan]) -> int:
    """What the leaves' registers hold at most, of one plan for each width."""
    jobs = [SwitchJob(number + 1, plan.chunks, needs(plan)) for number, plan in enumerate(plans)]
    fabric = Fabric(scenario.cluster.workers, scenario.cluster.leaves, scenario.cluster.spines)
    sizes = {name: int(size) for name, size in defines(fabric, jobs).items()}
    each = 136 * sizes["AGGREGATORS"] + 16 * sizes["ENTRIES"] + 4 * sizes["EDGES"]
    return fabric.leaves * each


Made = TypeVar("Made")


def _in_one_line(where: str, path: Path, make: Callable[[], Made]) -> Made:
    """What `make` gives of the program at `path`. Raises InputError for what is wrong with it."""
    try:
        return make()
    except P4Error as error:
        first = next(d for d in error.diagnostics if d.severity == "error")
        place = f"{first.span}: " if first.span else f"{path}: "
        more = sum(d.severity == "error" for d in error.diagnostics) - 1
        line = f"{where}: {place}{first.message}" + (f" (and {more} more errors)" if more else "")
        raise InputError(" ".join(line.split())) from None
    except BuildError as error:
        raise InputError(f"{where}: {path}: {' '.join(str(error).split())[:300]}") from None


def make_switches(scenario: Scenario, system: System, plans: Mapping[int, Plan]) -> Switches:
    """Compiled, set up and loaded. plans: width -> plan; jobs are numbered in the order of the widths.

    Raises InputError: a program that is not there, does not compile, has not the tables and headers that the
    system's control plane and hosts need, or is too small for the graph.
    """
    check(scenario, system)
    cluster = scenario.cluster
    fabric = Fabric(cluster.workers, cluster.leaves, cluster.spines)
    ordered = [plans[width] for width in sorted(plans)]
    jobs = [SwitchJob(number + 1, plan.chunks, needs(plan)) for number, plan in enumerate(ordered)]
    for plan in ordered:
        _check_plan(plan)
    switches = Switches([], [], [])
    try:
        for switch in fabric.switches:
            _add(switches, scenario, switch, fabric, jobs if system.in_network else [])
        if system.in_network:
            _load_all(switches, scenario, fabric, ordered)
    except BaseException:
        switches.close()
        raise
    return switches


def _check_plan(plan: Plan) -> None:
    slots = int(np.diff(plan.block_ptr).max(initial=0))
    if slots > MOST_SLOTS or plan.num_blocks >= MOST_BLOCKS:
        raise InputError(
            f"switch.program: the largest of {plan.num_blocks} blocks has {slots} vertices; packets name at "
            f"most {MOST_SLOTS} of a block and {MOST_BLOCKS - 1} blocks: choose another switch.memory_bytes"
        )


def _add(
    switches: Switches, scenario: Scenario, switch: Switch, fabric: Fabric, jobs: Sequence[SwitchJob]
) -> None:
    where = "switch.program"
    if switch.kind == "spine" and scenario.switch.spine_program:
        where = "switch.spine_program"
    name = programs(scenario)[where]
    sizes = defines(fabric, jobs)
    if not fabric.racks:
        sizes["SOURCES"] = "32"  # of partials, and a star has none
    if switch.kind == "spine":
        sizes |= {**SMALLEST, "WORKERS": sizes["WORKERS"]}
    path = find_program(where, name)
    try:
        # What a program draws: of a run's own, and of each switch its own.
        seed = scenario.run.seed + len(switches.engines)
        engine = Engine(_library(where, path, tuple(sizes.items())), seed=seed)
    except TargetError as error:
        raise InputError(f"{where}: {name}: {error}") from None
    switches.engines.append(engine)
    switches.sources.append((str(engine.library_path), engine.address, name, switch.name))
    switches.names.append(switch.name)
    if switch.kind != "spine" and jobs:
        _check_sizes(where, name, engine, jobs)
    try:
        if jobs:
            install(engine, switch, fabric, jobs)
        else:
            routes(engine, switch, fabric)
    except TargetError as error:
        purpose = "aggregates" if jobs else "forwards"
        raise InputError(
            f"{where}: {name} cannot be set up as a program that {purpose} (docs/p4-programs.md): {error}"
        ) from None


def _check_sizes(where: str, name: str, engine: Engine, jobs: Sequence[SwitchJob]) -> None:
    """The arrays that switchgnn.p4's -D sizes give it, and a changed copy of it may not."""
    arrays = {info.name.rpartition(".")[2]: info.size for info in engine.schema.registers}
    for array, needed in (
        ("tag", sum(job.needs.aggregators for job in jobs)),
        ("block_first", sum(job.needs.blocks for job in jobs)),
        ("entry_edge", sum(job.needs.entries for job in jobs)),
        ("edge_slot", sum(job.needs.edges for job in jobs)),
    ):
        if array in arrays and arrays[array] < needed:
            raise InputError(
                f"{where}: {name}: the graph is too large for the program's memory: its register {array} has "
                f"{arrays[array]} elements, {needed} are needed"
            )


_built: dict[tuple[Path, int, tuple[tuple[str, str], ...]], Path] = {}


def _library(where: str, path: Path, sizes: tuple[tuple[str, str], ...]) -> Path:
    key = (path.resolve(), path.stat().st_mtime_ns, sizes)
    if key not in _built:
        _built[key] = _in_one_line(where, path, partial(compiled, path, defines=dict(sizes)))
    return _built[key]


# ---- the adjacency


def _load_all(switches: Switches, scenario: Scenario, fabric: Fabric, plans: Sequence[Plan]) -> None:
    most = 0
    for switch, engine in zip(fabric.switches, switches.engines, strict=True):
        if switch.kind == "spine":
            continue
        rack = None
        if switch.kind == "leaf":
            rack = np.zeros(fabric.workers, bool)
            rack[list(fabric.rack(switch.number))] = True
        sent = 0
        for number, plan in enumerate(plans):
            frames = load_frames(words(plan, rack), number + 1, fabric.rack(switch.number).start)
            _load(engine, frames, switch.name, scenario.switch.program)
            sent += len(frames)
        switches.load_packets += sent
        most = max(most, sent)
    bits = 8 * (wire_format.FRAME_BYTES + wire.FCS_BYTES + wire.GAP_BYTES)
    switches.load_ns = round(most * bits * 1e9 / scenario.cluster.host_link_bps)


def load_frames(arrays: Sequence[tuple[Array, Ints]], job: int, worker: int) -> npt.NDArray[np.uint8]:
    """uint8[packets, 182]: the packets that a worker sends its switch to load these arrays."""
    per_packet = wire_format.VALUES_PER_PACKET
    parts = []
    for array, content in arrays:
        count = -(-len(content) // per_packet)
        at = np.arange(count) * per_packet
        padded = np.zeros(count * per_packet, np.int64)
        padded[: len(content)] = content
        frames = np.tile(wire_format.blank(worker), (count, 1))
        wire_format.put(frames, "agg.type", wire_format.NUMBERS["load"])
        wire_format.put(frames, "agg.job", job)
        wire_format.put(frames, "agg.chunk", int(array))
        wire_format.put(frames, "agg.vertex", at)
        wire_format.put(frames, "agg.count", np.minimum(len(content) - at, per_packet))
        frames[:, wire_format.VALUES_AT :] = (
            padded.astype(">i4").view(np.uint8).reshape(count, 4 * per_packet)
        )
        parts.append(frames)
    return np.concatenate(parts)


def _load(engine: Engine, frames: npt.NDArray[np.uint8], node: str, program: str) -> None:
    """Through the program, each acknowledged, as the emulator's Loader insists."""
    size = frames.shape[1]
    acknowledged = 0
    for first in range(0, len(frames), LOAD_BATCH):
        some = frames[first : first + LOAD_BATCH]
        ends = (np.arange(len(some), dtype=np.uint64) + np.uint64(1)) * np.uint64(size)
        ports = np.zeros(len(some), np.uint32)
        out = engine.run(Batch(some.reshape(-1), ends, ports, np.zeros(0, np.uint32)))
        acknowledged += len(out.ends)
    if acknowledged != len(frames):
        raise InputError(
            f"switch.program: {program} on {node} acknowledged {acknowledged} of {len(frames)} packets of "
            "the graph's adjacency: it does not read the headers of p4/programs/include"
        )


def layout() -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Fields and numbers of sim/native/wire-codec.h."""
    return wire_format.FIELDS, {**wire_format.NUMBERS, "fcs_bytes": wire.FCS_BYTES}
