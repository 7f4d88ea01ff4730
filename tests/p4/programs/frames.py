"""Frames for the tests of our programs: headers encoded as p4/programs/include lays them out."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from p4.lang.frontend import check_text
from p4.lang.types import bit_width
from p4.programs import FOLDER

MIN, MAX = -(2**31), 2**31 - 1


def internet_checksum(data: bytes) -> int:
    """RFC 1071. Over a header whose checksum is right: 0."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@cache
def header(include: str, name: str) -> list[tuple[str, int]]:
    """(field, bits) of a header type, in its order."""
    program = check_text(f'#include "{include}"', include=[FOLDER / "include"])
    return [(field, bit_width(type_) or 0) for field, type_ in program.record_types[name].fields]


def encode(layout: list[tuple[str, int]], fields: dict[str, int]) -> bytes:
    value = 0
    for name, bits in layout:
        given = fields.get(name, 0)
        assert 0 <= given < 1 << bits, (name, given)
        value = value << bits | given
    assert set(fields) <= {name for name, _ in layout}, fields
    return value.to_bytes(sum(bits for _, bits in layout) // 8, "big")


def decode(layout: list[tuple[str, int]], data: bytes) -> dict[str, int]:
    value, out = int.from_bytes(data, "big"), {}
    for name, bits in reversed(layout):
        out[name] = value & ((1 << bits) - 1)
        value >>= bits
    return out


@dataclass(frozen=True)
class Protocol:
    """Ethernet / IPv4 / UDP / one header / 30 values."""

    include: str
    name: str
    port: int

    @property
    def layout(self) -> list[tuple[str, int]]:
        return header(self.include, self.name)

    def frame(
        self, fields: dict[str, int], values: list[int], *, src: int, dst: int, ecn: int = 2, ttl: int = 64
    ) -> bytes:
        body = encode(self.layout, fields) + struct.pack(">30i", *values)
        udp = struct.pack(">HHHH", 5555, self.port, 8 + len(body), 0)
        ip = struct.pack(">BBHHHBBHII", 0x45, ecn, 28 + len(body), 0, 0, ttl, 17, 0, src, dst)
        ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
        return bytes.fromhex("0000000000fe 000000000001 0800") + ip + udp + body

    def parse(self, data: bytes) -> tuple[dict[str, int], list[int]]:
        """(fields, values) of a whole frame with a right checksum; `ip_*` fields are the IPv4 header's."""
        size = sum(bits for _, bits in self.layout) // 8
        assert len(data) == 42 + size + 120
        assert internet_checksum(data[14:34]) == 0
        fields = decode(self.layout, data[42 : 42 + size])
        ip = {
            "ip_ecn": data[15] & 3,
            "ip_ttl": data[22],
            "ip_src": int.from_bytes(data[26:30], "big"),
            "ip_dst": int.from_bytes(data[30:34], "big"),
            "mac_dst": int.from_bytes(data[:6], "big"),
        }
        return {**fields, **ip}, list(struct.unpack(">30i", data[42 + size :]))
