"""Which boundary rows a communicating window sends: a share p of every snapshot's, the most important first.

Sender and receiver decide alike, from what both know: the rows' weights in the receiver's sums and when each
was sent last. So the choice itself costs no bytes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from workloads.training.dynamic.routes import Ids, MergedIndex, Route

_NONE = np.zeros(0, dtype=np.int64)


class Chooser:
    """One worker's choices for one merged index. sets: of the cache, whose rows have an age each; how:
    "importance" (weight times age; rows that a set has never had go first), "weight" or "random".
    """

    def __init__(self, index: MergedIndex, sets: int, positions: int, how: str, seed: int) -> None:
        self._index, self._how, self._seed = index, how, seed
        shape = (max(1, sets), positions)
        self._sent = np.full((*shape, len(index.out)), -1, dtype=np.int64)
        self._received = np.full((*shape, len(index.halo)), -1, dtype=np.int64)

    def part(self, route: Route, position: int, share: float, which: int, time: int) -> Route:
        """The route of one position with the chosen rows only; the others are for the cache. which: the set
        that is written; time: of this window.
        """
        send, received, receive, left, left_to = [], [], [], [], []
        here = self._index.rank
        for q in range(len(route.send)):
            seed = [self._seed, time, position, here, q]
            last = self._sent[which, position]
            chosen = self._chosen(route.sent_weight[q], last[route.sent[q]], share, time, seed)
            send.append(route.send[q][chosen])
            last[route.sent[q][chosen]] = time
            seed = [self._seed, time, position, q, here]
            last = self._received[which, position]
            chosen = self._chosen(route.received_weight[q], last[route.received[q]], share, time, seed)
            receive.append(route.receive[q][chosen])
            received.append(route.received[q][chosen])
            last[route.received[q][chosen]] = time
            rest = np.ones(len(route.received[q]), dtype=bool)
            rest[chosen] = False
            left.append(route.received[q][rest])
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

    def _chosen(
        self, weight: npt.NDArray[np.float32], last: Ids, share: float, time: int, seed: list[int]
    ) -> Ids:
        """Ascending places of the chosen rows."""
        if share >= 1:
            return np.arange(len(weight))
        count = math.ceil(share * len(weight))
        if self._how == "random":
            order = np.random.default_rng(seed).permutation(len(weight))
        elif self._how == "weight":
            order = np.argsort(-weight, kind="stable")
        else:
            value = weight.astype(np.float64) * np.where(last < 0, 1, time - last)
            order = np.lexsort((-value, last >= 0))
        return np.sort(order[:count])

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
