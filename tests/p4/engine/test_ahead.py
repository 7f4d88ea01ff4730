# ruff: noqa: E501 - programs stay on one line a statement
"""Egress before the packet waits: which programs, which packets, and that nothing else changes."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.trace import generate_traced
from p4.lang import check_text
from p4.targets import Engine
from tests.p4.conftest import v1model
from tests.p4.passes import Passes

# Byte 0 says what ingress does, byte 1 what egress does.
PARTS = {
    "types": "header k_t { bit<8> op; bit<8> how; bit<16> value; bit<16> sum; } header x_t { bit<8> x; }",
    "headers": "k_t k; x_t x;",
    "meta": "@field_list(1) bit<8> kept;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k); p.emit(h.x);",
    "ingress": """
        m.kept = 7;
        s.egress_spec = 1;
        if (h.k.op == 1) { s.mcast_grp = 1; }
        if (h.k.op == 2) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        if (h.k.op == 3) { mark_to_drop(s); }
        if (h.k.op == 4) { h.x.setValid(); h.x.x = 9; }
        if (h.k.op == 5) { s.egress_spec = 2; }
    """,
    "egress_locals": """
        action deep(bit<19> most) { if (s.deq_qdepth >= most) { h.k.value[0:0] = 1; } }
        table depth { key = { h.k.how: exact; } actions = { deep; NoAction; } default_action = NoAction; }
    """,
    "egress": """
        h.k.value = h.k.value + (bit<16>)s.egress_rid + (bit<16>)m.kept;
        if (h.k.how == 1) { mark_to_drop(s); }
        if (h.k.how == 2) { h.k.how = 0; clone_preserving_field_list(CloneType.E2E, 5, 1); }
        if (h.k.how == 3) { h.k.value = (bit<16>)s.egress_global_timestamp; }
        if (h.k.how == 4) { truncate(3); }
        if (h.k.how == 5) { h.k.how = 0; recirculate_preserving_field_list(1); }
        depth.apply();
    """,
    "compute": "update_checksum(true, { h.k.op, h.k.how, h.k.value }, h.k.sum, HashAlgorithm.csum16);",
}


def make(engine: Callable[..., Engine]) -> Passes:
    switch = engine(**PARTS)
    switch.multicast_group(1, [(3, 10), (1, 20), (3, 30)])
    switch.clone_session(5, port=2)
    switch.insert("depth", {"how": 6}, "deep", [4])
    return Passes(switch)


@pytest.fixture
def one_by_one(engine: Callable[..., Engine]) -> Passes:
    return make(engine)


@pytest.fixture
def early(engine: Callable[..., Engine]) -> Passes:
    return make(engine)


def packet(op: int, out: int, value: int = 100) -> bytes:
    return bytes([op, out]) + value.to_bytes(2, "big") + b"\0\0rest"


@pytest.mark.parametrize(
    ("op", "out", "ahead"),
    [
        (0, 0, 1),
        (1, 0, 3),  # replicas: each with its own rid
        (2, 0, 1),  # the clone waits, the packet does not: they go to different ports
        (3, 0, 0),
        (4, 0, 0),  # longer than it came: the queue counts it as it came
        (0, 1, 0),  # dropped by egress
        (0, 2, 0),  # cloned by egress
        (0, 3, 0),  # reads the clock
        (0, 4, 0),  # shorter
        (0, 5, 0),  # recirculates
        (0, 6, 0),  # its table's entry looks at the queue
        (0, 7, 1),  # ... and its default action does not
    ],
)
def test_what_passes_ahead_leaves_as_it_would_have(
    one_by_one: Passes, early: Passes, op: int, out: int, ahead: int
) -> None:
    expected, _ = one_by_one.run(3, packet(op, out))
    assert not any(left.ahead for left in expected)
    for port in (1, 2, 3):
        early.pass_ahead(port)
    left, _ = early.run(3, packet(op, out))
    assert sum(p.ahead for p in left) == ahead
    assert sorted(p[:2] for p in left) == sorted(p[:2] for p in expected)
    assert early.switch.statistics() == one_by_one.switch.statistics()


def test_nothing_overtakes_a_packet_whose_egress_is_to_come(early: Passes) -> None:
    early.pass_ahead(1)
    assert early.ingress(3, packet(0, 0)) == [] and [p.ahead for p in early.output()] == [True]
    [waits] = early.ingress(3, packet(0, 3))  # looks at the clock
    [behind] = early.ingress(3, packet(0, 0))
    assert early.output() == []
    early.next_pass(waits.item)
    early.next_pass(behind.item)
    assert [p.ahead for p in early.output()] == [False, False]
    early.pass_ahead(1)
    assert early.ingress(3, packet(0, 0)) == [] and len(early.output()) == 1


def test_a_packet_waits_behind_its_own_clone(early: Passes) -> None:
    early.switch.clone_session(5, port=1)
    early.pass_ahead(1)
    clone, original = early.ingress(3, packet(2, 0))
    assert (clone.port, original.port) == (1, 1) and early.output() == []


def test_a_program_that_never_fits_is_not_tried_for_ever(early: Passes) -> None:
    early.pass_ahead(1)
    for _ in range(100):
        [waits] = early.ingress(3, packet(0, 3))
        early.next_pass(waits.item)
        early.pass_ahead(1)
    assert len(early.output()) == 100
    [waits] = early.ingress(3, packet(0, 0))  # would fit, but the tries are used up
    assert waits.port == 1


def test_a_program_that_fits_as_often_is_tried_on(early: Passes) -> None:
    for _ in range(100):
        early.pass_ahead(1)
        [waits] = early.ingress(3, packet(0, 3))
        early.next_pass(waits.item)
        early.pass_ahead(1)
        assert early.ingress(3, packet(0, 0)) == []
        assert [p.ahead for p in early.output()] == [False, True]


def test_a_switch_with_its_own_queues_does_nothing_ahead(early: Passes) -> None:
    early.pass_ahead(1)
    early.switch.egress_queue(1, rate_pps=1000)
    for _ in range(3):
        early.switch.send(3, packet(0, 0))
    assert len(early.switch.receive()) == 1


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 65535), st.booleans()), max_size=12
    )
)
def test_any_packets_one_after_another(
    engine: Callable[..., Engine], drawn: list[tuple[int, int, int, bool]]
) -> None:
    found = []
    for ahead in (False, True):
        passes = make(engine)
        ports: dict[int, list[bytes]] = {}
        for op, out, value, again in drawn:
            for port in (1, 2, 3):
                if ahead and again:
                    passes.pass_ahead(port)
            for left in passes.run(3, packet(op, out, value))[0]:
                ports.setdefault(left.port, []).append(left.data)
        found.append((ports, passes.switch.statistics()))
        passes.switch.close()
    assert found[0] == found[1]


FITS = "egress_may_run_ahead = true"


def source(**parts: str) -> str:
    return generate(check_text(v1model(**{**PARTS, **parts}))).source


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("egress_locals", PARTS["egress_locals"] + "register<bit<8>>(4) r;"),
        ("egress_locals", PARTS["egress_locals"] + "counter(4, CounterType.packets) n;"),
        ("egress_locals", "direct_counter(CounterType.packets) hits; table depth { key = { h.k.how: exact; } actions = { NoAction; } counters = hits; }"),
        ("egress", PARTS["egress"] + 'log_msg("left");'),
        ("egress", PARTS["egress"] + "random(h.k.value, 16w0, 16w9);"),
        ("egress", PARTS["egress"] + "assert(h.k.op < 9);"),
        ("egress", PARTS["egress"] + "digest<bit<16>>(1, h.k.value);"),
        ("egress", PARTS["egress"] + "hash(h.k.value, HashAlgorithm.random, 16w0, { h.k.op }, 16w9);"),
        ("ingress", PARTS["ingress"] + "s.priority = 3;"),
        ("ingress", PARTS["ingress"] + "standard_metadata_t all = s; h.k.op = (bit<8>)all.ingress_port;"),
        ("parser", "state start { p.extract(h.k); s.priority = 1; transition accept; }"),
    ],
)
def test_programs_with_state_or_priorities_wait(part: str, text: str) -> None:
    assert FITS in source()
    assert FITS not in source(**{part: text})


@pytest.mark.parametrize(
    "egress",
    [
        "h.k.value = (bit<16>)s.deq_timedelta;",
        "if (s.enq_qdepth > 3) { h.k.value = 1; }",
        "bit<32> when = s.enq_timestamp; h.k.value = when[15:0];",
        "standard_metadata_t all = s; h.k.value = (bit<16>)all.egress_port;",
        "switch ((bit<8>)s.deq_qdepth) { 1: { h.k.value = 1; } default: { } }",
        "h.k.value = s.deq_qdepth == 0 ? 16w1 : 16w2;",
        "for (bit<19> i in 19w0 .. s.deq_qdepth) { h.k.value = h.k.value + 1; }",
    ],
)
def test_every_way_to_look_at_the_queue_is_seen(engine: Callable[..., Engine], egress: str) -> None:
    passes = Passes(engine(**{**PARTS, "egress_locals": "", "egress": egress}))
    passes.pass_ahead(1)
    assert [d.port for d in passes.ingress(3, packet(0, 0))] == [1]
    assert passes.output() == []


@pytest.mark.parametrize(
    "locals_",
    [
        "table depth { key = { s.deq_qdepth: exact; } actions = { NoAction; } }",
        "action put(in bit<19> n) { h.k.value = (bit<16>)n; } table depth { key = { h.k.how: exact; } actions = { put(s.deq_qdepth); } default_action = put(s.deq_qdepth); }",
        "bit<19> deep = s.deq_qdepth; table depth { key = { h.k.how: exact; } actions = { NoAction; } }",
    ],
)
def test_tables_and_declarations_that_look_at_the_queue(engine: Callable[..., Engine], locals_: str) -> None:
    passes = Passes(engine(**{**PARTS, "egress_locals": locals_, "egress": "depth.apply();"}))
    passes.pass_ahead(1)
    assert [d.port for d in passes.ingress(3, packet(0, 0))] == [1]


def test_a_traced_program_keeps_its_order() -> None:
    assert FITS not in generate_traced(check_text(v1model(**PARTS))).source
