# ruff: noqa: E501 - programs and packets stay on one line
"""Egress queues: rate, depth, priorities and what the program sees of them; the passes under another's queues."""

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import SWITCHGNN
from p4.targets import Engine, Packet, TargetError
from tests.p4.passes import Descriptor, Passes

PARTS = {
    "types": "header k_t { bit<8> op; bit<8> priority; bit<8> rounds; bit<32> enq; bit<32> delta; bit<24> enq_depth; bit<24> deq_depth; bit<48> left; bit<48> came; }",
    "meta": "@field_list(1) bit<8> rounds;",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "ingress": """
        s.egress_spec = 1;
        s.priority = (bit<3>)h.k.priority;
        h.k.came = s.ingress_global_timestamp;
        if (h.k.op == 1) { s.mcast_grp = 1; }
        if (h.k.op == 2) { clone(CloneType.I2E, 1); }
        if (h.k.op == 3 && s.instance_type == 0) { resubmit_preserving_field_list(1); }
    """,
    "egress": """
        h.k.enq = s.enq_timestamp; h.k.delta = s.deq_timedelta; h.k.enq_depth = (bit<24>)s.enq_qdepth;
        h.k.deq_depth = (bit<24>)s.deq_qdepth; h.k.left = s.egress_global_timestamp;
        if (h.k.op == 4 && h.k.rounds > 0) { h.k.rounds = h.k.rounds - 1; recirculate_preserving_field_list(1); }
        if (h.k.op == 5 && s.instance_type == 0) { clone(CloneType.E2E, 1); }
    """,
}
SIZE = 3 + 4 + 4 + 3 + 3 + 6 + 6


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def packet(op: int = 0, priority: int = 0, rounds: int = 0, mark: int = 0) -> bytes:
    return bytes([op, priority, rounds]) + bytes(SIZE - 3) + bytes([mark])


def seen(p: Packet) -> dict[str, int]:
    fields, at = {}, 3
    for name, size in (
        ("enq", 4),
        ("delta", 4),
        ("enq_depth", 3),
        ("deq_depth", 3),
        ("left", 6),
        ("came", 6),
    ):
        fields[name] = int.from_bytes(p.data[at : at + size], "big")
        at += size
    return fields


def test_without_a_queue_packets_pass_at_once_and_see_an_empty_one(switch: Engine) -> None:
    switch.now_us = 77
    switch.send(0, packet())
    [p] = switch.receive()
    assert seen(p) == {"enq": 77, "delta": 0, "enq_depth": 0, "deq_depth": 0, "left": 77, "came": 77}


def test_a_rate_spaces_packets_and_the_program_sees_depth_and_delay(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=100_000)  # one each 10 microseconds
    switch.now_us = 1000
    for mark in range(4):
        switch.send(0, packet(mark=mark))
    assert [p.data[-1] for p in switch.receive()] == [0]
    assert switch.queue_state(1).waiting == 3
    assert switch.next_due_ns() == 1_010_000
    switch.now_us = 1019
    assert [seen(p)["left"] for p in switch.receive()] == [1010]
    switch.now_us = 5000
    third, fourth = switch.receive()
    assert (third.data[-1], fourth.data[-1]) == (2, 3)
    assert seen(third) == {
        "enq": 1000,
        "delta": 20,
        "enq_depth": 1,
        "deq_depth": 1,
        "left": 1020,
        "came": 1000,
    }
    assert seen(fourth) == {
        "enq": 1000,
        "delta": 30,
        "enq_depth": 2,
        "deq_depth": 0,
        "left": 1030,
        "came": 1000,
    }
    assert switch.next_due_ns() is None
    assert switch.queue_state(1) == (0, 3, 0)


def test_a_packet_that_arrives_later_lets_the_due_ones_go_first(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=100_000)
    for mark in range(3):
        switch.send(0, packet(mark=mark))
    switch.now_us = 15
    switch.send(0, packet(mark=9))
    switch.now_us = 100
    packets = switch.receive()
    assert [p.data[-1] for p in packets] == [0, 1, 2, 9]
    assert seen(packets[3]) == {
        "enq": 15,
        "delta": 15,
        "enq_depth": 1,
        "deq_depth": 0,
        "left": 30,
        "came": 15,
    }


