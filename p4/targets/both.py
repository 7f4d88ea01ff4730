"""One STF test on the engine and on BMv2, and where the two switches differ, named by header and field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from p4.lang import ir
from p4.targets.target import Packet
from p4.targets.trace import TracedEngine


@dataclass(frozen=True)
class Difference:
    """The first packet of a port that is not the same on both; ``number`` from 1. None: there is none."""

    port: int
    number: int
    engine: bytes | None
    bmv2: bytes | None


def first_difference(
    engine: Sequence[Packet], bmv2: Sequence[Packet], ports: Sequence[int]
) -> Difference | None:
    """Compares what came out of `ports`, in order on each port: between ports BMv2 keeps no order."""
    found = []
    for port in ports:
        ours = [p.data for p in engine if p.port == port]
        theirs = [p.data for p in bmv2 if p.port == port]
        for at in range(max(len(ours), len(theirs))):
            mine = ours[at] if at < len(ours) else None
            other = theirs[at] if at < len(theirs) else None
            if mine != other:
                found.append(Difference(port, at + 1, mine, other))
                break
    return min(found, key=lambda d: (d.number, d.port), default=None)


@dataclass(frozen=True)
class FieldDifference:
    """A field (``header.field``, or ``payload``, in hex) and what each switch has there; None: not there."""

    name: str
    engine: Any
    bmv2: Any


def field_differences(program: ir.Program, difference: Difference) -> list[FieldDifference]:
    """The fields in which two packets differ, as the program's own parser reads them."""
    reader = TracedEngine(program)
    with reader:
        ours, theirs = (_read(reader, data) for data in (difference.engine, difference.bmv2))
    names = list(dict.fromkeys([*ours, *theirs]))
    return [FieldDifference(n, ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)]


def _read(reader: TracedEngine, data: bytes | None) -> dict[str, Any]:
    """A packet's fields by name, from the headers that its first pass extracts."""
    if data is None:
        return {}
    fields: dict[str, Any] = {}
    bits = 0
    for step in reader.trace(0, data)["passes"][0]["steps"]:
        if step["step"] == "extract":
            header = step["header"].partition(".")[2]  # without the parser's parameter
            fields |= {f"{header}.{name}": value for name, value in step["fields"].items()}
            bits += sum(step["bits"].values())
    fields["payload"] = data[bits // 8 :].hex()
    return fields
