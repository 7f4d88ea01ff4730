"""switchgnn.p4 against what it must not believe: forged, broken and stale packets, and other jobs'."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine
from tests.p4.programs.alike import (  # noqa: F401  # for pytest to find
    test_a_broken_ip_header_is_dropped,
    test_a_short_packet_is_dropped,
)
from tests.p4.programs.switchgnn_net import (
    CHUNKS,
    COMPLETE,
    DIRECT,
    DONE,
    LOAD,
    PARTIAL,
    PULL,
    REFUSED,
    RESULT,
    UPLOAD,
    Block,
    Frame,
    Memory,
    add_job,
    events,
    load,
    load_blocks,
    make_star,
    results,
    same_state,
    state,
)

TRIANGLE = Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])


@pytest.fixture
def busy(switchgnn: Path) -> Iterator[Engine]:
    """A switch in the middle of the second of two blocks: one upload is added, one worker is done."""
    switch = make_star(switchgnn)
    load_blocks(switch, [TRIANGLE, TRIANGLE])
    for w in range(4):
        switch.send(1, Frame(DONE, worker=w, round=1).encode())
    switch.send(1, Frame(UPLOAD, vertex=0, worker=0, round=1, block=1, values=[9] * 30).encode())
    switch.send(1, Frame(DONE, worker=3, round=1, block=1).encode())
    switch.receive()
    yield switch
    switch.close()


FRESH = {"round": 1, "block": 1}
FORGED = {
    "another worker's vertex": Frame(UPLOAD, vertex=1, worker=2, **FRESH),
    "a worker that is not": Frame(UPLOAD, vertex=1, worker=4, **FRESH),
    "a vertex behind its block": Frame(UPLOAD, vertex=3, worker=0, **FRESH),
    "a vertex of another block": Frame(UPLOAD, vertex=2, worker=2, round=1, block=63),
    "a vertex far out": Frame(UPLOAD, vertex=2**32 - 1, worker=0, **FRESH),
    "a block behind the job's": Frame(UPLOAD, vertex=1, worker=1, round=1, block=64),
    "a block that was not loaded": Frame(UPLOAD, vertex=1, worker=1, round=1, block=2),
    "a chunk behind the last": Frame(UPLOAD, vertex=1, chunk=CHUNKS, worker=1, **FRESH),
    "an upload that counts for two": Frame(UPLOAD, vertex=1, worker=1, count=2, **FRESH),
    "a partial of nothing": Frame(PARTIAL, vertex=1, worker=1, count=0, **FRESH),
    "a partial of more than there is": Frame(PARTIAL, vertex=1, worker=1, count=3, **FRESH),
    "a partial that makes it more": Frame(PARTIAL, vertex=1, worker=1, count=2, **FRESH),
    "a partial with a huge count": Frame(PARTIAL, vertex=1, worker=1, count=2**32 - 1, **FRESH),
    "a partial from no worker": Frame(PARTIAL, vertex=1, worker=4, **FRESH),
    "a partial from no leaf": Frame(PARTIAL, vertex=1, worker=28, level=1, **FRESH),
    "done, by no worker": Frame(DONE, worker=4, **FRESH),
    "done, a block ahead": Frame(DONE, worker=1, round=1, block=2),
    "done, a round ahead": Frame(DONE, worker=1, round=2, block=0),
    "done, a block that is not": Frame(DONE, worker=1, round=1, block=64),
    "done, as a leaf says it": Frame(DONE, worker=1, level=1, **FRESH),
    "a job that is not": Frame(UPLOAD, vertex=1, worker=1, job=2, **FRESH),
    "done, in a job that is not": Frame(DONE, worker=1, job=2, **FRESH),
    "a load for a job that is not": Frame(LOAD, job=2),
    "type 0": Frame(0, dst=0x0A000101),
    "type 10": Frame(10, dst=0x0A000101),
    "type 255": Frame(255, dst=0x0A000101),
    "a load of no words": Frame(LOAD, count=0),
    "a load of too many words": Frame(LOAD, count=31),
    "a load of no array": Frame(LOAD, chunk=10),
    "a load behind the entries": Frame(LOAD, chunk=3, vertex=1024),
    "a load across their end": Frame(LOAD, chunk=3, vertex=1020, count=5),
    "a load that wraps": Frame(LOAD, chunk=3, vertex=2**32 - 1, count=2),
    "a clear behind the aggregators": Frame(LOAD, chunk=7, vertex=1023, count=2),
    "a clear behind the workers": Frame(LOAD, chunk=9, vertex=4),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_packet_is_dropped_and_counted(busy: Engine, what: str) -> None:
    before, refused = state(busy), events(busy)[REFUSED]
    busy.send(1, FORGED[what].encode())
    assert busy.receive() == []
    assert same_state(before, state(busy))
    assert events(busy)[REFUSED] == refused + 1


def test_the_block_goes_on_after_all_that(busy: Engine) -> None:
    for frame in FORGED.values():
        busy.send(1, frame.encode())
    x = {(u, c): [u] * 30 for u in range(3) for c in range(CHUNKS)}
    x[0, 0] = [9] * 30
    for frame in TRIANGLE.uploads(x, **FRESH):
        if (frame.vertex, frame.chunk) != (0, 0):
            busy.send(1, frame.encode())
    got = results(TRIANGLE, busy.receive())
    assert {k: f.values for k, f in got.items()} == TRIANGLE.sums(x)
    for w in range(3):
        busy.send(1, Frame(DONE, worker=w, **FRESH).encode())
    told = [(p.port, Frame.decode(p.data).type) for p in busy.receive()]
    assert told == [(10 + w, COMPLETE) for w in range(4)]


def test_a_stale_done_is_answered_and_changes_nothing(busy: Engine) -> None:
    before = state(busy)
    busy.send(1, Frame(DONE, worker=2, round=1, resend=1).encode())
    [packet] = busy.receive()
    answer = Frame.decode(packet.data)
    assert (packet.port, answer.type, answer.round, answer.block) == (12, COMPLETE, 1, 0)
    assert same_state(before, state(busy))


def test_a_fragment_is_no_aggregation_packet(busy: Engine) -> None:
    before = state(busy)
    data = bytearray(Frame(UPLOAD, vertex=1, worker=1, dst=0x0A000101, **FRESH).encode())
    for fragment in (0x2000, 0x0001):  # more to come; not the first
        data[20:22] = fragment.to_bytes(2, "big")
        data[24:26] = (0x7FFF).to_bytes(2, "big")
        data[24:26] = bytes(2)
        total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(14, 34, 2))
        data[24:26] = (0xFFFF - (total % 0xFFFF)).to_bytes(2, "big")
        busy.send(1, bytes(data))
        [packet] = busy.receive()  # forwarded as any IPv4
        assert packet.port == 11
        assert packet.data[34:] == bytes(data)[34:]
    assert same_state(before, state(busy))


def test_garbage_changes_nothing(busy: Engine) -> None:
    """Noise over a packet of a job that is not there, or cut short: whatever it says, no register moves."""
    whole = Frame(UPLOAD, vertex=1, worker=1, job=9, **FRESH).encode()
    before = state(busy)

    @given(st.integers(0, len(whole)), st.binary(max_size=40), st.integers(0, 200), st.booleans())
    @settings(max_examples=200, deadline=None)
    def survives(cut: int, noise: bytes, at: int, keep_job: bool) -> None:
        data = bytearray(whole[: cut if not keep_job else len(whole)])
        data[at : at + len(noise)] = noise
        if keep_job:
            data[44:45] = b"\x09"
        elif len(data) >= 182:
            data = data[:181]
        busy.send(1, bytes(data))
        busy.receive()

    survives()
    assert same_state(before, state(busy))


# ---- two jobs


def test_two_jobs_share_a_switch_and_nothing_else(switchgnn: Path) -> None:
    """Both at once, same workers, blocks, rounds and slots: each gets its own sums and completions."""
    rng = random.Random(6)
    with make_star(switchgnn) as switch:
        for job in (2, 3):
            add_job(switch, job, Memory.half(job - 2))
        blocks = {job: Block.draw(rng, 4, 20) for job in (2, 3)}
        x = {job: block.draw_features(rng) for job, block in blocks.items()}
        for job, block in blocks.items():
            load_blocks(switch, [block], job=job)
        sent = [f for job, block in blocks.items() for f in block.uploads(x[job], job=job)]
        sent += [Frame(DONE, worker=w, job=2) for w in range(4)]
        sent += [Frame(DONE, worker=w, job=3) for w in range(3)]
        rng.shuffle(sent)
        for frame in sent:
            switch.send(1, frame.encode())
        packets = [(p, Frame.decode(p.data)) for p in switch.receive()]
        for job, block in blocks.items():
            mine = [p for p, f in packets if f.job == job and f.type == RESULT]
            assert {k: f.values for k, f in results(block, mine).items()} == block.sums(x[job])
        assert [(p.port, f.job) for p, f in packets if f.type == COMPLETE] == [(10 + w, 2) for w in range(4)]


LOWER = {
    "block_first": 32, "block_size": 32, "entry_edge": 512, "entry_degree": 512, "entry_expected": 512,
    "entry_owner": 512, "edge_slot": 4096, "done_seen": 32, "done_count": 3, "done_tag": 3,
}  # fmt: skip


def test_a_job_cannot_touch_what_is_another_s(switchgnn: Path) -> None:
    """Whatever job 3 sends, and whatever it has loaded, the lower half stays as job 2 has it."""

    def others(switch: Engine) -> dict[str, object]:
        arrays = state(switch).items()
        return {name: array[: LOWER.get(name.rsplit(".")[-1], 512)].tobytes() for name, array in arrays}

    with make_star(switchgnn) as switch:
        for job in (2, 3):
            add_job(switch, job, Memory.half(job - 2))
            load_blocks(switch, [TRIANGLE, TRIANGLE], job=job)
        for frame in TRIANGLE.uploads({(u, c): [u] * 30 for u in range(3) for c in range(CHUNKS)}, job=2)[:3]:
            switch.send(1, frame.encode())
        switch.receive()
        before = others(switch)

        edges = [511, 512, 1023, 4095, 2**16 - 1, 2**31, 2**32 - 512, 2**32 - 1]
        number = st.integers(0, 40) | st.sampled_from(edges)
        small = st.integers(0, 70) | st.just(2**16 - 1)
        word = st.integers(0, 40) | st.sampled_from([511, 512, 4095, 2**31 - 1, -512, -1, -(2**31)])
        frames = st.builds(
            Frame, st.sampled_from([UPLOAD, PARTIAL, DONE, LOAD, LOAD, DIRECT, PULL, RESULT, COMPLETE]),
            vertex=number, chunk=small, worker=small, count=number, block=small, round=small,
            level=st.integers(0, 2), job=st.just(3), values=st.lists(word, min_size=30, max_size=30),
        )  # fmt: skip

        @given(frames)
        @settings(max_examples=400, deadline=None)
        def attack(frame: Frame) -> None:
            switch.send(1, frame.encode())
            switch.receive()

        attack()
        assert others(switch) == before


def test_a_job_may_begin_where_another_was(switchgnn: Path) -> None:
    """Rounds start again at 0 once the aggregators, the uploads and what is done are cleared in-band."""
    rng = random.Random(1)
    with make_star(switchgnn) as switch:
        load_blocks(switch, [TRIANGLE])
        for round_ in (9, 0):
            if round_ == 0:
                switch.send(1, TRIANGLE.uploads(TRIANGLE.draw_features(rng), round=0)[0].encode())
                assert switch.receive() == []  # as stale
                load(switch, 7, 0, [0] * 6)
                load(switch, 8, 0, [0] * 6)
                load(switch, 9, 0, [0] * 4)
            x = TRIANGLE.draw_features(rng)
            for frame in TRIANGLE.uploads(x, round=round_):
                switch.send(1, frame.encode())
            assert {k: f.values for k, f in results(TRIANGLE, switch.receive()).items()} == TRIANGLE.sums(x)
            for w in range(4):
                switch.send(1, Frame(DONE, worker=w, round=round_).encode())
            assert len(switch.receive()) == 4


def test_a_forged_frame_is_told_from_the_true_one(busy: Engine) -> None:
    """The frames of FORGED differ in one thing each from frames that are taken."""
    before = state(busy)
    busy.send(1, replace(FORGED["another worker's vertex"], worker=1).encode())
    assert not same_state(before, state(busy))