def test_a_full_queue_drops_and_counts(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=1000, depth=2)
    for mark in range(6):
        switch.send(0, packet(mark=mark))
    switch.now_us = 10_000
    assert [p.data[-1] for p in switch.receive()] == [0, 1, 2]
    assert switch.queue_state(1) == (0, 2, 3)
    assert switch.statistics()["queue_drops"] == 3
    assert switch.problems() == ["packets dropped by a full egress queue: 3"]


def test_of_packets_due_at_once_the_higher_priority_leaves_first(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=1000)
    for priority in (0, 7, 3):
        switch.send(0, packet(priority=priority, mark=100))  # leaves at once
        switch.send(0, packet(priority=priority, mark=priority))  # waits a millisecond
    switch.receive()
    switch.now_us = 1000
    assert [p.data[-1] for p in switch.receive()] == [7, 3, 0]


def test_a_priority_has_its_own_rate_and_depth(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=1_000_000, depth=100)
    switch.egress_queue(1, rate_pps=1000, depth=1, priority=5)
    for mark in range(4):
        switch.send(0, packet(priority=5, mark=mark))
        switch.send(0, packet(priority=0, mark=10 + mark))
    switch.now_us = 3
    assert [p.data[-1] for p in switch.receive()] == [0, 10, 11, 12, 13]
    assert switch.queue_state(1, 5) == (1, 1, 2)
    assert switch.queue_state(1, 0).dropped == 0


def test_copies_and_clones_wait_in_the_queues_of_their_ports(switch: Engine) -> None:
    switch.multicast_group(1, [(1, 0), (2, 0), (1, 1)])
    switch.clone_session(1, port=2)
    switch.egress_queue(1, rate_pps=1000)
    switch.egress_queue(2, rate_pps=1000)
    switch.send(0, packet(op=1))
    assert [p.port for p in switch.receive()] == [1, 2]
    switch.send(0, packet(op=2))
    switch.send(0, packet(op=5))
    assert switch.receive() == []
    assert (switch.queue_state(1).waiting, switch.queue_state(2).waiting) == (3, 1)
    switch.now_us = 10_000
    assert sorted(p.port for p in switch.receive()) == [1, 1, 1, 2, 2]


def test_recirculated_packets_queue_again_each_round(switch: Engine) -> None:
    switch.egress_queue(1, rate_pps=1000)
    switch.send(0, packet(op=4, rounds=3))
    switch.now_us = 2999
    assert switch.receive() == []
    switch.now_us = 3000
    [p] = switch.receive()
    assert seen(p)["left"] == 3000


def test_what_a_queue_may_not_be(switch: Engine) -> None:
    for call in (
        lambda: switch.egress_queue(512),
        lambda: switch.egress_queue(1, rate_pps=-1),
        lambda: switch.egress_queue(1, depth=-1),
        lambda: switch.egress_queue(1, priority=8),
        lambda: switch.queue_state(1, 8),
    ):
        with pytest.raises(TargetError, match="INVALID_ARGUMENT"):
            call()


def test_departures_agree_with_a_model(engine: Callable[..., Engine]) -> None:
    """Random arrivals: every packet's fate, time and what it saw, by a queue written in a few lines of Python."""

    @given(
        st.lists(st.integers(0, 40), min_size=1, max_size=40),
        st.sampled_from([50_000, 100_000, 250_000, 1_000_000]),
        st.integers(0, 6),
    )
    @settings(max_examples=80, deadline=None)
    def agrees(gaps: list[int], rate: int, depth: int) -> None:
        switch = engine(**PARTS)
        switch.egress_queue(1, rate_pps=rate, depth=depth)
        interval = 1_000_000 // rate
        now, last, waiting, expected = 0, -interval, deque[tuple[int, int]](), []
        for mark, gap in enumerate(gaps):
            now += gap
            while waiting and waiting[0][0] <= now:
                waiting.popleft()
            switch.now_us = now
            switch.send(0, packet(mark=mark))
            if len(waiting) < depth:
                last = max(now, last + interval)
                expected.append((last, mark, len(waiting), now))
                waiting.append((last, mark))
        switch.now_us = now + 10_000_000
        got = [(seen(p)["left"], p.data[-1], seen(p)["enq_depth"], seen(p)["enq"]) for p in switch.receive()]
        assert got == expected
        assert switch.statistics()["queue_drops"] == len(gaps) - len(expected)

    agrees()


# ---- ECN in switchgnn.p4


