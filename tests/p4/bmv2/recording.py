"""An engine that notes everything done to it, so that the same can be done to another switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4.targets import Engine, Packet
from p4.targets.target import Target

_CONTROL = (
    "insert", "modify", "delete", "set_default", "multicast_group", "clone_session", "register_write",
    "add_member", "modify_member", "delete_member", "set_group", "delete_group", "insert_indirect",
    "modify_indirect", "meter_configure",
)  # fmt: skip


@dataclass
class Control:
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]


@dataclass
class Arrival:
    """A packet in, and what came out of the engine for it."""

    port: int
    data: bytes
    out: list[Packet]


class Recording(Engine):
    """`done`: control calls and packets, in order."""

    def __init__(self, library: Path, **options: Any) -> None:
        self.done: list[Control | Arrival] = []
        self._out: list[Packet] = []
        super().__init__(library, **options)

    def send(self, port: int, data: bytes) -> None:
        super().send(port, data)
        out = super().receive()
        self.done.append(Arrival(port, data, out))
        self._out += out

    def receive(self, expected: int = 0) -> list[Packet]:
        out, self._out = self._out, []
        return out


def _noted(name: str) -> Any:
    original = getattr(Engine, name)

    def call(self: Recording, *args: Any, **options: Any) -> Any:
        answer = original(self, *args, **options)
        self.done.append(Control(name, args, options))
        return answer

    return call


for _name in _CONTROL:
    setattr(Recording, _name, _noted(_name))


def ports_of(done: Sequence[Control | Arrival]) -> list[int]:
    """Every port that a packet came by or went out of."""
    arrivals = [a for a in done if isinstance(a, Arrival)]
    return sorted({a.port for a in arrivals} | {p.port for a in arrivals for p in a.out})


def replay(done: Sequence[Control | Arrival], target: Target) -> int:
    """The same on another switch, packet after packet; every port must give the same. How many came out."""
    wanted: dict[int, list[bytes]] = defaultdict(list)
    got: dict[int, list[bytes]] = defaultdict(list)
    for step in done:
        if isinstance(step, Control):
            getattr(target, step.method)(*step.args, **step.options)
            continue
        target.send(step.port, step.data)
        for packet in target.receive(len(step.out)):
            got[packet.port].append(packet.data)
        for packet in step.out:
            wanted[packet.port].append(packet.data)
    for port in sorted(wanted | got):
        assert got[port] == wanted[port], f"port {port} differs"
    return sum(map(len, got.values()))
