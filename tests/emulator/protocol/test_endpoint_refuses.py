"""Frames that are wrong in some way change nothing at an endpoint, and are counted by the reason."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator import wire
from emulator.protocol.endpoint import State
from emulator.protocol.frames import FrameMaker, sending
from emulator.wire import FRAME, FRAME_BYTES, RESEND, PacketType


class Bench:
    """Worker 0 in the middle of a block, and a maker of frames from elsewhere."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.cluster = case.cluster()
        self.cluster.load()
        station = self.cluster.stations[0]
        values = case.values(np.random.default_rng(1))
        share = station.shares[1]
        station.endpoint.start(share, values[share.own], 0)
        self.endpoint = station.endpoint
        self.endpoint.send(0, 10_000)
        self.exchange = self.endpoint.exchange
        self.job = self.cluster.stations[1].jobs[1]
        self.maker = FrameMaker(self.job)

    def result(self, **changes: Any) -> Any:
        """What the switch would send for worker 0's first slot."""
        fields: dict[str, Any] = {
            "round": 1, "block": sending(0), "vertex": self.exchange.slots[0], "chunk": 0,
            "count": self.exchange.expected[0], "values": 7, "worker": 0,
        }  # fmt: skip
        frames = self.maker.make(PacketType.RESULT, 0, 1, changes.pop("flags", 0), **(fields | changes))
        frames["ipv4"]["src"] = self.job.switch_ip
        wire.seal(frames)
        return frames

    def state(self) -> Any:
        receiver, sender = self.endpoint._receiver, self.endpoint._sender
        endpoint = self.endpoint
        received = receiver.done.tolist(), receiver.totals.tolist(), receiver._arrived.tolist()
        barriers = endpoint.state, endpoint.passed, endpoint._barrier, len(endpoint._control)
        return copy.deepcopy((received, receiver.pending, sender.next, sender.queued, barriers))

    def give(self, frames: Any, size: int = FRAME_BYTES) -> None:
        self.endpoint.receive(frames, np.full(len(frames), size), 10)

    def close(self) -> None:
        self.cluster.close()


@pytest.fixture
def bench(make_case: Callable[..., Any]) -> Any:
    made = Bench(make_case(graph="rmat:5:4", memory=0))
    yield made
    made.close()


def test_the_right_result_is_taken(bench: Bench) -> None:
    before = bench.endpoint._receiver.pending
    bench.give(bench.result())
    assert bench.endpoint._receiver.pending == before - 1
    bench.give(bench.result(values=9))
    assert bench.endpoint._receiver.pending == before - 1
    assert bench.endpoint.counters.duplicates == 1
    assert int(bench.endpoint._totals[bench.exchange.rows[0], 0, 0]) == 7


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"job": 9}, "job"),
        ({"flags": 1}, "version"),
        ({"type": 0}, "type"),
        ({"type": 200}, "type"),
        ({"type": int(PacketType.UPLOAD)}, "type"),
        ({"type": int(PacketType.DONE)}, "type"),
        ({"type": int(PacketType.LOAD)}, "type"),
        ({"vertex": 2**31}, "vertex"),
        ({"vertex": 10_000}, "vertex"),
        ({"chunk": 2}, "chunk"),
        ({"worker": 1}, "owner"),
        ({"count": 1000}, "count"),
        ({"count": 0}, "count"),
        ({"round": 0}, "stale"),
        ({"round": 2, "block": 5}, "ahead"),
        ({"block": 0}, "stale"),
        ({"round": 40_000}, "stale"),
    ],
)
def test_one_wrong_field(bench: Bench, changes: dict[str, int], why: str) -> None:
    before = bench.state()
    frames = bench.result()
    for name, value in changes.items():
        frames["agg"][name] = value
    bench.give(frames)
    assert bench.state() == before
    assert bench.endpoint.counters.dropped[why] == 1


