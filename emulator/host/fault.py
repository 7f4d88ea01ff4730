"""net_fault: a port around another whose link loses, repeats, reorders, damages or delays packets, or is
down.

Each direction has its own `Faults` and its own random numbers. Every packet takes the same number of them,
so what happens to the n-th packet depends on the seed and n alone, not on how packets fall into bursts.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np

from emulator import _host
from emulator.host.ethdev import BURST, EthDev, Link
from emulator.host.mempool import NONE, Mbufs, Mempool
from emulator.host.wrapper import Wrapper
from workloads.errors import InputError

_MOST_HELD = 4096  # packets; beyond, the sender is told that the link is full


@dataclass(frozen=True)
class Faults:
    """What happens to the packets of one direction. Probabilities are for each packet.

    ``burst_start`` and ``burst_end``: Gilbert's model, the probabilities to enter and to leave a state in
    which everything is lost: bursts of 1/burst_end packets on average. ``reorder``: the packet lets 1 to
    ``reorder_depth`` later ones pass (and waits ``reorder_wait_ns`` for them at most). ``corrupt``: 1 to 3
    bits flip; the receiver's frame check drops what it notices, which is all of it (CRC-32 finds up to 3
    flipped bits in frames this short); with ``frame_check`` off, as if the bits flipped inside a switch,
    the damaged frame arrives. ``down``: (from, until) in ns after `start`; what is sent then is lost.
    """

    loss: float = 0.0
    burst_start: float = 0.0
    burst_end: float = 1.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_depth: int = 4
    reorder_wait_ns: int = 1_000_000
    corrupt: float = 0.0
    frame_check: bool = True
    delay_ns: int = 0
    down: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("loss", "burst_start", "burst_end", "duplicate", "reorder", "corrupt"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"fault {name}: {getattr(self, name)}, allowed 0 to 1")
        if self.burst_start > 0 and self.burst_end == 0:
            raise InputError("fault burst_end: 0, above 0 is allowed, or the burst never ends")
        for name, least in (("reorder_depth", 1), ("reorder_wait_ns", 0), ("delay_ns", 0)):
            if getattr(self, name) < least:
                raise InputError(f"fault {name}: {getattr(self, name)}, allowed {least} or more")
        for start, end in self.down:
            if not 0 <= start < end:
                raise InputError(f"fault down: {start} to {end} ns, allowed 0 <= from < until")

    @staticmethod
    def parse(given: Mapping[str, str]) -> Faults:
        """From texts as in `--vdev net_fault0,...`; down is FROM-UNTIL in ns. Raises InputError."""
        kinds: dict[str, type] = {f.name: type(f.default) for f in fields(Faults)}
        values: dict[str, float | int | bool | tuple[tuple[int, int], ...]] = {}
        for name, text in given.items():
            if name not in kinds:
                raise InputError(f"fault {name}: unknown, allowed {', '.join(kinds)}")
            try:
                if name == "down":
                    start, _, end = text.partition("-")
                    values[name] = ((int(start), int(end)),)
                elif kinds[name] is bool:
                    values[name] = {"0": False, "1": True}[text]
                else:
                    values[name] = kinds[name](text)
            except (ValueError, KeyError):
                allowed = (
                    "FROM-UNTIL in ns" if name == "down" else "0 or 1" if kinds[name] is bool else "a number"
                )
                raise InputError(f"fault {name}: {text!r}, allowed {allowed}") from None
        return Faults(**values)  # type: ignore[arg-type]  # each was made with its field's own type


class _Direction:
    """One direction's faults, random numbers, counters and packets held back."""

    def __init__(self, faults: Faults, seed: int, clock: Callable[[], int]) -> None:
        self.faults = faults
        self.clock = clock
        self.random = np.random.default_rng(seed)
        self.counts = dict.fromkeys(
            (
                "lost",
                "burst_lost",
                "duplicated",
                "reordered",
                "corrupted",
                "crc_errors",
                "delayed",
                "down_lost",
            ),
            0,
        )
        self.in_burst = False
        self.passed = 0  # packets so far that were not lost
        # Held packets: buffer; after which packet it goes (they leave in this order); from when; at the
        # latest when.
        self.mbufs, self.after = NONE, np.empty(0)
        self.due_ns, self.latest_ns = np.empty(0, np.int64), np.empty(0, np.int64)

    def put(self, pool: Mempool, mbufs: Mbufs, *, down: bool) -> None:
        """Packets enter the link."""
        faults, count, now = self.faults, len(mbufs), self.clock()
        if not count:
            return
        draws = self.random.random((count, 8))
        lost = self._bursts(draws[:, 0])
        self.counts["burst_lost"] += int(lost.sum())
        by_chance = ~lost & (draws[:, 1] < faults.loss)
        self.counts["lost"] += int(by_chance.sum())
        lost |= by_chance
        if down:
            self.counts["down_lost"] += int((~lost).sum())
            lost[:] = True
        for i in np.flatnonzero(~lost & (draws[:, 2] < faults.corrupt)):
            lost[i] = self._damage(pool, mbufs[i : i + 1], draws[i, 6:8])
        if lost.any():
            pool.free(mbufs[lost])
            mbufs, draws = mbufs[~lost], draws[~lost]
        after = self.passed + np.arange(1, len(mbufs) + 1, dtype=float)
        self.passed += len(mbufs)
        due = np.full(len(mbufs), now + faults.delay_ns, np.int64)
        latest = due.copy()
        self.counts["delayed"] += len(mbufs) if faults.delay_ns else 0
        behind = draws[:, 3] < faults.reorder
        self.counts["reordered"] += int(behind.sum())
        after[behind] += np.floor(draws[behind, 4] * faults.reorder_depth) + 1.5
        latest[behind] += faults.reorder_wait_ns
        twice = np.flatnonzero(draws[:, 5] < faults.duplicate)
        copies = pool.unpack(*pool.pack(mbufs[twice]))  # none if the pool is empty
        twice = twice[: len(copies)]
        self.counts["duplicated"] += len(copies)
        # Each copy right behind its packet, however many came at once: equal places in line go by this order.
        which = np.concatenate([np.arange(len(mbufs)), twice])
        order = np.argsort(which, kind="stable")
        which = which[order]
        self.mbufs = np.concatenate([self.mbufs, np.concatenate([mbufs, copies])[order]])
        self.after = np.concatenate([self.after, after[which]])
        self.due_ns = np.concatenate([self.due_ns, due[which]])
        self.latest_ns = np.concatenate([self.latest_ns, latest[which]])

    def _bursts(self, draws: np.ndarray) -> np.ndarray:
        """bool[n]: lost because the link is in its bad state."""
        lost = np.zeros(len(draws), bool)
        if self.faults.burst_start > 0:
            for i, draw in enumerate(draws.tolist()):
                self.in_burst = (
                    draw >= self.faults.burst_end if self.in_burst else draw < self.faults.burst_start
                )
                lost[i] = self.in_burst
        return lost

    def _damage(self, pool: Mempool, mbuf: Mbufs, draws: np.ndarray) -> bool:
        """Flip bits of a frame. True: the frame check notices, so it is dropped."""
        self.counts["corrupted"] += 1
        data, ends = pool.pack(mbuf)
        before = zlib.crc32(data.tobytes())
        flips = np.random.default_rng(int(draws[1] * 2**53))
        bits = flips.choice(len(data) * 8, size=1 + int(draws[0] * 3), replace=False)
        for bit in bits.tolist():
            data[bit // 8] ^= 0x80 >> bit % 8
        if self.faults.frame_check and zlib.crc32(data.tobytes()) != before:
            self.counts["crc_errors"] += 1
            return True
        pool.native.unpack(mbuf, data, ends)
        return False

    def take(self, count: int) -> Mbufs:
        """Up to `count` packets that leave the link now, in their order."""
        if not len(self.mbufs):
            return NONE
        now = self.clock()
        ready = (self.due_ns <= now) & ((self.after <= self.passed) | (self.latest_ns <= now))
        if not ready.any():
            return NONE
        chosen = np.flatnonzero(ready)
        chosen = chosen[np.argsort(self.after[chosen], kind="stable")][:count]
        taken = self.mbufs[chosen]
        left = np.ones(len(self.mbufs), bool)
        left[chosen] = False
        self._keep(left)
        return taken

    def put_back(self, mbufs: Mbufs) -> None:
        """What `take` gave and could not go: it stays at the front."""
        self.mbufs = np.concatenate([mbufs, self.mbufs])
        self.after = np.concatenate([np.full(len(mbufs), -1.0), self.after])
        zeros = np.zeros(len(mbufs), np.int64)
        self.due_ns = np.concatenate([zeros, self.due_ns])
        self.latest_ns = np.concatenate([zeros, self.latest_ns])

    def drop_all(self, pool: Mempool) -> None:
        pool.free(self.mbufs)
        self._keep(np.zeros(len(self.mbufs), bool))

    def _keep(self, which: np.ndarray) -> None:
        self.mbufs, self.after = self.mbufs[which], self.after[which]
        self.due_ns, self.latest_ns = self.due_ns[which], self.latest_ns[which]

    def next_ns(self) -> int | None:
        """When the next held packet leaves at the latest; None if none is held."""
        if not len(self.mbufs):
            return None
        when = np.where(self.after <= self.passed, self.due_ns, self.latest_ns)
        return int(when.min())


class FaultEthDev(Wrapper):
    """``tx``, ``rx``: the faults of what this side sends and of what comes to it. Seeded: same seed, same
    faults.

    `clock` gives monotonic ns. `set_down` takes the link down and up by hand. Counters: `tx_fault_lost`,
    `rx_fault_crc_errors` and so on in `xstats`, beside the inner port's.
    """

    def __init__(
        self,
        name: str,
        inner: EthDev,
        *,
        tx: Faults | None = None,
        rx: Faults | None = None,
        seed: int = 1,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(name, inner)
        self.clock = clock
        a, b = np.random.SeedSequence(seed).generate_state(2)
        self.directions = {
            "tx": _Direction(tx or Faults(), int(a), clock),
            "rx": _Direction(rx or Faults(), int(b), clock),
        }
        self._start_ns = 0
        self._by_hand = False

    def start(self) -> None:
        super().start()
        self._start_ns = self.clock()

    def stop(self) -> None:
        if self.started:
            for direction in self.directions.values():
                direction.drop_all(self._pool())
        super().stop()

    def set_down(self, down: bool) -> None:
        """The link goes down (True) or up again: both directions lose everything meanwhile."""
        self._by_hand = down

    def _is_down(self, direction: _Direction) -> bool:
        now = self.clock() - self._start_ns
        return self._by_hand or any(start <= now < end for start, end in direction.faults.down)

    def _flush(self) -> None:
        """Send what the outgoing direction held back until now."""
        tx = self.directions["tx"]
        while len(mbufs := tx.take(256)):
            sent = self.inner.tx_burst(mbufs)
            if sent < len(mbufs):
                tx.put_back(mbufs[sent:])
                return

    def tx_burst(self, mbufs: Mbufs) -> int:
        if not self.started:
            return 0
        tx = self.directions["tx"]
        taken = min(len(mbufs), max(0, _MOST_HELD - len(tx.mbufs)))
        tx.put(self._pool(), mbufs[:taken], down=self._is_down(tx))
        self._flush()
        return taken

    def rx_burst(self, count: int = BURST) -> Mbufs:
        if not self.started:
            return NONE
        self._flush()
        rx = self.directions["rx"]
        if len(rx.mbufs) < _MOST_HELD:
            rx.put(self._pool(), self.inner.rx_burst(count), down=self._is_down(rx))
        return rx.take(count)

    def link(self) -> Link:
        down = any(self._is_down(d) for d in self.directions.values())
        return Link(False, 0) if down else self.inner.link()

    def xstats(self) -> dict[str, int]:
        own = {f"{way}_fault_{k}": n for way, d in self.directions.items() for k, n in d.counts.items()}
        return {**self.inner.xstats(), **own}

    def reset_stats(self) -> None:
        super().reset_stats()
        for direction in self.directions.values():
            direction.counts = dict.fromkeys(direction.counts, 0)

    def waited_for(self) -> tuple[list[_host.Port], list[int], int | None]:
        natives, descriptors, due = super().waited_for()
        times = [t for t in (due, *(d.next_ns() for d in self.directions.values())) if t is not None]
        return natives, descriptors, min(times, default=None)
