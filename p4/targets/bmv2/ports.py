"""What a BMv2 switch's ports lead to: veth pairs in a network namespace of its own, or pcap files."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from p4.targets.pcap import PcapError, Record, pcap_bytes, read_pcap
from p4.targets.target import Packet, TargetError

# Linux: if_packet.h, sched.h. Python's socket module names none of them.
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 8, 23
_SO_RCVBUFFORCE = 33
_VLAN_VALID, _VLAN_TPID_VALID = 0x10, 0x40
_ETH_P_ALL = 3
_CLONE_NEWNET = 0x40000000
_AUXDATA = struct.Struct("IIIHHHH")  # status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_MTU = 65535
_BUFFER_BYTES = 64 << 20
_SMALLEST_FRAME = 14

_LONGEST_S = 10.0  # to wait for packets that are expected
_POLL_MS = 5


class Ports(ABC):
    """The far ends of a switch's ports."""

    # Before the switch's command and its arguments; what it runs in.
    wrapper: Sequence[str] = ()

    # Nothing came out for so long, and the switch has nothing to do: nothing more will come. 0: do not wait.
    quiet_s = 0.02
    # The switch's process; connect() is told it.
    pid = 0

    @abstractmethod
    def arguments(self) -> list[str]:
        """simple_switch's arguments that attach the ports."""

    def connect(self, pid: int) -> None:
        """Opens the far ends, once the switch's process `pid` is there."""
        self.pid = pid

    @abstractmethod
    def settle(self) -> None:
        """Waits until the packets sent so far are through, where those of two ports may change places."""

    def _is_quiet(self, quiet_s: float) -> bool:
        return quiet_s >= self.quiet_s and (not self.quiet_s or self._at_rest())

    def _at_rest(self) -> bool:
        """Whether every thread of the switch sleeps: none runs, and none waits for a processor."""
        try:
            tasks = os.listdir(f"/proc/{self.pid}/task")
            return all(_state(f"/proc/{self.pid}/task/{task}/stat") not in "RD" for task in tasks)
        except OSError:
            return True  # it has ended, which the next call reports

    @abstractmethod
    def send(self, port: int, data: bytes) -> None: ...

    @abstractmethod
    def receive(self, expected: int) -> list[Packet]: ...

    @abstractmethod
    def close(self) -> None: ...


def _state(path: str) -> str:
    """A task's state (proc(5)): R runs or waits to run, S sleeps, D waits for a disk."""
    with open(path) as file:
        return file.read().rpartition(")")[2].split()[0]


class VethPorts(Ports):
    """A veth pair for each port, both ends in a network namespace that lives as long as the switch.

    The namespace has no name: when the switch and this process let go of it, it and its interfaces are gone,
    after a crash too.
    """

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self._sockets: dict[int, socket.socket] = {}
        self._early: list[Packet] = []  # came out while settle() waited
        self._ports = list(ports)
        batch = folder / "ports.ip"
        lines = ["link set lo up"]
        for port in ports:
            lines.append(f"link add s{port} mtu {_MTU} type veth peer name h{port} mtu {_MTU}")
            lines += [f"link set s{port} up", f"link set h{port} up"]
        batch.write_text("\n".join(lines) + "\n")
        # No IPv6: the kernel would send its solicitations into the program under test.
        script = (
            "for f in all default; do p=/proc/sys/net/ipv6/conf/$f/disable_ipv6; "
            "[ ! -w $p ] || echo 1 > $p; done; "
            f'ip -batch "{batch}" && exec "$@"'
        )
        self.wrapper = ("unshare", "--net", "sh", "-c", script, "sh")

    def arguments(self) -> list[str]:
        return [word for port in self._ports for word in ("-i", f"{port}@s{port}")]

    def connect(self, pid: int) -> None:
        super().connect(pid)
        failure: list[OSError] = []

        # A namespace is a thread's: this thread opens the sockets, which stay in it, and ends.
        def enter() -> None:
            try:
                with open(f"/proc/{pid}/ns/net") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                        code = ctypes.get_errno()
                        raise OSError(code, os.strerror(code))
                for port in self._ports:
                    self._sockets[port] = _open(f"h{port}")
            except OSError as error:
                failure.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failure:
            raise TargetError("UNAVAILABLE", f"cannot reach the switch's ports: {failure[0]}")

    def send(self, port: int, data: bytes) -> None:
        if port not in self._sockets:
            known = ", ".join(map(str, self._ports))
            raise TargetError("NOT_FOUND", f"port {port} has no interface; there are: {known}")
        if not _SMALLEST_FRAME <= len(data) <= _MTU:
            raise TargetError(
                "INVALID_ARGUMENT",
                f"a packet of {len(data)} bytes cannot go over a veth pair ({_SMALLEST_FRAME} to {_MTU}); "
                "pcap files carry packets of any length",
            )
        self._sockets[port].send(data)

    def receive(self, expected: int) -> list[Packet]:
        packets, self._early = self._early, []
        end = time.monotonic() + _LONGEST_S
        quiet_since = time.monotonic()
        by_socket = {s.fileno(): port for port, s in self._sockets.items()}
        poll = select.poll()
        for number in by_socket:
            poll.register(number, select.POLLIN)
        while True:
            now = time.monotonic()
            if now > end or (len(packets) >= expected and self._is_quiet(now - quiet_since)):
                return packets
            for number, _ in poll.poll(min(_POLL_MS, 1000 * self.quiet_s)):
                quiet_since = time.monotonic()
                packets += _drain(by_socket[number], self._sockets[by_socket[number]])

    def settle(self) -> None:
        self._early = self.receive(0)

    def close(self) -> None:
        for opened in self._sockets.values():
            opened.close()
        self._sockets.clear()


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    try:
        opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        opened.bind((interface, _ETH_P_ALL))
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _drain(port: int, opened: socket.socket) -> list[Packet]:
    packets: list[Packet] = []
    while True:
        try:
            data, extra, _, _ = opened.recvmsg(_MTU + _SMALLEST_FRAME, socket.CMSG_SPACE(_AUXDATA.size))
        except BlockingIOError:
            return packets
        packets.append(Packet(port, _with_vlan_tag(data, extra)))


