"""A window as a model sees it on one worker: rows, sums, and moves between workers, exact or flexible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.adjacency import Block
from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.choose import Chooser, all_of, none_of
from workloads.training.dynamic.counted import CountedWire
from workloads.training.dynamic.exchange import CacheUse, Passage, Staleness, Trip, collect, move
from workloads.training.dynamic.local import Edges, LocalDynamic
from workloads.training.dynamic.routes import Route, join_routes

BOUNDARY = ("embeddings", "gradients")
STATES = ("states", "states")
FEATURES = ("features", "features")


class SnapshotBlock(Block):
    """One snapshot's edges as tensors. shape: rows and columns."""

    def __init__(self, edges: Edges, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__((edges.row, edges.col), edges.shape, {"gcn": edges.weight}, dtype, device)
        self.shape = edges.shape


@dataclass(frozen=True)
class WindowPlan:
    """How one window is trained. last: its last snapshot; number: among the epoch's windows; time: windows
    trained before it. communicates, share: whether rows are sent, and which share of them; exact systems send
    all.
    """

    last: int
    number: int = 0
    time: int = 0
    communicates: bool = True
    share: float = 1.0


@dataclass
class Flexible:
    """What SWASH keeps between windows: caches of boundary rows and summaries, choosers of rows and ends."""

    rows: PositionCache
    tops: PositionCache
    choose_rows: Chooser
    choose_ends: Chooser | None
    seen: Staleness


@dataclass(frozen=True, eq=False)
class Engine:
    """What all windows of a worker share. blocks, features, mixed: per snapshot; mixed is filled before
    training where features are exchanged once. flexible: None for exact systems.
    """

    local: LocalDynamic
    positions: int
    blocks: list[SnapshotBlock]
    features: list[Tensor]
    mixed: list[Tensor | None]
    device: torch.device
    flexible: Flexible | None = None


class SlidingWindow:
    """One window. wire: what moves count on; exact: send everything whatever the plan says (evaluation)."""

    def __init__(
        self, engine: Engine, plan: WindowPlan, wire: CountedWire, *, exact: bool, each: bool
    ) -> None:
        self.engine, self.plan, self.wire = engine, plan, wire
        self.positions = engine.positions
        self.first = plan.last - engine.positions + 1
        self._each = each
        self._flexible = None if exact else engine.flexible
        self._joined: dict[Any, Passage] = {}
        self._parts: dict[int, Route] = {}

    def features(self) -> list[Tensor]:
        """As `Window`."""
        return self.engine.features[self.first : self.plan.last + 1]

    def mixed_features(self, first: int = 0) -> list[Tensor]:
        """As `Window`."""
        snapshots = range(self.first + first, self.plan.last + 1)
        if self._each:
            return mix_features(self.engine, list(snapshots), self.wire)
        known = [self.engine.mixed[t] for t in snapshots]
        return [mixed for mixed in known if mixed is not None]

    def mix(self, rows: list[Tensor], site: str, first: int = 0, *, summed: bool = False) -> list[Tensor]:
        """As `Window`."""
        snapshots = range(self.first + first, self.first + first + len(rows))
        if self._flexible is None:
            name = "summed" if summed else "state"
            passage = self._passage((name, first, len(rows)), lambda: self._routes(snapshots, name))
            moved = move(torch.cat(rows), passage, Trip(self.wire, BOUNDARY))
        else:
            passage = self._passage(
                ("flexible", first, len(rows)), lambda: [self._chosen(t - self.first) for t in snapshots]
            )
            use = self._use(self._flexible.rows, site)
            moved = move(torch.cat(rows), passage, Trip(self.wire, BOUNDARY, use))
        return mix_rows(moved, [self.engine.blocks[t] for t in snapshots])

    def to_states(self, rows: list[Tensor], first: int = 0) -> list[Tensor]:
        """As `Window`."""
        if self.engine.local.index is not None:
            return rows
        snapshots = range(self.first + first, self.first + first + len(rows))
        routes = [self.engine.local.routes(t).over for t in snapshots]
        if routes[0] is None:
            return rows
        passage = self._passage(("over", first, len(rows)), lambda: [r for r in routes if r is not None])
        moved = move(torch.cat(rows), passage, Trip(self.wire, STATES))
        return list(moved.split([route.rows_out for route in routes if route is not None]))

    def carry(self, state: Tensor, position: int) -> Tensor:
        """As `Window`."""
        if self.engine.local.index is not None:
            return state
        route = self.engine.local.routes(self.first + position).carry
        if route is None:
            return state
        passage = self._passage(("carry", position), lambda: [route])
        return move(state, passage, Trip(self.wire, STATES))

    def ends(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows of the pairs' ends, from the last snapshot's output rows, and which of them are known, bool[]:
        all (None) unless only a share was sent. They are not cached: both workers of a pair learn at the same
        time, and each would follow where the other has been.
        """
        route = self.engine.local.routes(self.plan.last).decode
        assert route is not None
        known = None
        if self._flexible is not None and self._flexible.choose_ends is not None:
            route = self._part(self._flexible.choose_ends, route, 0)
            known = torch.ones(route.rows_out, dtype=torch.bool, device=self.engine.device)
            known[torch.from_numpy(route.cached_to).to(self.engine.device)] = False
        return move(rows, Passage(route, self.engine.device), Trip(self.wire, BOUNDARY)), known

    def top(self, rows: list[Tensor], scorer: Tensor, count: int, site: str) -> list[Tensor]:
        """As `Window`; a window that does not communicate takes the summaries of the one before."""
        flexible, plan = self._flexible, self.plan
        at = torch.arange(len(rows), device=self.engine.device)
        width = rows[0].shape[1]
        if flexible is not None and flexible.tops.sets and not plan.communicates:
            served = flexible.tops.serve(
                site, at, at * 0, rows[0].new_zeros(0, count * width), window=plan.number
            )
            return [values.reshape(count, width) for values in served.values]
        tops = _top_rows(self, rows, scorer, count)
        if flexible is not None:
            kept = torch.stack([top.detach().reshape(-1) for top in tops])
            flexible.tops.store(site, at, at * 0, kept, window=plan.number, time=plan.time)
        return tops

    def _use(self, cache: PositionCache, site: str) -> CacheUse:
        assert self._flexible is not None
        return CacheUse(cache, site, self.plan.number, self.plan.time, self._flexible.seen)

    def _passage(self, key: Any, routes: Callable[[], list[Route]]) -> Passage:
        found = self._joined.get(key)
        if found is None:
            found = self._joined[key] = Passage(join_routes(routes()), self.engine.device)
        return found

    def _routes(self, snapshots: range, name: str) -> list[Route]:
        made: list[Route] = [getattr(self.engine.local.routes(t), name) for t in snapshots]
        return made

    def _chosen(self, position: int) -> Route:
        """The flexible route of a position: chosen once per window, for all layers."""
        if position not in self._parts:
            assert self._flexible is not None
            route = self.engine.local.routes(self.first + position).state
            self._parts[position] = self._part(self._flexible.choose_rows, route, position)
        return self._parts[position]

    def _part(self, chooser: Chooser, route: Route, position: int) -> Route:
        plan = self.plan
        if not plan.communicates:
            return none_of(route, position)
        return chooser.part(route, position, plan.share, plan.time)


def mix_features(engine: Engine, snapshots: list[int], wire: CountedWire) -> list[Tensor]:
    """The features' weighted sums in some snapshots; the boundary's features are exchanged."""
    routes = [all_of(engine.local.routes(t).inputs, 0) for t in snapshots]
    passage = Passage(join_routes(routes), engine.device)
    moved = move(torch.cat([engine.features[t] for t in snapshots]), passage, Trip(wire, FEATURES))
    return mix_rows(moved, [engine.blocks[t] for t in snapshots])


def mix_rows(rows: Tensor, blocks: list[SnapshotBlock]) -> list[Tensor]:
    """Each snapshot's weighted sums of its rows, which lie one snapshot after the other."""
    sums: Tensor = _Mix.apply(rows, blocks)
    return list(sums.split([block.shape[0] for block in blocks]))


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, blocks: list[SnapshotBlock]) -> Tensor:
        ctx.blocks = blocks
        parts = rows.split([block.shape[1] for block in blocks])
        return torch.cat([b.sum_rows(part, b.weights["gcn"]) for b, part in zip(blocks, parts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        parts = grads[0].contiguous().split([block.shape[0] for block in ctx.blocks])
        pairs = zip(ctx.blocks, parts, strict=True)
        return torch.cat([b.sum_columns(part, b.weights["gcn"]) for b, part in pairs]), None


def _top_rows(window: SlidingWindow, rows: list[Tensor], scorer: Tensor, count: int) -> list[Tensor]:
    """EvolveGCN-H's summary over all workers. Every worker offers its best `count` rows (scores and ids); all
    choose the same best of those, equal scores by ascending id; the owners send the chosen rows.

    A score is a product per row, summed over its columns, so that it does not depend on which rows lie beside
    it.
    """
    engine, wire = window.engine, window.wire
    local, length = engine.local, scorer.norm()
    offers = np.full((len(rows), count, 2), np.inf)
    scores, places = [], []
    for position, part in enumerate(rows):
        t = window.first + position
        owned = torch.from_numpy(local.owned[t]).to(engine.device)
        score = (part[owned] * scorer).sum(1) / length
        ids = local.ids[t][local.owned[t]]
        negative = -score.detach().double().cpu().numpy()
        best = np.lexsort((ids, negative))[:count]
        offers[position, : len(best), 0], offers[position, : len(best), 1] = negative[best], ids[best]
        scores.append(score)
        places.append((owned, best))
    wire.kind = "topk"
    mine = torch.from_numpy(offers.reshape(-1))
    everyone = wire.exchange([mine] * wire.workers, [mine.numel()] * wire.workers, 1, torch.float64)
    everyone[wire.rank] = mine
    all_offers = np.stack([part.numpy().reshape(offers.shape) for part in everyone])
    sending, counts, order = [], [0] * wire.workers, []
    for position in range(len(rows)):
        negative, ids = (all_offers[:, position, :, column].reshape(-1) for column in range(2))
        chosen = np.lexsort((ids, negative))[:count]
        order.append(chosen)
        owned, best = places[position]
        taken = torch.from_numpy(best[: int((chosen // count == wire.rank).sum())]).to(engine.device)
        score = scores[position][taken]
        sending.append(rows[position][owned[taken]] * torch.tanh(score)[:, None])
        for worker in chosen // count:
            counts[worker] += 1
    gathered = collect(torch.cat(sending), counts, wire, "topk")
    return _in_order(gathered, order, counts, count, wire.workers)


def _in_order(
    gathered: Tensor, order: list[np.ndarray[Any, Any]], counts: list[int], count: int, workers: int
) -> list[Tensor]:
    """Per position the chosen rows, best first. gathered: by worker, then position, then rank in the worker's
    offer; order[i]: int64[count], places (worker * count + rank) of the chosen.
    """
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    tops = []
    for chosen in order:
        workers_of, rank = chosen // count, chosen % count
        where = torch.from_numpy(starts[workers_of] + rank).to(gathered.device)
        tops.append(gathered[where])
        starts = starts + np.bincount(workers_of, minlength=workers)
    return tops
