"""A P4 program as a switch: the engine in a process of its own, between the ends of shared-memory links.

    links = {port: ShmLink() for port in range(8)}
    with engine_switch(SWITCHGNN, {p: link.ends[1] for p, link in links.items()}, control) as switch:
        ...                                     # hosts on links[p].ends[0]
        switch.ask("counter_read", "events", 0)
        switch.restart()                        # all state lost, the control calls made again

A burst from each port makes one batch for the engine, and what comes out goes to the ports' rings. Behind a
full ring 4096 packets of the port wait their turn; a packet beyond, or for a port that is not there, is
dropped and counted. The process sleeps while nothing comes, and dies with its parent.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emulator import _host
from emulator.host.ethdev import EthDev, wait
from emulator.host.lcore import Lcore, LcoreError
from emulator.host.mempool import NONE, Mempool
from emulator.host.shm import ShmEnd, ShmEthDev
from p4.codegen.compiled import compiled
from p4.targets import Engine, Target, TargetError
from p4.targets.engine import Batch

READY_S = 60  # a large program's tables take their time
RX_BURST = 128  # packets from a port to a batch: the larger, the less the work per batch counts
_PORTS = 512  # v1model has 9 bits for a port
_QUEUE = 4096  # packets of a port that wait behind its full ring
_FULL_S = 200e-6  # until the next look whether a full ring has room
COUNTS = ("batches", "packets_in", "packets_out", "queue_full_drops", "no_port_drops", "no_buffer_drops")
_ASLEEP_S = 1.0  # the longest sleep: nothing depends on it


class Call(NamedTuple):
    """A control call as data: a method of `Target` (or of `Engine`) and its arguments; or a function,
    called with the engine before them.
    """

    method: str | Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}  # never written to


# What sets a switch up: calls in their order, or a function that makes them.
Control = Sequence[Call] | Callable[[Target], None]


def engine_switch(
    program: Path,
    ports: Mapping[int, ShmEnd],
    control: Control = (),
    *,
    defines: Mapping[str, str] | None = None,
    wrap: Callable[[int, EthDev], EthDev] | None = None,
    seed: int = 1,
    cpu: int | None = None,
    name: str = "switch",
) -> EngineSwitch:
    """``program``: P4 source, compiled with `defines`, or a library that is built already (.so).

    Raises P4Error, BuildError, and TargetError if a control call is refused.
    """
    library = program if program.suffix == ".so" else compiled(program, defines=defines)
    return EngineSwitch(library, ports, control, wrap=wrap, seed=seed, cpu=cpu, name=name)


class EngineSwitch:
    """The running process. ``ports``: P4 port -> its end of a link; ``wrap``: what stands around a port
    there.

    Raises TargetError if a control call is refused, LcoreError if the process does not come up.
    """

    def __init__(
        self,
        library: Path,
        ports: Mapping[int, ShmEnd],
        control: Control = (),
        *,
        wrap: Callable[[int, EthDev], EthDev] | None = None,
        seed: int = 1,
        cpu: int | None = None,
        name: str = "switch",
    ) -> None:
        for number in ports:
            if not 0 <= number < _PORTS:
                raise ValueError(f"{name}: port {number}, allowed 0 to {_PORTS - 1}")
        self.name = name
        self._library = library
        self._ports = dict(ports)
        self._control = control
        self._wrap = wrap
        self._seed = seed
        self._cpu = cpu
        self._launch(again=False)

    def _launch(self, *, again: bool) -> None:
        self._pipe, theirs = get_context("fork").Pipe()
        self._lcore = Lcore(
            _main,
            _Setup(self._library, self._ports, self._control, self._wrap, self._seed, again),
            theirs,
            self._pipe,
            name=self.name,
            cpu=self._cpu,
            keep=self._ports.values(),
        )
        theirs.close()
        try:
            self._answer(READY_S)
        except BaseException:
            self.close()
            raise

    def _answer(self, timeout_s: float) -> Any:
        try:
            if not self._pipe.poll(timeout_s):
                raise LcoreError(f"{self.name}: no answer in {timeout_s} s")
            fine, value = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._lcore.join(1)  # says how it ended
            raise LcoreError(f"{self.name}: ended") from None
        if not fine:
            kind, arguments = value
            raise kind(*arguments)
        return value

    @property
    def pid(self) -> int:
        return self._lcore.pid

    @property
    def alive(self) -> bool:
        return self._lcore.alive

    @property
    def sentinel(self) -> int:
        """A descriptor that is readable once the process has ended."""
        return self._lcore.sentinel

    def ask(self, method: str | Callable[..., Any], *args: Any, timeout_s: float = 10, **kwargs: Any) -> Any:
        """A control call between two batches: a method of `Engine`, `register_array` (a copy) among them, or
        a function of the engine.

        Raises what it raises (TargetError), LcoreError if the switch is gone or does not answer.
        """
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send(Call(method, args, kwargs))
        return self._answer(timeout_s)

    def statistics(self) -> dict[str, int]:
        """The engine's counters, and batches, packets in and out, drops for want of room or of a port."""
        return dict(self.ask("statistics"))

    def port_stats(self) -> dict[int, dict[str, int]]:
        """xstats of each port."""
        return dict(self.ask("port_stats"))

    def kill(self) -> None:
        """As if the switch lost its power: nothing is said to anyone. `restart` brings it back."""
        self._lcore.kill()

    def restart(self) -> None:
        """End the process at once, lose what waits in the rings to it, begin anew with the same control
        calls.
        """
        self.kill()
        self._pipe.close()
        self._launch(again=True)

    def close(self) -> None:
        """End the process. The links stay their owner's."""
        self._lcore.kill()
        self._pipe.close()

    def __enter__(self) -> EngineSwitch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


