# ruff: noqa: E501 - programs stay on one line
"""v1model's rarer parts: the old forms of clone, resubmit and recirculate, checksums over payloads, direct meters, the
other hash algorithms, priorities of entries as the specification gives them, entries that may be changed."""

import zlib
from collections.abc import Callable

import pytest

from p4.targets import Engine, TargetError
from tests.p4.programs.frames import internet_checksum

PARTS = {
    "types": "header k_t { bit<8> op; bit<8> n; bit<16> sum; bit<32> a; bit<32> r; bit<8> kept; bit<8> lost; }",
    "headers": "k_t k;",
    "meta": "bit<8> kept; bit<8> lost;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "verify": "verify_checksum_with_payload(h.k.op == 20, { h.k.op, h.k.n, h.k.a }, h.k.sum, HashAlgorithm.csum16);",
    "compute": "update_checksum_with_payload(h.k.op == 21, { h.k.op, h.k.n, h.k.a }, h.k.sum, HashAlgorithm.csum16);",
    "deparser": "p.emit(h.k);",
    "locals": """
        counter(2, CounterType.packets) packets_only; counter(2, CounterType.bytes) bytes_only;
        meter(1, MeterType.bytes) by_bytes; direct_meter<bit<8>>(MeterType.packets) pace; Checksum16() old;
        direct_counter(CounterType.packets) hits;
        action set(bit<32> v) { h.k.r = v; }
        action metered(bit<32> v) { h.k.r = v; pace.read(h.k.n); }
        table paced { key = { h.k.a: exact; } actions = { metered; NoAction; } meters = pace; counters = hits; default_action = NoAction; }
        table largest { key = { h.k.n: ternary; } actions = { set; } default_action = set(0);
            entries = { 1 &&& 1: set(1); 2 &&& 2: set(2); const 4 &&& 4: set(4); } }
        table given { key = { h.k.n: ternary; } actions = { set; } default_action = set(0); priority_delta = 10;
            entries = { priority = 100: 1 &&& 1: set(1); priority = 300: 2 &&& 2: set(2); 4 &&& 4: set(4); } }
        table smallest { key = { h.k.n: ternary; } actions = { set; } default_action = set(0); largest_priority_wins = false;
            const entries = { priority = 30: 1 &&& 1: set(1); priority = 10: 2 &&& 2: set(2); 4 &&& 4: set(4); } }
    """,
    "ingress": """
        s.egress_spec = 1;
        if (s.instance_type == 4 || s.instance_type == 6) { h.k.kept = m.kept; h.k.lost = m.lost; h.k.n = (bit<8>)s.instance_type; }
        else { m.kept = 7; m.lost = 8; }
        if (h.k.op == 1) { clone3(CloneType.I2E, 5, { m.kept }); m.kept = 70; }
        if (h.k.op == 2 && s.instance_type == 0) { resubmit({ m.kept }); }
        if (h.k.op == 4 && s.instance_type == 0) { resubmit({ }); }
        if (h.k.op == 5) {
            hash(h.k.r, HashAlgorithm.crc32_custom, 32w0, { h.k.a, h.k.n }, 64w0x100000000);
            bit<16> crc; hash(crc, HashAlgorithm.crc16_custom, 16w0, { h.k.a, h.k.n }, 32w0x10000); h.k.sum = crc; }
        if (h.k.op == 6) { hash(h.k.r, HashAlgorithm.random, 32w10, { h.k.a }, 32w5); }
        if (h.k.op == 7) { h.k.sum = old.get({ h.k.a, h.k.r }); }
        if (h.k.op == 8) { packets_only.count(1); bytes_only.count(1); by_bytes.execute_meter(0, h.k.r); }
        if (h.k.op == 9) { paced.apply(); }
        if (h.k.op == 10) { largest.apply(); }
        if (h.k.op == 11) { given.apply(); }
        if (h.k.op == 12) { smallest.apply(); }
        if (h.k.op == 13) { assume(h.k.a != 0); }
        if (h.k.op == 14) { s.egress_spec = (bit<9>)h.k.n; random(h.k.n, 8w3, 8w3); }
        if (h.k.op == 20) { h.k.r = (bit<32>)s.checksum_error; }
    """,
    "egress": """
        if (s.instance_type == 1 || s.instance_type == 2) { h.k.kept = m.kept; h.k.lost = m.lost; h.k.n = (bit<8>)s.instance_type; }
        if (h.k.op == 3 && s.instance_type == 0) { clone3<tuple<bit<8>, bit<8>>>(CloneType.E2E, 5, { m.lost, m.kept }); }
        if (h.k.op == 15 && h.k.lost == 0) { recirculate(m); }
        if (h.k.op == 16) { truncate(4); }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    made = engine(**PARTS)
    made.clone_session(5, port=9)
    return made


def ask(
    switch: Engine, op: int, n: int = 0, a: int = 0, *, checksum: int = 0, payload: bytes = b""
) -> dict[int, bytes]:
    """What came out, by port."""
    switch.send(0, bytes([op, n]) + checksum.to_bytes(2, "big") + a.to_bytes(4, "big") + bytes(6) + payload)
    return {p.port: p.data for p in switch.receive()}


def r(out: dict[int, bytes]) -> int:
    return int.from_bytes(out[1][8:12], "big")


def test_clone_with_data_keeps_those_fields_as_the_pass_leaves_them(switch: Engine) -> None:
    out = ask(switch, 1)
    assert (out[9][1], out[9][12], out[9][13]) == (1, 70, 0)
    out = ask(switch, 3)
    assert (out[9][1], out[9][12], out[9][13]) == (2, 7, 8)


def test_resubmit_and_recirculate_with_data(switch: Engine) -> None:
    out = ask(switch, 2)
    assert (out[1][1], out[1][12], out[1][13]) == (6, 7, 0)
    out = ask(switch, 4)
    assert (out[1][1], out[1][12], out[1][13]) == (6, 0, 0)
    out = ask(switch, 15)  # a whole struct
    assert (out[1][1], out[1][12], out[1][13]) == (4, 7, 8)


@pytest.mark.parametrize("payload", [b"", b"x", b"ab", b"odd payload"])
def test_checksums_over_the_payload(switch: Engine, payload: bytes) -> None:
    good = internet_checksum(bytes([20, 3]) + (77).to_bytes(4, "big") + payload)
    assert r(ask(switch, 20, 3, 77, checksum=good, payload=payload)) == 0
    assert r(ask(switch, 20, 3, 77, checksum=good ^ 1, payload=payload)) == 1
    out = ask(switch, 21, 3, 77, payload=payload)
    assert int.from_bytes(out[1][2:4], "big") == internet_checksum(
        bytes([21, 3]) + (77).to_bytes(4, "big") + payload
    )


def test_the_other_hashes(switch: Engine) -> None:
    out = ask(switch, 5, 0x35, 0x31323334)
    assert r(out) == zlib.crc32(b"12345")  # unconfigured, custom is the standard polynomial
    crc = 0
    for byte in b"12345":
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
    assert int.from_bytes(out[1][2:4], "big") == crc
    assert {r(ask(switch, 6)) for _ in range(200)} == {10, 11, 12, 13, 14}
    out = ask(switch, 7, 0, 0x12345678)
    assert int.from_bytes(out[1][2:4], "big") == internet_checksum(bytes.fromhex("1234567800000000"))


def test_counters_and_meters_count_their_unit(switch: Engine) -> None:
    switch.meter_configure("by_bytes", 0, committed_rate=1, committed_burst=20, peak_rate=1, peak_burst=40)
    assert [r(ask(switch, 8)) for _ in range(3)] == [0, 1, 2]  # 14 bytes each
    assert switch.counter_read("packets_only", 1)[0] == 3
    assert switch.counter_read("bytes_only", 1)[1] == 42


def test_a_direct_meter_has_a_cell_for_each_entry(switch: Engine) -> None:
    first = switch.insert("paced", {"a": 1}, "metered", [10])
    switch.insert("paced", {"a": 2}, "metered", [20])
    switch.meter_configure("pace", first, committed_rate=1, committed_burst=1, peak_rate=1, peak_burst=2)
    assert [ask(switch, 9, 9, 1)[1][1] for _ in range(3)] == [0, 1, 2]
    assert [ask(switch, 9, 9, 2)[1][1] for _ in range(3)] == [0, 0, 0]
    assert ask(switch, 9, 9, 3)[1][1] == 9  # a miss: no meter
    assert switch.entry_counters("paced", {"a": 1})[0] == 3


def test_priorities_of_written_entries(switch: Engine) -> None:
    def of(op: int) -> list[int]:
        return [r(ask(switch, op, n)) for n in (1, 2, 3, 4, 5, 6, 7)]

    assert of(10) == [1, 2, 1, 4, 1, 2, 1]  # the first wins
    assert of(11) == [1, 2, 2, 4, 4, 2, 2]  # 100, 300, 300 - 10
    assert of(12) == [1, 2, 2, 4, 4, 2, 2]  # 30, 10, 10 + 1: the smallest wins
    switch.insert("largest", {"n": (7, 7)}, "set", [9], priority=100)
    assert of(10)[6] == 9
    switch.insert("given", {"n": (7, 7)}, "set", [9], priority=299)
    assert of(11)[6] == 2
    with pytest.raises(TargetError, match="PERMISSION_DENIED"):
        switch.insert("smallest", {"n": (7, 7)}, "set", [9], priority=1)


def test_entries_that_are_not_const_can_be_changed(switch: Engine) -> None:
    switch.modify("largest", {"n": (1, 1)}, "set", [11], priority=3)
    assert r(ask(switch, 10, 1)) == 11
    switch.delete("largest", {"n": (1, 1)}, priority=3)
    assert r(ask(switch, 10, 1)) == 0
    with pytest.raises(TargetError, match="PERMISSION_DENIED"):
        switch.delete("largest", {"n": (4, 4)}, priority=1)
    with pytest.raises(TargetError, match="PERMISSION_DENIED"):
        switch.modify("largest", {"n": (4, 4)}, "set", [1], priority=1)


def test_what_is_left(switch: Engine) -> None:
    ask(switch, 13, 0, 1)
    ask(switch, 13, 0, 0)
    assert switch.statistics()["failed_assertions"] == 1
    assert ask(switch, 14, 6)[6][1] == 3  # random between 3 and 3; the port was read before
    assert ask(switch, 16, payload=b"long")[1] == bytes([16, 0, 0, 0])
