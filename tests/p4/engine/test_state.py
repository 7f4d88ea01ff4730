# ruff: noqa: E501 - programs and packets stay on one line
"""Registers, counters, meters, hashes, checksums, digests, random numbers."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from p4.targets import Engine, TargetError
from tests.p4.programs.frames import internet_checksum

PARTS = {
    "types": """header k_t { bit<8> op; bit<32> a; bit<32> b; bit<16> r16; bit<32> r32; bit<64> r64; }
        struct learn_t { bit<32> who; bit<9> port; }
        control adder(register<bit<32>> where, inout bit<32> v) { apply { bit<32> old; where.read(old, 7); v = old + 1;
            where.write(7, v); } }""",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "locals": """
        register<bit<32>>(8) sums;
        register<bit<128>>(4) wide;
        register<int<16>>(4) small;
        counter(4, CounterType.packets_and_bytes) counts;
        meter(4, MeterType.packets) pace;
        adder() one; adder() two;
    """,
    "ingress": """
        s.egress_spec = 1;
        if (h.k.op == 0) { bit<32> v; sums.read(v, h.k.a); sums.write(h.k.a, v + h.k.b); h.k.r32 = v; }
        if (h.k.op == 1) { bit<128> w; wide.read(w, h.k.a); w = (w << 32) | (bit<128>)h.k.b; wide.write(h.k.a, w);
                           h.k.r64 = w[127:64]; }
        if (h.k.op == 2) { int<16> i; small.read(i, 1); i = i - 1; small.write(1, i); h.k.r16 = (bit<16>)(i >> 1); }
        if (h.k.op == 3) { counts.count(h.k.a); }
        if (h.k.op == 4) { pace.execute_meter(h.k.a, h.k.r32); }
        if (h.k.op == 5) {
            hash(h.k.r16, HashAlgorithm.crc16, 16w0, { h.k.a, h.k.b }, 32w0x10000);
            hash(h.k.r32, HashAlgorithm.crc32, 32w0, { h.k.a, h.k.b }, 64w0x100000000);
            hash(h.k.r64, HashAlgorithm.identity, 64w5, { h.k.a, h.k.b }, 64w1000);
        }
        if (h.k.op == 6) {
            hash(h.k.r16, HashAlgorithm.csum16, 16w0, { h.k.a, h.k.b }, 32w0x10000);
            hash(h.k.r32, HashAlgorithm.xor16, 32w0, { h.k.a, h.k.b }, 64w0x100000000);
            hash(h.k.r64, HashAlgorithm.crc32, 64w7, { h.k.a }, 64w0);
        }
        if (h.k.op == 7) { learn_t l = { h.k.a, 9w77 }; digest<learn_t>(1, l); }
        if (h.k.op == 8) { random(h.k.r32, h.k.a, h.k.b); }
        if (h.k.op == 10) { one.apply(sums, h.k.r32); two.apply(sums, h.k.r32); }
        if (h.k.op == 9) { assert(h.k.a == 1); log_msg("seen {}", { h.k.a }); }
    """,
}


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    return engine(**PARTS)


def ask(switch: Engine, op: int, a: int = 0, b: int = 0) -> tuple[int, int, int]:
    """(r16, r32, r64) after one packet."""
    switch.send(3, bytes([op]) + a.to_bytes(4, "big") + b.to_bytes(4, "big") + bytes(14))
    [packet] = switch.receive()
    d = packet.data
    return int.from_bytes(d[9:11], "big"), int.from_bytes(d[11:15], "big"), int.from_bytes(d[15:23], "big")


def test_registers_add_wrap_and_keep(switch: Engine) -> None:
    assert [ask(switch, 0, 3, 0xFFFFFFFF)[1] for _ in range(3)] == [0, 0xFFFFFFFF, 0xFFFFFFFE]
    assert switch.register_read("sums", 3) == 0xFFFFFFFD
    switch.register_write("ingress.sums", 3, 10)
    assert ask(switch, 0, 3, 1)[1] == 10
    array = switch.register_array("sums")
    assert array.dtype == np.uint32
    assert array.tolist() == [0, 0, 0, 11, 0, 0, 0, 0]
    array[3] = 5
    assert ask(switch, 0, 3, 1)[1] == 5


def test_out_of_bounds_reads_zero_and_writes_nothing(switch: Engine) -> None:
    for index in (8, 0xFFFFFFFF):
        assert ask(switch, 0, index, 1)[1] == 0
    assert not switch.register_array("sums").any()
    with pytest.raises(TargetError, match="index 8, allowed 0 to 7"):
        switch.register_read("sums", 8)


def test_wide_and_signed_registers(switch: Engine) -> None:
    for b in (1, 2, 3, 4):
        top = ask(switch, 1, 2, b)[2]
    assert top == (1 << 32) | 2
    assert switch.register_read("wide", 2) == (1 << 96) | (2 << 64) | (3 << 32) | 4
    assert ask(switch, 2)[0] == 0xFFFF
    assert switch.register_read("small", 1) == 0xFFFF
    assert [ask(switch, 2)[0] for _ in range(2)] == [0xFFFF, 0xFFFE]


def test_a_register_passed_as_a_parameter_is_the_same_register(switch: Engine) -> None:
    assert [ask(switch, 10)[1] for _ in range(3)] == [2, 4, 6]
    assert switch.register_read("sums", 7) == 6


def test_counters(switch: Engine) -> None:
    for _ in range(3):
        ask(switch, 3, 2)
    ask(switch, 3, 4)
    assert switch.counter_read("counts", 2) == (3, 3 * 23)
    assert switch.counter_read("counts", 0) == (0, 0)


def test_a_meter_is_green_until_configured_then_three_colours(switch: Engine) -> None:
    assert [ask(switch, 4, 1)[1] for _ in range(5)] == [0] * 5
    switch.meter_configure("pace", 1, committed_rate=1, committed_burst=2, peak_rate=2, peak_burst=3)
    assert [ask(switch, 4, 1)[1] for _ in range(5)] == [0, 0, 1, 2, 2]
    switch.now_us += 1_000_000  # one second: one committed token, two of the peak
    assert [ask(switch, 4, 1)[1] for _ in range(3)] == [0, 1, 2]


def crc16_arc(data: bytes) -> int:
    r = 0
    for byte in data:
        r ^= byte
        for _ in range(8):
            r = (r >> 1) ^ 0xA001 if r & 1 else r >> 1
    return r


def test_hashes(switch: Engine) -> None:
    assert crc16_arc(b"123456789") == 0xBB3D  # the algorithm's published check value
    a, b = 0x31323334, 0x35363738
    data = a.to_bytes(4, "big") + b.to_bytes(4, "big")
    assert ask(switch, 5, a, b) == (crc16_arc(data), zlib.crc32(data), 5 + int.from_bytes(data, "big") % 1000)
    words = [0x3132, 0x3334, 0x3536, 0x3738]
    folded = sum(words)
    while folded >> 16:
        folded = (folded & 0xFFFF) + (folded >> 16)
    assert ask(switch, 6, a, b) == (folded ^ 0xFFFF, 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738, 7)


def test_digests(switch: Engine) -> None:
    ask(switch, 7, 0xDEADBEEF)
    [digest] = switch.digests()
    assert digest.name == "learn_t"
    assert digest.fields == {"who": 0xDEADBEEF, "port": 77}
    assert switch.digests() == []


def test_random_numbers_stay_in_their_range_and_follow_the_seed(
    engine: Callable[..., Engine], switch: Engine
) -> None:
    seen = [ask(switch, 8, 5, 9)[1] for _ in range(200)]
    assert set(seen) == {5, 6, 7, 8, 9}
    other = engine(**PARTS)
    assert seen == [ask(other, 8, 5, 9)[1] for _ in range(200)]
    assert ask(switch, 8, 0, 0xFFFFFFFF)[1] != ask(switch, 8, 0, 0xFFFFFFFF)[1]


def test_failed_assertions_are_counted(switch: Engine) -> None:
    ask(switch, 9, 1)
    ask(switch, 9, 2)
    assert switch.statistics()["failed_assertions"] == 1


CHECKSUMS = {
    "types": """header ip_t { bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<32> id; bit<8> ttl; bit<8> proto;
        bit<16> sum; bit<32> src; bit<32> dst; } header udp_t { bit<16> sum; }""",
    "headers": "ip_t ip; udp_t u;",
    "parser": "state start { p.extract(h.ip); p.extract(h.u); transition accept; }",
    "verify": """verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.ttl,
        h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);""",
    "ingress": "s.egress_spec = (bit<9>)s.checksum_error + 1; h.ip.ttl = h.ip.ttl - 1;",
    "compute": """update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.ttl,
        h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { h.ip.src, h.ip.dst }, h.u.sum, HashAlgorithm.csum16);""",
    "deparser": "p.emit(h);",
}


def test_checksum_units(engine: Callable[..., Engine]) -> None:
    switch = engine(**CHECKSUMS)
    header = bytearray.fromhex("45000023 00010000 4011 0000 0a000001 0a000002")
    header[10:12] = internet_checksum(bytes(header)).to_bytes(2, "big")
    payload = b"odd bytes"
    switch.send(0, bytes(header) + b"\0\0" + payload)
    wrong = bytearray(header)
    wrong[11] ^= 1
    switch.send(0, bytes(wrong) + b"\0\0" + payload)
    good, bad = switch.receive()
    assert (good.port, bad.port) == (1, 2)
    assert internet_checksum(good.data[:20]) == 0
    assert good.data[8] == 0x3F
    assert int.from_bytes(good.data[20:22], "big") == internet_checksum(bytes(header[12:20]) + payload)
    assert good.data[22:] == payload
