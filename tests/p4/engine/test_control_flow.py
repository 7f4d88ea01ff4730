# ruff: noqa: E501 - programs and packets stay on one line
"""Statements, copies in and out, header validity, stacks, unions, functions, loops, exit."""

from collections.abc import Callable

import pytest

from p4.targets import Engine

PARTS = {
    "types": """
        header k_t { bit<8> op; bit<8> a; bit<8> b; bit<8> r; }
        header x_t { bit<8> v; }
        header y_t { bit<16> w; }
        header_union u_t { x_t x; y_t y; }
        struct pair_t { bit<8> one; bit<8> two; }
        enum kind_t { red, green, blue }
        enum bit<8> code_t { low = 3, high = 200 }
        const bit<8> step = 2;
        const pair_t start_pair = { 7, 8 };
        bit<8> twice(in bit<8> v) { return v + v; }
        bit<8> bump(inout bit<8> v) { v = v + 1; return v; }
        void swap(inout bit<8> p, inout bit<8> q) { bit<8> t = p; p = q; q = t; }
        T pick<T>(in bool first, in T p, in T q) { if (first) { return p; } return q; }
        bit<8> with_default(in bit<8> v, in bit<8> w = 40) { return v + w; }
        control adder(inout bit<8> v, in bit<8> by)(bit<8> times) { apply { v = v + by * times; } }
        control leaver(inout k_t k) {
            action leave() { k.r = 5; exit; }
            table t { actions = { leave; } default_action = leave; }
            apply { if (k.a == 1) { t.apply(); } k.r = 6; }
        }
        action global(inout bit<8> v) { v = v + 100; }
    """,
    "headers": "k_t k; x_t[3] stack; u_t u; x_t extra;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h);",
    "locals": """
        adder(3) three; adder(10) ten; leaver() leaver_i;
        bit<8> local = step;
        action outside(inout bit<8> v) { h.k.a = 50; v = v + h.k.a; }
        action plain() { h.k.r = local; return; }
    """,
    "ingress": """
        s.egress_spec = 1;
        switch (h.k.op) {
        0: { three.apply(h.k.r, h.k.a); ten.apply(h.k.r, h.k.b); }
        1: { leaver_i.apply(h.k); h.k.r = 7; }
        2: { outside(h.k.a); h.k.r = h.k.a; }
        3: { swap(h.k.a, h.k.b); h.k.r = twice(h.k.a); }
        4: { bit<8> v = 10; h.k.r = bump(v) + bump(v) * 2; h.k.a = v; }
        5: { h.k.r[7:4] = h.k.a[3:0]; h.k.r[3:0] = h.k.b[7:4]; bump(h.k.a[7:0]); }
        6: { h.stack[0] = { 1 }; h.stack[1] = { 2 }; h.stack.push_front(1); h.stack[0].setValid(); h.stack[0].v = 9; }
        7: { h.stack[0] = { 1 }; h.stack[2] = { 3 }; h.stack.pop_front(1); h.k.r = (bit<8>)h.stack.size; }
        8: { h.u.x = { 5 }; h.u.y.setValid(); h.u.y.w = 0x1234; h.k.r = h.u.x.isValid() ? 8w1 : 0; }
        9: { h.k.r = h.extra.v; h.extra.v = 77; h.extra.setValid(); }
        10: { h.k.r = 0; for (bit<8> i in 1 .. h.k.a) { if (i == 3) { continue; } if (i == 6) { break; } h.k.r = h.k.r + i; } }
        11: { for (bit<8> i = 0; i < h.k.a; i = i + step) { h.k.r = h.k.r + 1; } }
        12: { pair_t q = { h.k.a, h.k.b }; pair_t z = { two = h.k.b, one = h.k.a }; h.k.r = q == z && z != start_pair ? 8w1 : 2; }
        13: { kind_t c = kind_t.green; if (h.k.a == 9) { c = kind_t.blue; }
              switch (c) { kind_t.red: { h.k.r = 1; } kind_t.green: { h.k.r = 2; } default: { h.k.r = 3; } } }
        14: { code_t c = (code_t)h.k.a; h.k.r = c == code_t.high ? (bit<8>)code_t.low : 0; }
        15: { h.k.r = pick(h.k.a == 1, h.k.b, 8w9); h.k.b = with_default(1); global(h.k.b); }
        16: { if (h.k.a == 1) { return; } plain(); }
        17: { bit<8> i = 2; h.stack[h.k.a].v = 1; h.stack[i].setValid(); h.stack[i].v = h.stack[h.k.a].v + 4; }
        18: { tuple<bit<8>, bool> t = { h.k.a, h.k.b == 2 }; h.k.r = t[1] ? t[0] : 8w0; }
        19: { x_t c; c = { 1 }; x_t d = c; d.setInvalid(); h.k.r = c == d ? 8w1 : 2; c.setInvalid(); h.k.a = c == d ? 8w1 : 2; }
        20: { h.stack[0] = { 4 }; h.stack[1] = h.stack[0]; h.stack[0] = h.stack[2]; }
        21: { h.k.r = h.k.a; { bit<16> a = 0x0102; h.k.r = h.k.r + a[15:8]; } bit<8> a = 1; h.k.r = h.k.r + a; }
        22: { bit<8> q = h.k.a; q |= 0xF0; q -= 1; q <<= 1; h.k.r = q |+| 255; }
        23: { bit<8> i = 0; h.stack[1].v = 5; h.stack[bump(i)].v += 3; h.k.r = i; h.k.a = h.stack[1].v; }
        24: { bit<8> i = 0; h.stack[bump(i)].v = bump(i); h.k.r = h.stack[1].v; h.k.a = i; }
        default: { h.k.r = 255; }
        }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


CASES: list[tuple[int, int, int, list[int]]] = [
    # op, a, b -> a, b, r and whatever follows
    (0, 2, 1, [2, 1, 2 * 3 + 1 * 10]),
    (1, 1, 0, [1, 0, 5]),  # exit leaves every caller too
    (1, 2, 0, [2, 0, 7]),
    (2, 4, 0, [54, 0, 54]),  # copy in, then copy out: the action's own write to h.k.a is overwritten
    (3, 6, 9, [9, 6, 18]),
    (4, 0, 0, [12, 0, 11 + 12 * 2]),
    (5, 0x0A, 0xB0, [0x0B, 0xB0, 0xAB]),
    (6, 0, 0, [0, 0, 0, 9, 1, 2]),
    (7, 0, 0, [0, 0, 3, 3]),
    (8, 0, 0, [0, 0, 0, 0x12, 0x34]),
    (9, 0, 0, [0, 0, 0, 0]),  # fields of an invalid header read zero, and setValid() clears them (as BMv2)
    (10, 9, 0, [9, 0, 1 + 2 + 4 + 5]),
    (10, 0, 0, [0, 0, 0]),
    (10, 255, 0, [255, 0, 12]),
    (11, 5, 0, [5, 0, 3]),
    (12, 1, 2, [1, 2, 1]),
    (12, 7, 8, [7, 8, 2]),
    (13, 1, 0, [1, 0, 2]),
    (13, 9, 0, [9, 0, 3]),
    (14, 200, 0, [200, 0, 3]),
    (14, 3, 0, [3, 0, 0]),
    (15, 1, 4, [1, 141, 4]),
    (15, 2, 4, [2, 141, 9]),
    (16, 1, 0, [1, 0, 0]),
    (16, 2, 0, [2, 0, 2]),
    (17, 9, 0, [9, 0, 0, 4]),  # an index out of bounds writes nowhere and reads zero
    (18, 5, 2, [5, 2, 5]),
    (18, 5, 3, [5, 3, 0]),
    (19, 0, 0, [1, 0, 2]),
    (20, 0, 0, [0, 0, 0, 4]),
    (21, 3, 0, [3, 0, 5]),
    (22, 1, 0, [1, 0, 255]),
    (23, 0, 0, [8, 0, 1]),  # the place of a compound assignment is found once
    (24, 0, 0, [2, 0, 2]),  # the place before the value
    (99, 0, 0, [0, 0, 255]),
]


@pytest.mark.parametrize(("op", "a", "b", "expected"), CASES)
def test_statement(switch: Engine, op: int, a: int, b: int, expected: list[int]) -> None:
    switch.send(0, bytes([op, a, b, 0]))
    [packet] = switch.receive()
    assert list(packet.data[1:]) == expected
