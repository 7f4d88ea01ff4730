"""Routes: how rows of one distribution become those that each worker needs, and the merged boundary index.

A `Route` is one worker's view of one step: which of its rows stay, which go to whom, which come from whom.
Both ends of a pair derive the same order without talking. For a vertex partition the routes of all snapshots
are kept in one `MergedIndex`: each boundary vertex is numbered once for all of them, and a snapshot is a bit
per number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
Weights = npt.NDArray[np.float32]
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Route:
    """rows_in: rows that this worker has; rows_out: rows that it needs. local_from, local_to: int64[], those
    that stay. send[q], receive[q]: int64[], rows (of what it has) for worker q and rows (of what it needs)
    from it. sent[q], received[q]: int64[], the numbers of these rows in the merged index, where there is one:
    of this worker's sends to all, and of its halo; sent_weight, received_weight: their importance.
    received_at: the received rows' positions in the window. cached, cached_at, cached_to: number, position
    and row of needed rows that nobody sends, for the cache.
    """

    rows_in: int
    rows_out: int
    local_from: Ids
    local_to: Ids
    send: tuple[Ids, ...]
    receive: tuple[Ids, ...]
    sent: tuple[Ids, ...] = ()
    received: tuple[Ids, ...] = ()
    sent_weight: tuple[Weights, ...] = ()
    received_weight: tuple[Weights, ...] = ()
    received_at: tuple[Ids, ...] = ()
    cached: Ids = field(default_factory=lambda: _NONE)
    cached_at: Ids = field(default_factory=lambda: _NONE)
    cached_to: Ids = field(default_factory=lambda: _NONE)


def make_route(rank: int, have: Ids, owner: npt.NDArray[np.int32], needs: Sequence[Ids]) -> Route:
    """The route of `rank`. have: its rows, ascending ids; owner: int32[n], who sends a vertex; needs[r]: ids
    that worker r needs, each owner's in ascending order.
    """
    need, workers = needs[rank], len(needs)
    from_here = owner[need] == rank
    receive = [np.flatnonzero(owner[need] == q) if q != rank else _NONE for q in range(workers)]
    send = [
        np.searchsorted(have, ids[owner[ids] == rank]) if q != rank else _NONE for q, ids in enumerate(needs)
    ]
    local_from = np.searchsorted(have, need[from_here])
    local_to = np.flatnonzero(from_here)
    return Route(len(have), len(need), local_from, local_to, tuple(send), tuple(receive))


def local_route(have: Ids, need: Ids) -> Route:
    """A route of what is at hand: of the needed rows only those in `have` (ascending); others are zero."""
    here = np.flatnonzero(np.isin(need, have))
    return Route(len(have), len(need), np.searchsorted(have, need[here]), here, (), ())


def join_routes(routes: Sequence[Route]) -> Route:
    """A window's positions' routes as one: rows one position after the other, so one message per pair."""
    starts_in = np.concatenate([[0], np.cumsum([route.rows_in for route in routes])]).astype(np.int64)
    starts_out = np.concatenate([[0], np.cumsum([route.rows_out for route in routes])]).astype(np.int64)

    def merged(name: str, starts: Ids) -> Ids:
        return np.concatenate([getattr(r, name) + at for r, at in zip(routes, starts, strict=False)])

    def by_peer(name: str, starts: Ids | None = None) -> tuple[Any, ...]:
        shifts = [0] * len(routes) if starts is None else starts
        peers = range(len(getattr(routes[0], name)))
        return tuple(
            np.concatenate([getattr(r, name)[q] + at for r, at in zip(routes, shifts, strict=False)])
            for q in peers
        )

    return Route(
        int(starts_in[-1]),
        int(starts_out[-1]),
        merged("local_from", starts_in),
        merged("local_to", starts_out),
        by_peer("send", starts_in),
        by_peer("receive", starts_out),
        received=by_peer("received"),
        received_at=by_peer("received_at"),
        cached=np.concatenate([route.cached for route in routes]),
        cached_at=np.concatenate([route.cached_at for route in routes]),
        cached_to=merged("cached_to", starts_out),
    )


@dataclass(frozen=True, eq=False)
class MergedIndex:
    """One worker's boundary, encoded once for all T snapshots of a vertex partition.

    inner: how many rows it has itself; halo: int64[nh], ids of all remote vertices that it needs in some
    snapshot, by owner and then ascending; halo_start[q]: where owner q's begin (P+1 entries). out: int64[ns],
    the row of each vertex it sends, by receiver and then ascending; out_start[q]: where receiver q's begin.
    halo_bits, out_bits: uint8[T, .], a bit per entry and snapshot. halo_weight[t], out_weight[t]: float32[],
    the importance of the entries that are set in snapshot t, the same at both ends.
    """

    rank: int
    inner: int
    halo: Ids
    halo_start: Ids
    halo_bits: Bits
    halo_weight: tuple[npt.NDArray[np.float32], ...]
    out: Ids
    out_start: Ids
    out_bits: Bits
    out_weight: tuple[npt.NDArray[np.float32], ...]

    def numbers(self, t: int) -> Ids:
        """Halo numbers that snapshot t needs, ascending."""
        return np.flatnonzero(np.unpackbits(self.halo_bits[t], count=len(self.halo)))

    def out_numbers(self, t: int) -> Ids:
        """Numbers in `out` of the rows that others need in snapshot t, ascending."""
        return np.flatnonzero(np.unpackbits(self.out_bits[t], count=len(self.out)))

    def route(self, t: int) -> Route:
        """The route of snapshot t: inner rows stay first, the halo's follow in its order."""
        numbers, out = self.numbers(t), self.out_numbers(t)
        coming = np.searchsorted(numbers, self.halo_start)
        going = np.searchsorted(out, self.out_start)
        workers = len(self.halo_start) - 1
        inner = np.arange(self.inner)
        return Route(
            self.inner,
            self.inner + len(numbers),
            inner,
            inner,
            tuple(self.out[out[going[q] : going[q + 1]]] for q in range(workers)),
            tuple(self.inner + np.arange(coming[q], coming[q + 1]) for q in range(workers)),
            tuple(out[going[q] : going[q + 1]] for q in range(workers)),
            tuple(numbers[coming[q] : coming[q + 1]] for q in range(workers)),
            tuple(self.out_weight[t][going[q] : going[q + 1]] for q in range(workers)),
            tuple(self.halo_weight[t][coming[q] : coming[q + 1]] for q in range(workers)),
        )

    @property
    def encoded_bytes(self) -> int:
        """What the index takes: an id and a row per entry, and the bits."""
        return self.halo.nbytes + self.out.nbytes + self.halo_bits.nbytes + self.out_bits.nbytes

    @property
    def separate_bytes(self) -> int:
        """What a list of ids and rows per snapshot would take."""
        return 8 * sum(len(w) for w in (*self.halo_weight, *self.out_weight))


