"""The passes of an engine one by one, as a traffic manager of its own calls them (abi.h)."""

from __future__ import annotations

import ctypes as c
from typing import NamedTuple

from p4.targets import Engine


class Descriptor(NamedTuple):
    item: int
    next: int  # 0 egress, 1 resubmitted, 2 recirculated
    port: int
    priority: int
    bytes: int


class _Descriptor(c.Structure):
    _fields_ = (
        *(("item", c.c_uint64), ("next", c.c_uint32)),
        *(("port", c.c_uint32), ("priority", c.c_uint32), ("bytes", c.c_uint32)),
    )


class Left(NamedTuple):
    """A packet that left egress; `ahead`: of its port's queue."""

    port: int
    data: bytes
    ahead: bool


class Passes:
    """One engine's; every call returns what waits next."""

    def __init__(self, switch: Engine) -> None:
        self.switch = switch
        self._library, self._handle = switch._library, switch._handle

    def ingress(self, port: int, data: bytes | c.Array[c.c_char], now_ns: int = 0) -> list[Descriptor]:
        next_ = c.c_void_p()
        count = self._library.nf_ingress(self._handle, port, data, len(data), now_ns, 0, c.byref(next_))
        return _read(next_, count)

    def next_pass(
        self, item: int, now_ns: int = 0, queue: tuple[int, int, int] = (0, 0, 0)
    ) -> list[Descriptor]:
        """`queue`: enqueued_ns, enq_qdepth, deq_qdepth."""
        next_ = c.c_void_p()
        return _read(next_, self._library.nf_pass(self._handle, item, now_ns, *queue, c.byref(next_)))

    def discard(self, item: int) -> None:
        self._library.nf_discard(self._handle, item)

    def announce(self, port: int, data: bytes | c.Array[c.c_char]) -> None:
        self._library.nf_announce(self._handle, port, data, len(data))

    def pass_ahead(self, port: int, *, yes: bool = True) -> None:
        self._library.nf_pass_ahead(self._handle, port, yes)

    def pass_at_once(self, port: int, *, yes: bool = True) -> None:
        self._library.nf_pass_at_once(self._handle, port, yes)

    def turns(self, port: int) -> tuple[int, int]:
        """Packets and bytes that recirculated out of a port whose packets pass at once."""
        two = (c.c_uint64 * 2)()
        self._library.nf_turns(self._handle, port, two)
        return two[0], two[1]

    def output(self) -> list[Left]:
        """What left since the last call."""
        pointers = [c.c_void_p() for _ in range(5)]
        count = self._library.nf_output(self._handle, *(c.byref(p) for p in pointers))
        kinds = (c.c_uint64, c.c_uint32, c.c_uint8)
        ends, ports, ahead = (
            list((kind * count).from_address(pointers[at].value or 0)) if count else []
            for kind, at in zip(kinds, (1, 2, 4), strict=True)
        )
        data = c.string_at(pointers[0].value or 0, ends[-1]) if count else b""
        self._library.nf_clear_output(self._handle)
        starts = [0, *ends[:-1]]
        return [
            Left(port, data[start:end], bool(early))
            for port, start, end, early in zip(ports, starts, ends, ahead, strict=False)
        ]

    def run(self, port: int, data: bytes) -> tuple[list[Left], int]:
        """A packet and all that comes of it, first in, first out; how many calls that took."""
        waiting, calls, left = self.ingress(port, data), 1, self.output()
        while waiting:
            waiting += self.next_pass(waiting.pop(0).item)
            left += self.output()
            calls += 1
        return left, calls


def _read(pointer: c.c_void_p, count: int) -> list[Descriptor]:
    found = (_Descriptor * count).from_address(pointer.value or 0) if count else ()
    return [Descriptor(d.item, d.next, d.port, d.priority, d.bytes) for d in found]
