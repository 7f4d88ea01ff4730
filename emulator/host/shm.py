"""net_shm: a link of shared memory between two processes, a ring of frames each way (as DPDK's memif).

    host, switch = ShmLink().ends       # before the fork; each process uses its end and closes the other
    port = ShmEthDev("net_shm0", host)

Unrelated processes meet at a name: `--vdev net_shm0,socket=NAME,role=server` here and `role=client` there.
The name is of an abstract socket, so no file stays behind. The server makes the memory and hands it over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import weakref
from collections.abc import Iterable

from emulator import _host
from emulator.host.ethdev import DEFAULT_MTU, ETHERNET_BYTES, Link, NativeEthDev
from emulator.host.mempool import Mbufs
from workloads.errors import InputError

SLOTS = 1024  # of each ring
_GREETING = b"netfold net_shm 1"

_open_ends: weakref.WeakSet[ShmEnd] = weakref.WeakSet()


class ShmEnd:
    """One end of a link: the memory, which side, and a socket that wakes us and tells when the other is
    gone.
    """

    def __init__(self, region: _host.Region, side: int, wake: socket.socket) -> None:
        self.region: _host.Region | None = region
        self.side = side
        self.wake = wake
        _open_ends.add(self)

    @property
    def frame_bytes(self) -> int:
        """The largest frame that the link's slots hold."""
        if self.region is None:
            raise RuntimeError("net_shm: this end is closed")
        return _host.ShmPort.link_frame_bytes(self.region)

    def open(self) -> _host.ShmPort:
        """The data path. Only one at a time and in one process."""
        if self.region is None:
            raise RuntimeError("net_shm: this end is closed")
        wake = os.dup(self.wake.fileno())
        try:
            return _host.ShmPort(self.region, self.side, wake)
        except ValueError:
            os.close(wake)
            raise

    def close(self) -> None:
        """Give the descriptors back. The other side's link goes down when no process has this end."""
        self.wake.close()
        self.region = None


def close_other_ends(keep: Iterable[ShmEnd]) -> None:
    """In a child after fork: close the ends that are not ours, so that a link tells when its owner dies."""
    mine = set(keep)
    for end in list(_open_ends):
        if end not in mine:
            end.close()


class ShmLink:
    """Memory for one link and its two ends. ``slots``: frames each way, a power of two."""

    def __init__(
        self, *, slots: int = SLOTS, mtu: int = DEFAULT_MTU, name: str = "netfold-link", huge: bool = False
    ) -> None:
        region = _host.ShmPort.create_link(slots, mtu + ETHERNET_BYTES, name, huge)
        a, b = socket.socketpair()
        self.ends = (ShmEnd(region, 0, a), ShmEnd(region, 1, b))

    def close(self) -> None:
        for end in self.ends:
            end.close()


class ShmEthDev(NativeEthDev):
    """A port on one end of a link, which stays the caller's until `close`."""

    def __init__(self, name: str, end: ShmEnd, *, mac: bytes = bytes(6), promiscuous: bool = True) -> None:
        super().__init__(name, mac=mac, promiscuous=promiscuous)
        self.end = end

    def _open(self) -> _host.Port:
        return self.end.open()

    def close(self) -> None:
        super().close()
        self.end.close()

    def link(self) -> Link:
        native = self.native
        return Link(isinstance(native, _host.ShmPort) and not native.peer_gone(), 0)


class ShmSocketDev(NativeEthDev):
    """A port on a link made by name. A server takes one client at a time, a new one after the old is gone."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        server: bool,
        slots: int = SLOTS,
        mac: bytes = bytes(6),
        mtu: int = DEFAULT_MTU,
    ) -> None:
        super().__init__(name, mac=mac, mtu=mtu)
        self.address = address
        self.server = server
        self.slots = slots
        self._listening: socket.socket | None = None
        self._end: ShmEnd | None = None

    def _open(self) -> _host.Port | None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if not self.server:
                return self._join(made)
            made.bind("\0" + self.address)
            made.listen(1)
            made.setblocking(False)
        except OSError as error:
            made.close()
            raise InputError(f"{self.name}: socket={self.address}: {self._reason(error)}") from None
        except BaseException:
            made.close()
            raise
        self._listening = made
        return None

    @staticmethod
    def _reason(error: OSError) -> str:
        if error.errno == errno.ECONNREFUSED:
            return "no server there; start the side with role=server first"
        if error.errno == errno.EADDRINUSE:
            return "another server has this name"
        return error.strerror or str(error)

    def _join(self, connection: socket.socket) -> _host.Port:
        """As a client: receive the memory."""
        connection.settimeout(5)
        connection.connect("\0" + self.address)
        greeting, fds, _, _ = socket.recv_fds(connection, 64, 1)
        try:
            if greeting != _GREETING or len(fds) != 1:
                raise InputError(
                    f"{self.name}: socket={self.address}: whoever is there is no free net_shm server"
                )
            region = _host.Region.attach(fds[0])
        finally:
            for fd in fds:
                os.close(fd)
        connection.setblocking(False)
        self._end = ShmEnd(region, 1, connection)
        return self._end.open()

    def _accept(self) -> None:
        """As a server without a client: hand a waiting one the memory of a new link."""
        if self._listening is None:
            return
        if self._end is not None:
            native = self.native
            if isinstance(native, _host.ShmPort) and not native.peer_gone():
                return
            self._use(None)
            self._end.close()
            self._end = None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            client, _ = self._listening.accept()
            region = _host.ShmPort.create_link(
                self.slots, self._mtu + ETHERNET_BYTES, f"netfold-{self.name}", False
            )
            try:
                socket.send_fds(client, [_GREETING], [region.fd])
            except OSError:
                client.close()
                return
            client.setblocking(False)
            self._end = ShmEnd(region, 0, client)
            self._use(self._end.open())

    def rx_burst(self, count: int = 32) -> Mbufs:
        got = super().rx_burst(count)
        if not len(got) and self._listening is not None:
            self._accept()
        return got

    def stop(self) -> None:
        super().stop()
        for held in (self._end, self._listening):
            if held is not None:
                held.close()
        self._end = self._listening = None

    def link(self) -> Link:
        self._accept()
        native = self.native
        return Link(isinstance(native, _host.ShmPort) and not native.peer_gone(), 0)

    def waited_for(self) -> tuple[list[_host.Port], list[int], int | None]:
        natives, fds, due = super().waited_for()
        if self._listening is not None:
            fds = [self._listening.fileno()]
        return natives, fds, due
