"""When windows communicate and how much: interval k, windows s, share p; fixed, or moved by an adaptive
scheduler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.plan.dynamic import windows_of_an_epoch
from workloads.training.dynamic.options import DynamicOptions

WORSE = 1.005  # of the smoothed loss: more than this is "not falling"
SMOOTHING = 0.5
CHEAP = 0.05  # share of an epoch's time below which communication is not worth saving
MISSING = 0.1  # share of remote rows that the cache may not know


@dataclass(frozen=True)
class Knobs:
    """interval k: epochs between communicating ones; windows s: that communicate in one; share p: of their
    rows.
    """

    interval: int
    windows: int
    share: float


@dataclass(frozen=True)
class Observed:
    """One epoch: the mean training loss, seconds of communication (of the busiest worker), seconds of
    everything else, and of all remote rows used the shares that came fresh, from the cache, and not at all.
    """

    loss: float
    comm_s: float
    other_s: float
    fresh: float
    hits: float
    missing: float


class Schedule:
    """windows: of an epoch, W."""

    def __init__(self, options: DynamicOptions, windows: int) -> None:
        self._options, self._windows = options, windows
        asked = options.s if options.s >= 1 else math.ceil(options.s * windows)
        least = Knobs(options.k, min(int(asked) or windows, windows), options.p)
        self._ladder = ladder(least, windows) if options.adaptive else [least]
        self._level, self._smoothed = 0, float("nan")
        self._last_epoch = -(10**9)

    @property
    def knobs(self) -> Knobs:
        """What holds now."""
        return self._ladder[self._level]

    def communicating(self, epoch: int) -> frozenset[int]:
        """The windows of this epoch that communicate; to be asked once per epoch, in order."""
        knobs = self.knobs
        if epoch - self._last_epoch < knobs.interval:
            return frozenset()
        self._last_epoch = epoch
        chosen = windows_of_an_epoch(
            knobs.windows, self._windows, when=self._options.when, seed=self._options.seed, epoch=epoch
        )
        return frozenset(chosen)

    def observe(self, seen: Observed) -> str:
        """Take in an epoch; moves one step up or down the ladder, where there is one. Why, in a word."""
        before = self._smoothed
        first = np.isnan(before)
        self._smoothed = seen.loss if first else SMOOTHING * before + (1 - SMOOTHING) * seen.loss
        if len(self._ladder) == 1:
            return "fixed"
        if not first and self._smoothed > WORSE * before:
            why, step = "loss", -1
        elif seen.missing > MISSING:
            why, step = "missing", -1
        elif seen.comm_s < CHEAP * (seen.comm_s + seen.other_s):
            why, step = "cheap", 0
        else:
            why, step = "saving", 1
        self._level = min(max(self._level + step, 0), len(self._ladder) - 1)
        return why

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"level": self._level, "smoothed": self._smoothed, "last_epoch": self._last_epoch}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        self._level, self._smoothed = int(state["level"]), float(state["smoothed"])
        self._last_epoch = int(state["last_epoch"])


def ladder(least: Knobs, windows: int) -> list[Knobs]:
    """From full communication down to `least`: p is halved first, because rows that stay behind grow only a
    little older; then s; then k doubles.
    """
    steps = [Knobs(1, windows, 1.0)]
    while steps[-1] != least:
        now = steps[-1]
        if now.share > least.share:
            steps.append(Knobs(now.interval, now.windows, max(now.share / 2, least.share)))
        elif now.windows > least.windows:
            steps.append(Knobs(now.interval, max(now.windows // 2, least.windows), now.share))
        else:
            steps.append(Knobs(min(now.interval * 2, least.interval), now.windows, now.share))
    return steps
