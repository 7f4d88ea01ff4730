"""Ports, as DPDK's ethdev has them: configure, start, bursts in and out, counters, link.

port.configure(pool); port.start()
mbufs = port.rx_burst(32)                   # uint32[n], yours to free or to send
sent = port.tx_burst(mbufs)                 # the first `sent` are the driver's now, the others still yours
wait([port, other], 0.01)                   # asleep until a packet may be there, or 10 ms
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from emulator import _host
from emulator.host.mempool import NONE, Mbufs, Mempool
from workloads.errors import InputError

BURST = 32  # packets; what DPDK's examples use
ETHERNET_BYTES = 14
DEFAULT_MTU = 1500
STATS = ("ipackets", "opackets", "ibytes", "obytes", "imissed", "ierrors", "oerrors", "rx_nombuf")


class Link(NamedTuple):
    """``speed_bps`` 0: the link has no speed of its own (shared memory, a file)."""

    up: bool
    speed_bps: int


class EthDev(ABC):
    """A port. Drivers give `native` (the data path in C++); wrappers stand around another port."""

    def __init__(self, name: str, *, mac: bytes = bytes(6)) -> None:
        self.name = name
        self.port_id = 0
        self.mac = mac
        self.pool: Mempool | None = None
        self.started = False
        self._past: dict[str, int] = {}  # what was counted before the last stop

    def configure(self, pool: Mempool) -> None:
        """Which buffers received packets go into. Only while stopped."""
        if self.started:
            raise RuntimeError(f"{self.name}: stop it before configuring it")
        self.pool = pool

    def _pool(self) -> Mempool:
        if self.pool is None:
            raise RuntimeError(f"{self.name}: configure it first")
        return self.pool

    @abstractmethod
    def start(self) -> None:
        """Begin to receive and send. Raises InputError if the machine does not let us."""

    @abstractmethod
    def stop(self) -> None:
        """Stop; counters stay. What was waiting may be lost, as with a network card."""

    def close(self) -> None:
        """Stop and give everything back. The port cannot be used again."""
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def rx_burst(self, count: int = BURST) -> Mbufs:
        """Up to `count` packets that have come in: uint32[n], the caller's to free. Never waits."""

    @abstractmethod
    def tx_burst(self, mbufs: Mbufs) -> int:
        """Send from the front; how many were taken (and will be freed). Never waits."""

    @abstractmethod
    def link(self) -> Link:
        """Whether the other side is there."""

    @abstractmethod
    def xstats(self) -> dict[str, int]:
        """Every counter of the port and its driver by name."""

    def stats(self) -> dict[str, int]:
        """DPDK's basic counters (rte_eth_stats)."""
        every = self.xstats()
        return {name: every[name] for name in STATS}

    @abstractmethod
    def reset_stats(self) -> None:
        """All counters to zero."""

    @property
    @abstractmethod
    def promiscuous(self) -> bool:
        """Whether packets for other addresses are received too."""

    @promiscuous.setter
    @abstractmethod
    def promiscuous(self, on: bool) -> None: ...

    @property
    @abstractmethod
    def mtu(self) -> int:
        """Bytes of the largest packet after the Ethernet header."""

    @mtu.setter
    @abstractmethod
    def mtu(self, size: int) -> None: ...

    @abstractmethod
    def coalesce(self, packets: int) -> None:
        """Let `wait` sleep until so many packets are there (a NIC's rx-frames), where the driver can tell."""

    @abstractmethod
    def waited_for(self) -> tuple[list[_host.Port], list[int], int | None]:
        """For `wait`: native ports, further descriptors, and the time (ns, monotonic) something falls due."""


class NativeEthDev(EthDev):
    """A port whose data path is a native one, made at `start` and gone at `stop`."""

    def __init__(
        self, name: str, *, mac: bytes = bytes(6), mtu: int = DEFAULT_MTU, promiscuous: bool = True
    ) -> None:
        super().__init__(name, mac=mac)
        self.native: _host.Port | None = None
        self._mtu = mtu
        self._promiscuous = promiscuous
        self._scratch = np.empty(BURST, np.uint32)

    @abstractmethod
    def _open(self) -> _host.Port | None:
        """The data path; None if there is nobody at the other side yet."""

    def start(self) -> None:
        self._pool()
        if not self.started:
            self.started = True
            try:
                self._use(self._open())
            except BaseException:
                self.started = False
                raise

    def _use(self, native: _host.Port | None) -> None:
        """Take this data path in place of the present one."""
        self._keep_counts()
        self.native = native
        if native is not None:
            native.id = self.port_id
            native.promiscuous = self._promiscuous
            native.address = list(self.mac)
            native.max_frame = min(native.max_frame, self._mtu + ETHERNET_BYTES)

    def stop(self) -> None:
        self._use(None)
        self.started = False

    def rx_burst(self, count: int = BURST) -> Mbufs:
        if self.native is None or self.pool is None:
            return NONE
        if len(self._scratch) < count:
            self._scratch = np.empty(count, np.uint32)
        got = self.native.receive(self.pool.native, self._scratch[:count])
        return self._scratch[:got].copy() if got else NONE

    def tx_burst(self, mbufs: Mbufs) -> int:
        if self.native is None or self.pool is None:
            return 0
        return self.native.send(self.pool.native, mbufs)

    def _keep_counts(self) -> None:
        if self.native is not None:
            self._past = {name: n + self._past.get(name, 0) for name, n in self.native.stats().items()}

    def xstats(self) -> dict[str, int]:
        now = self.native.stats() if self.native is not None else dict.fromkeys(self._past or STATS, 0)
        return {name: n + self._past.get(name, 0) for name, n in now.items()}

    def reset_stats(self) -> None:
        self._past = {}
        if self.native is not None:
            self.native.reset()

    @property
    def promiscuous(self) -> bool:
        return self._promiscuous

    @promiscuous.setter
    def promiscuous(self, on: bool) -> None:
        self._promiscuous = on
        if self.native is not None:
            self.native.promiscuous = on

    @property
    def mtu(self) -> int:
        return self._mtu

    @mtu.setter
    def mtu(self, size: int) -> None:
        if not 68 <= size <= 65521:  # the least that IPv4 allows (RFC 791); the most that an mbuf can say
            raise InputError(f"{self.name}: mtu {size}, allowed 68 to 65521")
        if self.started:
            raise RuntimeError(f"{self.name}: stop it before changing its MTU")
        self._mtu = size

    def coalesce(self, packets: int) -> None:
        if self.native is not None:
            self.native.wake_at = packets

    def waited_for(self) -> tuple[list[_host.Port], list[int], int | None]:
        return ([self.native] if self.native is not None else []), [], None


def wait(ports: Sequence[EthDev], timeout_s: float, *, descriptors: Sequence[int] = ()) -> bool:
    """Sleep until a packet may be there, a descriptor is readable, or `timeout_s` is over. False: it is over.

    Costs no CPU meanwhile. True does not promise a packet, nor False that there is none after `coalesce`.
    """
    natives: list[_host.Port] = []
    fds = list(descriptors)
    end_ns = time.monotonic_ns() + int(timeout_s * 1e9)
    first_due_ns = None
    for port in ports:
        its, more, due_ns = port.waited_for()
        natives += its
        fds += more
        if due_ns is not None and (first_due_ns is None or due_ns < first_due_ns):
            first_due_ns = due_ns
    until_ns = end_ns if first_due_ns is None else min(end_ns, first_due_ns)
    ready = _host.wait(natives, fds, max(0, until_ns - time.monotonic_ns()))
    return ready or (first_due_ns is not None and first_due_ns <= time.monotonic_ns())