class _Setup(NamedTuple):
    """What the process is given. ``again``: it takes the place of one that was killed."""

    library: Path
    ends: Mapping[int, ShmEnd]
    control: Control
    wrap: Callable[[int, EthDev], EthDev] | None
    seed: int
    again: bool


def _main(setup: _Setup, pipe: Connection, parents: Connection) -> None:
    """The switch's process. ``parents``: the other end of its pipe, which fork left open here too."""
    parents.close()
    try:
        with Engine(setup.library, seed=setup.seed) as engine:
            _Loop(engine, setup, pipe).run()
    except (EOFError, ConnectionError):  # our parent closed its side
        return
    except Exception as error:  # of the control calls
        pipe.send((False, _told(error)))


def _told(error: Exception) -> tuple[type[Exception], tuple[str, ...]]:
    """An exception as its type and arguments: not all can be sent as they are."""
    if isinstance(error, TargetError):
        return TargetError, (error.code, str(error).removeprefix(f"{error.code}: "))
    known = isinstance(error, AttributeError | TypeError | ValueError | LookupError)
    return (type(error), (str(error),)) if known else (RuntimeError, (f"{type(error).__name__}: {error}",))


class _Loop:
    """Ports, engine, ports, for ever."""

    def __init__(self, engine: Engine, setup: _Setup, pipe: Connection) -> None:
        self.engine = engine
        self.pipe = pipe
        self.asked = select.poll()
        self.asked.register(pipe, select.POLLIN)
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        most = max((end.frame_bytes for end in setup.ends.values()), default=64)
        # Room for a burst from every port and for what comes out, in pieces; and for all that waits.
        count = max(1024, 4 * RX_BURST * len(setup.ends)) + 2 * _QUEUE * len(setup.ends)
        self.pool = Mempool(count, data_room=max(64, most), name="netfold-switch")
        self.ports: dict[int, EthDev] = {}
        self.queues: dict[int, npt.NDArray[np.uint32]] = {}  # of the ports whose ring is full
        for number, end in setup.ends.items():
            port: EthDev = ShmEthDev(f"net_shm{number}", end)
            port = setup.wrap(number, port) if setup.wrap else port
            port.port_id = number
            port.configure(self.pool)
            port.start()
            self.ports[number] = port
        self.started_ns = time.monotonic_ns()
        if callable(setup.control):
            setup.control(engine)
        else:
            for call in setup.control:
                self.call(call)
        while setup.again and len(lost := self.receive()):  # it came while there was no switch
            self.pool.free(lost)
        pipe.send((True, None))

    def run(self) -> None:
        """Ends when the pipe to the parent does (EOFError)."""
        turn = 0
        while True:
            mbufs = self.receive()
            turn += 1
            if len(mbufs):
                self.forward(mbufs)
            for number in list(self.queues):
                self.transmit(number, self.queues.pop(number))
            if not len(mbufs) and self.engine.next_due_ns() is not None:
                self.release()
            if (not len(mbufs) or turn % 16 == 0) and self.asked.poll(0):
                self.answer()
            elif not len(mbufs):
                self.sleep()

    def receive(self) -> npt.NDArray[np.uint32]:
        """A burst from each port."""
        bursts = [got for port in self.ports.values() if len(got := port.rx_burst(RX_BURST))]
        return np.concatenate(bursts) if bursts else NONE

    def forward(self, mbufs: npt.NDArray[np.uint32]) -> None:
        """One batch through the engine."""
        ports = self.pool.meta["port"][mbufs].astype(np.uint32)
        data, ends = self.pool.pack(mbufs)
        self.pool.free(mbufs)
        self.engine.now_ns = self.now_ns()
        self.counts["batches"] += 1
        self.counts["packets_in"] += len(ends)
        self.send(self.engine.run(Batch(data, ends, ports, np.arange(len(ends), dtype=np.uint32))))

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.started_ns

    def release(self) -> None:
        """Packets whose time in an egress queue is over."""
        self.engine.now_ns = self.now_ns()
        if out := self.engine.receive():
            data = np.frombuffer(b"".join(p.data for p in out), np.uint8)
            ends = np.cumsum([len(p.data) for p in out], dtype=np.uint64)
            ports = np.array([p.port for p in out], np.uint32)
            self.send(Batch(data, ends, ports, np.zeros(len(out), np.uint32)))

    def send(self, out: Batch) -> None:
        """What came out, in pieces that the pool has room for, to each port's ring."""
        step = self.pool.count // 2
        for first in range(0, len(out.ports), step):
            ports = out.ports[first : first + step]
            base = int(out.ends[first - 1]) if first else 0
            ends = out.ends[first : first + step] - np.uint64(base)
            mbufs = self.pool.unpack(out.data[base : base + int(ends[-1])], ends)
            if not len(mbufs):
                self.counts["no_buffer_drops"] += len(ports)
                continue
            by_port, starts = np.empty_like(mbufs), np.empty(_PORTS + 1, np.uint32)
            _host.sort_by(mbufs, ports, by_port, starts)
            for number in np.flatnonzero(starts[1:] != starts[:-1]).tolist():
                there = by_port[starts[number] : starts[number + 1]]
                if number not in self.ports:
                    self.counts["no_port_drops"] += len(there)
                    self.pool.free(there)
                    continue
                waiting = self.queues.pop(number, NONE)
                self.transmit(number, np.concatenate([waiting, there]) if len(waiting) else there)

    def transmit(self, number: int, mbufs: npt.NDArray[np.uint32]) -> None:
        """To the port's ring; what finds no room waits, and what finds no room to wait is dropped."""
        sent = self.ports[number].tx_burst(mbufs)
        self.counts["packets_out"] += sent
        if sent < len(mbufs):
            self.queues[number] = mbufs[sent : sent + _QUEUE]
            dropped = mbufs[sent + _QUEUE :]
            self.counts["queue_full_drops"] += len(dropped)
            self.pool.free(dropped)

    def sleep(self) -> None:
        due = self.engine.next_due_ns()
        left = _FULL_S if self.queues else _ASLEEP_S
        left = left if due is None else min(left, max(0, due - self.now_ns()) / 1e9)
        wait(list(self.ports.values()), left, descriptors=[self.pipe.fileno()])

    def answer(self) -> None:
        """One call from the parent."""
        call = self.pipe.recv()
        try:
            outcome = (True, self.call(call))
        except Exception as error:  # the caller's mistake, and theirs to see
            outcome = (False, _told(error))
        self.pipe.send(outcome)

    def call(self, call: Call) -> Any:
        if call.method == "statistics":
            return {**self.engine.statistics(), **self.counts}
        if call.method == "port_stats":
            return {number: port.xstats() for number, port in self.ports.items()}
        if callable(call.method):
            return call.method(self.engine, *call.args, **call.kwargs)
        value = getattr(self.engine, call.method)(*call.args, **call.kwargs)
        return value.copy() if isinstance(value, np.ndarray) else value
