"""The loops in C++ give what the numpy code gives: right, damaged and repeated frames through both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from emulator import _host, wire
from emulator.protocol import endpoint as endpoint_module
from emulator.protocol import native
from emulator.protocol.endpoint import Endpoint
from emulator.protocol.frames import FrameMaker, as_bytes, as_frames, sending
from emulator.wire import FRAME_BYTES, OFFSETS, SATURATED, PacketType

VALUES = np.random.default_rng(0).integers(-(2**31), 2**31, 30)


def begun(case: Any, worker: int = 0) -> tuple[Endpoint, Any]:
    """A worker that has uploaded, and its job."""
    with case.cluster() as cluster:
        cluster.load()
        station = cluster.stations[worker]
        share = station.shares[1]
        station.endpoint.start(share, case.values(np.random.default_rng(1))[share.own], 0)
        station.endpoint.send(0, 100_000)
        return station.endpoint, station.jobs[1]


def results(endpoint: Endpoint, job: Any, random: np.random.Generator, count: int) -> Any:
    """Results of the exchange, most of them right, some damaged anywhere in their headers.

    All have the same values: two results of a sum never differ, and which of a burst comes first is open.
    """
    exchange = endpoint.exchange
    assert exchange is not None
    own = random.integers(0, len(exchange.slots), count)
    frames = FrameMaker(job).make(
        PacketType.RESULT, job.worker, count, round=endpoint.round, block=sending(exchange.number),
        vertex=exchange.slots[own], chunk=random.integers(0, exchange.chunks, count),
        count=exchange.expected[own], values=VALUES, worker=job.worker,
    )  # fmt: skip
    other = random.random(count) < 0.3
    frames["ipv4"]["src"] = np.where(other, job.ip[job.worker], job.switch_ip)
    frames["agg"]["flags"][random.random(count) < 0.2] |= SATURATED
    marked = random.random(count) < 0.1
    frames["ipv4"]["dscp_ecn"][marked] = 3
    frames["agg"]["vertex"][random.random(count) < 0.05] += 1
    wire.seal(frames)
    raw = as_bytes(frames).copy()
    for at in np.flatnonzero(random.random(count) < 0.4):
        raw[at, random.integers(0, OFFSETS["values"])] ^= 1 << random.integers(0, 8)
    again = as_frames(raw)
    repaired = random.random(count) < 0.5  # the damage is not always left to the checksum
    again["ipv4"]["checksum"][repaired] = wire.checksum(again[repaired])
    return again


def state(endpoint: Endpoint) -> dict[str, Any]:
    receiver = endpoint._receiver
    assert receiver is not None
    counted = endpoint.counters.as_dict()
    control = [as_bytes(frames).tolist() for frames in endpoint._control]
    return {
        "done": receiver.done.tolist(), "pending": receiver.pending, "totals": receiver.totals.tolist(),
        "state": (endpoint.state, endpoint._barrier, endpoint.progress_ns, endpoint._due_ns), **counted,
        "control": control,
    }  # fmt: skip


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """slow(True): native code takes nothing."""
    real = native.take_results

    def none(frames: Any, lengths: Any, patterns: Any, receiver: Any) -> Any:
        return 0, 0, 0, np.ones(len(frames), bool)

    def switch(on: bool) -> None:
        monkeypatch.setattr(endpoint_module.native, "take_results", none if on else real)

    yield switch


@pytest.mark.parametrize("shape", [{"width": 40, "memory": 0}, {"workers": 4, "racks": 2, "memory": 0}])
def test_results_taken_natively_are_those_taken_by_numpy(
    make_case: Callable[..., Any], slow: Callable[[bool], None], shape: dict[str, Any]
) -> None:
    case = make_case(graph="rmat:5:4", **shape)
    taken = 0
    for seed in range(6):
        ends = []
        for numpy_only in (False, True):
            slow(numpy_only)
            endpoint, job = begun(case)
            random = np.random.default_rng(seed)
            for burst in (1, 2, 32, 200):
                frames = results(endpoint, job, random, burst)
                lengths = np.full(burst, FRAME_BYTES)
                lengths[random.random(burst) < 0.05] -= 1
                lengths[random.random(burst) < 0.05] += 4  # padding
                endpoint.receive(frames, lengths, 1_000 + burst)
            ends.append(state(endpoint))
        assert ends[0] == ends[1]
        taken += ends[0]["results"]
    assert taken > 50


def test_frames_that_are_plain_do_not_come_to_numpy(make_case: Callable[..., Any]) -> None:
    """Or the test above would compare numpy with itself."""
    endpoint, job = begun(make_case(graph="rmat:5:4", memory=0))
    receiver = endpoint._receiver
    assert receiver is not None and endpoint.exchange is not None
    frames = results(endpoint, job, np.random.default_rng(2), 500)
    plain = wire.valid(frames, np.full(500, FRAME_BYTES)) & (frames["ipv4"]["dscp_ecn"] == 2)
    new, copies, _, left = native.take_results(
        frames, np.full(500, FRAME_BYTES), endpoint._results, receiver
    )
    assert new + copies == 500 - int(left.sum())
    assert 0 < (left & plain).sum() < 150  # those with a wrong header field
    assert not (~left & ~plain).any()


@pytest.mark.parametrize("width", [1, 30, 100])
def test_uploads_made_natively_are_those_made_by_numpy(make_case: Callable[..., Any], width: int) -> None:
    case = make_case(graph="rmat:5:4", width=width, memory=0)
    endpoint, _ = begun(case)
    sender = endpoint._sender
    assert sender is not None
    exchange = sender.exchange
    at, chunk = np.divmod(np.arange(exchange.uploads), exchange.chunks)
    wanted = endpoint._maker.make(
        PacketType.UPLOAD, endpoint._maker.switch, exchange.uploads, round=endpoint.round,
        block=sending(exchange.number), vertex=exchange.slots[at], chunk=chunk, count=1,
        values=sender.values[exchange.rows[at], chunk],
    )  # fmt: skip
    for first, count in ((0, exchange.uploads), (1, 1), (exchange.uploads - 3, 3), (2, 0)):
        made = native.make_uploads(sender._pattern, exchange, sender.values, first, count)
        np.testing.assert_array_equal(as_bytes(made), as_bytes(wanted[first : first + count]))
    with pytest.raises(ValueError, match="there are not that many"):
        native.make_uploads(sender._pattern, exchange, sender.values, exchange.uploads - 1, 2)


def test_arrays_that_do_not_fit_are_refused() -> None:
    mbufs, keys = np.arange(3, dtype=np.uint32), np.array([1, 0, 5], np.uint32)
    with pytest.raises(ValueError, match="a key is too large"):
        _host.sort_by(mbufs, keys, np.empty(3, np.uint32), np.empty(5, np.uint32))
    ordered, starts = np.empty(3, np.uint32), np.empty(7, np.uint32)
    _host.sort_by(mbufs, keys, ordered, starts)
    assert ordered.tolist() == [1, 0, 2] and starts.tolist() == [0, 1, 2, 2, 2, 2, 3]
