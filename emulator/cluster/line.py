"""One direction of a link in virtual time: a rate, a delay, and the faults asked for. By the burst."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.cluster.faults import LinkFaults
from emulator.wire import OFFSETS

Bytes = npt.NDArray[np.uint8]
FAULT_COUNTS = ("lost", "reordered", "duplicated", "bad_fcs", "ecn_marked")
GAP_BYTES = 24  # FCS, preamble and gap
KIND_AT = OFFSETS["agg"]  # the byte that says what kind of packet it is


@dataclass
class Line:
    """``carry`` takes a burst and gives what arrives when. Raw frames: uint8[n, size] and their lengths.

    ecn_frames: a frame that finds so many before it is marked (0: none is), if it is ECN capable.
    """

    rate_bps: float
    delay_ns: int
    faults: LinkFaults
    random: np.random.Generator
    ecn_frames: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    kinds: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    free_ns: int = 0
    _bad: bool = False  # Gilbert-Elliott: in a burst of losses

    def carry(
        self, frames: Bytes, lengths: npt.NDArray[np.int64], now_ns: int
    ) -> list[tuple[int, Bytes, npt.NDArray[np.int64]]]:
        """[(arrival, frames, lengths)] with one entry for those that stay together."""
        count = len(frames)
        self.counts["frames"] += count
        self.counts["bytes"] += int(lengths.sum())
        if frames.shape[1] > KIND_AT:
            self.kinds += np.bincount(frames[:, KIND_AT], minlength=256)
        if self.ecn_frames:
            frames = self._mark(frames, now_ns)
        start = max(now_ns, self.free_ns)
        self.free_ns = start + int((lengths.sum() + GAP_BYTES * count) * 8e9 / self.rate_bps)
        arrival = self.free_ns + self.delay_ns
        faults = self.faults
        if faults.none:
            return [(arrival, frames, lengths)]
        arrival += faults.delay_ns
        if any(first <= now_ns < last for first, last in faults.down_ns):
            self.counts["lost"] += count
            return []
        keep = ~self._losses(count)
        self.counts["lost"] += count - int(keep.sum())
        if faults.corrupt:
            keep &= ~self._corrupt(frames)
        frames, lengths = frames[keep], lengths[keep]
        out = []
        late = self.random.random(len(frames)) < faults.reorder
        twice = self.random.random(len(frames)) < faults.duplicate
        self.counts["reordered"] += int(late.sum())
        self.counts["duplicated"] += int(twice.sum())
        if not late.all():
            out.append((arrival, frames[~late], lengths[~late]))
        for group in (late, twice):
            for at in np.flatnonzero(group):
                wait = int(self.random.integers(0, faults.late_ns + 1))
                out.append((arrival + wait, frames[at : at + 1], lengths[at : at + 1]))
        return out

    def _losses(self, count: int) -> npt.NDArray[np.bool_]:
        faults = self.faults
        if faults.burst <= 1 or faults.loss in (0.0, 1.0):
            return self.random.random(count) < faults.loss
        leave_bad = 1 / faults.burst
        enter_bad = min(1.0, faults.loss / ((1 - faults.loss) * faults.burst))
        lost = np.zeros(count, bool)
        at = 0
        while at < count:
            run = int(self.random.geometric(leave_bad if self._bad else enter_bad))
            lost[at : at + run] = self._bad
            if at + run <= count:
                self._bad = not self._bad
            at += run
        return lost

    def _corrupt(self, frames: Bytes) -> npt.NDArray[np.bool_]:
        """Damage some; which of them the receiving port drops for their FCS (IEEE 802.3's CRC-32)."""
        hit = np.flatnonzero(self.random.random(len(frames)) < self.faults.corrupt)
        dropped = np.zeros(len(frames), bool)
        for at in hit:
            sent = zlib.crc32(frames[at].tobytes())
            bit = int(self.random.integers(frames.shape[1] * 8))
            damaged = frames[at].copy()
            damaged[bit // 8] ^= 1 << bit % 8
            dropped[at] = zlib.crc32(damaged.tobytes()) != sent
        self.counts["bad_fcs"] += int(dropped.sum())
        return dropped

    def _mark(self, frames: Bytes, now_ns: int) -> Bytes:
        """CE for ECN-capable frames that find a long queue. The IPv4 checksum is changed along (RFC 1624)."""
        waiting = max(0, self.free_ns - now_ns) * self.rate_bps / 8e9 / (frames.shape[1] + GAP_BYTES)
        position = waiting + np.arange(len(frames))
        ecn = frames[:, 15] & 3
        mark = (position >= self.ecn_frames) & ((ecn == 1) | (ecn == 2))
        if not mark.any():
            return frames
        frames = frames.copy()
        self.counts["ecn_marked"] += int(mark.sum())
        added = (3 - ecn[mark]).astype(np.uint32)  # the second byte of the header's first word grows by this
        frames[mark, 15] |= 3
        old = ~(frames[mark, 24].astype(np.uint32) << 8 | frames[mark, 25]) & 0xFFFF
        total = old + added
        total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        frames[mark, 24], frames[mark, 25] = total >> 8, total & 0xFF
        return frames