def ip_packet(ecn: int) -> bytes:
    head = bytearray.fromhex("000000000002000000000001080045000028000000004011" + "0000" + "0a0000010a000002")
    head[15] = ecn
    total = sum(int.from_bytes(head[i : i + 2], "big") for i in range(14, 34, 2))
    total = (total & 0xFFFF) + (total >> 16)
    head[24:26] = ((total & 0xFFFF) ^ 0xFFFF).to_bytes(2, "big")
    return bytes(head) + bytes(20)


@pytest.mark.parametrize("ecn", [0, 1, 2, 3])
def test_switchgnn_marks_what_waited_before_a_deep_queue(ecn: int) -> None:
    """Ten packets at once into a queue: those that leave three or more behind are marked, if they can be."""
    with Engine(build(generate(load_program(SWITCHGNN)))) as switch:
        switch.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", {"port": 7, "mac": 1})
        switch.set_default("ecn", "mark", {"threshold": 3})
        switch.egress_queue(7, rate_pps=1_000_000)
        for _ in range(10):
            switch.send(1, ip_packet(ecn))
        switch.now_us += 100
        packets = switch.receive()
        marks = [p.data[15] & 3 for p in packets]
        # The first finds the queue empty and leaves at once; the second leaves eight behind, and so on down.
        behind = [0, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        assert marks == [3 if ecn in (1, 2) and b >= 3 else ecn for b in behind]
        for p in packets:
            words = [int.from_bytes(p.data[i : i + 2], "big") for i in range(14, 34, 2)]
            assert sum(words) % 0xFFFF == 0  # the checksum follows the mark


# ---- the passes alone: a traffic manager written here


def test_the_passes_alone_under_a_traffic_manager_of_the_callers(switch: Engine) -> None:
    switch.multicast_group(1, [(4, 0), (5, 9)])
    passes = Passes(switch)

    def arrive(data: bytes, now_ns: int) -> list[Descriptor]:
        return passes.ingress(3, data, now_ns)

    def leave(item: int, now_ns: int, *queue: int) -> list[Descriptor]:
        return passes.next_pass(item, now_ns, queue)

    [(item, kind, port, priority, size)] = arrive(packet(priority=6), 5_000_000)
    assert (kind, port, priority, size) == (0, 1, 6, SIZE + 1)
    assert switch.receive() == []
    assert leave(item, 5_250_000, 5_100_000, 17, 12) == []
    [p] = switch.receive()
    assert seen(p) == {
        "enq": 5100,
        "delta": 150,
        "enq_depth": 17,
        "deq_depth": 12,
        "left": 5250,
        "came": 5000,
    }

    first, second = arrive(packet(op=1), 6_000_000)
    assert (first.port, second.port) == (4, 5)
    passes.discard(first.item)
    assert leave(first.item, 6_000_000, 0, 0, 0) == []  # gone: nothing happens
    leave(second.item, 6_001_000, 6_000_000, 0, 0)
    assert [p.port for p in switch.receive()] == [5]

    [(item, kind, *_)] = arrive(packet(op=4, rounds=1), 7_000_000)
    [(item, kind, port, _, size)] = leave(item, 7_000_000, 7_000_000, 0, 0)
    assert (kind, port, size) == (2, 1, SIZE + 1)  # recirculated out of port 1
    [(item, kind, port, *_)] = leave(item, 8_000_000, 0, 0, 0)
    assert (kind, port) == (0, 1)
    leave(item, 8_000_000, 8_000_000, 0, 0)
    [p] = switch.receive()
    assert seen(p)["came"] == 8000

    [(item, kind, *_)] = arrive(packet(op=3), 9_000_000)
    assert kind == 1  # resubmitted
    [(item, kind, *_)] = leave(item, 9_000_000, 0, 0, 0)
    assert kind == 0
    passes.discard(item)
    switch.send(0, packet())  # and whole packets still work beside it
    assert len(switch.receive()) == 1


def test_a_trivial_traffic_manager_gives_what_the_switch_gives(
    switch: Engine, engine: Callable[..., Engine]
) -> None:
    other = engine(**PARTS)
    for s in (switch, other):
        s.multicast_group(1, [(4, 0), (5, 9)])
        s.clone_session(1, port=2, group=1, truncate=20)
    passes, left = Passes(other), []
    for number in range(60):
        data = packet(op=number % 6, priority=number % 8, rounds=number % 4, mark=number)
        switch.send(3, data)
        left += passes.run(3, data)[0]
    assert sorted((p.port, p.data) for p in switch.receive()) == sorted((p.port, p.data) for p in left)
