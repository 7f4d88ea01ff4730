# ruff: noqa: E501 - programs and packets stay on one line
"""Every kind of match, entries in the program, default actions, and what the control plane may not do."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine, TargetError

PARTS = {
    "types": "header k_t { bit<8> which; bit<32> a; bit<16> b; bit<8> c; bit<16> result; bit<8> hit; }",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "locals": """
        direct_counter(CounterType.packets_and_bytes) seen;
        action set(bit<16> v) { h.k.result = v; }
        action add(in bit<16> base, bit<16> v) { h.k.result = base + v; }
        action drop() { mark_to_drop(s); }
        table ex { key = { h.k.a: exact; h.k.c: exact @name("kind"); } actions = { set; drop; NoAction; } size = 3;
                   counters = seen; }
        table lpm_t { key = { h.k.a: lpm; h.k.c: exact; } actions = { set; } default_action = set(999); }
        table ter { key = { h.k.a: ternary; h.k.b: ternary; } actions = { set; add(h.k.b); } }
        table ran { key = { h.k.b: range; h.k.c: optional; } actions = { set; } }
        table fixed_t { key = { h.k.b: ternary; } actions = { set; @defaultonly NoAction; }
            const entries = { 5: set(50); 0x10 &&& 0xF0: set(60); 0x11: set(70); }
            const default_action = NoAction; }
        table none { actions = { set; @tableonly drop; } default_action = set(1); }
    """,
    "ingress": """
        s.egress_spec = 1;
        bool hit = false;
        if (h.k.which == 0) { hit = ex.apply().hit; }
        else if (h.k.which == 1) { hit = !lpm_t.apply().miss; }
        else if (h.k.which == 2) { switch (ter.apply().action_run) { set: { h.k.c = 1; } add: { h.k.c = 2; } default: { h.k.c = 3; } } }
        else if (h.k.which == 3) { hit = ran.apply().hit; }
        else if (h.k.which == 4) { hit = fixed_t.apply().hit; }
        else { hit = none.apply().hit; }
        h.k.hit = (bit<8>)(bit<1>)hit;
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def ask(switch: Engine, which: int, a: int = 0, b: int = 0, c: int = 0) -> tuple[int, int, int] | None:
    """(result, hit, c) of one packet; None if it was dropped."""
    data = bytes([which]) + a.to_bytes(4, "big") + b.to_bytes(2, "big") + bytes([c]) + bytes(3)
    switch.send(0, data)
    packets = switch.receive()
    if not packets:
        return None
    out = packets[0].data
    return int.from_bytes(out[8:10], "big"), out[10], out[7]


