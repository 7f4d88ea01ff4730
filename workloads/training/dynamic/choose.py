"""Which boundary rows a communicating window sends: a share p of every snapshot's, the most important first.

Sender and receiver decide alike, by `workloads.plan.dynamic` and from what both know: the rows' weights in
the receiver's sums and when each was sent last. So the choice itself costs no bytes, and is the plan's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.plan.dynamic import SentTimes
from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.routes import MergedIndex, Route

_NONE = np.zeros(0, dtype=np.int64)


class Chooser:
    """One worker's choices for one merged index. cache: whose sets they are for; windows: of an epoch; how:
    "importance" (rows that the cache does not know go first, then weight times age), "weight" or "random".
    """

    def __init__(self, index: MergedIndex, cache: PositionCache, windows: int, how: str, seed: int) -> None:
        self._index, self._how, self._seed = index, how, seed
        self._sent = SentTimes(cache.sets, windows, cache.positions, len(index.out))
        self._received = SentTimes(cache.sets, windows, cache.positions, len(index.halo))

    def part(self, route: Route, position: int, share: float, time: int) -> Route:
        """The route of one position with the chosen rows only; the others are for the cache. time: of this
        window.
        """
        send, received, receive, left, left_to = [], [], [], [], []
        here = self._index.rank
        for q in range(len(route.send)):
            asked: dict[str, Any] = {"position": position, "time": time, "share": share, "how": self._how}
            pair = [self._seed, time, position, here, q]
            chosen = self._sent.choose(route.sent[q], route.sent_weight[q], seed=pair, **asked)
            send.append(route.send[q][chosen])
            pair = [self._seed, time, position, q, here]
            numbers = route.received[q]
            chosen = self._received.choose(numbers, route.received_weight[q], seed=pair, **asked)
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

    @property
    def held_bytes(self) -> int:
        """What the ages take."""
        return self._sent.times.nbytes + self._received.times.nbytes

    def state(self) -> list[npt.NDArray[np.int64]]:
        """For a checkpoint: when each row was sent, and when received."""
        return [self._sent.times, self._received.times]

    def restore(self, state: list[npt.NDArray[np.int64]]) -> None:
        """Take up what `state` returned."""
        self._sent.times, self._received.times = (part.copy() for part in state)


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
