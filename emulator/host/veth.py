"""Pairs of virtual Ethernet interfaces and a network namespace of one's own, for net_af_packet.

Through rtnetlink(7), so that no `ip` command need be there. All of it needs CAP_NET_ADMIN (the namespace
CAP_SYS_ADMIN); in a namespace of one's own everything is gone with its last process, however that ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

from workloads.errors import InputError

_CLONE_NEWNET = 0x40000000
_RTM_NEWLINK, _RTM_DELLINK = 16, 17
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_IFLA_IFNAME, _IFLA_LINKINFO = 3, 18
_INFO_KIND, _INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFF_UP = 1
_WITHOUT = "run as root, or use net_shm, which needs no privileges"


def _attribute(kind: int, content: bytes) -> bytes:
    size = 4 + len(content)
    return struct.pack("=HH", size, kind) + content + bytes(-size % 4)


def _link(index: int = 0, flags: int = 0) -> bytes:
    """struct ifinfomsg."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _ask(kind: int, flags: int, body: bytes, what: str) -> None:
    """One request; raises InputError for the kernel's no."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, 1, 0) + body)
        code = -struct.unpack_from("=i", netlink.recv(65536), 16)[0]
    if code:
        why = f"it needs CAP_NET_ADMIN; {_WITHOUT}" if code == errno.EPERM else os.strerror(code)
        raise InputError(f"{what}: {why}")


def make_veth(name: str, peer: str) -> None:
    """Two interfaces, each the other's far end, both up. Raises InputError."""
    for each in (name, peer):
        if not 0 < len(each.encode()) < 16 or set(each) & set("/ \0"):
            raise InputError(f"veth {each!r}: a name has 1 to 15 bytes, no space, no slash")
    there = _link() + _attribute(_IFLA_IFNAME, peer.encode() + b"\0")
    kind = _attribute(_INFO_KIND, b"veth") + _attribute(_INFO_DATA, _attribute(_VETH_INFO_PEER, there))
    here = _link() + _attribute(_IFLA_IFNAME, name.encode() + b"\0")
    _ask(_RTM_NEWLINK, _CREATE | _EXCL, here + _attribute(_IFLA_LINKINFO, kind), f"veth {name}, {peer}")
    for each in (name, peer):
        up = _link(flags=_IFF_UP) + _attribute(_IFLA_IFNAME, each.encode() + b"\0")
        _ask(_RTM_NEWLINK, 0, up, f"veth {each}")


def remove_link(name: str) -> None:
    """Remove an interface; a veth's far end goes too. Raises InputError."""
    _ask(_RTM_DELLINK, 0, _link() + _attribute(_IFLA_IFNAME, name.encode() + b"\0"), f"interface {name}")


def own_namespace() -> None:
    """This process, and those it starts from now on, get a network of their own. Raises InputError."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        code = ctypes.get_errno()
        why = f"it needs CAP_SYS_ADMIN; {_WITHOUT}" if code == errno.EPERM else os.strerror(code)
        raise InputError(f"network namespace: {why}")
