"""net_af_packet on veth pairs, each test in its own network namespace; what is said without privileges."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.host import BURST, EthDev, Lcore, LcoreError, Mempool, eal_init, wait
from emulator.host.veth import make_veth, own_namespace, remove_link
from emulator.wire import FRAME, blank, seal
from workloads.errors import InputError

ROOT = Path(__file__).parents[3]


def may_make_namespaces() -> bool:
    """Whether we have CAP_NET_RAW, CAP_NET_ADMIN and CAP_SYS_ADMIN (capability.h: 13, 12, 21)."""
    status = Path("/proc/self/status").read_text()
    held = int(status.split("CapEff:")[1].split()[0], 16)
    return all(held >> bit & 1 for bit in (12, 13, 21))


def isolated(function: Callable[..., Any], *args: Any) -> Any:
    """Runs it in a new process in a new network namespace, with veth0 and veth1, both gone with it.

    Without the privilege for that, what must be said then is what is tested.
    """

    def inside() -> Any:
        own_namespace()
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")  # no packets of the kernel's own
        make_veth("veth0", "veth1")
        return function(*args)

    if not may_make_namespaces():
        with pytest.raises(LcoreError, match=r"CAP_(SYS|NET)_ADMIN; run as root, or use net_shm"):
            Lcore(inside).join(60)
        return None
    return Lcore(inside).join(60)


def opened(pool: Mempool) -> tuple[EthDev, EthDev]:
    eal = eal_init(["--vdev", "net_af_packet0,iface=veth0", "--vdev", "net_af_packet1,iface=veth1"])
    a, b = eal.ports.values()
    for port in (a, b):
        port.configure(pool)
        port.start()
    return a, b


def frames_to(mac: bytes, numbers: range) -> np.ndarray:
    frames = blank(len(numbers))
    frames["agg"]["vertex"] = numbers
    frames["ethernet"]["dst"] = list(mac)
    seal(frames)
    return frames


def send(pool: Mempool, port: EthDev, frames: np.ndarray) -> None:
    mbufs = pool.alloc(len(frames))
    pool.write(mbufs, frames)
    while len(mbufs):
        mbufs = mbufs[port.tx_burst(mbufs) :]


def receive(pool: Mempool, port: EthDev, count: int, timeout_s: float = 10) -> np.ndarray:
    """The next `count` frames, fewer if none comes for that long."""
    got = [np.empty(0, FRAME)]
    while sum(map(len, got)) < count:
        mbufs = port.rx_burst(BURST)
        if not len(mbufs) and not wait([port], timeout_s):
            break
        assert (pool.lengths(mbufs) == 182).all()
        got.append(pool.read(mbufs, FRAME))
        pool.free(mbufs)
    return np.concatenate(got)


def both_ways() -> None:
    pool = Mempool(4096)
    a, b = opened(pool)
    assert len({a.mac, b.mac, bytes(6)}) == 3
    for sender, receiver in ((a, b), (b, a)):
        for first in range(0, 5000, 500):  # round the ring several times
            frames = frames_to(receiver.mac, range(first, first + 500))
            send(pool, sender, frames)
            assert (receive(pool, receiver, 500) == frames).all()
        assert len(sender.rx_burst()) == 0  # what it sent is not seen again
    assert (
        a.stats()["opackets"]
        == a.stats()["ipackets"]
        == b.stats()["opackets"]
        == b.stats()["ipackets"]
        == 5000
    )
    assert a.stats()["obytes"] == 5000 * 182
    assert pool.in_use == 0 and a.link().up
    a.stop()
    assert not a.link().up
    a.start()
    frames = frames_to(b.mac, range(3))
    send(pool, a, frames)
    assert (receive(pool, b, 3) == frames).all()


def test_both_ways():
    isolated(both_ways)


def other_addresses() -> None:
    pool = Mempool(256)
    a, b = opened(pool)
    stranger = bytes.fromhex("020000000099")
    for on, seen in ((False, [1, 2]), (True, [0, 1, 2]), (False, [1, 2])):
        b.promiscuous = on
        for n, mac in enumerate((stranger, b.mac, b"\xff" * 6)):
            send(pool, a, frames_to(mac, range(n, n + 1)))
        assert receive(pool, b, len(seen), 1)["agg"]["vertex"].tolist() == seen
        assert len(b.rx_burst()) == 0
    assert b.xstats()["rx_filtered"] == 2


def test_promiscuous():
    isolated(other_addresses)


def tagged() -> None:
    """The kernel takes a VLAN tag out of the frame: the port puts it back."""
    pool = Mempool(64)
    a, b = opened(pool)
    frame = b.mac + a.mac + bytes.fromhex("8100a005") + bytes.fromhex("0800") + bytes(range(100))
    mbufs = pool.alloc(1)
    pool.write(mbufs, np.frombuffer(frame, np.uint8)[None])
    a.tx_burst(mbufs)
    assert wait([b], 10)
    got = b.rx_burst()
    assert pool.pack(got)[0].tobytes() == frame


def test_vlan_tags():
    isolated(tagged)


def other_sizes() -> None:
    pool = Mempool(64, data_room=9100)
    a, b = opened(pool)
    assert a.mtu == 1500
    for port in (a, b):
        with pytest.raises(RuntimeError, match="stop it"):
            port.mtu = 9000
        port.stop()
        port.mtu = 9000
        port.start()
    assert a.mtu == 9000
    mbufs = pool.alloc(2)
    for mbuf, size in ((mbufs[:1], 9014), (mbufs[1:], 9015)):
        pool.write(mbuf, np.frombuffer(b.mac + bytes(range(256)) * 40, np.uint8)[None, :size])
    assert a.tx_burst(mbufs) == 2
    assert wait([b], 10)
    got = b.rx_burst()
    assert pool.lengths(got).tolist() == [9014]
    data, _ = pool.pack(got)
    assert data.tobytes() == (b.mac + bytes(range(256)) * 40)[:9014]
    assert a.stats()["oerrors"] == 1
    a.stop()
    with pytest.raises(InputError, match=r"net_af_packet0: mtu 20 \(of veth0\): Invalid argument"):
        a.mtu = 20


def test_mtu():
    isolated(other_sizes)


def with_the_kernel() -> None:
    """A UDP socket's packet comes in whole, and ours reaches a socket: what is on the wire is real IP."""
    for name, address in (("veth0", "10.9.0.1"), ("veth1", "10.9.0.2")):
        set_address(name, address)
    pool = Mempool(64)
    a, _ = opened(pool)
    frames = frames_to(b"\xff" * 6, range(1))
    frames["ipv4"]["src"], frames["ipv4"]["dst"] = 0x0A090001, 0x0A090002
    seal(frames)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("0.0.0.0", 9000))
        listening.settimeout(10)
        send(pool, a, frames)
        payload, source = listening.recvfrom(2000)
    assert payload == frames.tobytes()[42:] and source == ("10.9.0.1", 9000)


