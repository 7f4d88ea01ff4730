"""The retransmission timeout from measured round-trip times, as RFC 6298 has it."""

from __future__ import annotations

from dataclasses import dataclass

INITIAL_NS = 1_000_000_000  # RFC 6298, 2.1: one second until the first measurement
CLOCK_NS = 1_000  # the clock's granularity G


@dataclass
class RttEstimator:
    """SRTT, RTTVAR and the timeout in nanoseconds. Retransmitted exchanges must not be measured (Karn).

    ``least_ns``: lower bound in place of RFC 6298's second (2.4), which suits no data centre.
    """

    least_ns: int
    most_ns: int
    srtt_ns: float = 0.0
    rttvar_ns: float = 0.0
    samples: int = 0
    backoff: int = 0

    def measured(self, rtt_ns: int) -> None:
        """A round trip was seen: the rules 2.2 and 2.3, and an end of the backing off."""
        if self.samples == 0:
            self.srtt_ns, self.rttvar_ns = float(rtt_ns), rtt_ns / 2
        else:
            self.rttvar_ns += (abs(self.srtt_ns - rtt_ns) - self.rttvar_ns) / 4
            self.srtt_ns += (rtt_ns - self.srtt_ns) / 8
        self.samples += 1
        self.backoff = 0

    def timed_out(self) -> None:
        """Nothing came: the next timeout is twice as long (5.5)."""
        if self.timeout_ns < self.most_ns:
            self.backoff += 1

    def progressed(self) -> None:
        """Something came, if not a measurement: waiting starts from the measured timeout again."""
        self.backoff = 0

    @property
    def timeout_ns(self) -> int:
        """How long to wait now."""
        if self.samples == 0:
            base = min(INITIAL_NS, self.most_ns)
        else:
            base = int(self.srtt_ns + max(CLOCK_NS, 4 * self.rttvar_ns))
        return min(max(base, self.least_ns) << self.backoff, self.most_ns)
