"""The receiving half of an exchange: results from the switch, or all of a sum's contributions one by one.

Each chunk of an own vertex is completed exactly once: by a result (which the switch sends only when its count
is what the block expects), or, once its owner has begun to pull (`bypass`), by every neighbour's values.
Bitmaps say what has come, so copies change nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.protocol.codec import HIGHEST, LOWEST
from emulator.protocol.layout import Exchange, Ints

Bits = npt.NDArray[np.bool_]


class Receiver:
    """Bitmaps and sums of one exchange. totals: int64[own rows, chunks, 30], to which sums are added."""

    def __init__(self, exchange: Exchange, totals: npt.NDArray[np.int64]) -> None:
        self.exchange, self.totals = exchange, totals
        self.done: Bits = np.zeros((len(exchange.slots), exchange.chunks), bool)
        self.pending = self.done.size
        self.bypassed: Bits = np.zeros_like(self.done)
        self.saturated = 0
        self._arrived: Bits = np.zeros((0, 0), bool)
        self._asked: Bits = self._arrived
        if not exchange.in_network:
            self._prepare()
            self._asked[:] = True
            self.bypassed[:] = True

    def _prepare(self) -> None:
        """Room for contributions one by one: only now, as most exchanges never need it."""
        if self._arrived.size:
            return
        shape = (len(self.exchange.remote), self.exchange.chunks)
        self._arrived, self._asked = np.zeros(shape, bool), np.zeros(shape, bool)
        self._count = np.zeros(self.done.shape, np.int64)
        self._sums = np.zeros((*self.done.shape, self.totals.shape[2]), np.int64)

    def results(self, own: Ints, chunk: Ints, values: npt.NDArray[np.int32]) -> int:
        """Sums from the switch; returns how many were new."""
        own, chunk, fresh = _fresh(self.done, own, chunk)
        self._complete(own, chunk, values[fresh])
        return len(fresh)

    def contributions(self, remote: Ints, chunk: Ints, values: npt.NDArray[np.int32]) -> tuple[int, int]:
        """Neighbours' values; returns (how many were new, how many of the rest nobody had asked for)."""
        if not self._arrived.size:
            return 0, len(remote)
        asked = self._asked[remote, chunk]
        unasked = len(remote) - int(asked.sum())
        remote, chunk, values = remote[asked], chunk[asked], values[asked]
        remote, chunk, fresh = _fresh(self._arrived, remote, chunk)
        if len(fresh) == 0:
            return 0, unasked
        self._arrived[remote, chunk] = True
        ptr, fan = self.exchange.fan_ptr, self.exchange.fan
        counts = ptr[remote + 1] - ptr[remote]
        each = np.repeat(np.arange(len(remote)), counts)
        ends = np.cumsum(counts)
        own = fan[np.arange(len(each)) + np.repeat(ptr[remote] - ends + counts, counts)]
        chunks = chunk[each]
        np.add.at(self._sums, (own, chunks), values[fresh][each])
        np.add.at(self._count, (own, chunks), 1)
        whole = (self._count[own, chunks] == self.exchange.expected[own]) & ~self.done[own, chunks]
        own, chunks, _ = _fresh(self.done, own[whole], chunks[whole])
        sums = self._sums[own, chunks]
        self.saturated += int(((sums < LOWEST) | (sums > HIGHEST)).any(axis=1).sum())
        self._complete(own, chunks, np.clip(sums, LOWEST, HIGHEST))  # as the switch would have
        return len(fresh), unasked

    def _complete(self, own: Ints, chunk: Ints, sums: npt.NDArray[np.integer]) -> None:
        self.done[own, chunk] = True
        self.totals[self.exchange.rows[own], chunk] += sums
        self.pending -= len(own)

    def missing(self) -> tuple[Ints, Ints]:
        """(remote, chunk) of what unfinished sums lack; marks those sums bypassed."""
        self._prepare()
        unfinished = ~self.done
        self.bypassed |= unfinished
        own, chunk = np.nonzero(unfinished)
        ptr = self.exchange.ptr
        counts = ptr[own + 1] - ptr[own]
        each = np.repeat(np.arange(len(own)), counts)
        ends = np.cumsum(counts)
        remote = self.exchange.neighbour[np.arange(len(each)) + np.repeat(ptr[own] - ends + counts, counts)]
        wanted = np.zeros(self._arrived.shape, bool)
        wanted[remote, chunk[each]] = True
        wanted &= ~self._arrived
        found = np.nonzero(wanted)
        return found[0], found[1]

    def ask(self, remote: Ints, chunk: Ints) -> None:
        """Note that these contributions were asked for: only they are taken."""
        self._asked[remote, chunk] = True


def _fresh(seen: Bits, row: Ints, chunk: Ints) -> tuple[Ints, Ints, Ints]:
    """(row, chunk, position) of those not in `seen`, each once, in ascending order of (row, chunk)."""
    flat = row * seen.shape[1] + chunk
    flat, first = np.unique(flat, return_index=True)
    new = ~seen.reshape(-1)[flat]
    row, chunk = np.divmod(flat[new], max(1, seen.shape[1]))
    return row, chunk, first[new]
