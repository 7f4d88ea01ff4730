"""The auto tuner: the reformation threshold beta follows the loss descent rate.

LDR is the share of the smoothed loss that an epoch takes away, over the epoch's time. While it is above 0 and
no lower than `gap` epochs before, the descent is steady and beta takes a step up its ladder (more clusters
reformed, faster epochs); when it is lower, a step down (more of the true layout). A share, because the
descent itself shrinks with the loss from the first epochs on, however well training goes: by it beta would be
back at 0 after a quarter of the run. Table VIII's fixed thresholds are steps of the same ladder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LADDER = (0.0, 1.0, 1.5, 5.0, 7.0, 10.0)
"""Multiples of the graph's density beta_G."""
START = 1
"""Training starts at beta_G, the careful setting of table VIII."""


@dataclass
class Tuner:
    """fixed: a multiple of beta_G that never moves, or None to follow the loss. step: the ladder's step of
    the next epoch.
    """

    fixed: float | None = None
    smoothing: float = 0.9
    gap: int = 5
    step: int = START
    smoothed: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @property
    def multiple(self) -> float:
        """beta of the next epoch, as a multiple of beta_G."""
        return LADDER[self.step] if self.fixed is None else self.fixed

    def observe(self, loss: float, epoch_s: float) -> float:
        """Take in an epoch's loss and time, decide on the next; returns the loss descent rate."""
        previous = self.smoothed[-1] if self.smoothed else loss
        smooth = self.smoothing * previous + (1 - self.smoothing) * loss
        self.smoothed.append(smooth)
        self.rates.append((previous - smooth) / previous / epoch_s if previous else 0.0)
        if len(self.rates) > self.gap + 1:
            rate = self.rates[-1]
            faster = rate > 0 and rate >= self.rates[-1 - self.gap]
            self.step = min(self.step + 1, len(LADDER) - 1) if faster else max(self.step - 1, 0)
        return self.rates[-1]

    def state(self) -> dict[str, Any]:
        """What the next decisions depend on."""
        return {"step": self.step, "smoothed": self.smoothed, "rates": self.rates}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        self.step, self.smoothed, self.rates = state["step"], state["smoothed"], state["rates"]
