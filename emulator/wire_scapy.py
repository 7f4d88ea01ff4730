"""The aggregation header and its values as a scapy layer over UDP, from the layout of the numpy dtypes.

    from emulator.wire import Netfold
    Ether() / IP(dst="10.0.0.2") / UDP() / Netfold(type="upload", vertex=5, values=[1, 2, 3])

Binding is as netfold sends: UDP destination port 9000, no UDP checksum. Values that are not given are zero.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    Field,
    FieldListField,
    IntField,
    ShortField,
    SignedIntField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from emulator.wire import AGGREGATION_PORT, LAYOUT, VALUES_PER_PACKET
from p4 import wire_layout

_ZEROS: list[Any] = [0] * VALUES_PER_PACKET
_WHOLE = {8: ByteField, 16: ShortField, 32: IntField}


class ValuesField(FieldListField):
    """All the values a packet carries, always the same number: what is missing is zero."""

    def any2i(self, pkt: Packet | None, x: Any) -> list[int]:
        given = [int(v) for v in x]
        if len(given) > VALUES_PER_PACKET:
            raise ValueError(f"values: {len(given)} given, a packet carries {VALUES_PER_PACKET}")
        return given + [0] * (VALUES_PER_PACKET - len(given))


def _field(field: wire_layout.Field) -> Field[Any, Any]:
    names = {value: member for member, value in LAYOUT.enums.get(field.enum, ())}
    if field.bits == 8 and names:
        return ByteEnumField(field.name, min(names), names)
    if names:
        return BitEnumField(field.name, min(names), field.bits, names)
    if field.bits in _WHOLE:
        return _WHOLE[field.bits](field.name, 0)
    return BitField(field.name, 0, field.bits)


class Netfold(Packet):
    """``agg`` and ``values`` of wire.p4."""

    name = "netfold"
    fields_desc: ClassVar[list[Any]] = [
        *(_field(f) for f in LAYOUT.headers["agg"]),
        ValuesField("values", _ZEROS, SignedIntField("", 0), count_from=lambda _: VALUES_PER_PACKET),
    ]

    def mysummary(self) -> str:
        return self.sprintf(
            "netfold %type% job %job% block %block% vertex %vertex% chunk %chunk% worker %worker%"
        )


bind_top_down(UDP, Netfold, sport=AGGREGATION_PORT, dport=AGGREGATION_PORT, chksum=0)
bind_bottom_up(UDP, Netfold, dport=AGGREGATION_PORT)
