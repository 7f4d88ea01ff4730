# ruff: noqa: E501 - programs stay on one line
"""What P4 1.2.5 added, and the rarer parts of the language: loops over lists and stacks, compound assignments, slices
at run-time positions, enums and `type`s in keys, nested structs in headers, default values, tuples, log messages."""

from collections.abc import Callable

import pytest

from p4.targets import Engine

PARTS = {
    "types": """
        type bit<16> port_id_t;
        typedef bit<8> byte_t;
        enum bit<8> colour_t { red = 1, green = 2, blue = 4 }
        enum level_t { low, high }
        struct inner_t { bit<4> a; bit<12> b; }
        header k_t { byte_t op; bit<8> at; bit<32> v; bit<32> r; colour_t c; bool flag; bit<7> pad; inner_t in_header; port_id_t port; int<16> neg; }
        header x_t { bit<8> n; }
        struct both_t { inner_t first; bit<8> second; bool third; }
        const tuple<bit<8>, bit<8>> two = { 3, 4 };
        const list<bit<8>> numbers = { 5, 6, 7 };
        bit<8> three(in bit<8> a = 1, in bit<8> b = 2, in bit<8> c = 3) { return (a << 4) + (b << 2) + c; }
        @pure bit<8> kind<T>(in T v) { return (bit<8>)v.minSizeInBits(); }
    """,
    "headers": "k_t k; x_t[4] xs;",
    "meta": "both_t both; bit<8> n;",
    "parser": "state start { p.extract(h.k); transition select() { default: more; } } state more { transition accept; }",
    "deparser": "p.emit(h.k);",
    "locals": """
        action count(colour_t c, port_id_t to, bool on, int<16> by) { h.k.c = c; h.k.port = to; h.k.flag = on; h.k.neg = by; }
        table by_types { key = { h.k.c: exact; h.k.port: exact; h.k.flag: exact; h.k.neg: ternary; } actions = { count; NoAction; }
            const entries = { (colour_t.green, (port_id_t)7, true, -3): count(colour_t.blue, (port_id_t)9, false, -2); } default_action = NoAction; }
    """,
    "ingress": """
        s.egress_spec = 1;
        h.k.r = 0;
        switch (h.k.op) {
        0: { for (bit<8> i in { 1, 10, h.k.at }) { h.k.r = h.k.r + (bit<32>)i; } }
        1: { h.xs[0] = { 1 }; h.xs[2] = { 7 }; for (x_t x in h.xs) { if (x.isValid()) { h.k.r = h.k.r + (bit<32>)x.n; } h.xs[2].n = 50; } }
        2: { for (bit<8> i in numbers) { h.k.r += (bit<32>)i; if (i == 6) { break; } } }
        3: { h.k.r[7:0] = h.k.v[h.k.at +: 8]; }
        4: { h.k.r = 0xFFFFFFFF; h.k.r[h.k.at +: 8] = h.k.v[7:0]; }
        5: { bit<32> x = h.k.v; x += 3; x -= 1; x *= 2; x |= 1; x &= 0xFF; x ^= 0x10; x <<= 4; x >>= 1; x |+|= 0xFFFFFF00; x |-|= 5; h.k.r = x; }
        6: { h.k.c = h.k.c == colour_t.red ? colour_t.green : colour_t.red; h.k.r = (bit<32>)(bit<8>)h.k.c; }
        7: { by_types.apply(); }
        8: { m.both = { first = { a = 1, b = 0x234 }, second = h.k.at, ... }; h.k.in_header = m.both.first; h.k.r = m.both.third ? 32w1 : (bit<32>)m.both.second; }
        9: { tuple<bit<8>, bit<16>> t = { 1, 2 }; t[1] = 300; t[0] = h.k.at; h.k.r = (bit<32>)t[1] + (bit<32>)t[0] + (bit<32>)two[1]; }
        10: { h.k.r = (bit<32>)(three() ++ three(c = 0, a = h.k.at)); }
        11: { log_msg("plain \\"quoted\\" ?{}"); log_msg("at {} of {}, {} {}", { h.k.at, h.k.neg, h.k.flag, 72w0x123456789ABCDEF012 }); }
        12: { level_t l = level_t.high; h.k.r = l == level_t.low ? 32w1 : 2; switch (h.k.at) { 1: 2: { h.k.r = 12; } 3: { h.k.r = 3; } default: { h.k.r = 99; } } }
        13: { inner_t i = h.k.in_header; if (i == { 4w1, 12w2 }) { h.k.r = 1; } h.k.in_header.b = 0xABC; }
        14: { h.k.r = (bit<32>)(int<32>)((h.k.neg >> 1) ++ 16w5); h.k.flag = h.k.neg < -4; }
        15: { { const bit<8> local = 17; bit<8> op = local; h.k.r = (bit<32>)op; } h.k.r = h.k.r + (bit<32>)kind(h.k); }
        16: { if (h.k.at > 3 && h.k.at < 9 || h.k.flag && !(h.k.at == 0)) { h.k.r = 1; } else if (h.k.at == 20) { h.k.r = 2; } else { h.k.r = 3; } }
        17: { for (bit<8> i = 0, bit<8> j = 10; i < j; i += 1, j -= 1) { h.k.r += 1; } for (int<8> i in -2 .. 2) { if (i == 0) { continue; } h.k.r += 100; } }
        18: { for (bit<4> i in 12 .. 15) { h.k.r += 1; } for (bit<8> i in 3 .. 2) { h.k.r = 0; } }
        }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def ask(switch: Engine, op: int, at: int = 0, v: int = 0, **fields: int) -> dict[str, int]:
    """The header after one packet, field by field."""
    flag_and_pad = fields.get("flag", 0) << 7
    data = bytes([op, at]) + v.to_bytes(4, "big") + bytes(4) + bytes([fields.get("c", 0), flag_and_pad])
    data += fields.get("inner", 0).to_bytes(2, "big") + fields.get("port", 0).to_bytes(2, "big")
    data += fields.get("neg", 0).to_bytes(2, "big", signed=True)
    switch.send(0, data)
    out = switch.receive()[0].data
    return {
        "r": int.from_bytes(out[6:10], "big"), "c": out[10], "flag": out[11] >> 7, "inner": int.from_bytes(out[12:14], "big"),
        "port": int.from_bytes(out[14:16], "big"), "neg": int.from_bytes(out[16:18], "big", signed=True),
    }  # fmt: skip


def test_loops_over_lists_and_stacks(switch: Engine) -> None:
    assert ask(switch, 0, 100)["r"] == 111
    assert ask(switch, 1)["r"] == 8  # the loop sees the stack as it was
    assert ask(switch, 2)["r"] == 11
    assert ask(switch, 17)["r"] == 405
    assert ask(switch, 18)["r"] == 4  # up to the width's last value; an empty range does nothing


@pytest.mark.parametrize("at", [0, 1, 7, 24, 27, 32, 200])
def test_slices_at_run_time_positions(switch: Engine, at: int) -> None:
    v = 0x89ABCDEF
    assert ask(switch, 3, at, v)["r"] == v >> at & 0xFF
    mask = 0xFF << at & 0xFFFFFFFF
    assert ask(switch, 4, at, v)["r"] == 0xFFFFFFFF & ~mask | 0xEF << at & 0xFFFFFFFF


def test_compound_assignments(switch: Engine) -> None:
    for v in (0, 5, 0xFFFFFFFF):
        x = ((v + 3 - 1) * 2 | 1) & 0xFF ^ 0x10
        x = min((x << 4) >> 1, 0xFFFFFFFF)
        x = min(x + 0xFFFFFF00, 0xFFFFFFFF) - 5
        assert ask(switch, 5, 0, v)["r"] == x


def test_enums_types_and_signed_values_in_keys_and_data(switch: Engine) -> None:
    assert ask(switch, 6, c=1) | {"neg": 0} == {"r": 2, "c": 2, "flag": 0, "inner": 0, "port": 0, "neg": 0}
    assert ask(switch, 6, c=9)["c"] == 1
    got = ask(switch, 7, c=2, port=7, flag=1, neg=-3)
    assert (got["c"], got["port"], got["flag"], got["neg"]) == (4, 9, 0, -2)
    assert ask(switch, 7, c=2, port=7, flag=1, neg=-4)["neg"] == -4


def test_structs_tuples_and_defaults(switch: Engine) -> None:
    got = ask(switch, 8, 77)
    assert (got["inner"], got["r"]) == (0x1234, 77)
    assert ask(switch, 9, 5)["r"] == 300 + 5 + 4
    assert ask(switch, 10, 2)["r"] == (0x1B << 8 | 0x28)
    assert ask(switch, 13, inner=0x1002) | {"c": 0} == {
        "r": 1,
        "c": 0,
        "flag": 0,
        "inner": 0x1ABC,
        "port": 0,
        "neg": 0,
    }
    assert ask(switch, 15)["r"] == 17 + (8 * 18) % 256


def test_switch_labels_conditions_and_signed_arithmetic(switch: Engine) -> None:
    assert [ask(switch, 12, at)["r"] for at in (1, 2, 3, 4)] == [12, 12, 3, 99]
    assert [ask(switch, 16, at, flag=f)["r"] for at, f in ((5, 0), (9, 0), (9, 1), (0, 1), (20, 0))] == [
        1,
        3,
        1,
        3,
        2,
    ]
    got = ask(switch, 14, neg=-10)
    assert (got["r"], got["flag"]) == ((-5 & 0xFFFF) << 16 | 5, 1)


def test_log_messages(switch: Engine) -> None:
    ask(switch, 11, 8, flag=1, neg=-5)
    assert switch.log() == ['plain "quoted" ?{}', "at 8 of -5, 1 0x123456789abcdef012"]
    assert switch.log() == []
    for _ in range(5100):
        switch.send(0, bytes([11]) + bytes(17))
    lines = switch.log()
    assert (len(lines), lines[-1]) == (10001, "... 200 lines more")
