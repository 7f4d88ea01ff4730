"""The cluster in one process and in virtual time: real frames, the real P4 engine, events in a queue.

The same seed gives the same run, frame by frame. `netfold emulate --in-process` runs on it, and the tests of
the protocol drive their interleavings with it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from emulator.cluster.barriers import READ_NONE, latest, unreported, who_is_missing
from emulator.cluster.bmv2 import PacketwiseSwitch
from emulator.cluster.errors import ClusterError
from emulator.cluster.faults import Faults
from emulator.cluster.line import FAULT_COUNTS, Bytes, Line
from emulator.cluster.measured import Measured, named_kinds
from emulator.cluster.pcap import PortCapture
from emulator.cluster.settings import Settings
from emulator.cluster.station import Station
from emulator.cluster.topology import Topology
from emulator.protocol.endpoint import NEVER
from p4.control.adjacency import needs, words
from p4.control.fabric import Switch
from p4.control.switchgnn import EVENTS, SwitchJob, build_switch, install, resume, take_turn
from p4.targets import Target
from p4.targets.batch import Batch
from p4.targets.engine import Engine
from workloads.plan import Plan

Lengths = npt.NDArray[np.int64]
RESTART_NS = 2_000_000  # how long a switch is away


class VirtualCluster:
    """Workers, switches and links. Plans by job number (1 to 255). Use as a context manager."""

    def __init__(
        self,
        topology: Topology,
        plans: Mapping[int, Plan],
        faults: Faults,
        settings: Settings,
        *,
        captures: Path | None = None,
        make_switch: Callable[[Switch, Topology, Sequence[SwitchJob]], PacketwiseSwitch] | None = None,
    ) -> None:
        self.topology, self.plans, self.settings, self.faults = topology, plans, settings, faults
        self.now_ns = 0
        random = np.random.default_rng(settings.seed)
        secret = int(random.integers(2**63))
        jobs = {number: topology.jobs(number, secret) for number in plans}
        self.stations = [
            Station({n: jobs[n][w] for n in plans}, plans, settings.timing, settings.dcqcn)
            for w in range(topology.workers)
        ]
        self.switch_jobs = [SwitchJob(n, plan.chunks, needs(plan)) for n, plan in plans.items()]
        self._make_switch = make_switch
        self.switches = {switch.name: switch for switch in topology.switches}
        self.engines: dict[str, Engine | PacketwiseSwitch] = {}
        self.lines: dict[tuple[str, str], Line] = {}
        for switch in topology.switches:
            for other in switch.links:
                for pair in ((switch.name, other), (other, switch.name)):
                    if pair not in self.lines:
                        ecn = settings.ecn_frames if pair[0] in self.switches else 0
                        self.lines[pair] = Line(
                            settings.rate_bps, settings.delay_ns, faults.link(*pair),
                            np.random.default_rng(random.integers(2**63)), ecn,
                        )  # fmt: skip
        self.retired: Counter[str] = Counter()  # what switches counted before they were restarted
        self._turns: Counter[str] = Counter()  # how often each switch was set up anew
        self._unsure: set[str] = set()  # restarted, with completions from before perhaps still on their way
        self._captures = PortCapture(captures) if captures else None
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._sequence = 0
        self._polls = [NEVER] * topology.workers
        self._dead: dict[int, str] = {}
        self._begun = False
        try:
            for switch in topology.switches:
                self._start(switch)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> VirtualCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the switches and write the captures."""
        for engine in self.engines.values():
            engine.close()
        self.engines = {}
        if self._captures is not None:
            self._captures.close()
            self._captures = None

    # ---- what a run does

    def load(self) -> None:
        """Load every switch, then wait for all workers on every job. Raises ClusterError."""
        for switch in self.topology.switches:
            self._load(switch)
        self._run(lambda: not any(station.loading for station in self.stations))
        for number in self.plans:
            for station in self.stations:
                station.active = number
                station.endpoint.join(self.now_ns)
                self._poll_at(station.worker, self.now_ns)
            self._run(lambda: all(station.idle for station in self.stations))

    def propagate(self, number: int, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """One propagation of job `number`. values: int32[nb, width] in boundary order; sums int64[nb, width].

        Raises ClusterError.
        """
        if not self._begun:
            self._begun = True
            self._schedule_node_faults()
        plan = self.plans[number]
        for station in self.stations:
            station.active = number
            share = station.shares[number]
            station.endpoint.start(share, values[share.own], self.now_ns)
            self._poll_at(station.worker, self.now_ns)
        self._run(lambda: all(station.idle for station in self.stations))
        for name in self._unsure & set(self.engines):
            self._resume(name)
        self._unsure &= set(self.switches) - set(self.engines)
        sums = np.zeros((plan.num_boundary, plan.width), np.int64)
        for station in self.stations:
            sums[station.shares[number].own] = station.endpoint.results()
        return sums

    def elapsed_ns(self) -> int:
        """Virtual time."""
        return self.now_ns

    def measured(self) -> Measured:
        """What was counted so far."""
        faults: Counter[str] = Counter()
        for line in self.lines.values():
            faults.update({name: line.counts[name] for name in FAULT_COUNTS if line.counts[name]})
        return Measured(
            virtual=True,
            workers=[station.counters() for station in self.stations],
            switches=self.switch_events(),
            traffic={pair: named_kinds(line.kinds) for pair, line in self.lines.items()},
            faults=dict(faults),
        )

    def switch_events(self) -> dict[str, int]:
        """The program's event counters and passes, all switches together."""
        total: Counter[str] = Counter(self.retired)
        for name in self.engines:
            total.update(self._count(name))
        return dict(total)

    # ---- events

    def _at(self, when_ns: int, what: Callable[..., None], *arguments: object) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (max(when_ns, self.now_ns), self._sequence, what, arguments))

    def _run(self, finished: Callable[[], bool]) -> None:
        while not finished():
            if not self._events:
                raise ClusterError(self._stuck("nothing is under way any more"))
            self.now_ns, _, what, arguments = heapq.heappop(self._events)
            what(*arguments)
            self._raise_failures()

    def _raise_failures(self) -> None:
        if self._dead:
            worker, why = next(iter(self._dead.items()))
            raise ClusterError(
                f"worker {worker} {why}; {self.stations[worker].endpoint.where}; the run was ended"
            )
        for station in self.stations:
            if station.error is not None:
                raise ClusterError(self._stuck(station.error))

    def _stuck(self, why: str) -> str:
        """`why`, and who is behind the others, or has not been heard of."""
        job = self.stations[0].active
        endpoints = [station.endpoint for station in self.stations]
        asked = latest(e.waits_for for e in endpoints if e.waits_for)

        def read(switch: Switch, register: str, index: int) -> int:
            if switch.name not in self.engines:
                return READ_NONE
            return _target(self.engines[switch.name]).register_read(register, index)

        silent = unreported(read, self.topology, list(self.plans), job, asked)
        passed = {w: e.passed for w, e in enumerate(endpoints)}
        return who_is_missing(why, passed, silent, {w: e.lacks for w, e in enumerate(endpoints)})

    def _poll_at(self, worker: int, when_ns: int) -> None:
        when_ns = max(when_ns, self.now_ns)
        if when_ns < self._polls[worker]:
            self._polls[worker] = when_ns
            self._at(when_ns, self._poll, worker, when_ns)

    def _poll(self, worker: int, planned_ns: int) -> None:
        if self._polls[worker] != planned_ns or worker in self._dead:
            return
        self._polls[worker] = NEVER
        resumes = self._stalled_until(worker)
        if resumes:
            self._poll_at(worker, resumes)
            return
        station = self.stations[worker]
        frames = station.send(self.now_ns, self.settings.burst)
        leaf = self.topology.switches[self.topology.leaf_of(worker)]
        ready = self.now_ns
        if len(frames):
            lengths = np.full(len(frames), frames.shape[1], np.int64)
            ready = self._carry(f"worker{worker}", leaf.name, frames, lengths)
        wake = station.wake_ns(self.now_ns)
        if wake < NEVER:
            self._poll_at(worker, max(wake, ready))

    def _stalled_until(self, worker: int) -> int:
        """When a worker that is stalled now goes on; 0 if it is not."""
        if not self._begun:
            return 0
        for first, last in self.faults.stalls.get(worker, ()):
            if self._origin_ns + first <= self.now_ns < self._origin_ns + last:
                return self._origin_ns + last
        return 0

    def _carry(self, source: str, target: str, frames: Bytes, lengths: Lengths) -> int:
        """Put frames on a link; returns when it is free again."""
        line = self.lines[source, target]
        if self._captures is not None and target in self.switches:
            port = self.switches[target].port_to(source)
            self._captures.write(target, port, frames, lengths, self.now_ns)
        elif self._captures is not None:
            self._captures.write(source, self.switches[source].port_to(target), frames, lengths, self.now_ns)
        for when, some, sizes in line.carry(frames, lengths, self.now_ns):
            if len(some):
                self._at(when, self._arrive, source, target, some, sizes)
        return line.free_ns

    def _arrive(self, source: str, target: str, frames: Bytes, lengths: Lengths) -> None:
        if target in self.switches:
            self._through(self.switches[target], source, frames, lengths)
            return
        worker = int(target.removeprefix("worker"))
        if worker in self._dead:
            return
        resumes = self._stalled_until(worker)
        if resumes:  # its receive ring keeps them
            self._at(resumes, self._arrive, source, target, frames, lengths)
            return
        station = self.stations[worker]
        station.receive(frames, lengths, self.now_ns)
        wake = station.wake_ns(self.now_ns)
        if wake < NEVER:
            line = self.lines[target, source]
            self._poll_at(worker, max(wake, line.free_ns if wake <= self.now_ns else 0))

    def _through(self, switch: Switch, source: str, frames: Bytes, lengths: Lengths) -> None:
        """Frames through a switch's program and on to the next links."""
        engine = self.engines.get(switch.name)
        if engine is None:  # it is away
            self.retired["lost while away"] += len(frames)
            return
        engine.now_us = self.now_ns // 1000
        port = switch.port_to(source)
        data = frames[np.arange(frames.shape[1]) < lengths[:, None]]
        out = engine.run(Batch(data, np.cumsum(lengths).astype(np.uint64),
                               np.full(len(frames), port, np.uint32), np.zeros(0, np.uint32)))  # fmt: skip
        if not len(out.ends):
            return
        matrix, sizes = as_matrix(out)
        for to in np.unique(out.ports):
            chosen = out.ports == to
            if to < len(switch.links):
                self._carry(switch.name, switch.links[to], matrix[chosen], sizes[chosen])

    # ---- switches

    def _start(self, switch: Switch) -> None:
        made: Engine | PacketwiseSwitch
        if self._make_switch is None:
            made = Engine(build_switch(self.topology, self.switch_jobs))
        else:
            made = self._make_switch(switch, self.topology, self.switch_jobs)
        self.engines[switch.name] = made
        install(_target(made), switch, self.topology, self.switch_jobs)

    def _load(self, switch: Switch) -> None:
        """Give a worker of the switch its adjacency to load."""
        if switch.kind == "spine":
            return
        rack = None
        if switch.kind == "leaf":
            rack = np.zeros(self.topology.workers, bool)
            rack[list(self.topology.rack(switch.number))] = True
        loader = self.topology.rack(switch.number).start
        arrays = {number: words(plan, rack) for number, plan in self.plans.items()}
        self.stations[loader].load(arrays, self._turns[switch.name])
        self._poll_at(loader, self.now_ns)

    def _schedule_node_faults(self) -> None:
        self._origin_ns = self.now_ns
        for worker, when in self.faults.kills.items():
            self._at(self._origin_ns + when, self._kill, worker)
        for name, times in self.faults.restarts.items():
            for when in times:
                self._at(self._origin_ns + when, self._stop_switch, name)
                self._at(self._origin_ns + when + RESTART_NS, self._restart_switch, name)
        for line in self.lines.values():
            line.faults = line.faults.shifted(self._origin_ns)

    def _kill(self, worker: int) -> None:
        self._dead[worker] = "was killed"

    def _stop_switch(self, name: str) -> None:
        if name in self.engines:
            self.retired.update(self._count(name))
            self.retired["restarts"] += 1
            self.engines.pop(name).close()

    def _restart_switch(self, name: str) -> None:
        if name in self.engines:
            return
        switch = self.switches[name]
        self._turns[name] += 1
        self._start(switch)
        take_turn(_target(self.engines[name]), self.switch_jobs, self._turns[name])
        self._resume(name)
        self._load(switch)
        self._unsure.add(name)
        wait = self.settings.timing.rto_min_ns
        self._at(self.now_ns + wait, self._resume_again, name, self._turns[name], wait)

    def _resume(self, name: str) -> None:
        """Tell a restarted switch what is complete."""
        passed = {n: latest(s.endpoints[n].passed for s in self.stations) for n in self.plans}
        target = _target(self.engines[name])
        resume(target, self.switches[name], self.topology, self.switch_jobs, passed)

    def _resume_again(self, name: str, turn: int, waited_ns: int) -> None:
        """Completions from before the restart may have come late: workers then know more than the switch."""
        if name not in self._unsure or name not in self.engines or self._turns[name] != turn:
            return
        self._resume(name)
        wait = min(2 * waited_ns, self.settings.timing.patience_ns // 8)
        self._at(self.now_ns + wait, self._resume_again, name, turn, wait)

    def _count(self, name: str) -> dict[str, int]:
        engine = self.engines[name]
        counted = {event: engine.counter_read("events", i)[0] for i, event in enumerate(EVENTS)}
        told = engine.statistics()
        return counted | ({"passes": told["passes"]} if "passes" in told else {})


def _target(made: Engine | PacketwiseSwitch) -> Target:
    return made.target if isinstance(made, PacketwiseSwitch) else made


def as_matrix(batch: Batch) -> tuple[Bytes, Lengths]:
    """A batch's frames as rows, filled up to the longest, and their lengths."""
    ends = batch.ends.astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    longest = int(lengths.max())
    if (lengths == longest).all():
        return batch.data.reshape(len(lengths), longest), lengths
    matrix = np.zeros((len(lengths), longest), np.uint8)
    matrix[np.arange(longest) < lengths[:, None]] = batch.data
    return matrix, lengths
