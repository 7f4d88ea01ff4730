"""The sending half of an exchange: uploads in the plan's order, then answers to pulls, at DCQCN's rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.protocol import native
from emulator.protocol.dcqcn import DcqcnConfig, ReactionPoint
from emulator.protocol.frames import FrameMaker, Frames, sending
from emulator.protocol.layout import Exchange, Ints
from emulator.wire import BYPASS, FRAME_BYTES, PULL, RESEND, PacketType

ETHERNET_OVERHEAD_BYTES = (
    24  # FCS, preamble, start delimiter and gap: they take time on the link (IEEE 802.3)
)
MOST_REPLIES = 1 << 16  # queued; what does not fit is pulled again


class Flow:
    """Frames of one kind, spaced by the reaction point's rate while it is limited."""

    def __init__(self, config: DcqcnConfig) -> None:
        self.rate = ReactionPoint(config)
        self.next_ns = 0

    def allowed(self, now_ns: int, room: int) -> int:
        """How many of `room` frames may leave now."""
        if not self.rate.limited:
            return room
        self.rate.advance(now_ns)
        if now_ns < self.next_ns:
            return 0
        return min(room, 1 + int((now_ns - self.next_ns) / self._gap_ns()), 32)

    def sent(self, count: int, now_ns: int) -> None:
        """`count` frames left at now_ns."""
        if self.rate.limited:
            self.next_ns = max(self.next_ns, now_ns - 32 * int(self._gap_ns())) + int(count * self._gap_ns())
            self.rate.sent(count * FRAME_BYTES)

    def _gap_ns(self) -> float:
        return max(1.0, 8e9 * (FRAME_BYTES + ETHERNET_OVERHEAD_BYTES) / self.rate.rate_bps)


class Sender:
    """What is still to be sent of one exchange. values: int32[own rows, chunks, 30]."""

    def __init__(
        self,
        maker: FrameMaker,
        exchange: Exchange,
        round_: int,
        values: npt.NDArray[np.int32],
        config: DcqcnConfig,
    ) -> None:
        self.maker, self.exchange, self.round, self.values = maker, exchange, round_, values
        # A block is a new message, and a DCQCN flow starts at line rate (section 3.2).
        self.uploads, self.answers = Flow(config), Flow(config)
        self.next = 0
        self._replies: Ints = np.zeros((0, 3), np.int64)  # (worker, own, chunk)
        self._pattern = native.upload_pattern(maker, exchange, round_)

    @property
    def all_sent(self) -> bool:
        """Whether every upload has left."""
        return self.next >= self.exchange.uploads

    @property
    def queued(self) -> int:
        """Answers that wait."""
        return len(self._replies)

    def upload(self, now_ns: int, room: int) -> Frames | None:
        """The next uploads: `direct` and marked bypass in a host-based exchange."""
        count = min(self.uploads.allowed(now_ns, room), self.exchange.uploads - self.next)
        if count <= 0:
            return None
        first = self.next
        self.next += count
        self.uploads.sent(count, now_ns)
        if self.exchange.in_network:
            return native.make_uploads(self._pattern, self.exchange, self.values, first, count)
        at, chunk = np.divmod(np.arange(first, self.next), self.exchange.chunks)
        own, to = self.exchange.sends_to[at].T
        return self._frames(PacketType.DIRECT, to, own, chunk, BYPASS)

    def pulled(self, worker: Ints, own: Ints, chunk: Ints) -> int:
        """Workers ask for chunks of own slots; returns how many were not queued already."""
        before = self.queued
        asked = np.concatenate([self._replies, np.stack([worker, own, chunk], axis=1)])
        self._replies = np.unique(asked, axis=0)[:MOST_REPLIES]
        return self.queued - before

    def answer(self, now_ns: int, room: int) -> Frames | None:
        """Answers to pulls: resends, which no switch adds."""
        count = min(self.answers.allowed(now_ns, room), self.queued)
        if count <= 0:
            return None
        worker, own, chunk = self._replies[:count].T
        self._replies = self._replies[count:]
        self.answers.sent(count, now_ns)
        return self._frames(PacketType.DIRECT, worker, own, chunk, RESEND | PULL)

    def _frames(self, kind: PacketType, to: Ints, own: Ints, chunk: Ints, flags: int) -> Frames:
        exchange = self.exchange
        return self.maker.make(
            kind, to, len(own), flags, round=self.round, block=sending(exchange.number),
            vertex=exchange.slots[own], chunk=chunk, count=1, values=self.values[exchange.rows[own], chunk],
        )  # fmt: skip


assert wire.VALUES_PER_PACKET == 30  # the docstrings' numbers
