"""DCQCN (Zhu et al., SIGCOMM 2015): the sender's rate (reaction point) and the receiver's notices.

The reaction point is that of sim/native/dcqcn.h: timers are replayed when the flow sends or is cut, which
gives the same rates without timers. An upload flow has as many receivers as there are owners, so it is cut
at most once per CNP interval.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class DcqcnConfig:
    """Parameters of the paper's section 5. Defaults: for 100 Gb/s, with their sources in sim/scenario.py."""

    line_bps: float = 100e9
    g: float = 1 / 256
    alpha_timer_ns: int = 55_000
    increase_timer_ns: int = 55_000
    byte_counter_bytes: int = 10_000_000
    fast_recovery_rounds: int = 5
    rai_bps: float = 20e6
    rhai_bps: float = 200e6
    min_rate_bps: float = 100e6
    cnp_interval_ns: int = 50_000


@dataclass
class ReactionPoint:
    """One flow's rate. Not `limited`, it sends as fast as the link takes it."""

    config: DcqcnConfig
    limited: bool = False
    rate_bps: float = 0.0
    target_bps: float = 0.0
    alpha: float = 1.0
    last_cut_ns: int | None = None
    alpha_at_ns: int = 0
    increase_at_ns: int = 0
    sent_bytes: int = 0
    timer_rounds: int = 0
    byte_rounds: int = 0

    def notified(self, now_ns: int) -> None:
        """A CNP arrived: cut the rate (equations 1 and 2)."""
        config = self.config
        if self.last_cut_ns is not None and now_ns - self.last_cut_ns < config.cnp_interval_ns:
            return
        self.last_cut_ns = now_ns
        if self.limited:
            self.advance(now_ns)
        else:
            self.rate_bps, self.alpha = config.line_bps, 1.0
        self.limited = True
        self.target_bps = self.rate_bps
        self.rate_bps = max(config.min_rate_bps, self.rate_bps * (1 - self.alpha / 2))
        self.alpha = (1 - config.g) * self.alpha + config.g
        self.alpha_at_ns = self.increase_at_ns = now_ns
        self.timer_rounds = self.byte_rounds = self.sent_bytes = 0

    def advance(self, now_ns: int) -> None:
        """Replay the timers up to now."""
        config = self.config
        rounds = (now_ns - self.alpha_at_ns) // config.alpha_timer_ns
        if rounds > 0:
            self.alpha *= (1 - config.g) ** rounds
            self.alpha_at_ns += rounds * config.alpha_timer_ns
        while self.limited and now_ns - self.increase_at_ns >= config.increase_timer_ns:
            self.increase_at_ns += config.increase_timer_ns
            self.timer_rounds += 1
            self._increase()

    def sent(self, count: int) -> None:
        """`count` bytes left."""
        if not self.limited:
            return
        self.sent_bytes += count
        while self.limited and self.sent_bytes >= self.config.byte_counter_bytes:
            self.sent_bytes -= self.config.byte_counter_bytes
            self.byte_rounds += 1
            self._increase()

    def _increase(self) -> None:
        """Fast recovery, additive and hyper increase (equations 3 and 4)."""
        config = self.config
        most = max(self.timer_rounds, self.byte_rounds)
        least = min(self.timer_rounds, self.byte_rounds)
        if most >= config.fast_recovery_rounds:
            over = least - config.fast_recovery_rounds
            self.target_bps += config.rhai_bps * over if over > 0 else config.rai_bps
            self.target_bps = min(self.target_bps, config.line_bps)
        self.rate_bps = (self.target_bps + self.rate_bps) / 2
        if self.rate_bps >= 0.999 * config.line_bps:
            self.limited = False


@dataclass
class NotificationPoint:
    """Whom a receiver tells about congestion: each sender at most once per interval."""

    workers: int
    interval_ns: int
    last_ns: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.last_ns = np.full(self.workers, np.iinfo(np.int64).min // 2, np.int64)

    def marked(self, senders: npt.NDArray[np.integer], now_ns: int) -> npt.NDArray[np.int64]:
        """The workers to send a CNP to, given the senders of frames that came marked."""
        who = np.unique(senders[senders < self.workers]).astype(np.int64)
        due = who[now_ns - self.last_ns[who] >= self.interval_ns]
        self.last_ns[due] = now_ns
        return due
