"""The layout of the headers in p4/programs/include/wire.p4, read through p4.lang.

Parsing P4 takes a third of a second, so the layout is also kept as a generated table, p4/wire_table.py,
with the digest of the text it was made from: `layout()` takes the table if the text is still that one and
parses otherwise. `python -m p4.wire_layout` writes the table anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

WIRE = Path(__file__).parent / "programs" / "include" / "wire.p4"
TABLE = Path(__file__).with_name("wire_table.py")
# The headers of one frame in their order, by the names that switchgnn.p4 gives them.
STACK = {
    "ethernet": "ethernet_t",
    "ipv4": "ipv4_t",
    "udp": "udp_t",
    "agg": "aggregation_t",
    "values": "values_t",
}


class Field(NamedTuple):
    """One field: its width in bits, whether it is signed, and the P4 enum whose values it takes (or "")."""

    name: str
    bits: int
    signed: bool
    enum: str


class Layout(NamedTuple):
    """``headers``: stack name -> fields; ``enums``: P4 name -> (member, value); ``constants``: the macros."""

    headers: Mapping[str, tuple[Field, ...]]
    enums: Mapping[str, tuple[tuple[str, int], ...]]
    constants: Mapping[str, int]


def layout() -> Layout:
    """The layout of wire.p4 as it is now. Raises p4.lang.P4Error if it is not valid P4."""
    from p4 import wire_table  # noqa: PLC0415  (this module also writes it)

    text = WIRE.read_bytes()
    if hashlib.sha256(text).hexdigest() != wire_table.SHA256:
        return parse(text.decode())
    headers = {name: tuple(Field(*f) for f in fields) for name, fields in wire_table.HEADERS.items()}
    return Layout(headers, wire_table.ENUMS, wire_table.CONSTANTS)


def parse(text: str) -> Layout:
    """The layout of `text`, through the P4 front end. Raises P4Error."""
    from p4.lang import check_text  # noqa: PLC0415  (only when the table is out of date)
    from p4.lang.types import Bits, EnumType  # noqa: PLC0415

    macros = re.findall(r"^#define (\w+) +\d", text, re.MULTILINE)
    asked = "".join(f"const bit<32> macro_{name} = (bit<32>){name};\n" for name in macros)
    program = check_text(f"{text}\n{asked}")
    headers = {}
    for name, record in STACK.items():
        fields = []
        for field, given in program.record_types[record].fields:
            enum = given.name if isinstance(given, EnumType) else ""
            plain = given.underlying if isinstance(given, EnumType) else given
            if not isinstance(plain, Bits):
                raise TypeError(f"{record}.{field}: {given} has no fixed place on the wire")
            fields.append(Field(field, plain.width, plain.signed, enum))
        headers[name] = tuple(fields)
    enums = {e.name: tuple(zip(e.members, e.values, strict=True)) for e in program.enums.values()}
    constants = {}
    for name in macros:
        value = program.constants[f"macro_{name}"].value
        assert isinstance(value, int)  # of type bit<32>
        constants[name] = value
    return Layout(headers, enums, constants)


def table_text() -> str:
    """What wire_table.py should hold."""
    text = WIRE.read_bytes()
    found = parse(text.decode())
    lines = [
        '"""Generated from p4/programs/include/wire.p4 by `python -m p4.wire_layout`: do not edit."""',
        "",
        "from enum import IntEnum",
        "",
        "# Field: name, bits, signed, enum",
        f'SHA256 = "{hashlib.sha256(text).hexdigest()}"',
        "HEADERS = {",
    ]
    for name, fields in found.headers.items():
        lines += [f'    "{name}": (']
        lines += [f'        ("{f.name}", {f.bits}, {f.signed}, "{f.enum}"),' for f in fields]
        lines += ["    ),"]
    lines += ["}", "ENUMS = {"]
    for name, members in found.enums.items():
        lines += [f'    "{name}": (']
        lines += [f'        ("{member}", {value}),' for member, value in members]
        lines += ["    ),"]
    lines += ["}", "CONSTANTS = {"]
    lines += [f'    "{name}": {value},' for name, value in found.constants.items()]
    lines += ["}", "", "", "class PacketType(IntEnum):", '    """packet_type_t of wire.p4."""', ""]
    lines += [f"    {member.upper()} = {value}" for member, value in found.enums["packet_type_t"]]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    TABLE.write_text(table_text())
