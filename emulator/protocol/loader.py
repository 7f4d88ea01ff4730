"""A plan's adjacency into a switch: sending its words until each is acknowledged.

The switch sends every `load` back, marked bypass, once its words are written. A block's size goes last: to
the switch a block without a size has no slots, so nothing is added by half a list, and a switch that lost
everything refuses uploads until it is loaded again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.protocol.frames import Arrived, FrameMaker, Frames, Ints, Job, join
from emulator.wire import BYPASS, VALUES_PER_PACKET, PacketType
from p4.control.adjacency import Array


class Loader:
    """Sends one switch its words through one of its workers; a size leaves when all else is acknowledged.

    turn: how often the switch was set up before; words and acknowledgments of another turn, late on their
    way, count nowhere. ``error`` is set when nothing is acknowledged for `patience_ns`.
    """

    def __init__(
        self,
        job: Job,
        arrays: list[tuple[Array, Ints]],
        *,
        turn: int = 0,
        rto_ns: int,
        patience_ns: int,
        window: int = 256,
    ) -> None:
        self._rto_ns, self._patience_ns, self._window = rto_ns, patience_ns, window
        self._worker = job.worker
        self._frames = _load_frames(FrameMaker(job), arrays, turn)
        agg = self._frames["agg"]
        self._keys = agg["chunk"].astype(np.int64) << 32 | agg["vertex"]
        self._last_stage = agg["chunk"] == Array.BLOCK_SIZE
        self._acknowledged = np.zeros(len(self._frames), bool)
        self._sent_ns = np.full(len(self._frames), -1, np.int64)
        self._order = np.argsort(self._keys)
        self._progress_ns = -1
        self.frames_sent = self.resent = 0
        self.error: str | None = None

    @property
    def done(self) -> bool:
        """Whether the switch has everything."""
        return bool(self._acknowledged.all())

    def send(self, now_ns: int, room: int) -> Frames:
        """Frames that are to leave now."""
        if self._progress_ns < 0:
            self._progress_ns = now_ns
        if now_ns - self._progress_ns >= self._patience_ns and not self.done:
            left = len(self._acknowledged) - int(self._acknowledged.sum())
            self.error = (
                f"worker {self._worker}: loading its switch: nothing acknowledged for "
                f"{self._patience_ns / 1e9:g} s, {left} of {len(self._acknowledged)} frames to go"
            )
            return self._frames[:0]
        waiting = ~self._acknowledged
        if (waiting & ~self._last_stage).any():
            waiting &= ~self._last_stage
        under_way = waiting & (self._sent_ns >= 0) & (now_ns - self._sent_ns < self._rto_ns)
        most = min(room, self._window - int(under_way.sum()))
        chosen = np.flatnonzero(waiting & ~under_way)[: max(0, most)]
        again = chosen[self._sent_ns[chosen] >= 0]
        self._sent_ns[chosen] = now_ns
        self.frames_sent += len(chosen)
        self.resent += len(again)
        return self._frames[chosen]

    def receive(self, frames: Frames, lengths: npt.NDArray[np.integer], now_ns: int) -> None:
        """Acknowledgments; everything else is ignored."""
        got = Arrived(frames[wire.valid(frames, lengths)])
        got = got.keep((got.type == PacketType.LOAD) & ((got.flags & BYPASS) != 0))
        key = got.chunk << 32 | got.vertex
        at = self._order[
            np.minimum(np.searchsorted(self._keys, key, sorter=self._order), len(self._keys) - 1)
        ]
        known = self._keys[at] == key
        if len(got):
            known &= got.round == self._frames["agg"]["round"][at]
            known &= (got.frames["values"] == self._frames["values"][at]).all(axis=1)
        at = at[known]
        if not self._acknowledged[at].all():
            self._progress_ns = now_ns
        self._acknowledged[at] = True

    def wake_ns(self, now_ns: int) -> int:
        """When `send` has something to do at the latest, if nothing arrives."""
        waiting = ~self._acknowledged & (self._sent_ns >= 0)
        return int(self._sent_ns[waiting].min()) + self._rto_ns if waiting.any() else now_ns


def _load_frames(maker: FrameMaker, arrays: list[tuple[Array, Ints]], turn: int) -> Frames:
    parts = []
    for array, content in arrays:
        count = -(-len(content) // VALUES_PER_PACKET)
        padded = np.zeros(count * VALUES_PER_PACKET, np.int64)
        padded[: len(content)] = content
        at = np.arange(count) * VALUES_PER_PACKET
        parts.append(
            maker.make(
                PacketType.LOAD, maker.switch, count, round=turn & 0xFFFF, vertex=at, chunk=int(array),
                count=np.minimum(len(content) - at, VALUES_PER_PACKET),
                values=padded.reshape(count, VALUES_PER_PACKET),
            )
        )  # fmt: skip
    return join(parts)
