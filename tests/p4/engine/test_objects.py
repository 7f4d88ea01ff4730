# ruff: noqa: E501 - programs stay on one line
"""Objects outside the block that uses them: at the top level, passed to constructors, passed on, made in place."""

from collections.abc import Callable

import pytest

from p4.targets import Engine

PARTS = {
    "types": """
        header k_t { bit<8> op; bit<8> a; bit<8> r; }
        struct pair_t { bit<8> x; bit<8> y; }
        register<bit<8>>(16) everywhere;
        counter(4, CounterType.packets) seen;
        action note() { seen.count(1); }
        control step(inout bit<8> v);
        control one(inout bit<8> v)(bit<8> by) { apply { v = v + by; } }
        control shift(inout bit<8> v)() { apply { v = v << 1; } }
        control leave(inout bit<8> v) { apply { v = 99; exit; } }
        control twice(inout bit<8> v)(step first, step second) { apply { first.apply(v); second.apply(v); } }
        control outer(inout bit<8> v)(step inner) { twice(inner, inner) t; apply { t.apply(v); } }
        control sum(inout bit<8> v)(register<bit<8>> where, bit<32> at) {
            apply { bit<8> old; where.read(old, at); old = old + v; where.write(at, old); v = old; } }
        control paced(inout bit<8> v)(counter c, meter m) { apply { c.count(2); m.execute_meter(0, v); } }
        control picky(inout bit<8> v, in bit<8> key)(action_profile actions_of) {
            action set(bit<8> to) { v = to; }
            table t { key = { key: exact; } actions = { set; NoAction; } implementation = actions_of; default_action = NoAction; }
            apply { t.apply(); }
        }
        parser tail(packet_in p, inout bit<8> r)(bit<8> add) { state start { r = r + add; transition accept; } }
        parser some_tail(packet_in p, inout bit<8> r);
        parser tails(packet_in p, inout bit<8> r)(some_tail which) { state start { which.apply(p, r); transition accept; } }
    """,
    "headers": "k_t k;",
    "parser": "tail(5) five; tails(five) t; state start { p.extract(h.k); transition select(h.k.op) { 6: more; default: accept; } } state more { t.apply(p, h.k.r); transition accept; }",
    "deparser": "p.emit(h.k);",
    "locals": """
        one(3) three; leave() leaver; register<bit<8>>(4) own; meter(1, MeterType.packets) pace;
        outer(three) twice_three; twice(one(7), shift()) made_here; twice(three, leaver) leaving;
        sum(own, 2) in_own; sum(everywhere, 9) in_top; paced(seen, pace) p;
        action_profile(4) choices; picky(choices) pick;
    """,
    "ingress": """
        s.egress_spec = 1;
        note();
        if (h.k.op == 0) { twice_three.apply(h.k.r); }
        if (h.k.op == 1) { made_here.apply(h.k.r); }
        if (h.k.op == 2) { leaving.apply(h.k.r); h.k.r = 1; }
        if (h.k.op == 3) { in_own.apply(h.k.r); }
        if (h.k.op == 4) { in_top.apply(h.k.r); }
        if (h.k.op == 5) { p.apply(h.k.r); }
        if (h.k.op == 7) { pick.apply(h.k.r, h.k.a); }
        if (h.k.op == 8) { everywhere.write(3, h.k.a); }
    """,
    "egress": "if (h.k.op == 8) { everywhere.read(h.k.r, 3); }",
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def ask(switch: Engine, op: int, r: int = 0, a: int = 0) -> int:
    switch.send(0, bytes([op, a, r]))
    return switch.receive()[0].data[2]


def test_blocks_passed_to_constructors(switch: Engine) -> None:
    assert ask(switch, 0, 10) == 16  # the same instance applied twice, through two constructors
    assert ask(switch, 1, 10) == 34  # made in the argument list
    assert ask(switch, 2, 10) == 99  # an exit inside a passed block ends ingress
    assert ask(switch, 6, 10) == 15  # a parser


def test_state_passed_to_constructors_is_the_same_state(switch: Engine) -> None:
    assert [ask(switch, 3, 4) for _ in range(3)] == [4, 8, 12]
    assert switch.register_read("ingress.own", 2) == 12
    assert [ask(switch, 4, 5) for _ in range(2)] == [5, 10]
    assert switch.register_read("everywhere", 9) == 10
    ask(switch, 5)
    assert switch.counter_read("seen", 2)[0] == 1


def test_a_top_level_register_is_one_for_ingress_and_egress(switch: Engine) -> None:
    assert ask(switch, 8, 0, 77) == 77
    assert switch.counter_read("seen", 1)[0] == 1  # counted by a top-level action


def test_an_action_profile_passed_to_a_constructor(switch: Engine) -> None:
    member = switch.add_member("choices", "set", [42])
    switch.insert_indirect("pick.t", {"key": 8}, member=member)
    assert (ask(switch, 7, 1, 8), ask(switch, 7, 1, 9)) == (42, 1)
