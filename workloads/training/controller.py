"""SYLVIE's epoch-level feedback: the Coordinator's LDR, the base bit width and the execution mode.

F_t = lambda F_(t-1) + (1 - lambda) L_t, and the loss descent rate LDR_t = (F_(t-1) - F_t) / et_t. The seed's
formula writes (F_t - F_(t-1)) / et_t, but its rules ("not worse: halve the width; worse: double it and
refresh") only hold if a larger LDR is the faster descent, so the sign here makes it one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

LOWEST_BITS, HIGHEST_BITS = 1, 8


@dataclass
class Controller:
    """State after each epoch: base (bits) and synchronous are for the next one.

    smoothing: lambda; gap: delta, how many epochs back LDR is compared. The first epoch is synchronous.
    warmup: nothing is decided before so many epochs are over. F starts at the first loss and lags ever more
    behind L, so that at first LDR rises, for 10 to 20 epochs at lambda 0.9, where the descent only slows.
    """

    smoothing: float
    gap: int
    warmup: int = 0
    base: int = LOWEST_BITS
    synchronous: bool = True
    smoothed: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def observe(self, loss: float, epoch_s: float) -> None:
        """Take in epoch t's mean loss and duration in seconds, and decide on epoch t+1.

        LDR_0 has no epoch before it and is 0; it is never compared, because comparing needs t > delta.
        """
        previous = self.smoothed[-1] if self.smoothed else loss
        smooth = self.smoothing * previous + (1 - self.smoothing) * loss
        self.smoothed.append(smooth)
        self.rates.append((previous - smooth) / epoch_s)
        epoch = len(self.rates) - 1
        if epoch <= max(self.gap, self.warmup):
            return
        if self.rates[epoch] < self.rates[epoch - self.gap]:
            self.base = min(2 * self.base, HIGHEST_BITS)
            self.synchronous = True
        else:
            self.base = max(self.base // 2, LOWEST_BITS)
            self.synchronous = False

    def state(self) -> dict[str, Any]:
        """Everything that the next decisions depend on."""
        return asdict(self)
