"""Every order of events of a small cluster: the protocol's machines, a model of the switch, the network.

A state is what all endpoints, the switch and the network hold. From each, every frame in flight may arrive
next, in any order; and, as often as the budget has it, be lost, or arrive and stay (a copy); a worker's timer
may fire early; the switch may be restarted. Where no frame is in flight, all timers fire. States that were
seen are not explored again, so that the number of interleavings, which is the number of paths from the
beginning to an end, is far larger than that of the steps taken. Time plays no part but that timers fire.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.cluster.barriers import latest
from emulator.cluster.topology import Topology
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Endpoint, State, Timing
from emulator.protocol.frames import Job
from emulator.protocol.layout import Share
from emulator.wire import FRAME, FRAME_BYTES, RESEND, PacketType

FOREVER = Timing(1_000_000, 1_000_000, 10**18)
Packet = tuple[int, bytes]  # (the worker it goes to, or -1 for the switch, its bytes)


class Deadlock(AssertionError):
    """Nothing can happen any more, or the same things over and over."""


@dataclass
class SwitchModel:
    """switchgnn.p4 in a star, for one job. A test holds it against the program itself."""

    share: Share
    jobs: list[Job]
    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: dict[tuple[int, int], tuple[int, int, bytes]] = field(default_factory=dict)  # tag, count, values
    done_seen: tuple[int, ...] = ()
    done_tag: int = 0
    done_count: int = 0

    def __post_init__(self) -> None:
        self.done_seen = self.done_seen or (0,) * len(self.jobs)

    def fork(self) -> SwitchModel:
        return replace(self, seen=dict(self.seen), sums=dict(self.sums))

    def key(self) -> tuple[Any, ...]:
        return (
            tuple(sorted(self.seen.items())), tuple(sorted(self.sums.items())),
            self.done_seen, self.done_tag, self.done_count,
        )  # fmt: skip

    def restarted(self, passed: tuple[int, int]) -> SwitchModel:
        """Empty, but told what is complete."""
        fresh = SwitchModel(self.share, self.jobs)
        fresh.resume(passed)
        return fresh

    def resume(self, passed: tuple[int, int]) -> None:
        stamp = (passed[0] << 16 | passed[1]) + 1
        if self.done_tag <= stamp:
            self.done_tag, self.done_count = stamp, len(self.jobs)

    def receive(self, raw: bytes) -> list[Packet]:
        frame = np.frombuffer(raw, FRAME)
        agg = frame["agg"][0]
        kind, now = int(agg["type"]), (int(agg["round"]) << 16 | int(agg["block"])) + 1
        if kind == PacketType.DONE:
            return self._done(frame, int(agg["worker"]), now)
        if kind == PacketType.UPLOAD and not int(agg["flags"]) & RESEND:
            return self._upload(frame, now)
        address = int(frame["ipv4"]["dst"][0])
        to = [job.worker for job in self.jobs if int(job.ip[job.worker]) == address]
        return [(worker, raw) for worker in to]

    def _done(self, frame: npt.NDArray[np.void], worker: int, now: int) -> list[Packet]:
        n = self.done_count
        again = complete = False
        if self.done_tag and now < self.done_tag:
            again = True
        elif now != self.done_tag and self.done_tag and n != len(self.jobs):
            pass
        elif now != self.done_tag or (self.done_seen[worker] != now and n != len(self.jobs)):
            n = 1 if now != self.done_tag else n + 1
            seen = list(self.done_seen)
            seen[worker] = now
            self.done_seen, self.done_tag, self.done_count = tuple(seen), now, n
            complete = n == len(self.jobs)
        else:
            again = n == len(self.jobs)
        to = range(len(self.jobs)) if complete else [worker] if again else []
        return [(w, self._to_worker(frame, w, PacketType.COMPLETE)) for w in to]

    def _upload(self, frame: npt.NDArray[np.void], now: int) -> list[Packet]:
        agg = frame["agg"][0]
        number = (int(agg["block"]) - 1) // 2
        plan, slot, chunk = self.share.plan, int(agg["vertex"]), int(agg["chunk"])
        first = int(plan.block_ptr[number])
        if self.seen.get((slot, chunk), 0) >= now:
            return []
        self.seen[slot, chunk] = now
        out = []
        for edge in range(int(plan.adj_ptr[first + slot]), int(plan.adj_ptr[first + slot + 1])):
            target = int(plan.adj[edge])
            tag, count, values = self.sums.get((target, chunk), (0, 0, b""))
            if tag > now:
                continue
            total = frame["values"][0].astype(np.int64)
            if tag == now:
                total = total + np.frombuffer(values, np.int64)
            count = count + 1 if tag == now else 1
            self.sums[target, chunk] = (now, count, total.tobytes())
            if count == int(plan.adj_ptr[first + target + 1] - plan.adj_ptr[first + target]):
                owner = int(plan.owner[plan.block_vertices[first + target]])
                made = np.frombuffer(self._to_worker(frame, owner, PacketType.RESULT), FRAME).copy()
                made["agg"]["vertex"], made["agg"]["worker"], made["agg"]["count"] = target, owner, count
                made["values"] = total
                out.append((owner, made.tobytes()))
        return out

    def _to_worker(self, frame: npt.NDArray[np.void], worker: int, kind: PacketType) -> bytes:
        made = frame.copy()
        made["agg"]["type"] = kind
        made["ipv4"]["src"] = made["ipv4"]["dst"]
        made["ipv4"]["dst"] = self.jobs[worker].ip[worker]
        made["ipv4"]["ttl"] = 64
        wire.seal(made)
        return made.tobytes()


def fork(endpoint: Endpoint) -> Endpoint:
    """An endpoint that goes on on its own. What is never changed in place is shared, and so are counters."""
    made = copy.copy(endpoint)
    made._control, made._early = list(endpoint._control), list(endpoint._early)
    made.rtt = copy.copy(endpoint.rtt)
    made._totals = endpoint._totals.copy()
    if endpoint._receiver is not None:
        receiver = made._receiver = copy.copy(endpoint._receiver)
        receiver.totals = made._totals
        for name in ("done", "bypassed", "_arrived", "_asked", "_count", "_sums"):
            if hasattr(receiver, name):
                setattr(receiver, name, getattr(receiver, name).copy())
    made._sender = copy.copy(endpoint._sender)
    return made


def key_of(endpoint: Endpoint) -> tuple[Any, ...]:
    """What decides how an endpoint goes on, but for when."""
    receiver, sender = endpoint._receiver, endpoint._sender
    parts: list[Any] = [
        endpoint.state.value, endpoint.round, endpoint._barrier, endpoint.passed, endpoint._totals.tobytes(),
        tuple(sorted(frames.tobytes() for frames in endpoint._early)), endpoint._outstanding,
    ]  # fmt: skip
    if receiver is not None and sender is not None:
        parts += [receiver.exchange.number, sender.next, sender._replies.tobytes()]
        names = ("done", "bypassed", "_arrived", "_asked", "_count", "_sums")
        parts += [getattr(receiver, name).tobytes() for name in names if hasattr(receiver, name)]
    return tuple(parts)


@dataclass(frozen=True)
class Budget:
    """How much of each may happen on a path."""

    lost: int = 0
    copies: int = 0
    early_timers: int = 0
    restarts: int = 0


@dataclass
class Cluster:
    """One state. clocks: of each worker."""

    endpoints: list[Endpoint]
    switch: SwitchModel
    flying: tuple[Packet, ...]
    left: Budget
    clocks: list[int]
    propagations: int

    def key(self) -> tuple[Any, ...]:
        ends = tuple(key_of(endpoint) for endpoint in self.endpoints)
        return ends, self.switch.key(), self.flying, self.left, self.propagations

    def fork(self) -> Cluster:
        return Cluster(
            [*self.endpoints], self.switch, self.flying, self.left, [*self.clocks], self.propagations
        )


class Explorer:
    """All interleavings of a plan's propagations. ``steps`` taken, ``states`` met, ``ends`` among them."""

    def __init__(self, plan: Any, cross: Any, workers: int, propagations: int = 1) -> None:
        self.jobs = Topology(workers).jobs(1, 7)
        self.shares = [Share(plan, w) for w in range(workers)]
        random = np.random.default_rng(1)
        shape = (plan.num_boundary, plan.width)
        self.values = [random.integers(-(2**20), 2**20, shape, dtype=np.int32) for _ in range(propagations)]
        self.expected = [np.asarray(cross @ values.astype(np.int64)) for values in self.values]
        self.steps = self.ends = 0
        self._paths: dict[tuple[Any, ...], int] = {}
        self._open: set[tuple[Any, ...]] = set()

    @property
    def states(self) -> int:
        return len(self._paths)

    def explore(self, budget: Budget) -> int:
        """The number of interleavings, all of which end with the right sums. Raises AssertionError."""
        endpoints = [Endpoint(job, FOREVER, DcqcnConfig()) for job in self.jobs]
        for endpoint, share in zip(endpoints, self.shares, strict=True):
            endpoint.passed = (1, 0)
            endpoint._totals = np.zeros((len(share.own), share.chunks, 30), np.int64)
        switch = SwitchModel(self.shares[0], list(self.jobs))
        switch.resume((1, 0))
        begun = Cluster(endpoints, switch, (), budget, [0] * len(endpoints), 0)
        self._start(begun)
        return self._follow(begun)

    def _start(self, state: Cluster) -> None:
        """The next propagation, at all workers."""
        for w, share in enumerate(self.shares):
            endpoint = state.endpoints[w] = fork(state.endpoints[w])
            endpoint.start(share, self.values[state.propagations][share.own], state.clocks[w])
            self._drain(state, w)

    def _drain(self, state: Cluster, w: int) -> None:
        """What a worker has to send now goes into the network."""
        sent = list(state.flying)
        while len(frames := state.endpoints[w].send(state.clocks[w], 32)):
            for at in range(len(frames)):
                frame = frames[at : at + 1].copy()
                if frame["agg"]["type"][0] == PacketType.DONE:
                    frame["agg"]["flags"] = 0  # only says whether to measure the time
                sent.append((-1, frame.tobytes()))
        state.flying = tuple(sorted(sent))

    def _follow(self, state: Cluster) -> int:
        if all(endpoint.state is State.IDLE for endpoint in state.endpoints):
            self._check(state)
            state = state.fork()
            state.propagations += 1
            if state.propagations == len(self.values):
                self.ends += 1
                return 1
            self._start(state)
        key = state.key()
        if key in self._paths:
            return self._paths[key]
        if key in self._open:
            raise Deadlock(f"over and over: {[endpoint.where for endpoint in state.endpoints]}")
        self._open.add(key)
        paths = sum(self._follow(following) for following in self._all(state))
        self._open.discard(key)
        self._paths[key] = paths
        return paths

    def _check(self, state: Cluster) -> None:
        for w, share in enumerate(self.shares):
            got, wanted = state.endpoints[w].results(), self.expected[state.propagations][share.own]
            assert (got == wanted).all(), f"worker {w}: wrong sums"

    def _all(self, state: Cluster) -> list[Cluster]:
        """Every state that may be next."""
        left, found = state.left, []
        for at, packet in enumerate(state.flying):
            if at and packet == state.flying[at - 1]:
                continue  # a copy of it
            found.append(self._arrived(state, at, keep=False))
            if left.copies:
                copied = self._arrived(state, at, keep=True)
                copied.left = replace(left, copies=left.copies - 1)
                found.append(copied)
            if left.lost:
                lost = state.fork()
                lost.flying = state.flying[:at] + state.flying[at + 1 :]
                lost.left = replace(left, lost=left.lost - 1)
                found.append(lost)
        waiting = [
            w for w, end in enumerate(state.endpoints) if end.state in (State.WAITING, State.COLLECTING)
        ]
        if left.early_timers and state.flying:
            for w in waiting:
                early = state.fork()
                early.left = replace(left, early_timers=left.early_timers - 1)
                self._fire(early, w)
                found.append(early)
        if left.restarts:
            again = state.fork()
            again.left = replace(left, restarts=left.restarts - 1)
            again.switch = state.switch.restarted(latest(end.passed for end in state.endpoints))
            found.append(again)
        if not state.flying:
            late = state.fork()
            late.switch = state.switch.fork()
            late.switch.resume(latest(end.passed for end in state.endpoints))
            for w in waiting:
                self._fire(late, w)
            if not waiting:
                raise Deadlock(f"nobody waits: {[endpoint.where for endpoint in state.endpoints]}")
            found.append(late)
        self.steps += len(found)
        return found

    def _arrived(self, state: Cluster, at: int, *, keep: bool) -> Cluster:
        made = state.fork()
        to, raw = state.flying[at]
        if not keep:
            made.flying = state.flying[:at] + state.flying[at + 1 :]
        if to < 0:
            made.switch = state.switch.fork()
            made.flying = tuple(sorted([*made.flying, *made.switch.receive(raw)]))
            return made
        endpoint = made.endpoints[to] = fork(state.endpoints[to])
        endpoint.receive(np.frombuffer(raw, FRAME), np.array([FRAME_BYTES]), made.clocks[to])
        self._drain(made, to)
        return made

    def _fire(self, state: Cluster, w: int) -> None:
        endpoint = state.endpoints[w] = fork(state.endpoints[w])
        state.clocks[w] = max(state.clocks[w], endpoint._due_ns)
        self._drain(state, w)
