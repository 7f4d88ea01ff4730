"""tna/switchgnn.p4, run by the engine: it adds up as the v1model program does, also within a Tofino's limits.

The packets, blocks and the hosts of a faulty network are those of the v1model program's tests.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import SWITCHGNN, TNA_SWITCHGNN
from p4.targets import Engine, Packet
from p4.targets.stf import run_stf
from tests.p4.programs import test_switchgnn_fabric as fabric
from tests.p4.programs import tna_net
from tests.p4.programs.alike import (  # noqa: F401  # for pytest to find
    test_a_broken_ip_header_is_dropped,
    test_a_duplicate_in_the_middle_is_not_added,
    test_a_result_keeps_the_mark_of_its_last_contribution,
    test_a_short_packet_is_dropped,
    test_an_upload_that_was_saturated_flags_every_sum_it_is_in,
)
from tests.p4.programs.frames import MAX, MIN
from tests.p4.programs.switchgnn_net import (
    ADDED,
    CHUNKS,
    CNP,
    COMPLETE,
    COMPLETIONS,
    DIRECT,
    DONE,
    DUPLICATES,
    LOAD,
    PARTIAL,
    PULL,
    REFUSED,
    RESULT,
    RESULTS,
    STALE,
    UPLINK,
    UPLOAD,
    Block,
    Frame,
    events,
    load_blocks,
    results,
    same_state,
    state,
)

TRIANGLE = Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])


@pytest.fixture(scope="module")
def tna(libraries: Path) -> Path:
    return build(generate(load_program(TNA_SWITCHGNN, defines=tna_net.DEFINES)), folder=libraries)


@pytest.fixture
def switch(tna: Path) -> Iterator[Engine]:
    made = tna_net.make_star(tna)
    yield made
    made.close()


def sums(block: Block, packets: list[Packet]) -> dict[tuple[int, int], list[int]]:
    return {key: frame.values for key, frame in results(block, packets).items()}


def send(switch: Engine, *frames: Frame, port: int = 1) -> list[tuple[int, Frame]]:
    for frame in frames:
        switch.send(port, frame.encode())
    return [(p.port, Frame.decode(p.data)) for p in switch.receive()]


def assert_clean(switch: Engine, block: Block, now: int) -> None:
    """Each aggregator of the block holds a whole sum's count; no other one bears the block's tag."""
    words = switch.register_array("control_word")
    used = {}
    for v, n in enumerate(block.neighbours):
        for c in range(CHUNKS):
            if n:
                used[c * tna_net.SLOTS + v] = len(n)
    for at, word in enumerate(words.tolist()):
        tag, count = word & 0xFFFFFFFF, word >> 32
        assert (count & 0xFFFF if tag == now and count else 0) == used.get(at, 0)


def test_every_owner_receives_the_sum(tna: Path) -> None:
    @given(st.integers(0, 2**32), st.integers(2, 25))
    @settings(max_examples=25, deadline=None)
    def adds_up(seed: int, slots: int) -> None:
        rng = random.Random(seed)
        block = Block.draw(rng, 4, slots)
        x = block.draw_features(rng)
        with tna_net.make_star(tna) as switch:
            load_blocks(switch, [block])
            before = switch.statistics()["passes"]
            sent = block.uploads(x)
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
            assert sums(block, packets) == block.sums(x)
            counted = events(switch)
            edges = sum(len(n) for n in block.neighbours) * CHUNKS
            assert (counted[ADDED], counted[RESULTS], counted[DUPLICATES]) == (
                edges,
                len(packets),
                len(extra),
            )
            # Ingress: degree + 1 for an upload and 1 for a sum. Egress: whatever is not dropped.
            ingress = edges + len(sent) + len(packets) + len(extra) + len(resent)
            egress = edges + len(packets) + len(packets) + len(resent)
            assert switch.statistics()["passes"] - before == ingress + egress
            assert_clean(switch, block, 0)

    adds_up()


def test_the_same_packets_in_and_out_as_the_v1model_program(tna: Path) -> None:
    """The STF files differ in their tables only."""
    mine, other = (p.with_suffix(".stf") for p in (TNA_SWITCHGNN, SWITCHGNN))
    packets = [
        [x for x in p.read_text().splitlines() if x.startswith(("packet ", "expect "))] for p in (mine, other)
    ]
    assert packets[0] == packets[1]
    with Engine(tna) as switch:
        report = run_stf(switch, mine)
    assert report.failures == []
    assert report.matched == sum(x.startswith("expect ") for x in packets[0]) > 10


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
            got, want = sums(block, switch.receive()), block.sums(x)
            assert all(values == want[key] for key, values in got.items())
            assert set(got) < set(want) if lossy else set(got) == set(want)
            if not lossy:
                assert_clean(switch, block, round_ << 16 | number)


def test_what_comes_late_from_an_earlier_block_changes_nothing(switch: Engine) -> None:
    rng = random.Random(2)
    load_blocks(switch, [TRIANGLE, TRIANGLE])
    old, new = TRIANGLE.draw_features(rng), TRIANGLE.draw_features(rng)
    late = TRIANGLE.uploads(old, round=6, block=1)
    now = TRIANGLE.uploads(new, round=7, block=0)
    for frame in now[:3]:
        switch.send(1, frame.encode())
    packets = switch.receive()
    before = state(switch)
    for frame in late[:3]:
        switch.send(1, frame.encode())
    assert switch.receive() == []
    assert same_state(before, state(switch))
    for frame in [*late[3:], *now[3:], *late]:  # some of them meet aggregators that are the new block's
        switch.send(1, frame.encode())
    packets += switch.receive()
    assert events(switch)[STALE] > 0
    packets = [p for p in packets if Frame.decode(p.data).round == 7]
    assert sums(TRIANGLE, packets) == TRIANGLE.sums(new)


def test_the_round_number_may_wrap(switch: Engine) -> None:
    rng = random.Random(5)
    block = Block.draw(rng, 4, 6)
    load_blocks(switch, [block])
    for round_ in (0, 1, 30000, 60000, 65535, 0, 5):
        x = block.draw_features(rng)
        for frame in block.uploads(x, round=round_):
            switch.send(1, frame.encode())
        assert sums(block, switch.receive()) == block.sums(x)


def test_saturation_is_flagged_and_stays_at_its_end(switch: Engine) -> None:
    block = Block([0, 1, 2, 3], [[1, 2, 3], [0], [0], [0]])
    x = {(u, c): [MAX, MIN, 5, *[0] * 27] for u in range(4) for c in range(CHUNKS)}
    for c in range(CHUNKS):
        x[3, c] = [-1, 1, *[0] * 28]  # after a value was clamped, this does not bring it back
    load_blocks(switch, [block])
    got = {}
    for frame in block.uploads(x):
        switch.send(1, frame.encode())
    got = results(block, switch.receive())
    assert got[0, 0].values[:3] == [MAX, MIN, 10]
    assert got[0, 0].saturated == 1
    assert got[3, 0].saturated == 1  # it is an end, whether or not it was meant
    assert switch.counter_read("saturated", 0)[0] == 4 * CHUNKS


@pytest.mark.parametrize("value", [MAX, MIN])
@pytest.mark.parametrize("at", range(30))
def test_each_value_at_an_end_is_seen(switch: Engine, at: int, value: int) -> None:
    block = Block([0, 1], [[1], [0]])
    load_blocks(switch, [block])
    values = [7] * 30
    values[at] = value
    [(_, got)] = send(switch, Frame(UPLOAD, vertex=0, worker=0, values=values))
    assert (got.values, got.saturated) == (values, 1)
    values[at] = value + (1 if value < 0 else -1)
    [(_, got)] = send(switch, Frame(UPLOAD, vertex=0, worker=0, round=1, values=values))
    assert (got.values, got.saturated) == (values, 0)


def test_partial_sums_take_two_passes_and_are_added_once(switch: Engine) -> None:
    block = Block([3, 0, 1, 2], [[1, 2, 3], [0], [0], [0]])
    load_blocks(switch, [block])
    passes = switch.statistics()["passes"]
    first = Frame(PARTIAL, count=2, worker=0, values=[10] * 30)
    second = Frame(PARTIAL, count=1, worker=2, values=[5] * 30)
    [(port, frame)] = send(switch, first, first, second, second)
    assert (port, frame.type, frame.count, frame.values) == (13, RESULT, 3, [15] * 30)
    # Ingress: 4 first passes, 2 that add, 1 of the sum. Egress: 2 + 1 that go round, 1 out.
    assert switch.statistics()["passes"] - passes == 7 + 4
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
        (COMPLETE, {"level": 1}),
        (CNP, {}),
    ],
)
def test_what_is_not_for_the_switch_is_forwarded(switch: Engine, kind: int, flags: dict[str, int]) -> None:
    before = state(switch)
    values = [MAX, MIN, *range(28)]
    sent = Frame(kind, vertex=5, worker=2, values=values, dst=0x0A000102, **flags)  # type: ignore[arg-type]
    switch.send(1, sent.encode())
    [packet] = switch.receive()
    assert packet.port == 12
    assert Frame.decode(packet.data) == replace(sent, mac=0x102)
    assert packet.data[22] == 63  # TTL
    assert same_state(before, state(switch))


def test_completions_are_multicast_once_and_addressed_to_each_worker(switch: Engine) -> None:
    load_blocks(switch, [TRIANGLE, TRIANGLE])
    for number in (0, 1):
        for worker in (2, 0):
            assert send(switch, Frame(DONE, worker=worker, block=number)) == []
        assert send(switch, Frame(DONE, worker=2, block=number, resend=1)) == []
        assert send(switch, Frame(DONE, worker=1, block=number)) == []
        told = send(switch, Frame(DONE, worker=3, block=number))
        assert [(p, f.type, f.dst) for p, f in told] == [(10 + w, COMPLETE, 0x0A000100 + w) for w in range(4)]
        [(port, again)] = send(switch, Frame(DONE, worker=1, block=number, resend=1))
        assert (port, again.type, again.block) == (11, COMPLETE, number)
    [(port, late)] = send(switch, Frame(DONE, worker=2, block=0, resend=1))
    assert (port, late.type, late.block) == (12, COMPLETE, 0)
    assert events(switch)[COMPLETIONS] == 2


@pytest.mark.parametrize(("ecn", "marked"), [(0, 0), (1, 3), (2, 3), (3, 3)])
def test_a_packet_behind_a_long_queue_is_marked_if_its_transport_knows_ecn(
    switch: Engine, ecn: int, marked: int
) -> None:
    for codepoint in (1, 2):
        match = {"ecn": codepoint, "deq_qdepth": (2, 2**19 - 1)}
        switch.insert("ecn", match, "mark", priority=1)
    switch.egress_queue(12, rate_pps=1000, depth=100)
    sent = Frame(DIRECT, ecn=ecn, dst=0x0A000102)
    for _ in range(4):
        switch.send(1, sent.encode())
    switch.now_us += 10_000
    assert [Frame.decode(p.data).ecn for p in switch.receive()] == [ecn, marked, ecn, ecn]


# ---- a network that loses and copies, with hosts that keep to the protocol


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("faults", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_every_owner_receives_the_sum_whatever_the_network_does(
    tna: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool, faults: float, seed: int
) -> None:
    for name in ("make_star", "make_leaf", "make_spine"):
        monkeypatch.setattr(fabric, name, getattr(tna_net, name))
    net, hosts = fabric.make_net(tna, leaves=leaves, seed=seed, faults=faults)
    timeouts = net.run()
    for number, block in enumerate(hosts[0].blocks):
        received = {key: values for host in hosts for key, values in host.sums[number].items()}
        assert received == block.sums(hosts[0].features[number])
    if faults == 0:
        assert timeouts == 0
        assert all(host.pulled == 0 for host in hosts)
        assert all(events(s)[COMPLETIONS] == 3 for s in net.switches.values())
    else:
        assert timeouts > 0
    for switch in net.switches.values():
        switch.close()


def test_a_leaf_sends_one_partial_to_the_owner_s_leaf_and_adds_another_s_once(tna: Path) -> None:
    with tna_net.make_leaf(tna, 1, fabric.RACKS) as leaf:
        load_blocks(leaf, [Block([0, 3, 4], [[1, 2], [0, 2], [0, 1]])], set(fabric.RACKS[1]))
        got = send(leaf, *(Frame(UPLOAD, vertex=v, worker=w, values=[v] * 30) for v, w in ((1, 3), (2, 4))))
        [(port, partial)] = [(p, f) for p, f in got if f.type == PARTIAL]
        assert (port, partial.level, partial.worker, partial.vertex) == (UPLINK, 1, 1, 0)
        assert (partial.count, partial.values) == (2, [3] * 30)
        other = Frame(PARTIAL, vertex=1, worker=0, level=1, values=[7] * 30)
        got = send(leaf, other, other, other, port=UPLINK)
        [(port, result)] = got
        assert (port, result.vertex, result.values, result.level) == (13, 1, [9] * 30, 0)


# ---- what it must not believe

FRESH = {"round": 1, "block": 1}
FORGED = {
    "another worker's vertex": Frame(UPLOAD, vertex=1, worker=2, **FRESH),
    "a worker that is not": Frame(UPLOAD, vertex=1, worker=4, **FRESH),
    "a vertex behind its block": Frame(UPLOAD, vertex=3, worker=0, **FRESH),
    "a vertex far out": Frame(UPLOAD, vertex=2**32 - 1, worker=0, **FRESH),
    "a vertex beyond 16 bits": Frame(UPLOAD, vertex=0x10001, worker=1, **FRESH),
    "a block beyond the array": Frame(UPLOAD, vertex=1, worker=1, round=1, block=1025),
    "a block that was not loaded": Frame(UPLOAD, vertex=1, worker=1, round=1, block=2),
    "a chunk behind the last": Frame(UPLOAD, vertex=1, chunk=CHUNKS, worker=1, **FRESH),
    "an upload that counts for two": Frame(UPLOAD, vertex=1, worker=1, count=2, **FRESH),
    "a partial of nothing": Frame(PARTIAL, vertex=1, worker=1, count=0, **FRESH),
    "a partial with a huge count": Frame(PARTIAL, vertex=1, worker=1, count=2**32 - 1, **FRESH),
    "a partial from no worker": Frame(PARTIAL, vertex=1, worker=4, **FRESH),
    "a partial from no leaf": Frame(PARTIAL, vertex=1, worker=28, level=1, **FRESH),
    "done, by no worker": Frame(DONE, worker=4, **FRESH),
    "done, a block that is not": Frame(DONE, worker=1, round=1, block=64),
    "done, as a leaf says it": Frame(DONE, worker=1, level=1, **FRESH),
    "a job that is not": Frame(UPLOAD, vertex=1, worker=1, job=2, **FRESH),
    "a load for a job that is not": Frame(LOAD, job=2),
    "type 0": Frame(0, dst=0x0A000101),
    "type 10": Frame(10, dst=0x0A000101),
    "type 255": Frame(255, dst=0x0A000101),
    "a load of no words": Frame(LOAD, count=0),
    "a load of too many words": Frame(LOAD, count=31),
    "a load of no array": Frame(LOAD, chunk=10),
    "a clear, which is the control plane's": Frame(LOAD, chunk=7),
}


@pytest.fixture
def busy(switch: Engine) -> Engine:
    load_blocks(switch, [TRIANGLE, TRIANGLE])
    send(switch, Frame(UPLOAD, vertex=0, worker=0, values=[9] * 30, **FRESH), Frame(DONE, worker=3, **FRESH))
    return switch


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_packet_is_dropped_and_counted(busy: Engine, what: str) -> None:
    before, refused = state(busy), events(busy)[REFUSED]
    assert send(busy, FORGED[what]) == []
    assert same_state(before, state(busy))
    assert events(busy)[REFUSED] == refused + 1


def test_the_forged_ones_differ_in_one_thing_from_what_is_taken(busy: Engine) -> None:
    before = state(busy)
    send(busy, replace(FORGED["another worker's vertex"], worker=1))
    assert not same_state(before, state(busy))


def test_garbage_does_no_harm(busy: Engine) -> None:
    whole = Frame(UPLOAD, vertex=1, worker=1, job=9, **FRESH).encode()
    before = state(busy)

    @given(st.integers(0, len(whole)), st.binary(max_size=40), st.integers(0, 200))
    @settings(max_examples=200, deadline=None)
    def survives(cut: int, noise: bytes, at: int) -> None:
        data = bytearray(whole[:cut])
        data[at : at + len(noise)] = noise
        if len(data) > 44:
            data[44] = 9  # the job that is not there
        busy.send(1, bytes(data))
        busy.receive()

    survives()
    assert same_state(before, state(busy))


def test_a_packet_from_outside_cannot_pretend_to_go_round(busy: Engine) -> None:
    """The header of recirculated packets is read only on the recirculation port."""
    before = state(busy)
    inside = bytes.fromhex("07000000 00000000 00000001 00000001".replace(" ", ""))
    busy.send(1, inside + Frame(UPLOAD, vertex=1, worker=1, **FRESH).encode())
    assert busy.receive() == []
    assert same_state(before, state(busy))
