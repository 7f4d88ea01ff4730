# ruff: noqa: E501 - programs stay on one line
"""Action profiles and selectors: members and groups, which one a packet gets, and what may not be done."""

import zlib
from collections.abc import Callable

import pytest

from p4.targets import Engine, TargetError

PARTS = {
    "types": "header k_t { bit<8> which; bit<32> flow; bit<16> sport; bit<16> r; bit<8> hit; }",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "locals": """
        action set(bit<16> v) { h.k.r = v; }
        action add(in bit<16> base, bit<16> v) { h.k.r = base + v; }
        action_profile(3) shared;
        action_selector(HashAlgorithm.crc32, 16, 32) paths;
        table first { key = { h.k.flow: exact; } actions = { set; add(h.k.sport); NoAction; } implementation = shared;
                      default_action = NoAction; }
        table second { key = { h.k.sport: ternary; } actions = { set; add(h.k.sport); NoAction; } implementation = shared; }
        table balance { key = { h.k.which: exact; h.k.flow: selector; h.k.sport: selector; } actions = { set; NoAction; }
                        implementation = paths; default_action = set(777); }
        @name("own") table inline_one { key = { h.k.flow: exact; } actions = { set; } implementation = action_profile(2); }
    """,
    "ingress": """
        s.egress_spec = 1;
        bool hit = false;
        if (h.k.which == 0) { hit = first.apply().hit; }
        else if (h.k.which == 1) { hit = second.apply().hit; }
        else if (h.k.which == 9) { hit = inline_one.apply().hit; }
        else { switch (balance.apply().action_run) { set: { h.k.hit = 7; } default: { } } }
        if (hit) { h.k.hit = 1; }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def ask(switch: Engine, which: int, flow: int = 0, sport: int = 0) -> tuple[int, int]:
    """(result, hit)."""
    switch.send(0, bytes([which]) + flow.to_bytes(4, "big") + sport.to_bytes(2, "big") + bytes(3))
    [packet] = switch.receive()
    return int.from_bytes(packet.data[7:9], "big"), packet.data[9]


def refused(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(TargetError) as caught:
        call()
    assert caught.value.code == code


def test_a_member_is_shared_by_entries_of_two_tables(switch: Engine) -> None:
    member = switch.add_member("shared", "set", {"v": 5})
    other = switch.add_member("shared", "add", [100])
    switch.insert_indirect("first", {"flow": 1}, member=member)
    switch.insert_indirect("first", {"flow": 2}, member=other)
    switch.insert_indirect("second", {"sport": (8, 8)}, member=member, priority=1)
    assert [ask(switch, 0, flow, 20) for flow in (1, 2, 3)] == [(5, 1), (120, 1), (0, 0)]
    assert ask(switch, 1, 0, 9) == (5, 1)
    switch.modify_member("shared", member, "set", [6])
    assert (ask(switch, 0, 1), ask(switch, 1, 0, 9)) == ((6, 1), (6, 1))
    switch.modify_indirect("first", {"flow": 1}, member=other)
    assert ask(switch, 0, 1, 1) == (101, 1)
    switch.delete("first", {"flow": 1})
    assert ask(switch, 0, 1) == (0, 0)


def test_a_selector_takes_the_member_that_the_hash_says(switch: Engine) -> None:
    members = [switch.add_member("paths", "set", [v]) for v in (10, 20, 30, 40, 50)]
    group = switch.set_group("paths", [members[3], members[0], members[4]])
    switch.insert_indirect("balance", {"which": 2}, group=group)
    chosen = set()
    for flow in range(40):
        data = flow.to_bytes(4, "big") + (7).to_bytes(2, "big")
        expected = (10, 40, 50)[zlib.crc32(data) % 3]  # members in ascending order
        assert ask(switch, 2, flow, 7) == (expected, 7)
        chosen.add(expected)
    assert chosen == {10, 40, 50}
    switch.set_group("paths", [members[1]], group=group)
    assert {ask(switch, 2, flow)[0] for flow in range(20)} == {20}
    switch.set_group("paths", [], group=group)
    assert ask(switch, 2) == (0, 0)  # a hit, but of an empty group: no action
    switch.modify_indirect("balance", {"which": 2}, member=members[2])
    assert ask(switch, 2, 5) == (30, 7)
    assert ask(switch, 3) == (777, 7)  # a miss runs the default action


def test_a_profile_written_in_the_table(switch: Engine) -> None:
    member = switch.add_member("own", "set", [3])
    switch.insert_indirect("own", {"flow": 4}, member=member)
    assert ask(switch, 9, 4) == (3, 1)


def test_what_is_refused(switch: Engine) -> None:
    member = switch.add_member("shared", "set", [5])
    path = switch.add_member("paths", "set", [5])
    group = switch.set_group("paths", [path])
    switch.insert_indirect("first", {"flow": 1}, member=member)
    switch.insert_indirect("balance", {"which": 2}, group=group)
    refused("INVALID_ARGUMENT", lambda: switch.insert("first", {"flow": 9}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: switch.modify("first", {"flow": 1}, "set", [1]))
    refused("INVALID_ARGUMENT", lambda: switch.insert_indirect("first", {"flow": 9}))
    refused("INVALID_ARGUMENT", lambda: switch.insert_indirect("first", {"flow": 9}, member=member, group=0))
    refused("NOT_FOUND", lambda: switch.insert_indirect("first", {"flow": 9}, member=99))
    refused("NOT_FOUND", lambda: switch.insert_indirect("balance", {"which": 9}, group=5))
    refused(
        "INVALID_ARGUMENT", lambda: switch.insert_indirect("balance", {"which": 9, "flow": 1}, group=group)
    )
    refused("ALREADY_EXISTS", lambda: switch.insert_indirect("first", {"flow": 1}, member=member))
    refused("INVALID_ARGUMENT", lambda: switch.set_group("shared", [member]))
    refused("INVALID_ARGUMENT", lambda: switch.set_group("paths", [path, path]))
    refused("NOT_FOUND", lambda: switch.set_group("paths", [44]))
    refused("NOT_FOUND", lambda: switch.set_group("paths", [path], group=7))
    refused("NOT_FOUND", lambda: switch.add_member("shared", "nope", []))
    refused("INVALID_ARGUMENT", lambda: switch.add_member("shared", "set", [1 << 16]))
    refused("NOT_FOUND", lambda: switch.add_member("nope", "set", [1]))
    refused("NOT_FOUND", lambda: switch.modify_member("shared", 50, "set", [1]))
    refused("FAILED_PRECONDITION", lambda: switch.delete_member("shared", member))
    refused("FAILED_PRECONDITION", lambda: switch.delete_member("paths", path))
    refused("FAILED_PRECONDITION", lambda: switch.delete_group("paths", group))
    switch.add_member("shared", "set", [5])
    switch.add_member("shared", "set", [5])
    refused("RESOURCE_EXHAUSTED", lambda: switch.add_member("shared", "set", [5]))
    switch.delete("first", {"flow": 1})
    switch.delete_member("shared", member)
    switch.add_member("shared", "set", [5])
    refused("NOT_FOUND", lambda: switch.delete_member("shared", 99))


def test_a_table_without_a_profile_takes_no_member(engine: Callable[..., Engine]) -> None:
    switch = engine(
        locals="action a() { } table t { key = { s.ingress_port: exact; } actions = { a; } }",
        ingress="t.apply();",
    )
    refused("INVALID_ARGUMENT", lambda: switch.insert_indirect("t", {"ingress_port": 1}, member=0))
