# ruff: noqa: E501 - programs and packets stay on one line
"""Where packets go: ports, drop, multicast, clones, resubmit, recirculate, truncate, and their metadata."""

from collections.abc import Callable

import pytest

from p4.targets import Engine, Packet

PARTS = {
    "types": "enum bit<8> lists { first = 1 } const bit<8> two = 2; header k_t { bit<8> op; bit<8> n; bit<8> kind; bit<8> kept; bit<8> lost; bit<8> rid; bit<16> len; }",
    "meta": "@field_list(lists.first, 2) bit<8> kept; bit<8> lost; @field_list(two) bit<8> loops;",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "ingress": """
        s.egress_spec = 1;
        if (s.instance_type == 4 || s.instance_type == 6) { h.k.kept = m.kept; h.k.lost = m.lost; h.k.kind = (bit<8>)s.instance_type; }
        m.kept = m.kept + 3; m.lost = 9; m.loops = m.loops + 1;
        if (h.k.op == 1) { mark_to_drop(s); }
        if (h.k.op == 2) { s.mcast_grp = 5; }
        if (h.k.op == 3) { clone(CloneType.I2E, 7); h.k.n = 99; }
        if (h.k.op == 4) { clone_preserving_field_list(CloneType.I2E, 7, 1); h.k.n = 99; }
        if (h.k.op == 5 && s.instance_type == 0) { resubmit_preserving_field_list(1); h.k.n = 99; }
        if (h.k.op == 8) { truncate(5); }
        if (h.k.op == 10) { s.egress_spec = 511; s.mcast_grp = 5; }
    """,
    "egress": """
        if (s.instance_type == 1 || s.instance_type == 2 || s.instance_type == 5) {
            h.k.kind = (bit<8>)s.instance_type; h.k.kept = m.kept; h.k.lost = m.lost; h.k.rid = (bit<8>)s.egress_rid; }
        h.k.len = (bit<16>)s.packet_length;
        if (h.k.op == 6 && s.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 7, (bit<8>)lists.first); h.k.n = 42; }
        if (h.k.op == 7 && h.k.n > 0) { h.k.n = h.k.n - 1; recirculate_preserving_field_list(two); }
        if (h.k.op == 9) { mark_to_drop(s); }
        if (h.k.op == 11) { recirculate_preserving_field_list(1); }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    made = engine(**PARTS)
    made.multicast_group(5, [(2, 20), (3, 30), (2, 21)])
    made.clone_session(7, port=9)
    return made


def ask(switch: Engine, op: int, n: int = 0) -> list[Packet]:
    switch.send(4, bytes([op, n, 0, 0, 0, 0, 0, 0]) + b"payload")
    return switch.receive()


def fields(packet: Packet) -> dict[str, int]:
    return dict(zip(("op", "n", "kind", "kept", "lost", "rid"), packet.data, strict=False))


def test_unicast_and_payload(switch: Engine) -> None:
    [packet] = ask(switch, 0)
    assert packet.port == 1
    assert packet.data == bytes([0, 0, 0, 0, 0, 0, 0, 15]) + b"payload"


def test_drop_in_ingress_and_in_egress(switch: Engine) -> None:
    assert ask(switch, 1) == []
    assert ask(switch, 9) == []


def test_multicast_even_if_unicast_would_drop(switch: Engine) -> None:
    for op in (2, 10):
        packets = ask(switch, op)
        assert [(p.port, fields(p)["rid"], fields(p)["kind"]) for p in packets] == [
            (2, 20, 5),
            (3, 30, 5),
            (2, 21, 5),
        ]
        assert all(p.data.endswith(b"payload") and fields(p)["kept"] == 3 for p in packets)


def test_an_unknown_group_or_session_sends_nothing(switch: Engine, engine: Callable[..., Engine]) -> None:
    bare = engine(**PARTS)
    assert ask(bare, 2) == []
    assert [p.port for p in ask(bare, 3)] == [1]


def test_clone_from_ingress_is_the_packet_as_it_came(switch: Engine) -> None:
    by_port = {p.port: fields(p) for p in ask(switch, 3)}
    assert by_port[1]["n"] == 99
    assert by_port[9] == {"op": 3, "n": 0, "kind": 1, "kept": 0, "lost": 0, "rid": 0}


def test_preserved_fields_reach_the_clone(switch: Engine) -> None:
    clone = next(fields(p) for p in ask(switch, 4) if p.port == 9)
    assert (clone["n"], clone["kept"], clone["lost"]) == (0, 3, 0)


def test_clone_from_egress_has_the_changed_headers(switch: Engine) -> None:
    by_port = {p.port: fields(p) for p in ask(switch, 6)}
    assert by_port[1]["n"] == by_port[9]["n"] == 42
    assert (by_port[9]["kind"], by_port[9]["kept"]) == (2, 3)


def test_a_session_with_a_group_and_truncation(switch: Engine) -> None:
    switch.clone_session(7, group=5, truncate=10)
    clones = [p for p in ask(switch, 3) if p.port != 1]
    assert [p.port for p in clones] == [2, 3, 2]
    assert all(len(p.data) == 10 for p in clones)


def test_resubmit_starts_over_with_the_listed_metadata(switch: Engine) -> None:
    [packet] = ask(switch, 5)
    got = fields(packet)
    assert (got["kind"], got["kept"], got["lost"], got["n"]) == (6, 3, 0, 0)


def test_recirculation_counts_down(switch: Engine) -> None:
    [packet] = ask(switch, 7, 4)
    got = fields(packet)
    assert (got["n"], got["kind"], got["kept"]) == (0, 4, 12)
    assert switch.statistics()["passes"] == 10


def test_truncate(switch: Engine) -> None:
    [packet] = ask(switch, 8)
    assert packet.data == bytes([8, 0, 0, 0, 0])


def test_endless_recirculation_is_stopped(switch: Engine) -> None:
    assert ask(switch, 11) == []
    assert switch.statistics()["runaways"] == 1
    assert [p.port for p in ask(switch, 0)] == [1]
