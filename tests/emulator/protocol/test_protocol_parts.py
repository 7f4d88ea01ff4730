"""The parts by themselves: fixed point, timeouts, rates, frames, loading, the worker's view of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import wire
from emulator.cluster.topology import Topology
from emulator.protocol.codec import HIGHEST, LOWEST, Codec, scale_for
from emulator.protocol.dcqcn import DcqcnConfig, NotificationPoint, ReactionPoint
from emulator.protocol.frames import FIRST_SOURCE_PORT, FrameMaker, join
from emulator.protocol.layout import Share
from emulator.protocol.loader import Loader
from emulator.protocol.rtt import INITIAL_NS, RttEstimator
from emulator.wire import BYPASS, PacketType
from p4.control.adjacency import Array, needs, words
from workloads.errors import InputError

MS = 1_000_000
DCQCN = DcqcnConfig()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(1e-3, 1e6), st.integers(1, 1000))
def test_codec_rounds_to_the_nearest_and_sums_fit(values: list[float], spread: float, terms: int) -> None:
    x = np.array(values) * spread / 1e6
    codec = Codec(scale_for(float(np.abs(x).max()), terms))
    coded = codec.encode(x)
    assert codec.saturated == 0
    assert np.all(np.abs(codec.decode(coded) - x) <= codec.step / 2 + 1e-12 * np.abs(x))
    assert np.abs(coded.astype(np.int64)).max() * terms <= HIGHEST


def test_codec_counts_what_it_clips() -> None:
    codec = Codec(2.0**20)
    coded = codec.encode(np.array([0.5, 1e6, -1e6, 2047.0]))
    assert coded.tolist() == [2**19, HIGHEST, LOWEST, 2047 * 2**20]
    assert codec.saturated == 2
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError):
            codec.encode(np.array([bad]))
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError):
            Codec(scale)


def test_timeout_follows_rfc_6298() -> None:
    rtt = RttEstimator(MS, 60_000 * MS)
    assert rtt.timeout_ns == INITIAL_NS
    rtt.measured(100 * MS)
    assert (rtt.srtt_ns, rtt.rttvar_ns) == (100 * MS, 50 * MS)
    assert rtt.timeout_ns == 300 * MS
    rtt.measured(120 * MS)
    assert rtt.rttvar_ns == 0.75 * 50 * MS + 0.25 * 20 * MS
    assert rtt.srtt_ns == 0.875 * 100 * MS + 0.125 * 120 * MS
    before = rtt.timeout_ns
    rtt.timed_out()
    rtt.timed_out()
    assert rtt.timeout_ns == 4 * before
    rtt.measured(100 * MS)
    assert rtt.timeout_ns < 2 * before


@given(st.lists(st.integers(1, 10**9), max_size=30), st.integers(0, 100))
def test_timeout_keeps_within_its_bounds(samples: list[int], timeouts: int) -> None:
    rtt = RttEstimator(MS, 500 * MS)
    for sample in samples:
        rtt.measured(sample)
    for _ in range(timeouts):
        rtt.timed_out()
    assert MS <= rtt.timeout_ns <= 500 * MS


def test_rate_is_cut_and_recovers() -> None:
    point = ReactionPoint(DCQCN)
    point.notified(1000)
    assert point.limited
    assert point.rate_bps == 50e9  # alpha is 1 at first: half
    point.notified(1000 + DCQCN.cnp_interval_ns - 1)
    assert point.rate_bps == 50e9  # at most one cut an interval
    point.advance(1000 + 5 * DCQCN.increase_timer_ns)
    assert 98e9 < point.rate_bps < 100e9  # fast recovery: half of the way, five times
    point.advance(1000 + 400 * DCQCN.increase_timer_ns)
    assert not point.limited


def test_rate_never_falls_below_the_least() -> None:
    point = ReactionPoint(DCQCN)
    for n in range(200):
        point.notified(n * DCQCN.cnp_interval_ns)
    assert point.rate_bps == DCQCN.min_rate_bps


def test_notices_once_an_interval() -> None:
    point = NotificationPoint(4, 100)
    assert point.marked(np.array([1, 1, 3]), 0).tolist() == [1, 3]
    assert point.marked(np.array([1, 2, 70_000]), 50).tolist() == [2]
    assert point.marked(np.array([1, 2]), 100).tolist() == [1]


def test_frames_are_whole() -> None:
    topology = Topology(3)
    job = topology.jobs(7, 99)[1]
    maker = FrameMaker(job)
    frames = join(
        [
            maker.make(PacketType.UPLOAD, maker.switch, 3, vertex=np.arange(3), values=5),
            maker.make(PacketType.DIRECT, np.array([0, 2]), 2, BYPASS),
        ]
    )
    assert wire.valid(frames, np.full(5, wire.FRAME_BYTES)).all()
    assert frames["agg"]["vertex"].tolist() == [0, 1, 2, 0, 0]
    assert frames["ipv4"]["dst"].tolist() == [job.switch_ip] * 3 + [int(job.ip[0]), int(job.ip[2])]
    assert set(frames["udp"]["src"].tolist()) == {FIRST_SOURCE_PORT + 1}
    assert frames["values"][0].tolist() == [5] * 30


def test_keys_differ() -> None:
    job, other = (Topology(2).jobs(1, secret)[0] for secret in (1, 2))
    keys = {job.key(r, b) for r in range(20) for b in range(20)} | {other.key(r, 0) for r in range(20)}
    assert len(keys) == 420


@pytest.mark.parametrize(
    "shape", [{"graph": "rmat:5:4"}, {"graph": "rmat:5:4", "residual": "host", "memory": 2600}]
)
def test_share_has_every_contribution_once(make_case: Callable[..., Any], shape: dict[str, Any]) -> None:
    case = make_case(**shape)
    plan = case.plan
    dense = np.zeros((plan.num_boundary, plan.num_boundary), np.int64)
    for worker in range(plan.num_workers):
        share = Share(plan, worker)
        for number in range(share.exchanges):
            exchange = share.exchange(number)
            vertices = (
                np.asarray(plan.block_vertices[plan.block_ptr[number] : plan.block_ptr[number + 1]])
                if number < plan.num_blocks
                else np.arange(plan.num_boundary)
            )
            for own, slot in enumerate(exchange.slots):
                near = exchange.neighbour[exchange.ptr[own] : exchange.ptr[own + 1]]
                assert (share.own[exchange.rows[own]] == vertices[slot]).all()
                np.add.at(dense[vertices[slot]], vertices[exchange.remote[near]], 1)
            assert (exchange.owner[exchange.remote] != worker).all()
            assert len(exchange.fan) == len(exchange.neighbour)
    np.testing.assert_array_equal(dense, case.cross.toarray())


def test_loader_sends_sizes_last_and_everything_once(make_case: Callable[..., Any]) -> None:
    case = make_case(graph="rmat:5:4")
    arrays = words(case.plan)
    loader = Loader(Topology(3).jobs(1, 0)[0], arrays, rto_ns=10 * MS, patience_ns=1000 * MS, window=5)
    got: dict[int, dict[int, int]] = {int(array): {} for array in Array}
    now = 0
    while not loader.done:
        frames = loader.send(now, 100)
        assert 0 < len(frames) <= 5
        for frame in frames:
            agg = frame["agg"]
            for i in range(agg["count"]):
                assert agg["vertex"] + i not in got[int(agg["chunk"])]
                got[int(agg["chunk"])][int(agg["vertex"]) + i] = int(frame["values"][i])
        if (frames["agg"]["chunk"] == Array.BLOCK_SIZE).any():
            assert all(len(got[int(a)]) == len(content) for a, content in arrays if a != Array.BLOCK_SIZE)
        frames = frames.copy()
        frames["agg"]["flags"] |= BYPASS
        loader.receive(frames, np.full(len(frames), wire.FRAME_BYTES), now)
        now += MS
    for array, content in arrays:
        assert [got[int(array)][i] for i in range(len(content))] == content.tolist()
    assert loader.resent == 0
    assert needs(case.plan).blocks == 2 * case.plan.num_blocks + 2


def test_loader_gives_up_and_takes_no_other_acknowledgment(make_case: Callable[..., Any]) -> None:
    loader = Loader(Topology(3).jobs(1, 0)[0], words(make_case().plan), rto_ns=10 * MS, patience_ns=100 * MS)
    frames = loader.send(0, 100).copy()
    wrong = frames.copy()
    wrong["agg"]["flags"] |= BYPASS
    wrong["values"][:, 0] += 1
    loader.receive(wrong, np.full(len(wrong), wire.FRAME_BYTES), 1)
    loader.receive(frames, np.full(len(frames), wire.FRAME_BYTES), 2)  # not marked: no acknowledgment
    of_another_turn = frames.copy()
    of_another_turn["agg"]["flags"] |= BYPASS
    of_another_turn["agg"]["round"] += 1
    loader.receive(of_another_turn, np.full(len(frames), wire.FRAME_BYTES), 3)
    assert len(loader.send(10 * MS, 100)) == len(frames)
    assert len(loader.send(99 * MS, 100)) == len(frames)
    assert len(loader.send(100 * MS, 100)) == 0
    assert loader.error is not None
    assert loader.error.startswith("worker 0: loading its switch: nothing acknowledged for 0.1 s, ")
