"""Building a worker's frames, and the first look at those that arrive. All work is by the burst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.wire import FRAME, FRAME_BYTES, PacketType
from p4.control.adjacency import MOST_BLOCKS, READY, finishing, sending
from p4.control.fabric import FIRST_SOURCE_PORT

Frames = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
__all__ = [
    "FIRST_SOURCE_PORT",
    "MOST_BLOCKS",
    "READY",
    "Arrived",
    "Bytes",
    "FrameMaker",
    "Frames",
    "Ints",
    "Job",
    "as_bytes",
    "as_frames",
    "finishing",
    "join",
    "sending",
]

MOST_WORKERS = 2**16 - FIRST_SOURCE_PORT
ECN_CAPABLE, ECN_MARKED = 2, 3  # RFC 3168: ECT(0) and CE


@dataclass(frozen=True, eq=False)
class Job:
    """One worker's place in a job. ip: uint32[workers], mac: uint8[workers, 6]; switch_ip: where uploads and
    reports go; gateway_mac: the switch's. secret: 64 bits known to the job's workers alone: a completion that
    does not carry what follows from it was not made from their reports.
    """

    number: int
    worker: int
    workers: int
    ip: npt.NDArray[np.uint32]
    mac: npt.NDArray[np.uint8]
    switch_ip: int
    gateway_mac: bytes
    secret: int

    def key(self, round_: int, number: int) -> tuple[int, int]:
        """The 64 bits of one barrier, as two 32-bit words (splitmix64's finaliser)."""
        mask = 2**64 - 1
        z = (self.secret + (round_ << 16 | number + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        return z >> 32, z & 0xFFFFFFFF


class FrameMaker:
    """Frames of one worker, from templates whose addresses and checksums are done."""

    def __init__(self, job: Job) -> None:
        self.job = job
        templates = wire.blank(job.workers + 1)
        templates["ethernet"]["dst"] = np.frombuffer(job.gateway_mac, np.uint8)
        templates["ethernet"]["src"] = job.mac[job.worker]
        templates["ipv4"]["src"] = job.ip[job.worker]
        templates["ipv4"]["dst"][: job.workers] = job.ip
        templates["ipv4"]["dst"][job.workers] = job.switch_ip
        templates["udp"]["src"] = FIRST_SOURCE_PORT + job.worker
        templates["agg"]["job"] = job.number
        templates["agg"]["worker"] = job.worker
        wire.put(templates, "ipv4", "ecn", ECN_CAPABLE)
        wire.seal(templates)
        self._templates = templates

    @property
    def switch(self) -> int:
        """The destination that stands for the switch."""
        return self.job.workers

    def make(self, kind: PacketType, to: int | Ints, size: int, flags: int = 0, **fields: Any) -> Frames:
        """FRAME[size] of one kind; `fields` of the aggregation header, or values, broadcast."""
        where = np.full(size, to) if isinstance(to, int) else to
        frames: Frames = self._templates[where]
        agg = frames["agg"]
        agg["type"], agg["flags"] = kind, flags
        for name, value in fields.items():
            if name == "values":
                frames["values"][:] = value
            else:
                agg[name] = value
        return frames


def as_frames(raw: Bytes) -> Frames:
    """uint8[n, FRAME_BYTES] as FRAME[n], in place if its bytes lie together. (A `view` would cost more.)"""
    frames: Frames = np.ndarray(len(raw), FRAME, np.ascontiguousarray(raw))
    return frames


def as_bytes(frames: Frames) -> Bytes:
    """FRAME[n] as uint8[n, FRAME_BYTES], in place if its bytes lie together."""
    return np.ndarray((len(frames), FRAME_BYTES), np.uint8, np.ascontiguousarray(frames))


def join(parts: Sequence[Frames]) -> Frames:
    """Bursts as one. (numpy.concatenate would turn the fields to this machine's byte order.)"""
    return parts[0] if len(parts) == 1 else as_frames(np.concatenate([as_bytes(part) for part in parts]))


class Arrived:
    """A burst's headers as native integers; `keep(mask)` narrows it."""

    def __init__(self, frames: Frames) -> None:
        agg = frames["agg"]
        self.frames = frames
        self.type, self.flags, self.job, self.level = agg["type"], agg["flags"], agg["job"], agg["level"]
        self.block, self.round = agg["block"].astype(np.int64), agg["round"].astype(np.int64)
        self.vertex, self.chunk = agg["vertex"].astype(np.int64), agg["chunk"].astype(np.int64)
        self.worker, self.count = agg["worker"].astype(np.int64), agg["count"].astype(np.int64)

    def __len__(self) -> int:
        return len(self.frames)

    def keep(self, mask: npt.NDArray[np.bool_]) -> Arrived:
        """Those of the mask."""
        return self if mask.all() else Arrived(self.frames[mask])

    @property
    def values(self) -> npt.NDArray[np.int32]:
        """int32[n, 30]."""
        return self.frames["values"].astype(np.int32)

    @property
    def source_worker(self) -> Ints:
        """Who sent it, or the last contributor of a sum."""
        return self.frames["udp"]["src"].astype(np.int64) - FIRST_SOURCE_PORT
