"""Classic pcap files: packets with their times, read and written whole."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

_MAGIC_US, _MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
_ETHERNET = 1
_MAX_PACKET = 1 << 18


class PcapError(Exception):
    """Not a pcap file, or a broken one."""


class Record(NamedTuple):
    """One captured packet; ``time_us`` since the epoch of the capture."""

    time_us: int
    data: bytes


def read_pcap(path: Path) -> list[Record]:
    """All packets of a file. Raises PcapError; OSError if it cannot be read."""
    raw = path.read_bytes()
    if len(raw) < 24:
        raise PcapError(f"{path}: {len(raw)} bytes are no pcap file")
    for order in ("<", ">"):
        magic = struct.unpack_from(order + "I", raw)[0]
        if magic in (_MAGIC_US, _MAGIC_NS):
            break
    else:
        raise PcapError(f"{path}: not a pcap file (pcapng is not read: convert it with `editcap -F pcap`)")
    per_us = 1 if magic == _MAGIC_US else 1000
    records: list[Record] = []
    at = 24
    while at < len(raw):
        if at + 16 > len(raw):
            raise PcapError(f"{path}: cut off after {len(records)} packets")
        seconds, fraction, size, _ = struct.unpack_from(order + "IIII", raw, at)
        at += 16
        if size > _MAX_PACKET or at + size > len(raw):
            raise PcapError(f"{path}: packet {len(records) + 1} of {size} bytes is cut off")
        records.append(Record(seconds * 1_000_000 + fraction // per_us, raw[at : at + size]))
        at += size
    return records


def pcap_bytes(records: list[Record]) -> bytes:
    """A file of Ethernet packets, as bytes."""
    parts = [struct.pack("<IHHiIII", _MAGIC_US, 2, 4, 0, 0, _MAX_PACKET, _ETHERNET)]
    for record in records:
        seconds, micros = divmod(record.time_us, 1_000_000)
        parts.append(struct.pack("<IIII", seconds & 0xFFFFFFFF, micros, len(record.data), len(record.data)))
        parts.append(record.data)
    return b"".join(parts)


def write_pcap(path: Path, records: list[Record]) -> None:
    """A file of Ethernet packets, written under a temporary name and renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(pcap_bytes(records))
    os.replace(temporary, path)
