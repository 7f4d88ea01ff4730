"""Generated from p4/programs/include/wire.p4 by `python -m p4.wire_layout`: do not edit."""

from enum import IntEnum

# Field: name, bits, signed, enum
SHA256 = "f246c6e703e8a1f199716498f77f8cc0269f2ff02155c929da89f8f95972776f"
HEADERS = {
    "ethernet": (
        ("dst", 48, False, ""),
        ("src", 48, False, ""),
        ("type", 16, False, ""),
    ),
    "ipv4": (
        ("version", 4, False, ""),
        ("ihl", 4, False, ""),
        ("dscp", 6, False, ""),
        ("ecn", 2, False, ""),
        ("length", 16, False, ""),
        ("identification", 16, False, ""),
        ("flags", 3, False, ""),
        ("fragment", 13, False, ""),
        ("ttl", 8, False, ""),
        ("protocol", 8, False, ""),
        ("checksum", 16, False, ""),
        ("src", 32, False, ""),
        ("dst", 32, False, ""),
    ),
    "udp": (
        ("src", 16, False, ""),
        ("dst", 16, False, ""),
        ("length", 16, False, ""),
        ("checksum", 16, False, ""),
    ),
    "agg": (
        ("type", 8, False, "packet_type_t"),
        ("resend", 1, False, ""),
        ("bypass", 1, False, ""),
        ("pull", 1, False, ""),
        ("saturated", 1, False, ""),
        ("reserved", 4, False, ""),
        ("job", 8, False, ""),
        ("level", 8, False, ""),
        ("block", 16, False, ""),
        ("round", 16, False, ""),
        ("vertex", 32, False, ""),
        ("chunk", 16, False, ""),
        ("worker", 16, False, ""),
        ("count", 32, False, ""),
    ),
    "values": (
        ("v0", 32, True, ""),
        ("v1", 32, True, ""),
        ("v2", 32, True, ""),
        ("v3", 32, True, ""),
        ("v4", 32, True, ""),
        ("v5", 32, True, ""),
        ("v6", 32, True, ""),
        ("v7", 32, True, ""),
        ("v8", 32, True, ""),
        ("v9", 32, True, ""),
        ("v10", 32, True, ""),
        ("v11", 32, True, ""),
        ("v12", 32, True, ""),
        ("v13", 32, True, ""),
        ("v14", 32, True, ""),
        ("v15", 32, True, ""),
        ("v16", 32, True, ""),
        ("v17", 32, True, ""),
        ("v18", 32, True, ""),
        ("v19", 32, True, ""),
        ("v20", 32, True, ""),
        ("v21", 32, True, ""),
        ("v22", 32, True, ""),
        ("v23", 32, True, ""),
        ("v24", 32, True, ""),
        ("v25", 32, True, ""),
        ("v26", 32, True, ""),
        ("v27", 32, True, ""),
        ("v28", 32, True, ""),
        ("v29", 32, True, ""),
    ),
}
ENUMS = {
    "packet_type_t": (
        ("upload", 1),
        ("partial", 2),
        ("result", 3),
        ("direct", 4),
        ("pull", 5),
        ("done", 6),
        ("complete", 7),
        ("load", 8),
        ("cnp", 9),
    ),
}
CONSTANTS = {
    "ETHERTYPE_IPV4": 2048,
    "PROTOCOL_UDP": 17,
    "AGGREGATION_PORT": 9000,
    "VALUES_PER_PACKET": 30,
}


class PacketType(IntEnum):
    """packet_type_t of wire.p4."""

    UPLOAD = 1
    PARTIAL = 2
    RESULT = 3
    DIRECT = 4
    PULL = 5
    DONE = 6
    COMPLETE = 7
    LOAD = 8
    CNP = 9
