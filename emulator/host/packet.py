"""net_af_packet: a network interface (a veth, say) through AF_PACKET sockets with memory-mapped rings.

Opening it needs CAP_NET_RAW, changing the interface's MTU or promiscuity CAP_NET_ADMIN. The frames sent are
not seen by this port again, and bypass the interface's queueing discipline.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct

from emulator import _host
from emulator.host.ethdev import Link, NativeEthDev
from workloads.errors import InputError

FRAMES = 1024  # of each of the two rings
# ioctl(2) requests on interfaces, netdevice(7)
_SIOCGIFFLAGS, _SIOCGIFMTU, _SIOCSIFMTU, _SIOCGIFHWADDR = 0x8913, 0x8921, 0x8922, 0x8927
_IFF_UP_AND_RUNNING = 0x1 | 0x40
_WITHOUT = "run as root, or use net_shm, which needs no privileges"


class PacketEthDev(NativeEthDev):
    """Raises InputError if there is no such interface."""

    def __init__(self, name: str, interface: str) -> None:
        try:
            mtu = int(struct.unpack("i", self._ioctl(interface, _SIOCGIFMTU)[:4])[0])
            mac = self._ioctl(interface, _SIOCGIFHWADDR)[2:8]
        except OSError:
            there = ", ".join(n for _, n in socket.if_nameindex())
            raise InputError(f"{name}: iface={interface}: no such interface; there are {there}") from None
        super().__init__(name, mac=mac, mtu=mtu, promiscuous=False)
        self.interface = interface

    @staticmethod
    def _ioctl(interface: str, request: int, value: bytes = b"") -> bytes:
        """The 24 bytes after the interface's name."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            asked = struct.pack("16s24s", interface.encode()[:15], value)
            return fcntl.ioctl(any_socket.fileno(), request, asked)[16:]

    def _open(self) -> _host.Port:
        try:
            native = _host.PacketPort(self.interface, FRAMES, self._mtu)
            native.set_promiscuous(self._promiscuous)
        except PermissionError:
            raise InputError(
                f"{self.name}: iface={self.interface}: a raw socket needs CAP_NET_RAW; {_WITHOUT}"
            ) from None
        except OSError as error:
            raise InputError(f"{self.name}: iface={self.interface}: {error.strerror}") from None
        return native

    @property
    def promiscuous(self) -> bool:
        return self._promiscuous

    @promiscuous.setter
    def promiscuous(self, on: bool) -> None:
        self._promiscuous = on
        if isinstance(self.native, _host.PacketPort):
            self.native.set_promiscuous(on)

    @property
    def mtu(self) -> int:
        return self._mtu

    @mtu.setter
    def mtu(self, size: int) -> None:
        if self.started:
            raise RuntimeError(f"{self.name}: stop it before changing its MTU")
        try:
            self._ioctl(self.interface, _SIOCSIFMTU, struct.pack("i", size))
        except OSError as error:
            why = f"it needs CAP_NET_ADMIN; {_WITHOUT}" if error.errno == errno.EPERM else error.strerror
            raise InputError(f"{self.name}: mtu {size} (of {self.interface}): {why}") from None
        self._mtu = size

    def link(self) -> Link:
        try:
            flags = struct.unpack("h", self._ioctl(self.interface, _SIOCGIFFLAGS)[:2])[0]
        except OSError:  # it was removed
            flags = 0
        return Link(self.started and flags & _IFF_UP_AND_RUNNING == _IFF_UP_AND_RUNNING, 0)

    def xstats(self) -> dict[str, int]:
        if isinstance(self.native, _host.PacketPort):
            self.native.read_drops()
        return super().xstats()