def _with_vlan_tag(data: bytes, extra: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire: the kernel takes a VLAN tag off and tells of it beside the packet."""
    for level, kind, value in extra:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = _AUXDATA.unpack(value[: _AUXDATA.size])
            if status & _VLAN_VALID:
                tag = struct.pack(">HH", tpid if status & _VLAN_TPID_VALID else 0x8100, tci)
                return data[:12] + tag + data[12:]
    return data


class PcapPorts(Ports):
    """Packets in and out through pcap files, with no privileges: all packets in before the first comes out.

    simple_switch reads its input files once, at its start. They are named pipes here, so that it waits while
    the tables are filled; the first receive() writes the packets into them.
    """

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self._folder, self._ports = folder, list(ports)
        self._waiting: list[Packet] = []
        self._taken = dict.fromkeys(self._ports, 0)
        self._pipes: dict[int, int] = {}
        self._sent = False
        for port in self._ports:
            path = folder / f"p{port}_in.pcap"
            os.mkfifo(path)
            # Open both ways, it does not wait for a reader. The switch reads the header as it adds the port.
            self._pipes[port] = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._pipes[port], pcap_bytes([]))

    def arguments(self) -> list[str]:
        base = self._folder
        return ["--use-files", "0", *(w for p in self._ports for w in ("-i", f"{p}@{base / f'p{p}'}"))]

    def send(self, port: int, data: bytes) -> None:
        if port not in self._ports:
            known = ", ".join(map(str, self._ports))
            raise TargetError("NOT_FOUND", f"port {port} has no file; there are: {known}")
        if self._sent:
            raise TargetError(
                "FAILED_PRECONDITION", "with pcap files all packets go in before the first receive()"
            )
        self._waiting.append(Packet(port, data))

    def settle(self) -> None:
        pass  # the packets' times keep them in order

    def receive(self, expected: int) -> list[Packet]:
        if not self._sent:
            self._write()
        packets: list[Packet] = []
        end = time.monotonic() + _LONGEST_S
        quiet_since = time.monotonic()
        while True:
            came = [p for port in self._ports for p in self._read(port)]
            packets += came
            now = time.monotonic()
            quiet_since = now if came else quiet_since
            if now > end or (len(packets) >= expected and self._is_quiet(now - quiet_since)):
                return packets
            time.sleep(0.01)

    def _write(self) -> None:
        """All packets into the pipes, each as it has room: the switch wants one of every port first."""
        self._sent = True
        head = len(pcap_bytes([]))
        # A packet's time is its number: the switch takes all files' packets in the order of their times.
        records: dict[int, list[Record]] = {port: [] for port in self._ports}
        for number, packet in enumerate(self._waiting):
            records[packet.port].append(Record(number, packet.data))
        left = {port: pcap_bytes(its)[head:] for port, its in records.items()}
        self._waiting.clear()
        end = time.monotonic() + _LONGEST_S
        poll = select.poll()
        by_pipe = {pipe: port for port, pipe in self._pipes.items()}
        for pipe in by_pipe:
            poll.register(pipe, select.POLLOUT)
        while by_pipe and time.monotonic() < end:
            for pipe, _ in poll.poll(_POLL_MS):
                port = by_pipe[pipe]
                left[port] = left[port][os.write(pipe, left[port]) if left[port] else 0 :]
                if not left[port]:
                    poll.unregister(pipe)
                    os.close(self._pipes.pop(by_pipe.pop(pipe)))

    def _read(self, port: int) -> list[Packet]:
        try:
            records = read_pcap(self._folder / f"p{port}_out.pcap")
        except (OSError, PcapError):
            return []  # not there yet, or a packet half written
        new = records[self._taken[port] :]
        self._taken[port] = len(records)
        return [Packet(port, r.data) for r in new]

    def close(self) -> None:
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
