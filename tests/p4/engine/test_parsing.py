# ruff: noqa: E501 - programs and packets stay on one line
"""Parsers: select, stacks, unions, varbits, lookahead, value sets, sub-parsers, and every parser error."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine

PARTS = {
    "types": """
        header k_t { bit<8> op; }
        header out_t { bit<8> error_code; bit<8> seen; bit<32> v; }
        header label_t { bit<7> value; bit<1> bottom; }
        header opt_t { bit<4> a; bit<4> len; varbit<64> body; bit<8> tail; }
        header x_t { bit<8> tag; bit<8> v; }
        header y_t { bit<8> tag; bit<24> w; }
        header_union u_t { x_t x; y_t y; }
        parser inner(packet_in p, inout out_t o) { state start { o.v = o.v + (bit<32>)p.lookahead<bit<8>>(); p.advance(8);
            transition accept; } }
    """,
    "headers": "out_t o; label_t[3] labels; opt_t opt; u_t u; u_t[2] us; k_t k;",
    "parser": """
        value_set<bit<8>>(2) special; inner() sub; bit<8> count = 0;
        state start { h.o = { 0, 0, 0 }; p.extract(h.k); transition select(h.k.op) {
            0: accept; 1: labels; 2: opt; 3: union_s; 4: look; 5: checks; 6: subs; 7: reject; 8: steps; special: in_set;
            0x40 &&& 0xF0: masked; 0x50 .. 0x5A: ranged; 9: nothing; 10: bits; 11: length_s; 12: unions; 0xF0 &&& 0xF0: loop; }
        }
        state labels { p.extract(h.labels.next); h.o.seen = (bit<8>)h.labels.lastIndex;
            transition select(h.labels.last.bottom) { 0: labels; 1: accept; } }
        state opt { bit<8> l = p.lookahead<bit<8>>(); p.extract(h.opt, (bit<32>)(l[3:0] ++ 3w0)); transition accept; }
        state union_s { transition select(p.lookahead<bit<8>>()) { 1: ux; default: uy; } }
        state ux { p.extract(h.u.x); transition accept; }
        state uy { p.extract(h.u.y); transition accept; }
        state look { label_t l = p.lookahead<label_t>(); h.o.seen = (bit<8>)l.value; transition accept; }
        state checks { bit<8> v = p.lookahead<bit<8>>(); verify(v != 9, error.Mine); h.o.seen = v; transition accept; }
        state subs { sub.apply(p, h.o); sub.apply(p, h.o); transition accept; }
        state steps { count = count + 1; h.o.seen = count; transition select(count, h.k.op) { (5, _): accept; (_, 8): steps; } }
        state in_set { h.o.seen = 1; transition accept; }
        state masked { h.o.seen = 2; transition accept; }
        state ranged { h.o.seen = 3; transition accept; }
        state nothing { p.extract<k_t>(_); p.extract(h.k); transition accept; }
        state bits { p.advance(4); h.o.v = (bit<32>)p.lookahead<bit<12>>(); p.advance(12); transition accept; }
        state length_s { h.o.v = p.length(); transition accept; }
        state unions { p.extract(h.us.next.y); p.extract(h.us.next.x); transition accept; }
        state loop { transition loop; }
    """,
    "ingress": """
        s.egress_spec = 1;
        if (s.parser_error == error.NoError) { h.o.error_code = 0; }
        else if (s.parser_error == error.PacketTooShort) { h.o.error_code = 1; }
        else if (s.parser_error == error.NoMatch) { h.o.error_code = 2; }
        else if (s.parser_error == error.StackOutOfBounds) { h.o.error_code = 3; }
        else if (s.parser_error == error.HeaderTooShort) { h.o.error_code = 4; }
        else if (s.parser_error == error.ParserTimeout) { h.o.error_code = 5; }
        else if (s.parser_error == error.Mine) { h.o.error_code = 7; }
        else { h.o.error_code = 9; }
        h.o.setValid();
    """,
    "deparser": "p.emit(h.o); p.emit(h.labels); p.emit(h.opt); p.emit(h.u); p.emit(h.us); p.emit(h.k);",
}
PARTS["types"] = "error { Mine }" + PARTS["types"]


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    made = engine(**PARTS)
    made.value_set_insert("special", [0x77])
    made.value_set_insert("special", [0x80], [0xF8])
    return made


def ask(switch: Engine, text: str) -> tuple[int, int, int, str]:
    """(error, seen, v, the rest as hex)."""
    switch.send(0, bytes.fromhex(text))
    [packet] = switch.receive()
    d = packet.data
    return d[0], d[1], int.from_bytes(d[2:6], "big"), d[6:].hex()


CASES = [
    ("00 aa", (0, 0, 0, "00aa")),
    ("01 02 04 07 aa", (0, 2, 0, "02040701aa")),
    ("01 02 04 06 08 01", (3, 2, 0, "020406010801")),  # a fourth label: the stack is full
    ("01 02", (1, 0, 0, "0201")),  # the packet ends
    ("02 51 b1 ff", (0, 0, 0, "51b1ff02")),
    ("02 50 ff aa", (0, 0, 0, "50ff02aa")),
    ("02 58 01 02 03 04 05 06 07 08 ff", (0, 0, 0, "580102030405060708ff02")),
    ("02 59 01 02 03 04 05 06 07 08 09 ff", (4, 0, 0, "02590102030405060708" + "09ff")),
    ("03 01 05", (0, 0, 0, "010503")),
    ("03 02 05 06 07", (0, 0, 0, "0205060703")),
    ("04 0f", (0, 7, 0, "040f")),
    ("05 08", (0, 8, 0, "0508")),
    ("05 09", (7, 0, 0, "0509")),
    ("06 03 04 05", (0, 0, 7, "0605")),
    ("08", (0, 5, 0, "08")),
    ("77", (0, 1, 0, "77")),
    ("87", (0, 1, 0, "87")),
    ("88", (2, 0, 0, "88")),
    ("4f", (0, 2, 0, "4f")),
    ("50", (0, 3, 0, "50")),
    ("5a", (0, 3, 0, "5a")),
    ("5b", (2, 0, 0, "5b")),
    ("09 11 22 33", (0, 0, 0, "2233")),
    ("0a 12 34 56", (0, 0, 0x234, "0a56")),
    ("0b 00 00", (0, 0, 3, "0b0000")),
    ("0c 01 02 03 04 05 06 07", (0, 0, 0, "0102030405060c07")),
    ("f0", (5, 0, 0, "f0")),
    ("07 aa", (0, 0, 0, "07aa")),  # an explicit reject leaves parser_error alone
]


@pytest.mark.parametrize(("packet", "expected"), CASES)
def test_packet(switch: Engine, packet: str, expected: tuple[int, int, int, str]) -> None:
    assert ask(switch, packet) == expected


def test_an_empty_packet(switch: Engine) -> None:
    assert ask(switch, "") == (1, 0, 0, "")


def test_any_bytes_do_no_harm(switch: Engine) -> None:
    @given(st.binary(max_size=80))
    @settings(max_examples=400, deadline=None)
    def survives(data: bytes) -> None:
        switch.send(0, data)
        assert len(switch.receive()) == 1

    survives()


def test_large_and_many_packets(switch: Engine) -> None:
    rng = random.Random(3)
    for size in (1500, 9000, 70000):
        data = bytes([1, 1]) + rng.randbytes(size)
        switch.send(0, data)
        [packet] = switch.receive()
        assert packet.data[8:] == data[2:]
