"""What is done for every frame of a propagation, in C++: making uploads, and taking results that are right.

Both give what `FrameMaker.make`, `Gate`, `Intake` and `Receiver` would, and know of the wire format nothing
but what is derived from it here. A result that is anything but plain is left to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator import _host, wire
from emulator.protocol.frames import (
    ECN_CAPABLE,
    ECN_MARKED,
    Bytes,
    FrameMaker,
    Frames,
    Job,
    as_bytes,
    as_frames,
    sending,
)
from emulator.protocol.layout import Exchange
from emulator.protocol.receiver import Receiver
from emulator.wire import FRAME, FRAME_BYTES, OFFSETS, SATURATED, VALUES_PER_PACKET, PacketType

_AGG: Mapping[str, Any] = FRAME["agg"].fields or {}
_HEADER_BYTES = -(-OFFSETS["values"] // 8) * 8  # it is compared by eight
# struct Layout of native/frames.hpp.
_LAYOUT = np.array(
    [
        OFFSETS["ipv4"], *(OFFSETS["agg"] + _AGG[name][1] for name in ("flags", "vertex", "chunk", "count")),
        OFFSETS["values"], VALUES_PER_PACKET, SATURATED,
    ],
    np.int64,
)  # fmt: skip
assert [_AGG[name][0].str for name in ("flags", "vertex", "chunk", "count")] == ["|u1", ">u4", ">u2", ">u4"]
assert FRAME["values"].base.str == ">i4" and wire.IPV4_BYTES == 20


def _mask() -> Bytes:
    """Ones where every plain result of an exchange has the same bits."""
    mask = np.zeros(1, FRAME)
    mask["ethernet"]["type"] = 0xFFFF
    ip, udp, agg = mask["ipv4"], mask["udp"], mask["agg"]
    for name in ("version_ihl", "protocol"):
        ip[name] = 0xFF
    ip["dscp_ecn"] = ECN_MARKED
    ip["length"], ip["flags_fragment"] = 0xFFFF, wire.NOT_A_FRAGMENT
    ip["src"] = ip["dst"] = 0xFFFFFFFF
    udp["dst"] = udp["length"] = 0xFFFF
    for name in ("type", "job", "level"):
        agg[name] = 0xFF
    agg["flags"] = 0xFF & ~SATURATED
    for name in ("block", "round", "worker"):
        agg[name] = 0xFFFF
    return as_bytes(mask)[0, :_HEADER_BYTES].copy()


_MASK = _mask()


def result_patterns(job: Job, exchange: Exchange, round_: int) -> Bytes:
    """uint8[2, header]: a result from the switch, and one that another leaf's partial completed."""
    frames = wire.blank(2)
    frames["ipv4"]["src"] = job.switch_ip, job.ip[job.worker]
    frames["ipv4"]["dst"] = job.ip[job.worker]
    wire.put(frames, "ipv4", "ecn", ECN_CAPABLE)
    agg = frames["agg"]
    agg["type"], agg["job"], agg["worker"] = PacketType.RESULT, job.number, job.worker
    agg["round"], agg["block"] = round_, sending(exchange.number)
    return as_bytes(frames)[:, :_HEADER_BYTES].copy()


def take_results(
    frames: Frames, lengths: npt.NDArray[np.integer], patterns: Bytes, receiver: Receiver
) -> tuple[int, int, int, npt.NDArray[np.bool_]]:
    """Adds plain results of the receiver's exchange; returns how many were new, how many copies, how many
    saturated, and bool[n], which frames are none of them.
    """
    exchange = receiver.exchange
    left = np.empty(len(frames), bool)
    new, copies, saturated = _host.take_results(
        as_bytes(frames), np.ascontiguousarray(lengths, np.int64), patterns, _MASK, _LAYOUT, exchange.own_of,
        exchange.expected, exchange.rows, receiver.done, receiver.totals, left,
    )  # fmt: skip
    receiver.pending -= new
    return new, copies, saturated, left


def upload_pattern(maker: FrameMaker, exchange: Exchange, round_: int) -> Bytes:
    """An upload of this exchange, but for vertex, chunk and values."""
    block = sending(exchange.number)
    made = maker.make(PacketType.UPLOAD, maker.switch, 1, round=round_, block=block, count=1)
    return as_bytes(made)[0].copy()


def make_uploads(
    pattern: Bytes, exchange: Exchange, values: npt.NDArray[np.int32], first: int, count: int
) -> Frames:
    """FRAME[count]: uploads first, first + 1, ... of an exchange. values: int32[own rows, chunks, 30]."""
    raw = np.empty((count, FRAME_BYTES), np.uint8)
    _host.make_uploads(raw, pattern, _LAYOUT, exchange.slots, exchange.rows, values, first)
    return as_frames(raw)
