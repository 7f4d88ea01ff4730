"""Frames as numpy rows: what wire.p4 says, as P4 programs read it, and what counts as a valid one."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from emulator import wire
from p4 import wire_layout, wire_table
from p4.targets import Engine
from p4.targets.engine import Batch


def test_the_generated_table_is_up_to_date():
    assert wire_layout.TABLE.read_text() == wire_layout.table_text(), "run: python -m p4.wire_layout"


def test_a_changed_wire_p4_is_read_afresh(monkeypatch):
    table = wire_layout.layout()
    monkeypatch.setattr(wire_table, "SHA256", hashlib.sha256(b"older").hexdigest())
    monkeypatch.setattr(wire_table, "HEADERS", {})
    assert wire_layout.layout() == table


def test_another_layout_follows_the_text():
    text = wire_layout.WIRE.read_text()
    given_ = text.replace("bit<16> chunk;", "bit<16> colour; bit<16> chunk;").replace("16w9000", "16w9001")
    found = wire_layout.parse(given_)
    assert found.constants["AGGREGATION_PORT"] == 9001
    assert "colour" in [f.name for f in found.headers["agg"]]


def test_sizes_and_constants():
    assert (wire.FRAME_BYTES, wire.AGGREGATION_PORT, wire.VALUES_PER_PACKET) == (182, 9000, 30)
    assert wire.OFFSETS == {"ethernet": 0, "ipv4": 14, "udp": 34, "agg": 42, "values": 62}
    assert wire.PacketType.LOAD == 8 and [m.name for m in wire.PacketType] == [
        m.name for m in wire_table.PacketType
    ]


def test_import_loads_neither_scapy_nor_the_p4_front_end():
    code = "import sys, emulator.wire; print([m for m in ('scapy', 'lark', 'p4.lang') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_small_fields_leave_their_neighbours_alone():
    frames = wire.blank(3)
    wire.put(frames, "agg", "resend", [1, 0, 1])
    wire.put(frames, "agg", "saturated", 1)
    wire.put(frames, "agg", "resend", [0, 0, 1])
    assert frames["agg"]["flags"].tolist() == [0x10, 0x10, 0x90]
    wire.put(frames, "ipv4", "ecn", 3)
    assert wire.get(frames, "ipv4", "ecn").tolist() == [3] * 3
    assert wire.get(frames, "ipv4", "version").tolist() == [4] * 3
    wire.put(frames, "ipv4", "fragment", 0xFFFFF)
    assert wire.get(frames, "ipv4", "fragment").tolist() == [0x1FFF] * 3
    assert wire.get(frames, "ipv4", "flags").tolist() == [0] * 3


def reference_checksum(header: bytes) -> int:
    """RFC 1071, word by word."""
    total = 0
    for at in range(0, 20, 2):
        total += 0 if at == 10 else int.from_bytes(header[at : at + 2], "big")
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@settings(deadline=None)
@given(hnp.arrays(np.uint8, (3, wire.FRAME_BYTES)))
def test_checksum_of_any_bytes(raw):
    frames = raw.reshape(-1).view(wire.FRAME)
    expected = [reference_checksum(bytes(row[14:34])) for row in raw]
    assert wire.checksum(frames).tolist() == expected


def some(count: int = 4) -> np.ndarray:
    frames = wire.blank(count)
    frames["ipv4"]["src"] = 0x0A000001
    frames["ipv4"]["dst"] = 0x0A000002
    wire.seal(frames)
    return frames


def test_blank_and_sealed_is_valid_in_place_too():
    slots = np.zeros((4, 2048), np.uint8)  # as in mbufs
    frames = np.ndarray(4, wire.FRAME, slots, 128, (2048,))
    frames[:] = some()
    assert wire.valid(frames, [182, 181, 182, 400]).tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("ethernet", "type", 0x86DD),
        ("ipv4", "version_ihl", 0x46),
        ("ipv4", "version_ihl", 0x65),
        ("ipv4", "length", 167),
        ("ipv4", "length", 169),
        ("ipv4", "flags_fragment", 0x2000),
        ("ipv4", "flags_fragment", 1),
        ("ipv4", "protocol", 6),
        ("udp", "dst", 9001),
        ("udp", "length", 147),
    ],
)
def test_what_is_not_an_aggregation_packet(header, name, value):
    frames = some()
    frames[header][name][1] = value
    wire.seal(frames)
    assert wire.valid(frames, 182).tolist() == [True, False, True, True]


def test_dont_fragment_is_allowed():
    frames = some(1)
    frames["ipv4"]["flags_fragment"] = 0x4000
    wire.seal(frames)
    assert wire.valid(frames, 182).all()


@settings(deadline=None)
@given(st.integers(14 * 8, 34 * 8 - 1))
def test_any_flipped_bit_of_the_ip_header_is_seen(bit):
    frames = some(2)
    frames.view(np.uint8)[bit // 8] ^= 0x80 >> bit % 8
    assert wire.valid(frames, 182).tolist() == [False, True]


MIRROR = """
#include <core.p4>
#include <v1model.p4>
#include "wire.p4"
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; aggregation_t agg; values_t values; }
struct metadata_t { }
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.ethernet); p.extract(h.ipv4); p.extract(h.udp); p.extract(h.agg); p.extract(h.values);
        transition accept;
    }
}
control Check(inout headers_t h, inout metadata_t m) { apply { } }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<64>>(64) seen;
    apply {
        %s
        h.values.v29 = h.values.v0 - h.values.v1;
        h.agg.resend = ~h.agg.resend;
        h.ethernet.dst = h.ethernet.src + 1;
        s.egress_spec = 3;
    }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sum(inout headers_t h, inout metadata_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(Parse(), Check(), In(), Out(), Sum(), Deparse()) main;
"""


def test_a_switch_reads_what_numpy_wrote_and_numpy_what_it_wrote(tmp_path):
    """Every field that numpy sets, by name, is what the P4 engine reads under that name; and back."""
    names = [(h, f.name) for h in ("ethernet", "ipv4", "udp", "agg") for f in wire.LAYOUT.headers[h]]
    writes = "\n".join(f"seen.write({i}, (bit<64>)h.{h}.{f});" for i, (h, f) in enumerate(names))
    writes = writes.replace("(bit<64>)h.agg.type", "(bit<64>)(bit<8>)h.agg.type")
    program = tmp_path / "mirror.p4"
    program.write_text(MIRROR % writes)
    frames = np.frombuffer(np.random.default_rng(5).bytes(wire.FRAME_BYTES), wire.FRAME).copy()
    expected = []
    for header, name in names:
        bits = wire.BITS[header]
        whole = frames[header] if name in bits else frames[header][name]
        value = wire.get(frames, header, name)[0] if name in bits else whole[0]
        expected.append(int.from_bytes(value.tobytes(), "big") if np.ndim(value) else int(value))
    with Engine.load(program, include=[wire_layout.WIRE.parent]) as switch:
        one = np.ones(1, np.uint32)
        out = switch.run(Batch(frames.view(np.uint8), one.astype(np.uint64) * 182, one, one))
        assert switch.register_array("seen")[: len(names)].tolist() == expected
    [got] = out.data.view(wire.FRAME)
    old = frames["values"][0]
    assert got["values"][29] == (old[:1].astype(np.int32) - old[1:2].astype(np.int32))[0]
    assert got["agg"]["flags"] == frames["agg"]["flags"][0] ^ wire.RESEND
    source = int.from_bytes(frames["ethernet"]["src"][0].tobytes(), "big")
    assert int.from_bytes(got["ethernet"]["dst"].tobytes(), "big") == source + 1
