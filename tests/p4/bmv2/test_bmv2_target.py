"""BMv2 behind the Target interface: control, state, errors with P4Runtime's codes, ports, its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from p4.codegen import generate
from p4.codegen.build import BuildError
from p4.lang import check_text, load_program
from p4.programs import ATP, IPV4, SWITCHGNN, SWITCHML
from p4.targets import Engine, Packet
from p4.targets.bmv2 import Bmv2
from p4.targets.p4info import make_p4info
from p4.targets.target import Target, TargetError
from tests.p4.conftest import v1model

FEATURES = v1model(
    types="""header h_t { bit<8> kind; bit<8> a; bit<32> b; bit<16> c; }
    header pad_t { bit<64> x; }
    struct seen_t { bit<9> port; bit<8> a; }""",
    headers="h_t h; pad_t pad;",
    meta="@field_list(1) bit<8> kept; bit<16> word; bit<2> colour;",
    parser="state start { p.extract(h.h); p.extract(h.pad); transition accept; }",
    locals="""
    register<bit<16>>(16) words;
    counter(4, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.packets) limit;
    direct_counter(CounterType.packets) hits;
    action_profile(8) pool;
    action_selector(HashAlgorithm.crc16, 16, 10) many;
    action drop() { mark_to_drop(s); }
    action send(bit<9> port) { s.egress_spec = port; }
    action to_all(bit<16> group) { s.mcast_grp = group; }
    table exactly {
        key = { h.h.a: exact; }
        actions = { send; to_all; drop; }
        default_action = drop();
        size = 2;
        counters = hits;
    }
    table prefix { key = { h.h.b: lpm; } actions = { send; drop; } default_action = drop(); }
    table masked {
        key = { h.h.a: ternary; h.h.c: range; }
        actions = { send; drop; }
        default_action = drop();
    }
    table pooled { key = { h.h.a: exact; } actions = { send; drop; } implementation = pool; }
    table spread { key = { h.h.a: exact; h.h.b: selector; } actions = { send; drop; } implementation = many; }
    """,
    ingress="""
    seen.count((bit<32>)(h.h.kind & 3));
    if (h.h.kind == 0) { exactly.apply(); }
    else if (h.h.kind == 1) { prefix.apply(); }
    else if (h.h.kind == 2) { masked.apply(); }
    else if (h.h.kind == 3) { pooled.apply(); }
    else if (h.h.kind == 4) { spread.apply(); }
    else if (h.h.kind == 5) {
        words.read(m.word, (bit<32>)h.h.a);
        m.word = m.word + h.h.c;
        words.write((bit<32>)h.h.a, m.word);
        h.h.c = m.word;
        s.egress_spec = 1;
    } else if (h.h.kind == 6) {
        digest<seen_t>(1, { s.ingress_port, h.h.a });
        drop();
    } else if (h.h.kind == 7) {
        m.kept = h.h.a;
        s.egress_spec = 1;
        clone_preserving_field_list(CloneType.I2E, 5, 1);
    } else if (h.h.kind == 8) {
        limit.execute_meter((bit<32>)h.h.a, m.colour);
        h.h.c = (bit<16>)m.colour;
        s.egress_spec = 1;
    } else { drop(); }
    """,
    egress="if (s.instance_type == 1) { h.h.a = m.kept + 1; }",
    deparser="p.emit(h.h); p.emit(h.pad);",
)
PAD = bytes(range(8))


def packet(kind: int, a: int = 0, b: int = 0, c: int = 0) -> bytes:
    return bytes([kind, a]) + b.to_bytes(4, "big") + c.to_bytes(2, "big") + PAD


@pytest.fixture(params=["engine", "bmv2"])
def switch(request: pytest.FixtureRequest, bmv2: Callable[..., Bmv2], compiled: Callable[[str], Path]) -> Any:
    """Every test here runs on both switches."""
    if request.param == "bmv2":
        return bmv2(FEATURES, kind="veth")
    return Engine(compiled(FEATURES))


def ask(switch: Target, data: bytes, out: int = 1) -> list[tuple[int, bytes]]:
    switch.send(3, data)
    return sorted((p.port, p.data) for p in switch.receive(out))


def test_entries_of_every_kind(switch: Target) -> None:
    switch.insert("exactly", {"a": 7}, "send", {"port": 2})
    switch.insert("prefix", {"b": (0x0A000000, 8)}, "send", [4])
    switch.insert("prefix", {"b": (0x0A010000, 16)}, "send", [5])
    switch.insert("masked", {"a": (0x10, 0xF0), "c": (100, 200)}, "send", [6], priority=2)
    switch.insert("masked", {"a": (0x11, 0xFF)}, "drop", priority=9)
    assert ask(switch, packet(0, 7)) == [(2, packet(0, 7))]
    assert ask(switch, packet(0, 8), 0) == []
    assert ask(switch, packet(1, b=0x0A000001))[0][0] == 4
    assert ask(switch, packet(1, b=0x0A010001))[0][0] == 5
    assert ask(switch, packet(2, 0x12, c=150))[0][0] == 6
    assert ask(switch, packet(2, 0x12, c=201), 0) == []
    assert ask(switch, packet(2, 0x11, c=150), 0) == []
    switch.modify("exactly", {"a": 7}, "send", {"port": 6})
    assert ask(switch, packet(0, 7))[0][0] == 6
    switch.delete("exactly", {"a": 7})
    switch.set_default("exactly", "send", [7])
    assert ask(switch, packet(0, 7))[0][0] == 7


def test_replication_and_clones(switch: Target) -> None:
    switch.multicast_group(3, [(1, 1), (2, 2), (4, 4)])
    switch.insert("exactly", {"a": 1}, "to_all", [3])
    assert ask(switch, packet(0, 1), 3) == [(p, packet(0, 1)) for p in (1, 2, 4)]
    switch.multicast_group(3, [(5, 1)])
    assert ask(switch, packet(0, 1)) == [(5, packet(0, 1))]
    switch.clone_session(5, port=6)
    assert ask(switch, packet(7, 40), 2) == [(1, packet(7, 40)), (6, packet(7, 41))]
    switch.clone_session(5, port=2)
    assert ask(switch, packet(7, 40), 2) == [(1, packet(7, 40)), (2, packet(7, 41))]
    if isinstance(switch, Bmv2):
        with pytest.raises(TargetError, match="does not truncate clones"):
            switch.clone_session(5, port=6, truncate=15)
        return
    switch.clone_session(5, port=6, truncate=15)
    assert ask(switch, packet(7, 40), 2)[1] == (6, packet(7, 41)[:15])


def test_profiles_and_selectors(switch: Target) -> None:
    first, second = (switch.add_member("pool", "send", [port]) for port in (1, 2))
    switch.insert_indirect("pooled", {"a": 1}, member=first)
    assert ask(switch, packet(3, 1))[0][0] == 1
    switch.modify_member("pool", first, "send", [4])
    assert ask(switch, packet(3, 1))[0][0] == 4
    switch.modify_indirect("pooled", {"a": 1}, member=second)
    assert ask(switch, packet(3, 1))[0][0] == 2
    members = [switch.add_member("many", "send", [port]) for port in (1, 2, 4, 5)]
    group = switch.set_group("many", members[:2])
    switch.insert_indirect("spread", {"a": 9}, group=group)
    ports = {ask(switch, packet(4, 9, b))[0][0] for b in range(24)}
    assert ports == {1, 2}
    switch.set_group("many", members[2:3], group=group)
    assert {ask(switch, packet(4, 9, b))[0][0] for b in range(4)} == {4}


def test_state(switch: Target) -> None:
    switch.register_write("words", 5, 0xFFF0)
    assert ask(switch, packet(5, 5, c=0x20)) == [(1, packet(5, 5, c=0x10))]
    assert switch.register_read("words", 5) == 0x10
    assert switch.register_read("words", 4) == 0
    assert switch.counter_read("seen", 1) == (1, 16)
    switch.insert("exactly", {"a": 1}, "send", [2])
    for _ in range(3):
        ask(switch, packet(0, 1))
    assert switch.entry_counters("exactly", {"a": 1})[0] == 3  # type: ignore[attr-defined]


def test_digests(switch: Target) -> None:
    for a in (11, 12):
        ask(switch, packet(6, a), 0)
    messages = switch.digests()  # type: ignore[attr-defined]
    assert [m.fields for m in messages] == [{"port": 3, "a": 11}, {"port": 3, "a": 12}]


def test_meters(switch: Target) -> None:
    limits = {"committed_rate": 1, "committed_burst": 2, "peak_rate": 1, "peak_burst": 4}
    switch.meter_configure("limit", 2, **limits)  # type: ignore[attr-defined]
    colours = [ask(switch, packet(8, 2))[0][1][7] for _ in range(6)]
    assert colours == [0, 0, 1, 1, 2, 2]


REFUSED: dict[str, tuple[str, Callable[[Target], object]]] = {
    "a key too wide": ("INVALID_ARGUMENT", lambda s: s.insert("exactly", {"a": 256}, "send", [1])),
    "data too wide": ("INVALID_ARGUMENT", lambda s: s.insert("exactly", {"a": 1}, "send", [512])),
    "no such table": ("NOT_FOUND", lambda s: s.insert("nowhere", {"a": 1}, "send", [1])),
    "no such action": ("NOT_FOUND", lambda s: s.insert("exactly", {"a": 1}, "nothing", [1])),
    "an action of another table": ("NOT_FOUND", lambda s: s.insert("prefix", {"b": (0, 0)}, "to_all", [1])),
    "an exact key missing": ("INVALID_ARGUMENT", lambda s: s.insert("exactly", {}, "send", [1])),
    "bits beyond a prefix": ("INVALID_ARGUMENT", lambda s: s.insert("prefix", {"b": (1, 8)}, "send", [1])),
    "bits outside a mask": (
        "INVALID_ARGUMENT",
        lambda s: s.insert("masked", {"a": (3, 1)}, "send", [1], priority=1),
    ),
    "no priority": ("INVALID_ARGUMENT", lambda s: s.insert("masked", {"a": (1, 1)}, "send", [1])),
    "a priority too many": (
        "INVALID_ARGUMENT",
        lambda s: s.insert("exactly", {"a": 1}, "send", [1], priority=4),
    ),
    "an empty range": (
        "INVALID_ARGUMENT",
        lambda s: s.insert("masked", {"c": (2, 1)}, "send", [1], priority=1),
    ),
    "deleting what is not there": ("NOT_FOUND", lambda s: s.delete("exactly", {"a": 99})),
    "modifying what is not there": ("NOT_FOUND", lambda s: s.modify("exactly", {"a": 99}, "send", [1])),
    "data missing": ("INVALID_ARGUMENT", lambda s: s.insert("exactly", {"a": 1}, "send", [])),
}


@pytest.mark.parametrize("kind", ["engine", "bmv2"])
def test_every_refusal_has_p4runtime_s_code(
    kind: str, bmv2: Callable[..., Bmv2], compiled: Callable[[str], Path]
) -> None:
    switch: Target = bmv2(FEATURES, kind="veth") if kind == "bmv2" else Engine(compiled(FEATURES))
    got = {}
    for name, (_, call) in REFUSED.items():
        with pytest.raises(TargetError) as refusal:
            call(switch)
        got[name] = refusal.value.code
    assert got == {name: code for name, (code, _) in REFUSED.items()}
    switch.insert("exactly", {"a": 1}, "send", [1])
    with pytest.raises(TargetError) as twice:
        switch.insert("exactly", {"a": 1}, "send", [2])
    assert twice.value.code == "ALREADY_EXISTS"
    switch.insert("exactly", {"a": 2}, "send", [1])
    with pytest.raises(TargetError) as full:
        switch.insert("exactly", {"a": 3}, "send", [1])
    assert full.value.code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("program", [SWITCHGNN, ATP, SWITCHML, IPV4, None])
def test_p4info_is_p4c_s(program: Path | None, bmv2: Callable[..., Bmv2]) -> None:
    if program is None:
        ours = make_p4info(generate(check_text(FEATURES)).schema)
        theirs = bmv2(FEATURES, kind="pcap").p4info
    else:
        ours = make_p4info(generate(load_program(program)).schema)
        theirs = bmv2(program, kind="pcap").p4info

    def parts(info: Any) -> dict[str, str]:
        out = {}
        for _, group in info.ListFields():
            for item in group if hasattr(group, "__len__") else ():
                for noise in ("initial_default_action", "has_initial_entries"):
                    if noise in item.DESCRIPTOR.fields_by_name:
                        item.ClearField(noise)
                for reference in getattr(item, "action_refs", ()):
                    reference.ClearField("annotations")
                del item.preamble.annotations[:]
                out[item.preamble.name] = text_format.MessageToString(item, as_one_line=True)
        return out

    assert parts(ours) == parts(theirs)


# ---- ports and processes


def test_pcap_files_need_no_root_and_carry_short_packets(bmv2: Callable[..., Bmv2]) -> None:
    text = v1model(
        types="header b_t { bit<8> x; }", headers="b_t b;",
        parser="state start { p.extract(h.b); transition accept; }",
        ingress="s.egress_spec = (bit<9>)h.b.x;", deparser="p.emit(h.b);",
    )  # fmt: skip
    switch = bmv2(text, kind="pcap", ports=range(4))
    for port, data in [(0, b"\1"), (3, b"\2abc"), (0, b"\1second")]:
        switch.send(port, data)
    got = switch.receive(3)
    assert sorted(got) == [Packet(1, b"\1"), Packet(1, b"\1second"), Packet(2, b"\2abc")]
    with pytest.raises(TargetError, match="before the first receive"):
        switch.send(0, b"\1")


def test_frames_with_vlan_tags_come_out_whole(bmv2: Callable[..., Bmv2]) -> None:
    switch = bmv2(v1model(ingress="s.egress_spec = 2;"), kind="veth")
    frame = bytes.fromhex("00000000000100000000000281002064 0800") + bytes(range(40))
    switch.send(1, frame)
    assert switch.receive(1) == [Packet(2, frame)]
    with pytest.raises(TargetError, match="pcap files carry packets of any length"):
        switch.send(1, b"short")
    with pytest.raises(TargetError, match="port 77 has no interface"):
        switch.send(77, frame)


def test_what_p4c_refuses_is_told_in_its_words(bmv2: Callable[..., Bmv2]) -> None:
    with pytest.raises(BuildError, match="p4c refused"):
        bmv2(v1model(ingress="nonsense = 1;"))


def test_a_switch_that_dies_is_an_error_and_leaves_nothing(bmv2: Callable[..., Bmv2]) -> None:
    switch = bmv2(v1model(ingress="s.egress_spec = 2;"), kind="veth")
    folder, pid = switch.log.parent, switch._process.process.pid  # type: ignore[union-attr]
    os.kill(pid, signal.SIGKILL)
    switch._process.process.wait()  # type: ignore[union-attr]
    with pytest.raises(TargetError, match=r"simple_switch_grpc ended .killed by SIGKILL"):
        switch.receive()
    switch.close()
    assert not folder.exists()


def test_the_log_is_kept_on_request(bmv2: Callable[..., Bmv2]) -> None:
    switch = bmv2(v1model(ingress="s.egress_spec = 2;"), kind="veth")
    switch.send(1, bytes(20))
    switch.receive(1)
    log = switch.keep_log()
    switch.close()
    assert "Transmitting packet" in log.read_text()


def test_a_slow_egress_queue_drops_what_it_cannot_hold(bmv2: Callable[..., Bmv2]) -> None:
    switch = bmv2(v1model(ingress="s.egress_spec = 2;"), kind="veth")
    switch.egress_queue(2, rate_pps=20, depth=3)
    for number in range(12):
        switch.send(1, bytes([number]) + bytes(19))
    got = switch.receive(3)
    time.sleep(0.5)
    got += switch.receive()
    assert 3 <= len(got) <= 5  # the queue's three, and those that left while the others came
    switch.egress_queue(2)
    for number in range(12):
        switch.send(1, bytes([number]) + bytes(19))
    assert len(switch.receive(12)) == 12
