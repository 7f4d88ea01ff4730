"""The cluster as processes: each worker and each switch its own, joined by net_shm links, in real time.

The cluster's own process sends no packet. It tells the workers what to do, plays the faults of workers and
switches, and watches: whoever dies or falls silent is named, and everything ends.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.cluster.barriers import READ_NONE, Barrier, latest, unreported, who_is_missing
from emulator.cluster.errors import ClusterError
from emulator.cluster.faults import Faults
from emulator.cluster.measured import Measured, named_kinds
from emulator.cluster.meter import NOT_BEGUN, Meter, cluster_port
from emulator.cluster.settings import Settings
from emulator.cluster.station import Station
from emulator.cluster.topology import Topology
from emulator.cluster.worker import SLOTS, Shared, WorkerSetup, WorkerState, worker_main
from emulator.host import EthDev, Lcore, LcoreError, ShmEnd, ShmLink
from emulator.switch import EngineSwitch
from emulator.wire import FRAME_BYTES
from p4.control.adjacency import needs
from p4.control.fabric import Switch
from p4.control.switchgnn import EVENTS, SwitchJob, build_switch, install, resume, take_turn
from p4.targets import Target
from workloads.plan import Plan

AWAY_S = 0.02  # how long a restarted switch is away
AGAIN_NS = 50_000_000  # until a restarted switch is told again what is complete; then twice as long, ...
SILENT_S = 2.0  # a worker that does not answer for so long is silent
GRACE_S = 5.0  # beyond the workers' own patience


class SilentError(ClusterError):
    """A worker that does not answer."""


class ProcessCluster:
    """Workers, switches and links. Plans by job number (1 to 255). Use as a context manager, or close()."""

    def __init__(
        self,
        topology: Topology,
        plans: Mapping[int, Plan],
        faults: Faults,
        settings: Settings,
        *,
        captures: Path | None = None,
    ) -> None:
        self.topology, self.plans, self.faults, self.settings = topology, plans, faults, settings
        self.started_ns = time.monotonic_ns()
        self.shared = Shared(plans)
        self._jobs = [SwitchJob(number, plan.chunks, needs(plan)) for number, plan in plans.items()]
        self._captures = captures
        if captures is not None:
            captures.mkdir(parents=True, exist_ok=True)
        self._retired: Counter[str] = Counter()
        self._down: set[str] = set()
        self._turns: Counter[str] = Counter()  # how often each switch was set up anew
        self._unsure: set[str] = set()  # restarted, with completions from before perhaps still on their way
        self._failed: str | None = None  # why the first worker gave up
        self._command = self._number = 0
        self._random = np.random.default_rng(settings.seed)
        self._named = {switch.name: switch for switch in topology.switches}
        self._passed: dict[int, Barrier] = dict.fromkeys(plans, (0, 0))
        self._links: dict[frozenset[str], ShmLink] = {}
        self.switches: dict[str, EngineSwitch] = {}
        self.workers: list[Lcore] = []
        self._pipes: list[Connection] = []
        library = build_switch(topology, self._jobs)
        try:
            for switch in topology.switches:
                for other in switch.links:
                    pair = frozenset((switch.name, other))
                    if pair not in self._links:
                        name = f"netfold-{switch.name}-{other}"
                        self._links[pair] = ShmLink(slots=SLOTS, mtu=FRAME_BYTES, name=name)
            for switch in topology.switches:
                self._start_switch(switch, library)
            self._start_workers(int(self._random.integers(2**63)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process and give the links back."""
        for number, worker in enumerate(self.workers):
            if worker.alive and number in self._stopped:
                os.kill(worker.pid, signal.SIGCONT)
            worker.kill()
        for switch in self.switches.values():
            switch.close()
        for pipe in self._pipes:
            pipe.close()
        for link in self._links.values():
            link.close()
        self.workers, self._pipes, self.switches, self._links = [], [], {}, {}

    _stopped: frozenset[int] = frozenset()

    # ---- starting

    def _end(self, node: str, other: str) -> ShmEnd:
        """This node's end of a link: the worker's, or the lower switch's, is the first."""
        first, second = self._links[frozenset((node, other))].ends
        lower = node.startswith("worker") or (node.startswith("leaf") and other.startswith("spine"))
        return first if lower else second

    def _origin(self) -> int:
        return int(self.shared.origin_ns[0])

    def _start_switch(self, switch: Switch, library: Path) -> None:
        seed = int(self._random.integers(2**31))

        def wrap(port: int, inner: EthDev) -> EthDev:
            other = switch.links[port]
            faults = self.faults.link(switch.name, other), type(self.faults.link("", ""))()
            if other.startswith("worker"):  # a worker's port has the faults of both directions
                faults = type(faults[0])(), faults[1]
            file = self._captures / f"{switch.name}-{port}.pcap" if self._captures else None
            return cluster_port(inner, faults, seed + port, self._origin, file)

        def control(target: Target) -> None:
            install(target, switch, self.topology, self._jobs)
            if turn := self._turns[switch.name]:
                take_turn(target, self._jobs, turn)
                resume(target, switch, self.topology, self._jobs, self._passed)

        ends = {port: self._end(switch.name, other) for port, other in enumerate(switch.links)}
        self.switches[switch.name] = EngineSwitch(library, ends, control, wrap=wrap, name=switch.name)

    def _start_workers(self, secret: int) -> None:
        jobs = {number: self.topology.jobs(number, secret) for number in self.plans}
        for w in range(self.topology.workers):
            settings = self.settings
            station = Station({n: jobs[n][w] for n in jobs}, self.plans, settings.timing, settings.dcqcn)
            leaf = self.topology.switches[self.topology.leaf_of(w)]
            name = f"worker{w}"
            faults = self.faults.link(name, leaf.name), self.faults.link(leaf.name, name)
            wrap = partial(_worker_port, faults, int(self._random.integers(2**31)), self._origin)
            end = self._end(name, leaf.name)
            setup = WorkerSetup(station, end, wrap, settings.burst, self._rack(leaf), self.shared)
            ours, theirs = get_context("fork").Pipe()
            self._pipes.append(ours)
            self.workers.append(Lcore(worker_main, setup, theirs, list(self._pipes), name=name, keep=[end]))
            theirs.close()

    def _rack(self, switch: Switch) -> npt.NDArray[np.bool_] | None:
        if switch.kind != "leaf":
            return None
        rack = np.zeros(self.topology.workers, bool)
        rack[list(self.topology.rack(switch.number))] = True
        return rack

    # ---- what a run does

    def load(self) -> None:
        """Load every switch, then wait for all workers on every job. Raises ClusterError."""
        self._tell("load", 0, [self.topology.rack(leaf).start for leaf in range(self.topology.leaves)])
        for number in self.plans:
            self._tell("join", number, range(self.topology.workers))

    def propagate(self, number: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """One propagation of job `number`. values: int32[nb, width] in boundary order; sums int64[nb, width].

        Raises ClusterError.
        """
        if self._origin() == NOT_BEGUN:
            self._plan_node_faults()
        self.shared.values[number][...] = values
        self._tell("propagate", number, range(self.topology.workers))
        return np.array(self.shared.sums[number], dtype=np.int64)

    def elapsed_ns(self) -> int:
        """Since the cluster was started."""
        return time.monotonic_ns() - self.started_ns

    def measured(self) -> Measured:
        """What was counted so far."""
        out = Measured(virtual=False)
        faults: Counter[str] = Counter()
        for w, pipe in enumerate(self._pipes):
            counters, port, _ = self._ask(w, pipe, "counters")
            out.workers.append(counters)
            leaf = self.topology.switches[self.topology.leaf_of(w)].name
            out.traffic[f"worker{w}", leaf] = _kinds(port, "tx")
            _add_faults(faults, port)
        for switch in self.topology.switches:
            try:
                ports = self.switches[switch.name].port_stats()
            except LcoreError as error:
                raise ClusterError(f"{switch.name} does not answer ({error})") from None
            for port_number, port in ports.items():
                out.traffic[switch.name, switch.links[port_number]] = _kinds(port, "tx")
                _add_faults(faults, port)
        out.switches, out.faults = self.switch_events(), {name: n for name, n in faults.items() if n}
        return out

    def switch_events(self) -> dict[str, int]:
        """The program's event counters and passes, and what the switches dropped, all together."""
        total: Counter[str] = Counter(self._retired)
        for switch in self.switches.values():
            total.update(_count(switch))
        return dict(total)

    def buffers_in_use(self) -> list[int]:
        """Packet buffers that each worker holds: none, when nothing is under way."""
        return [self._ask(w, pipe, "counters")[2] for w, pipe in enumerate(self._pipes)]

    # ---- telling and watching

    def _tell(self, what: str, number: int, to: Any) -> None:
        """A command to workers, until all are done with it."""
        self._command += 1
        self._number = number or self._number
        self._waiting = dict.fromkeys(to, self._command)
        for w in self._waiting:
            self._send(w, (what, number, self._command))
        deadline, before = self._deadline(), None
        while self._waiting:
            self._play_due()
            if self._hear(deadline):
                deadline = self._deadline()
            elif time.monotonic() > deadline:
                # The workers give up by themselves when nothing moves; one that is silent cannot.
                states = self._states()
                if states == before or any(state is None for state in states):
                    waited = f"nothing moved for {self.settings.timing.patience_ns / 1e9:g} s"
                    raise ClusterError(self._who(waited, states))
                deadline, before = self._deadline(), states
        if self._unsure and what == "propagate":  # nothing is on its way any more that matters
            self._resume(sorted(self._unsure))
            self._unsure = set()

    def _deadline(self) -> float:
        return time.monotonic() + self.settings.timing.patience_ns / 1e9 + GRACE_S

    def _send(self, worker: int, told: tuple[str, int, int]) -> None:
        try:
            self._pipes[worker].send(told)
        except (BrokenPipeError, ConnectionError):
            self._died(worker)

    def _hear(self, deadline: float) -> bool:
        """Messages of workers, ends of processes, or the time of the next fault. True if anyone was heard."""
        left = min(0.5, deadline - time.monotonic(), self._next_due_s())
        sentinels: dict[int, str] = {
            switch.sentinel: name for name, switch in self.switches.items() if name not in self._down
        }
        heard = False
        for ready in wait([*self._pipes, *sentinels], timeout=max(0.0, left)):
            if isinstance(ready, int):
                raise ClusterError(f"{sentinels[ready]} ended without being told to; the run was ended")
            assert isinstance(ready, Connection)
            worker = self._pipes.index(ready)
            try:
                what, content = ready.recv()
            except (EOFError, ConnectionError):
                self._died(worker)
            heard = True
            self._told(worker, what, content)
        if self._failed is not None:
            raise ClusterError(self._who(self._failed, self._states()))
        return heard

    def _told(self, worker: int, what: str, content: Any) -> None:
        if what == "failed":
            self._failed = self._failed or content
        elif what == "idle" and self._waiting.get(worker) == content:
            del self._waiting[worker]

    def _died(self, worker: int) -> None:
        try:
            self.workers[worker].join(SILENT_S)
            how = "ended without being told to"
        except LcoreError as error:
            how = str(error).partition(": ")[2]
        raise ClusterError(f"worker {worker} was lost ({how}); the run was ended")

    def _states(self) -> list[WorkerState | None]:
        """Of each worker; None of a silent one."""
        states: list[WorkerState | None] = []
        for w, pipe in enumerate(self._pipes):
            try:
                states.append(None if w in self._stopped else self._ask(w, pipe, "state"))
            except SilentError:
                states.append(None)
        return states

    def _who(self, why: str, states: Sequence[WorkerState | None]) -> str:
        """`why`, and who is silent, behind the others, or not heard of by its switch."""
        silent = [w for w, state in enumerate(states) if state is None]
        if silent:
            return f"{why} (silent: {_list(silent)})"
        known = {w: state for w, state in enumerate(states) if state is not None}
        asked = latest(state.waits_for for state in known.values() if state.waits_for)

        def read(switch: Switch, register: str, index: int) -> int:
            try:
                return int(self.switches[switch.name].ask("register_read", register, index))
            except LcoreError:
                return READ_NONE

        if not self._number:  # still loading
            return why
        missing = unreported(read, self.topology, list(self.plans), self._number, asked)
        passed = {w: state.passed[self._number] for w, state in known.items()}
        return who_is_missing(why, passed, missing, {w: state.lacks for w, state in known.items()})

    def _ask(self, worker: int, pipe: Connection, what: str) -> Any:
        """A worker's answer; what else it says meanwhile counts."""
        self._send(worker, (what, 0, 0))
        deadline = time.monotonic() + SILENT_S
        while pipe.poll(max(0.0, deadline - time.monotonic())):
            try:
                kind, content = pipe.recv()
            except (EOFError, ConnectionError):
                self._died(worker)
            if kind == what:
                return content
            self._told(worker, kind, content)
        raise SilentError(f"worker {worker} did not answer for {SILENT_S:g} s; the run was ended")

    _waiting: dict[int, int] = {}  # noqa: RUF012  (worker -> command it is not done with; replaced, never shared)

    # ---- faults of workers and switches

    def _plan_node_faults(self) -> None:
        now = time.monotonic_ns()
        self.shared.origin_ns[0] = now
        due: list[tuple[int, str, Any]] = [(now + at, "kill", w) for w, at in self.faults.kills.items()]
        for w, spans in self.faults.stalls.items():
            for first, last in spans:
                due += [(now + first, "stop", w), (now + last, "continue", w)]
        for name, times in self.faults.restarts.items():
            due += [(now + at, "restart", name) for at in times]
        self._due = sorted(due, key=lambda event: event[0])

    _due: list[tuple[int, str, Any]] = []  # noqa: RUF012  (replaced, never shared)

    def _next_due_s(self) -> float:
        return (self._due[0][0] - time.monotonic_ns()) / 1e9 if self._due else 1.0

    def _play_due(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic_ns():
            _, what, which = self._due.pop(0)
            match what:
                case "kill":
                    self.workers[which].kill()
                case "stop":
                    self._stopped |= {which}
                    os.kill(self.workers[which].pid, signal.SIGSTOP)
                case "continue":
                    self._stopped -= {which}
                    os.kill(self.workers[which].pid, signal.SIGCONT)
                case "restart":
                    self._restart(which)
                case "resume":
                    self._resume_again(*which)

    def _restart(self, name: str) -> None:
        switch = self.switches[name]
        self._retired.update(_count(switch))
        self._retired["restarts"] += 1
        self._down.add(name)
        switch.kill()
        time.sleep(AWAY_S)
        self._turns[name] += 1
        self._hear_passed()
        try:
            switch.restart()
        except LcoreError as error:
            raise ClusterError(f"{name} did not come back ({error}); the run was ended") from None
        self._down.discard(name)
        found = self._named[name]
        if found.kind != "spine":
            loader = self.topology.rack(found.number).start
            self._command += 1
            self._waiting[loader] = self._command
            self._send(loader, ("load", self._turns[name], self._command))
        self._unsure.add(name)
        self._schedule(AGAIN_NS, "resume", (name, AGAIN_NS))

    def _schedule(self, in_ns: int, what: str, which: Any) -> None:
        self._due.append((time.monotonic_ns() + in_ns, what, which))
        self._due.sort(key=lambda event: event[0])

    def _hear_passed(self) -> None:
        """What is complete, as far as any worker that answers knows."""
        states = [state for state in self._states() if state is not None]
        for number in self.plans:
            self._passed[number] = latest([self._passed[number], *(s.passed[number] for s in states)])

    def _resume_again(self, name: str, waited_ns: int) -> None:
        """Completions from before a restart may have come late: workers then know more than the switch."""
        if name not in self._unsure or name in self._down:
            return
        self._resume([name])
        wait = min(2 * waited_ns, self.settings.timing.patience_ns // 8)
        self._schedule(wait, "resume", (name, wait))

    def _resume(self, names: list[str]) -> None:
        self._hear_passed()
        for name in names:
            try:
                self.switches[name].ask(resume, self._named[name], self.topology, self._jobs, self._passed)
            except LcoreError as error:
                raise ClusterError(f"{name} does not answer ({error}); the run was ended") from None


def _worker_port(faults: Any, seed: int, origin: Any, inner: EthDev) -> Meter:
    return cluster_port(inner, faults, seed, origin)


def _count(switch: EngineSwitch) -> dict[str, int]:
    try:
        counted = {event: int(switch.ask("counter_read", "events", i)[0]) for i, event in enumerate(EVENTS)}
        told = switch.statistics()
    except LcoreError as error:
        raise ClusterError(f"{switch.name} does not answer ({error}); the run was ended") from None
    drops = {name: told[name] for name in told if name.endswith("_drops") and told[name]}
    return counted | {"passes": told["passes"]} | drops


def _kinds(port: Mapping[str, int], way: str) -> dict[str, int]:
    counts = np.zeros(256, np.int64)
    for name, count in port.items():
        if name.startswith(f"{way}_kind_"):
            counts[int(name.rpartition("_")[2])] = count
    return named_kinds(counts)


def _add_faults(faults: Counter[str], port: Mapping[str, int]) -> None:
    for name, count in port.items():
        if "_fault_" in name and count:
            faults[name.partition("_fault_")[2]] += count
    faults["lost while down"] += port.get("lost_while_down", 0)


def _list(workers: list[int]) -> str:
    return ", ".join(f"worker {w}" for w in workers[:8])