def set_address(name: str, address: str) -> None:
    """An IPv4 address for an interface, netdevice(7), and no filter on where packets come from."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request, value in ((0x8916, address), (0x891C, "255.255.255.0")):
            at = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(any_socket.fileno(), request, struct.pack("16s16s8x", name.encode(), at))
    for where in ("all", name):
        for key, value in (("rp_filter", "0"), ("accept_local", "1")):
            Path(f"/proc/sys/net/ipv4/conf/{where}/{key}").write_text(value)


def test_the_kernels_stack_takes_our_packets():
    isolated(with_the_kernel)


def overrun() -> None:
    pool = Mempool(4096)
    a, b = opened(pool)
    for first in range(0, 3000, 100):
        send(pool, a, frames_to(b.mac, range(first, first + 100)))
    got = receive(pool, b, 3000, 0.2)["agg"]["vertex"].tolist()
    assert got == list(range(len(got)))  # the first ones: a full ring takes no more
    stats = b.stats()
    assert stats["imissed"] == b.stats()["imissed"]  # reading takes nothing away
    assert len(got) + stats["imissed"] == 3000 and stats["imissed"] > 0


def test_a_full_ring_counts_what_it_missed():
    isolated(overrun)


def down() -> None:
    pool = Mempool(64)
    a, b = opened(pool)
    remove_link("veth1")
    send(pool, a, frames_to(b.mac, range(4)))
    assert (a.stats()["oerrors"], a.stats()["opackets"], a.link().up, b.link().up) == (4, 0, False, False)
    assert pool.in_use == 0
    with pytest.raises(InputError, match=r"interface veth1: No such device"):
        remove_link("veth1")


def test_an_interface_that_goes_away():
    isolated(down)


@pytest.mark.parametrize(("name", "peer"), [("", "b"), ("a" * 16, "b"), ("a b", "b"), ("a", "b/c")])
def test_names_of_interfaces(name, peer):
    with pytest.raises(InputError, match="a name has 1 to 15 bytes"):
        make_veth(name, peer)


def unprivileged(code: str) -> str:
    """Runs code without any privilege, as nobody; what it prints."""

    def drop() -> None:
        if not may_make_namespaces():
            return
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    text = f"import sys; sys.path[:0] = {[str(ROOT), *sys.path]!r}\n{code}"
    with pytest.raises(LcoreError) as error:
        Lcore(lambda: (drop(), exec(text, {}))).join(30)
    return str(error.value)


@pytest.mark.parametrize(
    ("code", "privilege"),
    [
        (
            "from emulator.host import Mempool, eal_init\n"
            "port = eal_init(['--vdev', 'net_af_packet0,iface=lo']).ports['net_af_packet0']\n"
            "port.configure(Mempool(16)); port.start()",
            "CAP_NET_RAW",
        ),
        (
            "from emulator.host import eal_init\n"
            "eal_init(['--vdev', 'net_af_packet0,iface=lo']).ports['net_af_packet0'].mtu = 1000",
            "CAP_NET_ADMIN",
        ),
        ("from emulator.host.veth import make_veth\nmake_veth('nf0', 'nf1')", "CAP_NET_ADMIN"),
        ("from emulator.host.veth import own_namespace\nown_namespace()", "CAP_SYS_ADMIN"),
    ],
)
def test_missing_privileges_are_named_with_the_way_without(code, privilege):
    said = unprivileged(code)
    assert "InputError" in said and privilege in said and "or use net_shm, which needs no privileges" in said
