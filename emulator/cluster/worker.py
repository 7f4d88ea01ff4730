"""The process of one worker: its port, its protocol, and a pipe on which the cluster tells it what to do."""

from __future__ import annotations

import mmap
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from emulator.cluster.meter import Meter
from emulator.cluster.station import Station
from emulator.host import EthDev, Mbufs, Mempool, ShmEnd, ShmEthDev, wait
from emulator.protocol.endpoint import NEVER
from emulator.wire import FRAME_BYTES
from p4.control.adjacency import words
from workloads.plan import Plan

RX_BURST = 256  # larger bursts than the wire's make the work per burst count less
POOL = 4096
SLOTS = 1024  # of the ring to the switch
LEAST_FULL_NS, MOST_FULL_NS = 100_000, 20_000_000  # until the next look whether a full ring has room
# The longest wait for a burst to become whole, as a NIC's rx-usecs: this part of an exchange's time so far.
COALESCE_SHARE, LEAST_COALESCE_NS, MOST_COALESCE_NS = 4, 200_000, 10_000_000
Number = TypeVar("Number", np.int32, np.int64)


class Shared:
    """Memory that cluster and workers share: values in, sums out, when the first propagation began."""

    def __init__(self, plans: Mapping[int, Plan]) -> None:
        self.values = {n: _array((p.num_boundary, p.width), np.int32) for n, p in plans.items()}
        self.sums = {n: _array((p.num_boundary, p.width), np.int64) for n, p in plans.items()}
        self.origin_ns = _array((1,), np.int64)


def _array(shape: tuple[int, ...], dtype: type[Number]) -> npt.NDArray[Number]:
    size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return np.ndarray(shape, dtype, mmap.mmap(-1, size))


class WorkerState(NamedTuple):
    """How far a worker is. passed: job -> the last barrier it knows complete; waits_for: the one it waits for
    in its present job; lacks: workers whose contributions it waits for; progress_ns: when anything new came.
    """

    passed: dict[int, tuple[int, int]]
    waits_for: tuple[int, int] | None
    lacks: tuple[int, ...]
    progress_ns: int


@dataclass
class WorkerSetup:
    """What a worker's process is given; everything is there before the fork."""

    station: Station
    end: ShmEnd
    wrap: Callable[[EthDev], Meter]
    burst: int
    rack: npt.NDArray[np.bool_] | None
    shared: Shared


def worker_main(setup: WorkerSetup, pipe: Connection, parents: list[Connection]) -> None:
    """Until the pipe is closed. Says ("idle", number of the command) when it is done, ("failed", why) when it
    gives up."""
    for other in parents:
        other.close()
    worker = _Worker(setup, pipe)
    try:
        worker.run()
    except (EOFError, ConnectionError):
        pass  # the cluster is gone
    finally:
        worker.port.close()


