"""Which boundary rows a communicating window sends: a share p of every snapshot's, the most important first.

Sender and receiver decide alike, from what both know: the rows' weights in the receiver's sums and when each
was sent last. So the choice itself costs no bytes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.routes import Ids, MergedIndex, Route, Weights

_NONE = np.zeros(0, dtype=np.int64)


class Chooser:
    """One worker's choices for one merged index. cache: whose sets they are for; windows: of an epoch; how:
    "importance" (rows that the cache does not know go first, then weight times age), "weight" or "random".
    """

    def __init__(self, index: MergedIndex, cache: PositionCache, windows: int, how: str, seed: int) -> None:
        self._index, self._cache, self._how, self._seed = index, cache, how, seed
        self._windows = windows
        shape = (max(1, cache.sets), cache.positions)
        self._sent = np.full((*shape, len(index.out)), -1, dtype=np.int64)
        self._received = np.full((*shape, len(index.halo)), -1, dtype=np.int64)

    def part(self, route: Route, position: int, share: float, time: int) -> Route:
        """The route of one position with the chosen rows only; the others are for the cache. time: of this
        window.
        """
        send, received, receive, left, left_to = [], [], [], [], []
        here = self._index.rank
        for q in range(len(route.send)):
            pair = [self._seed, time, position, here, q]
            chosen = self._chosen(self._sent[:, position], route.sent[q], route.sent_weight[q], share, pair)
            send.append(route.send[q][chosen])
            pair = [self._seed, time, position, q, here]
            numbers = route.received[q]
            chosen = self._chosen(self._received[:, position], numbers, route.received_weight[q], share, pair)
            receive.append(route.receive[q][chosen])
            received.append(numbers[chosen])
            rest = np.ones(len(numbers), dtype=bool)
            rest[chosen] = False
            left.append(numbers[rest])
            left_to.append(route.receive[q][rest])
        return replace(
            route,
            send=tuple(send),
            receive=tuple(receive),
            received=tuple(received),
            received_at=tuple(np.full(len(rows), position) for rows in received),
            cached=np.concatenate(left),
            cached_at=np.full(sum(map(len, left)), position),
            cached_to=np.concatenate(left_to),
        )

    def _chosen(self, times: Ids, numbers: Ids, weight: Weights, share: float, pair: list[int]) -> Ids:
        """Ascending places of the chosen rows, which are noted as sent. times: int64[sets, .], when each row
        was sent; pair: seed, time and pair of workers.
        """
        time = pair[1]
        which = self._cache.set_of(time % self._windows)
        if share >= 1:
            times[which, numbers] = time
            return np.arange(len(weight))
        count = math.ceil(share * len(weight))
        if self._how == "random":
            order = np.random.default_rng(pair).permutation(len(weight))
        elif self._how == "weight":
            order = np.argsort(-weight, kind="stable")
        else:
            last = self._last(times, numbers, which, time % self._windows)
            value = weight.astype(np.float64) * np.where(last < 0, 1, time - last)
            order = np.lexsort((-value, last >= 0))
        chosen = np.sort(order[:count])
        times[which, numbers[chosen]] = time
        return chosen

    def _last(self, times: Ids, numbers: Ids, which: int, window: int) -> Ids:
        """When the rows that `PositionCache.serve` would give were sent, -1 where it has none."""
        last = np.full(len(numbers), -1, dtype=np.int64)
        for run in range(which, -1, -1):
            open_rows = np.flatnonzero(last < 0)
            found = times[run, numbers[open_rows]]
            good = (found >= 0) & (found % self._windows <= window)
            last[open_rows[good]] = found[good]
        return last

    @property
    def held_bytes(self) -> int:
        """What the ages take."""
        return self._sent.nbytes + self._received.nbytes

    def state(self) -> list[npt.NDArray[np.int64]]:
        """For a checkpoint: when each row was sent, and when received."""
        return [self._sent, self._received]

    def restore(self, state: list[npt.NDArray[np.int64]]) -> None:
        """Take up what `state` returned."""
        self._sent, self._received = (part.copy() for part in state)


def all_of(route: Route, position: int) -> Route:
    """Every row is sent; for exact systems, and windows that send everything."""
    return replace(route, received_at=tuple(np.full(len(rows), position) for rows in route.received))


def none_of(route: Route, position: int) -> Route:
    """Nothing is sent: a window that does not communicate takes every remote row from the cache."""
    cached = np.concatenate(route.received) if route.received else _NONE
    empty = tuple(_NONE for _ in route.send)
    return replace(
        route,
        send=empty,
        receive=empty,
        received=empty,
        received_at=empty,
        cached=cached,
        cached_at=np.full(len(cached), position),
        cached_to=np.concatenate(route.receive) if route.receive else _NONE,
    )