@dataclass(frozen=True, eq=False)
class Needed:
    """What every worker needs of others in every snapshot: keys[t]: int64[], worker * n + vertex, ascending;
    weight[t]: float32[], the importance of each.
    """

    n: int
    keys: tuple[Ids, ...]
    weight: tuple[npt.NDArray[np.float32], ...]


def merged_indices(needed: Needed, parts: npt.NDArray[np.int32], workers: int) -> list[MergedIndex]:
    """Every worker's merged index. parts: int32[n], the vertices' workers."""
    n, snapshots = needed.n, len(needed.keys)
    union = np.unique(np.concatenate(needed.keys)) if snapshots else _NONE
    reader, vertex = union // n, union % n
    row = np.empty(n, dtype=np.int64)
    for rank in range(workers):
        mine = np.flatnonzero(parts == rank)
        row[mine] = np.arange(len(mine))
    # Both orders list (reader, owner, vertex) and (owner, reader, vertex); a pair's entries agree in both.
    by_reader = np.lexsort((vertex, parts[vertex], reader))
    by_owner = np.lexsort((vertex, reader, parts[vertex]))
    present = [np.searchsorted(union, keys) for keys in needed.keys]
    made = []
    for rank in range(workers):
        halo = by_reader[reader[by_reader] == rank]
        out = by_owner[parts[vertex[by_owner]] == rank]
        halo_bits, halo_weight = _bits(present, needed.weight, halo, len(union))
        out_bits, out_weight = _bits(present, needed.weight, out, len(union))
        made.append(
            MergedIndex(
                rank,
                int((parts == rank).sum()),
                vertex[halo],
                np.searchsorted(parts[vertex[halo]], np.arange(workers + 1)),
                halo_bits,
                halo_weight,
                row[vertex[out]],
                np.searchsorted(reader[out], np.arange(workers + 1)),
                out_bits,
                out_weight,
            )
        )
    return made


def _bits(
    present: list[Ids], weight: tuple[npt.NDArray[np.float32], ...], entries: Ids, total: int
) -> tuple[Bits, tuple[npt.NDArray[np.float32], ...]]:
    """Per snapshot: which `entries` (numbers of the union) are in it, as bits, and the weights of those."""
    bits = np.zeros((len(present), -(-len(entries) // 8)), dtype=np.uint8)
    weights, value = [], np.zeros(total, dtype=np.float32)
    for t, at in enumerate(present):
        here = np.zeros(total, dtype=bool)
        here[at] = True
        value[at] = weight[t]
        bits[t] = np.packbits(here[entries])
        weights.append(value[entries[here[entries]]])
    return bits, tuple(weights)