class _Worker:
    def __init__(self, setup: WorkerSetup, pipe: Connection) -> None:
        self.setup, self.station, self.pipe = setup, setup.station, pipe
        self.pool = Mempool(POOL, data_room=512, name=f"netfold-worker{self.station.worker}")
        self.port = setup.wrap(ShmEthDev(f"net_shm{self.station.worker}", setup.end))
        self.port.configure(self.pool)
        self.port.start()
        self.unsent: Mbufs = np.empty(0, np.uint32)
        self.busy = self.told = self.propagating = False
        self.command = 0  # the last one that something was begun for
        self.quiet = False  # nothing came while it slept last
        self.since_full, self.full_ns, self.full_until_ns = 0, LEAST_FULL_NS, 0
        self.told_something = select.poll()
        self.told_something.register(pipe, select.POLLIN)

    def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            moved = self._receive() | self._send()
            self._tell()
            if (not moved or turn % 32 == 0) and self.told_something.poll(0):
                self._command(self.pipe.recv())
            elif not moved:
                self._sleep()
            if moved:
                self.quiet = False

    def _sleep(self) -> None:
        """Until there is something to do; while much is to come, until a burst of it is there."""
        now = time.monotonic_ns()
        wake = self.station.wake_ns(now) if self.busy else NEVER
        if len(self.unsent):
            wake = max(self.full_until_ns, now)
        left = min(0.5, (wake - now) / 1e9)
        if left <= 0:
            return
        burst = 1
        if self.busy and not self.quiet:
            burst = min(RX_BURST, self.station.endpoint.awaited)
        if burst > 1:
            share = (now - self.station.endpoint.entered_ns) // COALESCE_SHARE
            left = min(left, max(LEAST_COALESCE_NS, min(MOST_COALESCE_NS, share)) / 1e9)
        self.port.coalesce(burst)
        # If nothing came for so long, the next sleep ends with the first frame.
        self.quiet = not wait([self.port], left, descriptors=[self.pipe.fileno()])

    def _receive(self) -> bool:
        mbufs = self.port.rx_burst(RX_BURST)
        if not len(mbufs):
            return False
        frames, lengths = self.pool.take(mbufs, FRAME_BYTES)
        self.station.receive(frames, lengths, time.monotonic_ns())
        return True

    def _send(self) -> bool:
        if not len(self.unsent):
            if not self.busy:
                return False
            frames = self.station.send(time.monotonic_ns(), self.setup.burst)
            if not len(frames):
                return False
            self.unsent = self.pool.alloc(len(frames))
            if not len(self.unsent):  # all buffers are held back by faults: as lost on the way
                return False
            self.pool.write(self.unsent, frames)
        elif time.monotonic_ns() < self.full_until_ns:
            return False
        sent = self.port.tx_burst(self.unsent)
        self.unsent = self.unsent[sent:]
        self.since_full += sent
        if len(self.unsent):
            self._full()
        return sent > 0

    def _full(self) -> None:
        """The ring is full: wait so long that about a quarter of it is free then."""
        if self.since_full < SLOTS // 8:
            self.full_ns = min(2 * self.full_ns, MOST_FULL_NS)
        elif self.since_full > SLOTS // 2:
            self.full_ns = max(self.full_ns // 2, LEAST_FULL_NS)
        self.since_full = 0
        self.full_until_ns = time.monotonic_ns() + self.full_ns

    def _tell(self) -> None:
        if not self.busy or self.told:
            return
        error = self.station.error
        if error is not None:
            self.told = True
            self.pipe.send(("failed", error))
        elif self.station.idle:
            self.busy, self.told = False, True
            number = self.station.active
            share = self.station.shares[number]
            if self.propagating:
                self.setup.shared.sums[number][share.own] = self.station.endpoint.results()
            self.pipe.send(("idle", self.command))

    def _command(self, told: tuple[str, int, int]) -> None:
        what, number, command = told
        now = time.monotonic_ns()
        match what:
            case "load":
                plans = {n: share.plan for n, share in self.station.shares.items()}
                self.station.load({n: words(plan, self.setup.rack) for n, plan in plans.items()}, number)
                self._begin(command)
            case "join":
                self.station.active = number
                self.station.endpoint.join(now)
                self.propagating = False
                self._begin(command)
            case "propagate":
                self.station.active = number
                share = self.station.shares[number]
                self.station.endpoint.start(share, self.setup.shared.values[number][share.own], now)
                self.propagating = True
                self._begin(command)
            case "state":
                passed = {n: e.passed for n, e in self.station.endpoints.items()}
                endpoint = self.station.endpoint
                state = WorkerState(passed, endpoint.waits_for, endpoint.lacks, endpoint.progress_ns)
                self.pipe.send(("state", state))
            case "counters":
                self.pipe.send(("counters", (self.station.counters(), self.port.xstats(), self.pool.in_use)))

    def _begin(self, command: int) -> None:
        self.busy, self.told, self.command = True, False, command
