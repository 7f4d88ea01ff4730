"""Frames of the exchange that is under way: each is checked against the block's layout, then taken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.protocol.counters import Counters
from emulator.protocol.frames import Arrived, Job
from emulator.protocol.gate import Gate
from emulator.protocol.layout import Exchange
from emulator.protocol.receiver import Receiver
from emulator.protocol.sender import Sender
from emulator.wire import SATURATED, VALUES_PER_PACKET, PacketType


class Intake:
    """What the layout does not know is counted by the gate; what is right goes to receiver or sender."""

    def __init__(self, job: Job, gate: Gate, counters: Counters) -> None:
        self._job, self._gate, self._counters = job, gate, counters

    def within(self, got: Arrived, exchange: Exchange) -> Arrived:
        """Those that name a slot (a pull names its slots elsewhere) and a chunk of the block."""
        got = self._gate.only(
            got, "vertex", lambda a: (a.vertex < exchange.num_slots) | (a.type == PacketType.PULL)
        )
        return self._gate.only(got, "chunk", lambda a: a.chunk < exchange.chunks)

    def results(self, got: Arrived, exchange: Exchange, receiver: Receiver) -> int:
        """Sums from the switch; returns how many were new."""

        def mine(a: Arrived) -> npt.NDArray[np.bool_]:
            return (exchange.own_of[a.vertex] >= 0) & (a.worker == self._job.worker) & exchange.in_network

        got = self._gate.only(got, "owner", mine)
        got = self._gate.only(got, "count", lambda a: a.count == exchange.expected[exchange.own_of[a.vertex]])
        if not len(got):
            return 0
        new = receiver.results(exchange.own_of[got.vertex], got.chunk, got.values)
        self._counters.results += new
        self._counters.duplicates += len(got) - new
        self._counters.saturated += int(((got.flags & SATURATED) != 0).sum())
        return new

    def contributions(self, got: Arrived, exchange: Exchange, receiver: Receiver) -> int:
        """Single contributions from their owners; returns how many were new."""

        def from_owner(a: Arrived) -> npt.NDArray[np.bool_]:
            return (exchange.remote_of[a.vertex] >= 0) & (exchange.owner[a.vertex] == a.worker)

        got = self._gate.only(got, "owner", from_owner)
        if not len(got):
            return 0
        before = receiver.saturated
        new, unasked = receiver.contributions(exchange.remote_of[got.vertex], got.chunk, got.values)
        self._counters.contributions += new
        self._counters.dropped["unasked"] += unasked
        self._counters.duplicates += len(got) - new - unasked
        self._counters.saturated += receiver.saturated - before
        return new

    def pulls(self, got: Arrived, exchange: Exchange, sender: Sender) -> None:
        """Other workers ask for contributions."""
        got = self._gate.only(got, "entries", lambda a: (a.count >= 1) & (a.count <= VALUES_PER_PACKET))
        if not len(got):
            return
        if not sender.all_sent:  # what is still to be uploaded comes by itself
            self._counters.dropped["not ready"] += len(got)
            return
        entry = np.arange(VALUES_PER_PACKET) < got.count[:, None]
        slots = got.values[entry].astype(np.int64)
        row = np.repeat(np.arange(len(got)), got.count)
        fine = (slots >= 0) & (slots < exchange.num_slots)
        own = exchange.own_of[np.where(fine, slots, 0)]
        fine &= own >= 0
        self._counters.dropped["entries"] += int((~fine).sum())
        sender.pulled(got.worker[row][fine], own[fine], got.chunk[row][fine])