def refused(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(TargetError) as caught:
        call()
    assert caught.value.code == code


def test_exact(switch: Engine) -> None:
    assert ask(switch, 0, 7, c=2) == (0, 0, 2)
    switch.insert("ex", {"h.k.a": 7, "kind": 2}, "set", {"v": 5})
    switch.insert("ingress.ex", {"a": 8, "kind": 2}, "drop")
    assert ask(switch, 0, 7, c=2) == (5, 1, 2)
    assert ask(switch, 0, 7, c=3) == (0, 0, 3)
    assert ask(switch, 0, 8, c=2) is None
    switch.modify("ex", {"a": 7, "kind": 2}, "set", [6])
    assert ask(switch, 0, 7, c=2) == (6, 1, 2)
    assert switch.entry_counters("ex", {"a": 7, "kind": 2}) == (2, 22)
    switch.delete("ex", {"a": 7, "kind": 2})
    assert ask(switch, 0, 7, c=2) == (0, 0, 2)


def test_longest_prefix(switch: Engine) -> None:
    assert ask(switch, 1, 0x0A000001) == (999, 0, 0)
    switch.insert("lpm_t", {"a": (0, 0), "c": 0}, "set", [1])
    switch.insert("lpm_t", {"a": (0x0A000000, 8), "c": 0}, "set", [8])
    switch.insert("lpm_t", {"a": (0x0A010000, 16), "c": 0}, "set", [16])
    switch.insert("lpm_t", {"a": 0x0A010203, "c": 0}, "set", [32])
    assert [ask(switch, 1, a)[0] for a in (0x0A000001, 0x0A010001, 0x0A010203, 0x0B000000)] == [8, 16, 32, 1]  # type: ignore[index]
    assert ask(switch, 1, 0x0A000001, c=1) == (999, 0, 1)
    switch.delete("lpm_t", {"a": (0x0A010000, 16), "c": 0})
    assert ask(switch, 1, 0x0A010001) == (8, 1, 0)


def test_ternary_priorities_and_action_run(switch: Engine) -> None:
    assert ask(switch, 2, 1, 2)[2] == 3  # type: ignore[index]
    switch.insert("ter", {"a": (0x100, 0xFF00)}, "set", [1], priority=10)
    switch.insert("ter", {"b": 5}, "add", [100], priority=20)
    assert ask(switch, 2, 0x1FF, 0) == (1, 0, 1)
    assert ask(switch, 2, 0x1FF, 5) == (105, 0, 2)
    switch.insert("ter", {}, "set", [7], priority=30)
    assert ask(switch, 2, 0x1FF, 5) == (7, 0, 1)


def test_range_and_optional(switch: Engine) -> None:
    switch.insert("ran", {"b": (10, 20), "c": 4}, "set", [1], priority=2)
    switch.insert("ran", {"b": (15, 300)}, "set", [2], priority=1)
    assert ask(switch, 3, b=15, c=4) == (1, 1, 4)
    assert ask(switch, 3, b=15, c=5) == (2, 1, 5)
    assert ask(switch, 3, b=300, c=4) == (2, 1, 4)
    assert ask(switch, 3, b=9, c=4) == (0, 0, 4)
    assert ask(switch, 3, b=301) == (0, 0, 0)


def test_entries_in_the_program(switch: Engine) -> None:
    assert [ask(switch, 4, b=b)[0] for b in (5, 0x10, 0x11, 0x1F, 6)] == [50, 60, 60, 60, 0]  # type: ignore[index]
    refused("PERMISSION_DENIED", lambda: switch.insert("fixed_t", {"b": 1}, "set", [1], priority=1))
    refused("PERMISSION_DENIED", lambda: switch.set_default("fixed_t", "NoAction"))


def test_default_actions(switch: Engine) -> None:
    assert ask(switch, 5) == (1, 0, 0)
    switch.set_default("none", "set", {"v": 77})
    assert ask(switch, 5) == (77, 0, 0)
    refused("PERMISSION_DENIED", lambda: switch.set_default("none", "drop"))
    refused("INVALID_ARGUMENT", lambda: switch.insert("none", {}, "set", [1]))


def test_refusals(switch: Engine) -> None:
    insert = switch.insert
    refused("NOT_FOUND", lambda: insert("nope", {}, "set", [1]))
    refused("NOT_FOUND", lambda: insert("ex", {"a": 1, "kind": 1}, "add", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1 << 32, "kind": 1}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1, "kind": 1, "z": 1}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1, "kind": 1}, "set", [1 << 16]))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1, "kind": 1}, "set", []))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1, "kind": 1}, "set", {"w": 1}))
    refused("INVALID_ARGUMENT", lambda: insert("ex", {"a": 1, "kind": 1}, "set", [1], priority=4))
    refused("INVALID_ARGUMENT", lambda: insert("ter", {"a": 1}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("lpm_t", {"a": (1, 8), "c": 0}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("lpm_t", {"a": (0, 33), "c": 0}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: insert("ter", {"a": (3, 1)}, "set", [1], priority=1))
    refused("INVALID_ARGUMENT", lambda: insert("ran", {"b": (3, 1)}, "set", [1], priority=1))
    refused("NOT_FOUND", lambda: switch.delete("ex", {"a": 1, "kind": 1}))
    insert("ex", {"a": 1, "kind": 1}, "set", [1])
    refused("ALREADY_EXISTS", lambda: insert("ex", {"a": 1, "kind": 1}, "drop"))
    insert("ex", {"a": 2, "kind": 1}, "set", [1])
    insert("ex", {"a": 3, "kind": 1}, "set", [1])
    refused("RESOURCE_EXHAUSTED", lambda: insert("ex", {"a": 4, "kind": 1}, "set", [1]))


def test_ternary_agrees_with_a_list_of_rules(engine: Callable[..., Engine]) -> None:
    rules_of = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(1, 50)), max_size=12)

    @given(rules_of, st.lists(st.integers(0, 255), min_size=1, max_size=8))
    @settings(max_examples=60, deadline=None)
    def agrees(rules: list[tuple[int, int, int]], keys: list[int]) -> None:
        switch = engine(**PARTS)
        known: dict[tuple[int, int, int], int] = {}
        for number, (value, mask, priority) in enumerate(rules):
            rule = (value & mask, mask, priority)
            if rule not in known:
                known[rule] = number
                switch.insert("ter", {"a": rule[:2]}, "set", [number], priority=priority)
        for key in keys:
            fitting = [(-p, n) for (v, m, p), n in known.items() if key & m == v]
            assert ask(switch, 2, key) == ((min(fitting)[1], 0, 1) if fitting else (0, 0, 3))

    agrees()


def test_exact_agrees_with_a_dictionary(switch: Engine) -> None:
    """Insertions and deletions in a long random order; probing chains must survive."""
    rng = random.Random(5)
    model: dict[int, int] = {}
    for _ in range(3000):
        key = rng.randrange(600) << 3
        if key in model and rng.random() < 0.6:
            del model[key]
            switch.delete("lpm_t", {"a": key, "c": 0})
        elif key not in model:
            model[key] = rng.randrange(1 << 16)
            switch.insert("lpm_t", {"a": key, "c": 0}, "set", [model[key]])
    for key in range(0, 4800, 8):
        result, hit, _ = ask(switch, 1, key)  # type: ignore[misc]
        assert (result, hit) == ((model[key], 1) if key in model else (999, 0))
