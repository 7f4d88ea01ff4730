"""A plan's adjacency into a switch: what the words are, and sending them until each is acknowledged.

The switch sends every `load` back, marked bypass, once its words are written. A block's size goes last: to
the switch a block without a size has no slots, so nothing is added by half a list, and a switch that lost
everything refuses uploads until it is loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.protocol.frames import Arrived, FrameMaker, Frames, Ints, Job, finishing, join, sending
from emulator.wire import BYPASS, VALUES_PER_PACKET, PacketType
from workloads.plan import Plan


class Array(IntEnum):
    """The arrays by their number in the chunk field, as in p4/programs/include/adjacency.p4."""

    BLOCK_FIRST = 0
    ENTRY_EDGE = 1
    ENTRY_DEGREE = 2
    ENTRY_EXPECTED = 3
    ENTRY_OWNER = 4
    EDGE_SLOT = 5
    BLOCK_SIZE = 6
    TAG = 7
    SEEN = 8
    DONE = 9


@dataclass(frozen=True)
class Needs:
    """Elements of each array that a job needs."""

    blocks: int
    entries: int
    edges: int
    aggregators: int


def needs(plan: Plan) -> Needs:
    """What `plan` needs of a switch. Blocks count twice, and one more for the first barrier (frames.py)."""
    sizes = np.diff(plan.block_ptr)
    exchanges = plan.num_blocks + (len(plan.residual_adj) > 0)
    largest = int(sizes.max(initial=0)) * plan.chunks
    return Needs(finishing(exchanges), max(1, plan.num_uploads), max(1, len(plan.adj)), max(1, largest))


def words(plan: Plan, rack: npt.NDArray[np.bool_] | None = None) -> list[tuple[Array, Ints]]:
    """The arrays of `plan` in the order in which they must be loaded.

    rack: bool[workers], of a leaf: its own workers. A leaf sums only its rack's contributions to the vertices
    of other racks.
    """
    degrees = np.diff(plan.adj_ptr)
    owner = np.asarray(plan.owner, np.int64)[plan.block_vertices]
    expected = degrees
    if rack is not None and len(degrees):
        block = np.repeat(np.arange(plan.num_blocks), np.diff(plan.block_ptr))
        start = np.asarray(plan.block_ptr)[block]  # entry of slot 0 of each entry's block
        row = np.repeat(np.arange(len(degrees)), degrees)
        inside = rack[owner[start[row] + plan.adj]]
        near = np.bincount(row[inside], minlength=len(degrees))
        expected = np.where(rack[owner], degrees, near)
    size = needs(plan)
    first, count = np.zeros(size.blocks, np.int64), np.zeros(size.blocks, np.int64)
    numbers = [sending(block) for block in range(plan.num_blocks)]
    first[numbers] = plan.block_ptr[:-1]
    count[numbers] = np.diff(plan.block_ptr)
    return [
        (Array.EDGE_SLOT, np.asarray(plan.adj, np.int64)),
        (Array.ENTRY_EDGE, np.asarray(plan.adj_ptr[:-1], np.int64)),
        (Array.ENTRY_DEGREE, degrees),
        (Array.ENTRY_EXPECTED, np.asarray(expected, np.int64)),
        (Array.ENTRY_OWNER, owner),
        (Array.BLOCK_FIRST, first),
        (Array.BLOCK_SIZE, count),
    ]


class Loader:
    """Sends one switch its words through one of its workers; a size leaves when all else is acknowledged.

    ``error`` is set when nothing is acknowledged for `patience_ns`.
    """

    def __init__(
        self, job: Job, arrays: list[tuple[Array, Ints]], *, rto_ns: int, patience_ns: int, window: int = 256
    ) -> None:
        self._rto_ns, self._patience_ns, self._window = rto_ns, patience_ns, window
        self._frames = _load_frames(FrameMaker(job), arrays)
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
                f"loading: the switch acknowledged nothing for {self._patience_ns / 1e9:g} s, {left} to go"
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
        same = (got.frames["values"] == self._frames["values"][at]).all(axis=1) if len(got) else known
        at = at[known & same]
        if not self._acknowledged[at].all():
            self._progress_ns = now_ns
        self._acknowledged[at] = True

    def wake_ns(self, now_ns: int) -> int:
        """When `send` has something to do at the latest, if nothing arrives."""
        waiting = ~self._acknowledged & (self._sent_ns >= 0)
        return int(self._sent_ns[waiting].min()) + self._rto_ns if waiting.any() else now_ns


def _load_frames(maker: FrameMaker, arrays: list[tuple[Array, Ints]]) -> Frames:
    parts = []
    for array, content in arrays:
        count = -(-len(content) // VALUES_PER_PACKET)
        padded = np.zeros(count * VALUES_PER_PACKET, np.int64)
        padded[: len(content)] = content
        at = np.arange(count) * VALUES_PER_PACKET
        parts.append(
            maker.make(
                PacketType.LOAD, maker.switch, count, vertex=at, chunk=int(array),
                count=np.minimum(len(content) - at, VALUES_PER_PACKET),
                values=padded.reshape(count, VALUES_PER_PACKET),
            )
        )  # fmt: skip
    return join(parts)
