"""A port of the cluster: counts frames by kind both ways, and loses everything while its link is down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from emulator.cluster.faults import LinkFaults, Span
from emulator.host import Capture, EthDev, FaultEthDev, Faults, Mbufs
from emulator.host.wrapper import Wrapper
from emulator.wire import OFFSETS

NOT_BEGUN = 0
_KIND_AT = OFFSETS["agg"]


class Meter(Wrapper):
    """`inner` with counts in xstats: `tx_kind_3` and `rx_kind_3` are results sent and received.

    down: (sent, received) spans in ns after origin(), which is NOT_BEGUN until the first propagation.
    """

    def __init__(
        self,
        name: str,
        inner: EthDev,
        down: tuple[Sequence[Span], Sequence[Span]],
        origin: Callable[[], int],
        capture: Capture | None = None,
    ) -> None:
        super().__init__(name, inner)
        self.capture = capture
        self.down, self.origin = down, origin
        self.sent, self.received = np.zeros(256, np.int64), np.zeros(256, np.int64)
        self.lost = 0

    def _is_down(self, spans: Sequence[Span]) -> bool:
        origin = self.origin()
        now = time.monotonic_ns() - origin
        return origin != NOT_BEGUN and any(first <= now < last for first, last in spans)

    def tx_burst(self, mbufs: Mbufs) -> int:
        pool = self._pool()
        pool.native.tally(mbufs, _KIND_AT, self.sent)
        if self.down[0] and self._is_down(self.down[0]):
            self.lost += len(mbufs)
            pool.free(mbufs)
            return len(mbufs)
        sent = self.inner.tx_burst(mbufs)
        if sent < len(mbufs):
            rest = np.zeros(256, np.int64)
            pool.native.tally(mbufs[sent:], _KIND_AT, rest)
            self.sent -= rest
        return sent

    def rx_burst(self, count: int = 32) -> Mbufs:
        got = self.inner.rx_burst(count)
        if not len(got):
            return got
        if self.down[1] and self._is_down(self.down[1]):
            self.lost += len(got)
            self._pool().free(got)
            return got[:0]
        self._pool().native.tally(got, _KIND_AT, self.received)
        return got

    def xstats(self) -> dict[str, int]:
        if self.capture is not None:  # a switch is ended by a signal: what was asked for last is written out
            self.capture.flush()
        own = {"lost_while_down": self.lost}
        for way, counts in (("tx", self.sent), ("rx", self.received)):
            own |= {f"{way}_kind_{kind}": int(counts[kind]) for kind in np.flatnonzero(counts)}
        return {**self.inner.xstats(), **own}


def cluster_port(
    inner: EthDev,
    faults: tuple[LinkFaults, LinkFaults],
    seed: int,
    origin: Callable[[], int],
    capture: Path | None = None,
) -> Meter:
    """`inner` with the faults of (what it sends, what comes to it), captured to a file if asked for."""
    sent, received = faults
    captured = None
    if capture is not None:
        inner = captured = Capture(f"{inner.name}-capture", inner, _free(capture))
    if not (_plain(sent).none and _plain(received).none):
        inner = FaultEthDev(
            f"{inner.name}-fault", inner, tx=_as_host_faults(sent), rx=_as_host_faults(received), seed=seed
        )
    return Meter(inner.name, inner, (sent.down_ns, received.down_ns), origin, captured)


def _free(path: Path) -> Path:
    """A switch that was restarted goes on in another file."""
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}.{number}")
    return found


def _plain(faults: LinkFaults) -> LinkFaults:
    """Without the spans that Meter sees to."""
    return LinkFaults(
        faults.loss,
        faults.burst,
        faults.duplicate,
        faults.reorder,
        faults.corrupt,
        faults.delay_ns,
        faults.late_ns,
    )


def _as_host_faults(faults: LinkFaults) -> Faults:
    """The driver's form. Losses in bursts are Gilbert's model with the same share of losses."""
    loss, burst_start, burst_end = faults.loss, 0.0, 1.0
    if faults.burst > 1 and 0 < loss < 1:
        burst_end = 1 / faults.burst
        loss, burst_start = 0.0, min(1.0, faults.loss / ((1 - faults.loss) * faults.burst))
    return Faults(
        loss=loss, burst_start=burst_start, burst_end=burst_end, duplicate=faults.duplicate,
        reorder=faults.reorder, reorder_wait_ns=faults.late_ns, corrupt=faults.corrupt,
        delay_ns=faults.delay_ns,
    )  # fmt: skip
