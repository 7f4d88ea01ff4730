"""Where each field of a frame lies, and what is in it, where frames carry bytes (switch.model = "p4").

All of it comes from p4/programs/include/wire.p4 through p4/wire_layout.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from p4.control.fabric import FIRST_IP, FIRST_SOURCE_PORT, GATEWAY_MAC, SWITCH_IP, worker_mac
from p4.wire_layout import layout

_LAYOUT = layout()
# Values between hosts alone, pull lists and other tenants' traffic: no program here reads this port. It is
# IANA's for RoCEv2, which such traffic would be.
HOST_PORT = 4791
TTL = 64
ECN_CAPABLE = 2  # ECT(0), RFC 3168


def _fields() -> tuple[dict[str, tuple[int, int]], int]:
    places, at, values = {}, 0, 0
    for header, fields in _LAYOUT.headers.items():
        if header == "values":
            places["values"], values = (at, fields[0].bits), at // 8
        for field in fields:
            if header != "values":
                places[f"{header}.{field.name}"] = (at, field.bits)
            at += field.bits
    places["end"] = (at, 0)
    return places, values


# name ("agg.vertex") -> first bit in the frame, width
FIELDS, VALUES_AT = _fields()
FRAME_BYTES = FIELDS["end"][0] // 8
VALUES_PER_PACKET = _LAYOUT.constants["VALUES_PER_PACKET"]
NUMBERS = {
    **dict(_LAYOUT.enums["packet_type_t"]),
    "ethertype_ipv4": _LAYOUT.constants["ETHERTYPE_IPV4"],
    "protocol_udp": _LAYOUT.constants["PROTOCOL_UDP"],
    "aggregation_port": _LAYOUT.constants["AGGREGATION_PORT"],
    "host_port": HOST_PORT,
    "first_ip": FIRST_IP,
    "first_mac": int.from_bytes(worker_mac(0), "big"),
    "first_source_port": FIRST_SOURCE_PORT,
    "switch_ip": SWITCH_IP,
    "gateway_mac": int.from_bytes(GATEWAY_MAC, "big"),
}


def put(frames: npt.NDArray[np.uint8], name: str, value: int | npt.NDArray[np.integer]) -> None:
    """A field of whole bytes of uint8[n, bytes], in network byte order."""
    at, bits = FIELDS[name]
    for i in range(bits // 8):
        frames[..., at // 8 + i] = (np.asarray(value) >> (bits - 8 - 8 * i)) & 0xFF


def put_bits(frames: npt.NDArray[np.uint8], name: str, value: int) -> None:
    """A field within one byte."""
    at, bits = FIELDS[name]
    frames[..., at // 8] |= np.uint8(value << (8 - at % 8 - bits))


def blank(worker: int) -> npt.NDArray[np.uint8]:
    """uint8[bytes]: a frame of a worker to the switch, complete but for its aggregation header and values."""
    frame = np.zeros(FRAME_BYTES, np.uint8)
    ip = FIELDS["ipv4.version"][0] // 8
    put(frame, "ethernet.dst", NUMBERS["gateway_mac"])
    put(frame, "ethernet.src", NUMBERS["first_mac"] + worker)
    put(frame, "ethernet.type", NUMBERS["ethertype_ipv4"])
    put_bits(frame, "ipv4.version", 4)
    put_bits(frame, "ipv4.ihl", 5)
    put_bits(frame, "ipv4.ecn", ECN_CAPABLE)
    put(frame, "ipv4.length", FRAME_BYTES - ip)
    put(frame, "ipv4.ttl", TTL)
    put(frame, "ipv4.protocol", NUMBERS["protocol_udp"])
    put(frame, "ipv4.src", NUMBERS["first_ip"] + worker)
    put(frame, "ipv4.dst", NUMBERS["switch_ip"])
    total = int(frame[ip : ip + 20].view(">u2").astype(np.int64).sum())
    total = (total & 0xFFFF) + (total >> 16)
    put(frame, "ipv4.checksum", ~(total + (total >> 16)) & 0xFFFF)
    put(frame, "udp.src", NUMBERS["first_source_port"] + worker)
    put(frame, "udp.dst", NUMBERS["aggregation_port"])
    put(frame, "udp.length", FRAME_BYTES - ip - 20)
    put(frame, "agg.worker", worker)
    return frame
