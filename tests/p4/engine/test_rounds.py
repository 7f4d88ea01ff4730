# ruff: noqa: E501 - programs stay on one line a statement
"""Packets that go round without becoming bytes: the same program, with and without."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import check_text
from p4.targets import Engine
from tests.p4.conftest import v1model
from tests.p4.passes import Passes

# Byte 0 of each packet says which headers follow, byte 1 how often to go round, byte 2 what happens on the way.
PLAIN = {
    "types": "header k_t { bit<8> kinds; bit<8> turns; bit<8> op; bit<8> passes; } header a_t { bit<3> x; bit<13> y; } header b_t { bit<32> n; int<8> m; } header c_t { bit<8> z; }",
    "headers": "k_t k; a_t a; b_t b; c_t[2] c;",
    "meta": "@field_list(1) bit<8> kept; bit<8> lost; bit<8> parsed;",
    "parser": """
        state start { p.extract(h.k); m.parsed = m.parsed + 1; transition select(h.k.kinds) { 1: a; 2: b; 3: stack; 4: both; 5: fail; default: accept; } }
        state a { p.extract(h.a); transition accept; }
        state b { p.extract(h.b); verify(h.b.n != 7, error.HeaderTooShort); transition accept; }
        state stack { p.extract(h.c.next); p.extract(h.c.next); transition accept; }
        state both { p.extract(h.a); p.extract(h.b); transition accept; }
        state fail { p.extract(h.c.next); p.extract(h.c.next); p.extract(h.c.next); transition accept; }
    """,
    "deparser": "p.emit(h.k); p.emit(h.a); p.emit(h.b); p.emit(h.c);",
    "locals": "register<bit<32>>(64) log; register<bit<32>>(1) count;",
    "ingress": """
        bit<32> n;
        count.read(n, 0);
        log.write(n & 63, s.instance_type[3:0] ++ m.kept ++ m.lost ++ s.packet_length[7:0] ++ (bit<1>)(s.parser_error != error.NoError) ++ m.parsed[2:0]);
        count.write(0, n + 1);
        h.k.passes = h.k.passes + 1;
        m.kept = m.kept + 3; m.lost = 9;
        if (h.k.op == 1 && h.k.turns == 2) { clone_preserving_field_list(CloneType.I2E, 7, 1); }
        if (h.k.op == 2 && h.k.turns == 2 && s.instance_type != 6) { resubmit_preserving_field_list(1); }
        if (h.k.op == 3) { h.k.kinds = 1; h.a.setValid(); h.a.x = 5; h.b.setInvalid(); }
        if (h.k.op == 4) { h.b.setValid(); h.b.n = 77; }
        if (h.k.op == 5) { h.k.setInvalid(); }
        if (h.k.op == 6) { h.a.y = h.a.y + 1; h.b.m = h.b.m - 1; h.c[1].z = h.c[0].z; }
        if (h.k.op == 7) { h.k.kinds = h.k.kinds + 1; }
        if (h.k.op == 8 && h.k.turns == 1) { s.mcast_grp = 1; }
        else { s.egress_spec = h.k.turns > 0 ? 9w9 : 9w1; }
        if (h.k.turns > 0) { h.k.turns = h.k.turns - 1; }
    """,
    "egress": "if (s.egress_port == 9) { recirculate_preserving_field_list(1); if (h.k.op == 9) { truncate(5); } if (h.k.op == 10 && h.k.turns == 1) { clone_preserving_field_list(CloneType.E2E, 7, 1); } }",
}
TEXT = v1model(**PLAIN)


@pytest.fixture(scope="module")
def pair(libraries: Path) -> Iterator[tuple[Engine, Engine]]:
    """(headers go round, bytes go round)."""
    switches = []
    for bytes_too in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if bytes_too:
                patch.setattr("p4.codegen.v1model.reads_what_it_writes", lambda *_: False)
            generated = generate(check_text(TEXT))
        assert ("reads_what_it_writes = true" in generated.source) != bytes_too
        switch = Engine(build(generated, folder=libraries))
        switch.multicast_group(1, [(9, 1), (2, 2), (9, 3)])
        switch.clone_session(7, port=9)
        switches.append(switch)
    yield switches[0], switches[1]
    for switch in switches:
        switch.close()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 6), st.integers(0, 5), st.integers(0, 11), st.binary(max_size=14))
def test_a_round_without_bytes_is_a_round(
    pair: tuple[Engine, Engine], kinds: int, turns: int, op: int, rest: bytes
) -> None:
    got = []
    for switch in pair:
        switch.send(3, bytes([kinds, turns, op, 0]) + rest)
        got.append((switch.receive(), switch.statistics(), switch.register_array("ingress.log").tolist()))
    assert got[0] == got[1]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 11), st.binary(max_size=14)), max_size=4))
def test_packets_that_wait_for_their_round_as_headers(
    pair: tuple[Engine, Engine], drawn: list[tuple[int, int, int, bytes]]
) -> None:
    """The rounds of several packets by turns, as in a queue before the recirculation port."""
    got = []
    for switch in pair:
        passes, left, waiting = Passes(switch), [], []
        for kinds, turns, op, rest in drawn:
            waiting += passes.ingress(3, bytes([kinds, turns, op, 0]) + rest)
        while waiting and len(left) < 60:  # some come to no end
            first = waiting.pop(0)
            waiting += passes.next_pass(first.item)
            left.append((first[1:], passes.output()))
        for rest_ in waiting:
            passes.discard(rest_.item)
        got.append((left, switch.statistics(), switch.register_array("ingress.log").tolist()))
    assert got[0] == got[1]


def test_headers_that_the_parser_does_not_take_become_bytes(pair: tuple[Engine, Engine]) -> None:
    for switch in pair:
        for _ in range(100):  # beyond the tries that a program gets
            switch.send(3, bytes([0, 2, 4, 0]) + b"payload")
        packets = switch.receive()
        # b is emitted three times, each in front of what was payload by then
        assert [p.data for p in packets] == [
            bytes([0, 0, 4, 3]) + bytes([0, 0, 0, 77, 0]) * 3 + b"payload"
        ] * 100


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (
            "parser",
            "state start { p.extract(h.k); bit<8> next = p.lookahead<bit<8>>(); m.parsed = next; transition accept; }",
        ),
        ("parser", "state start { p.extract(h.k); p.advance(8); transition accept; }"),
        ("parser", 'state start { p.extract(h.k); log_msg("parsed"); transition accept; }'),
        ("deparser", "p.emit(h.k); if (h.a.isValid()) { p.emit(h.a); }"),
        ("deparser", "k_t copy = h.k; p.emit(copy);"),
    ],
)
def test_programs_that_do_more_keep_to_bytes(part: str, text: str) -> None:
    source = generate(check_text(v1model(**{**PLAIN, part: text}))).source
    assert "reads_what_it_writes = false" in source