def test_link_headers(bench: Bench) -> None:
    before = bench.state()
    bench.give(bench.result(), size=FRAME_BYTES - 1)
    for header, name, value in (
        ("ethernet", "type", 0x86DD), ("ipv4", "version_ihl", 0x65), ("ipv4", "protocol", 6),
        ("udp", "dst", 9001), ("ipv4", "checksum", 1), ("ipv4", "flags_fragment", 0x2000),
    ):  # fmt: skip
        frames = bench.result()
        frames[header][name] = value
        bench.give(frames)
    elsewhere = bench.result()
    elsewhere["ipv4"]["dst"] += 1
    wire.seal(elsewhere)
    bench.give(elsewhere)
    forged = bench.result()
    forged["ipv4"]["src"] = bench.job.ip[1]
    wire.seal(forged)
    bench.give(forged)
    assert bench.state() == before
    dropped = bench.endpoint.counters.dropped
    assert (dropped["length"], dropped["header"], dropped["address"], dropped["source"]) == (1, 6, 1, 1)


def test_forged_completions(bench: Bench) -> None:
    assert bench.endpoint.state is State.WAITING
    before = bench.state()
    for high, low in ((0, 0), (1, 2), bench.job.key(1, sending(0) + 1), bench.job.key(2, sending(0))):
        bench.give(
            bench.maker.make(PacketType.COMPLETE, 0, 1, round=1, block=sending(0), vertex=high, count=low)
        )
    high, low = bench.job.key(1, 2)
    bench.give(bench.maker.make(PacketType.COMPLETE, 0, 1, round=1, block=2, vertex=high, count=low))
    assert bench.state() == before
    dropped = bench.endpoint.counters.dropped
    assert (dropped["forged"], dropped["stale"]) == (4, 1)
    high, low = bench.job.key(1, sending(0))
    bench.give(bench.maker.make(PacketType.COMPLETE, 0, 1, round=1, block=sending(0), vertex=high, count=low))
    assert bench.endpoint.state is State.COLLECTING


def test_contributions_nobody_asked_for(bench: Bench) -> None:
    theirs = int(bench.exchange.remote[bench.exchange.remote_owner == 1][0])
    mine = int(bench.exchange.slots[0])
    before = bench.state()
    for vertex in (theirs, mine):
        bench.give(
            bench.maker.make(
                PacketType.DIRECT, 0, 1, RESEND, round=1, block=sending(0), vertex=vertex, chunk=0, count=1
            )
        )
    assert bench.state() == before
    dropped = bench.endpoint.counters.dropped
    assert (dropped["unasked"], dropped["owner"]) == (1, 1)


def test_pulls_for_what_is_not_there(bench: Bench) -> None:
    theirs = int(bench.exchange.remote[0])
    for values, count in (
        ([theirs] * 30, 30),
        ([-1] * 30, 30),
        ([2**31 - 1] * 30, 30),
        ([0] * 30, 0),
        ([0] * 30, 31),
    ):
        frames = bench.maker.make(
            PacketType.PULL, 0, 1, round=1, block=sending(0), chunk=0, count=count, values=values
        )
        bench.give(frames)
    assert bench.endpoint._sender.queued == 0
    assert bench.endpoint.counters.dropped["entries"] == 92


def test_random_bytes_change_nothing(bench: Bench) -> None:
    """Noise anywhere in the headers: only what is a whole, right result by every field may count."""
    before = bench.state()
    whole = np.ascontiguousarray(bench.result()).view(np.uint8)
    head = FRAME_BYTES - 120

    @given(
        st.integers(0, FRAME_BYTES),
        st.integers(12, head - 1),
        st.binary(min_size=1, max_size=30),
        st.booleans(),
    )
    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    def unchanged(size: int, at: int, noise: bytes, resealed: bool) -> None:
        raw = whole.copy()
        end = min(head, at + len(noise))
        raw[at:end] = np.frombuffer(noise[: end - at], np.uint8)
        frames = raw.view(FRAME)
        if resealed:
            wire.seal(frames)
        agg, good = frames["agg"][0], whole.view(FRAME)["agg"][0]
        harmless = {"level", "flags"}  # a level says nothing to an owner; nor do flags but for the version
        named = [n for n in agg.dtype.names if n not in harmless]
        right = all(agg[n] == good[n] for n in named if n not in ("vertex", "chunk"))
        if right or agg["type"] == PacketType.CNP:  # another of this worker's results; a notice
            return
        bench.give(frames, size)
        assert bench.state() == before

    unchanged()
