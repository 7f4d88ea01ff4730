"""Moving rows along a route, differentiably: the one place where boundary rows and their gradients travel.

Forward, rows go to the workers that need them; backward, the gradients of those that were sent travel home
and are added up in a fixed order. Rows from the cache are constants: they have no gradient, so it does not
travel either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.counted import CountedWire
from workloads.training.dynamic.routes import Ids, Route


@dataclass
class Staleness:
    """Of the remote rows that a worker's windows used: how many came fresh, from the cache, or were missing;
    and of those from the cache how much older than the window they were, in windows of the time line
    (`distance`) and in windows trained since (`age`).
    """

    fresh: int = 0
    cached: int = 0
    missing: int = 0
    distance: int = 0
    distance_most: int = 0
    age: int = 0
    age_most: int = 0


@dataclass(frozen=True)
class CacheUse:
    """How a move uses the cache: the site's name, the window's number and time, and what to count."""

    cache: PositionCache
    site: str
    window: int
    time: int
    seen: Staleness


@dataclass(frozen=True)
class Trip:
    """How rows travel. kinds: of the bytes forward and backward; use: of the cache (None: exact)."""

    wire: CountedWire
    kinds: tuple[str, str]
    use: CacheUse | None = None


class Passage:
    """A route as tensors on a device."""

    def __init__(self, route: Route, device: torch.device) -> None:
        def put(rows: Ids) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64)).to(device)

        self.rows_in, self.rows_out = route.rows_in, route.rows_out
        self.local_from, self.local_to = put(route.local_from), put(route.local_to)
        self.send = [put(rows) for rows in route.send]
        self.receive = [put(rows) for rows in route.receive]
        self.counts_out = [len(rows) for rows in route.send]
        self.counts_in = [len(rows) for rows in route.receive]
        # Nothing moves between any two workers: routes of a window that does not communicate, or local ones.
        self.silent = not route.send
        self.numbers = put(np.concatenate(route.received)) if route.received else None
        self.at = put(np.concatenate(route.received_at)) if route.received_at else None
        self.cached, self.cached_at = put(route.cached), put(route.cached_at)
        self.cached_to = put(route.cached_to)


def move(rows: Tensor, passage: Passage, trip: Trip) -> Tensor:
    """float[rows_out, w] from float[rows_in, w]."""
    moved: Tensor = _Move.apply(rows, passage, trip)
    return moved


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, passage: Passage, trip: Trip) -> Tensor:
        ctx.passage, ctx.trip = passage, trip
        wire, use = trip.wire, trip.use
        out = rows.new_zeros(passage.rows_out, rows.shape[1])
        out[passage.local_to] = rows[passage.local_from]
        if not passage.silent:
            wire.kind = trip.kinds[0]
            outgoing = [rows[at] for at in passage.send]
            received = wire.exchange(outgoing, passage.counts_in, rows.shape[1], rows.dtype)
            for at, values in zip(passage.receive, received, strict=True):
                out[at] = values
        if use is not None:
            _through_cache(rows, passage, out, use)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        passage, grad, wire = ctx.passage, grads[0], ctx.trip.wire
        home = grad.new_zeros(passage.rows_in, grad.shape[1])
        home[passage.local_from] = grad[passage.local_to]
        if not passage.silent:
            wire.kind = ctx.trip.kinds[1]
            outgoing = [grad[at] for at in passage.receive]
            received = wire.exchange(outgoing, passage.counts_out, grad.shape[1], grad.dtype)
            for at, values in zip(passage.send, received, strict=True):
                home.index_add_(0, at, values)
        return home, None, None


def _through_cache(rows: Tensor, passage: Passage, out: Tensor, use: CacheUse) -> None:
    """Keep what came, fill in what did not, and count both."""
    seen = use.seen
    if passage.numbers is not None and passage.at is not None and len(passage.numbers):
        fresh = torch.cat([out[at] for at in passage.receive])
        use.cache.store(use.site, passage.at, passage.numbers, fresh, window=use.window, time=use.time)
        seen.fresh += len(fresh)
    if len(passage.cached):
        served = use.cache.serve(use.site, passage.cached_at, passage.cached, rows, window=use.window)
        out[passage.cached_to] = served.values
        found = served.window >= 0
        distance = use.window - served.window[found].long()
        age = use.time - served.time[found]
        seen.cached += len(age)
        seen.missing += len(found) - len(age)
        if len(age):
            seen.distance += int(distance.sum())
            seen.age += int(age.sum())
            seen.distance_most = max(seen.distance_most, int(distance.max()))
            seen.age_most = max(seen.age_most, int(age.max()))


def collect(rows: Tensor, counts: list[int], wire: CountedWire, kind: str) -> Tensor:
    """Every worker's rows on every worker, float[sum counts, w], by worker. counts[q]: of worker q; all know
    them.
    """
    collected: Tensor = _Collect.apply(rows, counts, wire, kind)
    return collected


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int], wire: CountedWire, kind: str) -> Tensor:
        ctx.counts, ctx.wire, ctx.kind = counts, wire, kind
        wire.kind = kind
        parts = wire.exchange([rows] * wire.workers, counts, rows.shape[1], rows.dtype)
        parts[wire.rank] = rows
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        counts, wire = ctx.counts, ctx.wire
        parts = list(grads[0].split(counts))
        mine = counts[wire.rank]
        wire.kind = ctx.kind
        sizes = [mine if q != wire.rank else 0 for q in range(wire.workers)]
        received = wire.exchange(
            [part if q != wire.rank else part[:0] for q, part in enumerate(parts)],
            sizes,
            grads[0].shape[1],
            grads[0].dtype,
        )
        total = torch.zeros_like(parts[wire.rank])
        for q, values in enumerate(received):
            total += parts[q] if q == wire.rank else values
        return total, None, None, None
