"""The process of one worker: its port, its protocol, and a pipe on which the cluster tells it what to do."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from emulator.cluster.meter import Meter
from emulator.cluster.station import Station, as_frames
from emulator.host import EthDev, Mbufs, Mempool, ShmEnd, ShmEthDev, wait
from emulator.protocol.endpoint import NEVER
from emulator.wire import FRAME_BYTES
from p4.control.adjacency import words
from workloads.plan import Plan

RX_BURST = 256  # larger bursts than the wire's make the work per burst count less
POOL = 4096
Number = TypeVar("Number", np.int32, np.int64)
_RAW = np.dtype(("u1", FRAME_BYTES))


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

    def run(self) -> None:
        turn = 0
        while True:
            turn += 1
            moved = self._receive() | self._send()
            self._tell()
            if (not moved or turn % 32 == 0) and self.pipe.poll():
                self._command(self.pipe.recv())
            elif not moved:
                now = time.monotonic_ns()
                wake = self.station.wake_ns(now) if self.busy else NEVER
                left = 0.0001 if len(self.unsent) else min(0.5, max(0, wake - now) / 1e9)
                if left > 0:
                    wait([self.port], left, descriptors=[self.pipe.fileno()])

    def _receive(self) -> bool:
        mbufs = self.port.rx_burst(RX_BURST)
        if not len(mbufs):
            return False
        lengths = self.pool.lengths(mbufs).astype(np.int64)
        raw = self.pool.read(mbufs, _RAW)
        self.pool.free(mbufs)
        self.station.receive(
            as_frames(raw).view(np.uint8).reshape(-1, FRAME_BYTES), lengths, time.monotonic_ns()
        )
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
        sent = self.port.tx_burst(self.unsent)
        self.unsent = self.unsent[sent:]
        return sent > 0

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
