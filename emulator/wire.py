"""The wire format as numpy sees it: whole frames as rows of a structured array, in network byte order.

    frames = blank(32)                                  # Ethernet, IPv4 and UDP filled in
    frames["agg"]["vertex"] = numpy.arange(32)
    frames["values"][:] = chunk                         # int32[32, 30]
    put(frames, "agg", "resend", 1)                     # a field smaller than a byte
    seal(frames)                                        # the IPv4 checksum, last

Everything is derived from p4/programs/include/wire.p4 (p4/wire_layout.py). Names are those of the P4
headers; fields smaller than a byte share one numpy field with their neighbours (`version_ihl`, `dscp_ecn`,
`flags_fragment`, and `flags` in `agg`), and `BITS` says where each lies. `Netfold`, the scapy layer, is made
when first asked for.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from p4.wire_layout import Field, layout

LAYOUT = layout()
AGGREGATION_PORT = LAYOUT.constants["AGGREGATION_PORT"]
VALUES_PER_PACKET = LAYOUT.constants["VALUES_PER_PACKET"]
ETHERTYPE_IPV4 = LAYOUT.constants["ETHERTYPE_IPV4"]
PROTOCOL_UDP = LAYOUT.constants["PROTOCOL_UDP"]
DEFAULT_TTL = 64  # RFC 1700's recommendation

if TYPE_CHECKING:
    from p4.wire_table import PacketType
else:
    PacketType = IntEnum("PacketType", [(n.upper(), v) for n, v in LAYOUT.enums["packet_type_t"]])


class Bits(NamedTuple):
    """Where a field smaller than a byte lies: in which numpy field, under which mask, shifted by how much."""

    field: str
    mask: int
    shift: int


def _shared_name(group: list[Field]) -> str:
    """The numpy field for P4 fields that share bytes: both their names, or `flags` for more than two."""
    return "_".join(f.name for f in group) if len(group) <= 2 else "flags"


def _header(fields: tuple[Field, ...]) -> tuple[np.dtype[Any], dict[str, Bits]]:
    """A header's dtype, and the place of each field that is no whole number of bytes."""
    if len({f[1:] for f in fields}) == 1 and len(fields) > 4:  # v0 to v29: an array
        return np.dtype((f">{'i' if fields[0].signed else 'u'}{fields[0].bits // 8}", len(fields))), {}
    parts: list[tuple[str, Any]] = []
    bits: dict[str, Bits] = {}
    group: list[Field] = []
    for field in fields:
        group.append(field)
        size = sum(f.bits for f in group)
        if size % 8:
            continue
        if len(group) > 1:
            shift = size
            for part in group:
                shift -= part.bits
                bits[part.name] = Bits(_shared_name(group), (1 << part.bits) - 1 << shift, shift)
        name = field.name if len(group) == 1 else _shared_name(group)
        whole = size in (8, 16, 32, 64)
        parts.append((name, f">{'i' if field.signed else 'u'}{size // 8}" if whole else ("u1", size // 8)))
        group = []
    return np.dtype(parts), bits


_HEADERS = {name: _header(fields) for name, fields in LAYOUT.headers.items()}
# One whole frame without the FCS: ethernet, ipv4, udp, agg (each a structured field) and values (>i4[30]).
# MAC addresses are u1[6].
FRAME = np.dtype([(name, dtype) for name, (dtype, _) in _HEADERS.items()])
FRAME_BYTES = FRAME.itemsize
BITS = {name: bits for name, (_, bits) in _HEADERS.items()}
OFFSETS = {name: place[1] for name, place in (FRAME.fields or {}).items()}

RESEND, BYPASS, PULL, SATURATED = (
    BITS["agg"][name].mask for name in ("resend", "bypass", "pull", "saturated")
)
ETHERNET_BYTES = OFFSETS["ipv4"]
IPV4_BYTES = OFFSETS["udp"] - OFFSETS["ipv4"]
UDP_BYTES = OFFSETS["agg"] - OFFSETS["udp"]
_WORDS = np.dtype(
    {
        "names": ["ipv4"],
        "formats": [(">u2", (IPV4_BYTES // 2,))],
        "offsets": [OFFSETS["ipv4"]],
        "itemsize": FRAME_BYTES,
    }
)
_VERSION_IHL = 4 << BITS["ipv4"]["version"].shift | IPV4_BYTES // 4
NOT_A_FRAGMENT = ~(1 << 14) & 0xFFFF  # of flags_fragment, all but "don't fragment" must be 0 (RFC 791)


def blank(count: int) -> npt.NDArray[np.void]:
    """FRAME[count] of valid aggregation packets: all zero but for what every one of them has. Not sealed."""
    frames = np.zeros(count, FRAME)
    frames["ethernet"]["type"] = ETHERTYPE_IPV4
    ip, udp = frames["ipv4"], frames["udp"]
    ip["version_ihl"] = _VERSION_IHL
    ip["length"] = FRAME_BYTES - ETHERNET_BYTES
    ip["ttl"] = DEFAULT_TTL
    ip["protocol"] = PROTOCOL_UDP
    udp["src"] = udp["dst"] = AGGREGATION_PORT
    udp["length"] = FRAME_BYTES - ETHERNET_BYTES - IPV4_BYTES
    return frames


def get(frames: npt.NDArray[np.void], header: str, name: str) -> npt.NDArray[Any]:
    """A field smaller than a byte, as numbers of the numpy field that holds it."""
    place = BITS[header][name]
    return (frames[header][place.field] & place.mask) >> place.shift


def put(frames: npt.NDArray[np.void], header: str, name: str, values: npt.ArrayLike) -> None:
    """Set a field smaller than a byte; bits that do not fit are cut off, as P4's cast does."""
    place = BITS[header][name]
    shared = frames[header][place.field]
    shared[...] = (shared & ~np.array(place.mask, shared.dtype)) | (
        np.asarray(values) << place.shift & place.mask
    )


def _sums(frames: npt.NDArray[np.void]) -> npt.NDArray[np.uint32]:
    """The sum of the ten 16-bit words of each IPv4 header, carries not yet folded in."""
    return np.asarray(frames.view(_WORDS)["ipv4"].sum(axis=-1, dtype=np.uint32))


def _folded(total: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """One's complement sums of 16 bits (RFC 1071)."""
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


def checksum(frames: npt.NDArray[np.void]) -> npt.NDArray[np.uint16]:
    """What ipv4.checksum should be, uint16[n] in host order, whatever stands there now. Changes nothing."""
    return (0xFFFF ^ _folded(_sums(frames) - frames["ipv4"]["checksum"])).astype(np.uint16)


def seal(frames: npt.NDArray[np.void]) -> None:
    """Write the IPv4 checksums."""
    frames["ipv4"]["checksum"] = checksum(frames)


def valid(frames: npt.NDArray[np.void], lengths: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """bool[n]: which frames are whole aggregation packets by their link, IPv4 and UDP headers.

    ``lengths``: bytes received of each; what lies behind the IP packet (padding) is not looked at. Checked
    are ethertype, version and header length, that it is no fragment, protocol, lengths, port, checksum.
    """
    ip, udp = frames["ipv4"], frames["udp"]
    fine = np.asarray(lengths) >= FRAME_BYTES
    fine &= frames["ethernet"]["type"] == ETHERTYPE_IPV4
    fine &= ip["version_ihl"] == _VERSION_IHL
    fine &= ip["length"] == FRAME_BYTES - ETHERNET_BYTES
    fine &= (ip["flags_fragment"] & NOT_A_FRAGMENT) == 0
    fine &= ip["protocol"] == PROTOCOL_UDP
    fine &= udp["dst"] == AGGREGATION_PORT
    fine &= udp["length"] == FRAME_BYTES - ETHERNET_BYTES - IPV4_BYTES
    fine &= _folded(_sums(frames)) == 0xFFFF
    return fine


def __getattr__(name: str) -> Any:
    if name == "Netfold":
        from emulator.wire_scapy import Netfold  # noqa: PLC0415  (scapy takes a second to load)

        return Netfold
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
