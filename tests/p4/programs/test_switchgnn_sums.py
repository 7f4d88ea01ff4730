"""switchgnn.p4 adds up: random graphs, orders, duplicates, losses, blocks, saturation, partial sums, ECN."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine, Packet
from tests.p4.programs.alike import (  # noqa: F401  # for pytest to find
    test_a_duplicate_in_the_middle_is_not_added,
    test_a_result_keeps_the_mark_of_its_last_contribution,
    test_an_upload_that_was_saturated_flags_every_sum_it_is_in,
)
from tests.p4.programs.frames import MAX, MIN
from tests.p4.programs.switchgnn_net import (
    CHUNKS,
    CNP,
    COMPLETE,
    DIRECT,
    DUPLICATES,
    PARTIAL,
    PULL,
    RESULT,
    SATURATED,
    STALE,
    UPLOAD,
    Block,
    Frame,
    assert_clean,
    events,
    load_blocks,
    make_star,
    results,
    same_state,
    state,
)


@pytest.fixture
def switch(switchgnn: Path) -> Iterator[Engine]:
    made = make_star(switchgnn)
    yield made
    made.close()


def test_every_owner_receives_the_sum(switchgnn: Path) -> None:
    @given(st.integers(0, 2**32), st.integers(2, 25))
    @settings(max_examples=25, deadline=None)
    def adds_up(seed: int, slots: int) -> None:
        rng = random.Random(seed)
        block = Block.draw(rng, 4, slots)
        x = block.draw_features(rng)
        with make_star(switchgnn) as switch:
            load_blocks(switch, [block])
            sent = block.uploads(x)
            # Copies in the network, and retransmissions by hosts, anywhere after the original.
            extra = [f for f in sent if rng.random() < 0.3]
            resent = [replace(f, resend=1, dst=0x0A000100) for f in sent if rng.random() < 0.3]
            rng.shuffle(sent)
            packets: list[Packet] = []
            for frame in [*sent, *extra, *resent]:
                switch.send(1, frame.encode())
                got = switch.receive()
                if frame.resend:
                    assert [(p.port, Frame.decode(p.data).type) for p in got] == [(10, UPLOAD)]
                else:
                    packets += got
            assert {k: f.values for k, f in results(block, packets).items()} == block.sums(x)
            assert events(switch)[DUPLICATES] == len(extra)
            assert switch.statistics()["runaways"] == 0
            assert_clean(switch, block, 0)

    adds_up()


def test_losses_in_one_block_leave_nothing_in_the_next(switch: Engine) -> None:
    rng = random.Random(8)
    blocks = [Block.draw(rng, 4, 12) for _ in range(3)]
    load_blocks(switch, blocks)
    for round_ in range(2):
        for number, block in enumerate(blocks):
            x = block.draw_features(rng)
            sent = block.uploads(x, block=number, round=round_)
            lossy = number != 2
            sent = [f for f in sent if not lossy or rng.random() < 0.7]
            rng.shuffle(sent)
            for frame in sent:
                switch.send(1, frame.encode())
            got = results(block, switch.receive())
            want = block.sums(x)
            assert all(f.values == want[k] for k, f in got.items())
            if lossy:
                assert set(got) < set(want)
            else:
                assert set(got) == set(want)
                assert_clean(switch, block, round_ << 16 | number)


def test_what_comes_late_from_an_earlier_block_changes_nothing(switch: Engine) -> None:
    rng = random.Random(2)
    block = Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])
    load_blocks(switch, [block, block])
    old, new = block.draw_features(rng), block.draw_features(rng)
    late = block.uploads(old, round=6, block=1)
    now = block.uploads(new, round=7, block=0)
    for frame in now[:3]:
        switch.send(1, frame.encode())
    packets = switch.receive()
    before = state(switch)
    for frame in late[:3]:  # these vertices have uploaded in the new block: the copies are known to be old
        switch.send(1, frame.encode())
    assert switch.receive() == []
    assert same_state(before, state(switch))
    assert events(switch)[STALE] == 3
    for frame in [*late[3:], *now[3:], *late]:  # and the others meet aggregators that are the new block's
        switch.send(1, frame.encode())
    packets += switch.receive()
    packets = [p for p in packets if Frame.decode(p.data).round == 7]
    assert {k: f.values for k, f in results(block, packets).items()} == block.sums(new)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (65535, 0), (40000, 7000)])
def test_the_round_number_may_wrap(switch: Engine, first: int, second: int) -> None:
    rng = random.Random(5)
    block = Block.draw(rng, 4, 6)
    load_blocks(switch, [block])
    for round_ in (first, second):
        x = block.draw_features(rng)
        for frame in block.uploads(x, round=round_):
            switch.send(1, frame.encode())
        got = results(block, switch.receive())
        assert {k: f.values for k, f in got.items()} == block.sums(x)


def test_saturation_is_flagged_and_clamped(switch: Engine) -> None:
    block = Block([0, 1, 2], [[1, 2], [0], [0]])
    x = {(u, c): [MAX, MIN, 5] + [0] * 27 for u in range(3) for c in range(CHUNKS)}
    load_blocks(switch, [block])
    for frame in block.uploads(x):
        switch.send(1, frame.encode())
    got = results(block, switch.receive())
    assert got[0, 0].values[:3] == [MAX, MIN, 10]
    assert got[0, 0].saturated == 1
    assert got[1, 0].saturated == 0
    assert events(switch)[SATURATED] == CHUNKS


def test_partial_sums_take_one_pass_and_are_added_once(switch: Engine) -> None:
    block = Block([3, 0, 1, 2], [[1, 2, 3], [0], [0], [0]])
    load_blocks(switch, [block])
    passes = switch.statistics()["passes"]
    for _ in range(2):  # the second copies are dropped
        switch.send(1, Frame(PARTIAL, count=2, worker=0, values=[10] * 30).encode())
    switch.send(1, Frame(PARTIAL, count=1, worker=2, values=[5] * 30).encode())
    switch.send(1, Frame(PARTIAL, count=1, worker=2, values=[5] * 30).encode())
    [packet] = switch.receive()
    frame = Frame.decode(packet.data)
    assert (packet.port, frame.type, frame.count, frame.values) == (13, RESULT, 3, [15] * 30)
    assert switch.statistics()["passes"] - passes == 5  # four in ingress, one of them on to egress
    assert events(switch)[DUPLICATES] == 2


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (UPLOAD, {"bypass": 1}),
        (UPLOAD, {"resend": 1}),
        (PARTIAL, {"resend": 1}),
        (DIRECT, {"pull": 1}),
        (DIRECT, {"bypass": 1}),
        (PULL, {}),
        (RESULT, {}),
        (COMPLETE, {}),
        (CNP, {}),
    ],
)
def test_what_is_not_for_the_switch_is_forwarded(switch: Engine, kind: int, flags: dict[str, int]) -> None:
    before = state(switch)
    values = list(range(30))
    sent = Frame(kind, vertex=5, worker=2, values=values, dst=0x0A000102, **flags)  # type: ignore[arg-type]
    switch.send(1, sent.encode())
    [packet] = switch.receive()
    assert packet.port == 12
    assert Frame.decode(packet.data) == replace(sent, mac=0x102)
    assert packet.data[22] == 63  # TTL
    assert same_state(before, state(switch))


@pytest.mark.parametrize(("ecn", "marked"), [(0, 0), (1, 3), (2, 3), (3, 3)])
def test_a_packet_behind_a_long_queue_is_marked_if_its_transport_knows_ecn(
    switch: Engine, ecn: int, marked: int
) -> None:
    sent = Frame(DIRECT, ecn=ecn, dst=0x0A000102)
    switch.set_default("ecn", "mark", {"threshold": 1})
    switch.send(1, sent.encode())
    [packet] = switch.receive()
    assert Frame.decode(packet.data).ecn == ecn  # the queue is empty
    switch.set_default("ecn", "mark", {"threshold": 0})
    switch.send(1, sent.encode())
    [packet] = switch.receive()
    assert Frame.decode(packet.data).ecn == marked
