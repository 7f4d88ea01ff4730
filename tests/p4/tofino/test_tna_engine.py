# ruff: noqa: E501 - programs stay on few lines
"""What the engine runs of TNA: a program whose packets say what is to happen; the rest is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import P4Error, check_text
from p4.targets import Engine, Packet
from tests.p4.passes import Passes
from tests.p4.tofino.tna_frame import tna

(REFLECT, DROP, MULTICAST, BYPASS, MIRROR, MIRROR_DROPPED, RESUBMIT, GO_ROUND, DIGEST, HASH, SUM, TWO_GROUPS,
 METER, DIRECT, _, READ) = range(16)  # fmt: skip

PROGRAM = tna(
    fields="bit<32> x; bit<32> y; bit<32> z; bit<8> k;",
    types="""
    header note_t { bit<8> what; bit<16> number; }
    header again_t { bit<32> left; bit<32> pad; }
    struct told_t { bit<32> x; bit<9> port; }
    struct pair_t { bit<16> low; bit<16> high; }
    """,
    headers="note_t note; again_t again;",
    meta="bit<10> session;",
    parser_locals="Checksum() sum;",
    parser="""
        sum.add(hdr.h);
        m.e = sum.verify();
        transition select(ig.resubmit_flag, ig.ingress_port) {
            (1, _): resubmitted;
            (_, 68): round;
            default: accept;
        }
    """,
    # Resubmitted data lies before the packet, so the header that was read is not yet the packet's.
    states="""
    state resubmitted { transition accept; }
    state round { transition accept; }
    """,
    locals="""
    Register<pair_t, bit<32>>(4, { 7, 9 }) pairs;
    RegisterAction<pair_t, bit<32>, bit<16>>(pairs) more = {
        void apply(inout pair_t value, out bit<16> old) {
            old = value.high;
            if (value.low == 8) { return; }
            value.low = value.low + 1;
            value.high = value.high + 10;
        }
    };
    Register<bit<8>, bit<8>>(4) plain;
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) counted;
    DirectCounter<bit<32>>(CounterType_t.PACKETS) hits;
    Meter<bit<8>>(2, MeterType_t.PACKETS) meter;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) crc;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) crc32;
    Hash<bit<8>>(HashAlgorithm_t.IDENTITY) same;
    Random<bit<4>>() dice;
    action out_by(bit<9> port) { tm.ucast_egress_port = port; hits.count(); }
    action nothing() { hits.count(); }
    table route {
        key = { hdr.h.y: exact; }
        actions = { out_by; nothing; }
        default_action = nothing();
        counters = hits;
        size = 4;
    }
    """,
    ingress="""
        tm.ucast_egress_port = ig.ingress_port;
        counted.count(hdr.h.k[1:0] ++ 6w0 == 0 ? 8w0 : 8w1);
        if (hdr.h.k == 1) { dprsr.drop_ctl = 1; }
        else if (hdr.h.k == 2) { tm.ucast_egress_port = 511; tm.mcast_grp_a = 5; }
        else if (hdr.h.k == 3) { tm.bypass_egress = 1; }
        else if (hdr.h.k == 4) { dprsr.mirror_type = 1; hdr.h.x = 1; }
        else if (hdr.h.k == 5) { dprsr.mirror_type = 1; dprsr.drop_ctl = 1; }
        else if (hdr.h.k == 6) {
            if (ig.resubmit_flag == 0) { dprsr.resubmit_type = 1; } else { hdr.h.x = 6; }
        }
        else if (hdr.h.k == 7) {
            tm.ucast_egress_port = 9;
            if (hdr.h.x != 0) { tm.ucast_egress_port = 68; hdr.h.x = hdr.h.x - 1; }
        }
        else if (hdr.h.k == 8) { dprsr.digest_type = 1; }
        else if (hdr.h.k == 9) {
            hdr.h.x = 16w0 ++ crc.get({ hdr.h.y });
            hdr.h.y = crc32.get({ hdr.h.z });
            hdr.h.z = 24w0 ++ same.get({ hdr.h.z });
            m.t = 4w0 ++ dice.get();
        }
        else if (hdr.h.k == 10) { hdr.h.x = m.e ? 32w1 : 32w0; }
        else if (hdr.h.k == 11) { tm.mcast_grp_a = 5; tm.mcast_grp_b = 6; }
        else if (hdr.h.k == 12) { hdr.h.x = 24w0 ++ meter.execute(1); }
        else if (hdr.h.k == 13) { route.apply(); }
        else if (hdr.h.k == 15) {
            hdr.h.x = 16w0 ++ more.execute(hdr.h.y);
            hdr.h.z = 24w0 ++ plain.read(2);
        }
    """,
    deparser_locals="Mirror() mirror; Resubmit() resubmit; Digest<told_t>() digest;",
    deparser="""
        if (dprsr.mirror_type == 1) { mirror.emit<note_t>(3, { 0xEE, 16w0xABCD }); }
        if (dprsr.resubmit_type == 1) { resubmit.emit(hdr.again); }
        if (dprsr.digest_type == 1) { digest.pack({ hdr.h.x, ig.ingress_port }); }
    """,
    egress_parser="p.extract(hdr.h); transition accept;",
    egress_locals="",
    egress="""
        if (hdr.h.k == 2 || hdr.h.k == 11) {
            hdr.h.x = 16w0 ++ eg.egress_rid;
            hdr.h.y = 31w0 ++ eg.egress_rid_first;
        }
        if (hdr.h.k == 3) { hdr.h.x = 0xFFFFFFFF; }
        if (hdr.h.k == 0 && hdr.h.z == 99) { dprsr.drop_ctl = 1; }
    """,
)


@pytest.fixture(scope="module")
def library(libraries: Path) -> Path:
    return build(generate(check_text(PROGRAM)), folder=libraries)


@pytest.fixture
def switch(library: Path) -> Iterator[Engine]:
    with Engine(library) as made:
        yield made


def packet(k: int, x: int = 5, y: int = 6, z: int = 7) -> bytes:
    return b"".join(v.to_bytes(4, "big") for v in (x, y, z)) + bytes([k]) + b"payload"


def sent(switch: Engine, *packets: bytes, port: int = 3) -> list[Packet]:
    for data in packets:
        switch.send(port, data)
    return switch.receive()


def words(packet_: Packet) -> tuple[int, ...]:
    return tuple(int.from_bytes(packet_.data[i : i + 4], "big") for i in (0, 4, 8))


def test_a_packet_goes_where_ingress_says_with_its_payload(switch: Engine) -> None:
    assert sent(switch, packet(REFLECT)) == [Packet(3, packet(REFLECT))]


def test_drop_control_drops_at_ingress_and_egress(switch: Engine) -> None:
    assert sent(switch, packet(DROP), packet(REFLECT, z=99)) == []


def test_multicast_gives_each_copy_its_rid_and_says_which_is_first(switch: Engine) -> None:
    switch.multicast_group(5, [(1, 10), (2, 20)])
    got = sent(switch, packet(MULTICAST))
    assert [(p.port, *words(p)[:2]) for p in got] == [(1, 10, 1), (2, 20, 0)]
    assert sent(switch, packet(MULTICAST)[:-1]) != []


def test_two_groups_and_unicast_are_all_served(switch: Engine) -> None:
    switch.multicast_group(5, [(1, 10)])
    switch.multicast_group(6, [(2, 20)])
    assert sorted(p.port for p in sent(switch, packet(TWO_GROUPS))) == [1, 2, 3]


def test_a_packet_may_pass_by_egress(switch: Engine) -> None:
    assert words(sent(switch, packet(BYPASS))[0])[0] == 5


def test_a_mirrored_packet_is_the_one_that_came_behind_its_header(switch: Engine) -> None:
    assert sent(switch, packet(MIRROR)) == [Packet(3, packet(MIRROR, x=1))]  # no such session: no copy
    switch.clone_session(3, port=9)
    got = {p.port: p.data for p in sent(switch, packet(MIRROR))}
    assert got[3] == packet(MIRROR, x=1)
    assert got[9] == bytes.fromhex("eeabcd") + packet(MIRROR)
    switch.clone_session(3, port=9, truncate=5)
    assert {p.port: p.data for p in sent(switch, packet(MIRROR))}[9] == (
        bytes.fromhex("eeabcd") + packet(MIRROR)
    )[:5]
    assert [p.port for p in sent(switch, packet(MIRROR_DROPPED))] == [
        9
    ]  # dropping the packet keeps its mirror


def test_resubmit_brings_the_packet_back_once(switch: Engine) -> None:
    before = switch.statistics()["passes"]
    assert [words(p)[0] for p in sent(switch, packet(RESUBMIT))] == [6]
    assert switch.statistics()["passes"] - before == 3  # ingress twice, egress


def test_the_recirculation_port_leads_back_to_ingress(switch: Engine) -> None:
    before = switch.statistics()["passes"]
    [got] = sent(switch, packet(GO_ROUND, x=4))
    assert (got.port, words(got)[0]) == (9, 0)
    assert switch.statistics()["passes"] - before == 10


def test_a_packet_that_goes_round_for_ever_is_stopped(switch: Engine) -> None:
    assert sent(switch, packet(GO_ROUND, x=2**32 - 1)) == []
    assert switch.statistics()["runaways"] == 1


def test_digests_carry_their_struct(switch: Engine) -> None:
    sent(switch, packet(DIGEST, x=0xDEADBEEF), port=300)
    [message] = switch.digests()
    assert message.name == "told_t"
    assert message.fields == {"x": 0xDEADBEEF, "port": 300}


def test_hashes_and_checksums(switch: Engine) -> None:
    import zlib

    [got] = sent(switch, packet(HASH, y=0x31323334, z=0x01020304))
    assert words(got) == (0x14BA, zlib.crc32(bytes([1, 2, 3, 4])), 4)  # CRC-16/ARC of "1234"
    even = [sent(switch, packet(SUM, x=x, y=0, z=0))[0] for x in (0xF5FF0000, 0xF5FE0000)]
    assert [words(p)[0] for p in even] == [0, 1]  # 0x0A00 + 0xF5FF is 0xFFFF: right


def test_counters_meters_and_direct_counters(switch: Engine) -> None:
    sent(switch, packet(REFLECT), packet(REFLECT))
    assert switch.counter_read("counted", 0) == (2, 40)
    assert words(sent(switch, packet(METER))[0])[0] == 0
    switch.meter_configure("meter", 1, committed_rate=1, committed_burst=1, peak_rate=1, peak_burst=2)
    assert [words(p)[0] for p in sent(switch, *[packet(METER)] * 3)] == [0, 1, 3]  # green, yellow, red
    switch.insert("route", {"y": 6}, "out_by", {"port": 8})
    assert [p.port for p in sent(switch, packet(DIRECT), packet(DIRECT))] == [8, 8]
    assert switch.entry_counters("route", {"y": 6})[0] == 2


def test_a_register_action_reads_and_writes_its_element_once(switch: Engine) -> None:
    switch.register_write("plain", 2, 77)
    got = [words(p) for p in sent(switch, *[packet(READ, y=1)] * 3)]
    assert [x for x, _, _ in got] == [9, 19, 19]  # the initial value; after one step it returns early
    assert got[0][2] == 77
    assert switch.register_read("pairs", 1) == 19 << 16 | 8
    assert switch.register_read("pairs", 0) == 9 << 16 | 7
    assert sent(switch, packet(READ, y=4))[0].data[:4] == bytes(4)  # out of bounds: zero, nothing written


def test_a_packet_that_ingress_cannot_parse_is_dropped(switch: Engine) -> None:
    assert sent(switch, packet(REFLECT)[:12]) == []


def test_the_passes_can_be_run_one_by_one(library: Path) -> None:
    with Engine(library) as switch:
        passes, data = Passes(switch), packet(REFLECT)
        [waits] = passes.ingress(3, data)
        assert switch.receive() == []  # it waits for its caller
        assert passes.next_pass(waits.item, 5) == []
        assert switch.receive() == [Packet(3, data)]


EDGES = tna(
    types="header note_t { bit<8> what; } header one_t { bit<8> v; }",
    headers="one_t one;",
    parser_locals="value_set<bit<8>>(4) wanted;",
    parser="transition select(hdr.h.k) { wanted: more; default: accept; }",
    states="state more { p.extract(hdr.one); transition select(hdr.one.v) { 1: accept; 2: reject; } }",
    ingress="tm.ucast_egress_port = 2; hdr.h.x = 16w0 ++ prsr.parser_err;",
    egress_parser="p.extract(hdr.h); transition accept;",
    egress="if (hdr.h.k == 9) { dprsr.mirror_type = 2; hdr.h.y = 3w0 ++ eg.egress_port ++ 20w0; }",
    egress_deparser_locals="Mirror() copy;",
    egress_deparser="if (dprsr.mirror_type == 2) { copy.emit<note_t>(4, { 0x77 }); }",
)


def test_errors_mirrors_and_value_sets_at_the_edges(libraries: Path) -> None:
    with Engine(build(generate(check_text(EDGES)), folder=libraries)) as switch:
        assert [words(p)[0] for p in sent(switch, packet(1))] == [0]
        # A program that reads parser_err sees its packets through: too short, and without a matching case.
        switch.value_set_insert("wanted", [1])
        assert [words(p)[0] for p in sent(switch, packet(1)[:13])] == [2]
        assert [words(p)[0] for p in sent(switch, packet(1)[:13] + b"\x05")] == [1]
        assert [words(p)[0] for p in sent(switch, packet(1)[:13] + b"\x01")] == [0]
        assert sent(switch, packet(1)[:13] + b"\x02") == []  # rejected by name: always dropped
        # A mirror from egress is the packet as it leaves.
        switch.clone_session(4, port=5)
        got = {p.port: p.data for p in sent(switch, packet(9, y=0))}
        assert got[2][4:8] == (2 << 20).to_bytes(4, "big")
        assert got[5] == b"\x77" + got[2]


# ---- what it does not run


UNSUPPORTED = {
    "DirectRegister": {"locals": "DirectRegister<bit<32>>() d;"},
    "ActionProfile": {"locals": "ActionProfile(8) a;"},
    "MathUnit": {"locals": "MathUnit<bit<32>>(MathOp_t.SQR, 1) u;"},
    "Lpf": {"locals": "Lpf<bit<32>, bit<8>>(8) l;"},
    "Wred": {"locals": "Wred<bit<32>, bit<8>>(8, 1, 0) w;"},
    "ParserCounter": {"parser_locals": "ParserCounter() c;"},
    "Hash with algorithm CRC64": {"locals": "Hash<bit<64>>(HashAlgorithm_t.CRC64) h;"},
    "copy_to_cpu": {"ingress": "tm.copy_to_cpu = 1;"},
    "level2_exclusion_id": {"ingress": "tm.level2_exclusion_id = 1;"},
    "deflect_on_drop": {"ingress": "tm.deflect_on_drop = 1;"},
    "capture_tstamp_on_tx": {"egress": "oport.capture_tstamp_on_tx = 1;"},
    "coalesce_length": {"egress": "dprsr.coalesce_length = 1;"},
    "a Register of": {"types": "struct t_t { bit<32> a; bit<16> b; }", "locals": "Register<t_t, bit<8>>(4) r;"},
    "subtract_all_and_deposit": {
        "parser_locals": "Checksum() s;", "parser": "s.subtract_all_and_deposit(m.s); transition accept;",
    },
    "invalidate": {"ingress": "invalidate(m.a);"},
    "leaves its table's DirectCounter alone": {
        "locals": "DirectCounter<bit<32>>(CounterType_t.PACKETS) n; action a() { }\n"
        "table t { key = { m.s: exact; } actions = { a; } counters = n; }",
        "ingress": "t.apply();",
    },
    "RegisterAction.predicate": {
        "locals": "Register<bit<32>, bit<8>>(4) r; RegisterAction<bit<32>, bit<8>, bit<32>>(r) a = "
        "{ void apply(inout bit<32> v) { } };",
        "ingress": "m.a = a.predicate();",
    },
}  # fmt: skip


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_the_engine_does_not_run_it_names(what: str) -> None:
    with pytest.raises(P4Error) as refused:
        generate(check_text(tna(**UNSUPPORTED[what])))
    [diagnostic] = refused.value.diagnostics
    assert what in diagnostic.message
    assert "not supported by the engine" in diagnostic.message
    assert diagnostic.span is not None


# ---- the front end


def test_blocks_may_leave_out_optional_parameters_and_no_others() -> None:
    short = (
        tna()
        .replace("in m_t m", "")
        .replace(
            "control Eg(inout headers_t hdr, inout egress_meta_t m, in egress_intrinsic_metadata_t eg,\n"
            "           in egress_intrinsic_metadata_from_parser_t prsr, "
            "inout egress_intrinsic_metadata_for_deparser_t dprsr,\n"
            "           inout egress_intrinsic_metadata_for_output_port_t oport) {",
            "control Eg(inout headers_t hdr, inout egress_meta_t m, in egress_intrinsic_metadata_t eg) {",
        )
    )
    assert "oport" not in short
    check_text(short)
    wrong = short.replace(
        "control Eg(inout headers_t hdr, inout egress_meta_t m,", "control Eg(inout headers_t hdr,"
    )
    with pytest.raises(P4Error) as refused:
        check_text(wrong)
    assert "argument for 'egress' of 'Pipeline'" in refused.value.diagnostics[0].message


def test_pragmas_are_kept() -> None:
    text = tna(
        locals='@stage(3) @name("tt") table t { key = { m.a: exact; } actions = { NoAction; } }',
        ingress="t.apply();",
        types='@pa_container_size("ingress", "hdr.h.x", 32) header o_t { bit<8> a; }',
    )
    program = check_text(text)
    [table] = [x for x in program.controls["In"].locals if x.name == "t"]  # type: ignore[union-attr]
    assert [a.name for a in table.annotations] == ["stage", "name"]  # type: ignore[union-attr]
    assert program.records["o_t"].annotations[0].name == "pa_container_size"


def test_a_pipeline_of_another_chip_is_refused_by_name() -> None:
    ghost = """#include <core.p4>
    control C(); package Pipeline(C a, C b, C c, C d, C e, C f, @optional C ghost); package Switch(Pipeline pipe0);
    control Nothing() { apply { } }
    Pipeline(Nothing(), Nothing(), Nothing(), Nothing(), Nothing(), Nothing()) pipe; Switch(pipe) main;"""
    with pytest.raises(P4Error) as refused:
        generate(check_text(ghost))
    assert "a pipeline that is not Tofino 1's" in refused.value.diagnostics[0].message


def test_a_constructor_s_parameter_may_have_a_default() -> None:
    inner = """
    control Sized(inout bit<32> v)(bit<32> first, bit<32> size = 77) {
        table t { key = { v: exact; } actions = { NoAction; } size = size; }
        apply { t.apply(); }
    }
    """
    schema = generate(
        check_text(
            tna(
                types=inner,
                locals="Sized(1) one; Sized(1, 5) two;",
                ingress="one.apply(m.a); two.apply(m.a);",
            )
        )
    ).schema
    assert {t.name: t.size for t in schema.tables} == {"In.one.t": 77, "In.two.t": 5}
    with pytest.raises(P4Error) as refused:
        check_text(tna(types=inner, locals="Sized() one;"))
    assert "argument 'first' of 'Sized' is missing" in refused.value.diagnostics[0].message
    with pytest.raises(P4Error) as refused:
        check_text(tna(types=inner.replace("= 77", "= true")))
    assert refused.value.diagnostics


def test_an_abstract_method_may_be_optional() -> None:
    extern = "extern Do { Do(); abstract void must(in bit<8> v); @optional abstract void may(in bit<8> v); }"
    check_text(tna(types=extern, locals="Do() d = { void must(in bit<8> v) { } };"))
    check_text(tna(types=extern, locals="Do() d = { void must(in bit<8> v) { } void may(in bit<8> v) { } };"))
    with pytest.raises(P4Error) as refused:
        check_text(tna(types=extern, locals="Do() d = { void may(in bit<8> v) { } };"))
    assert "does not implement abstract method 'must'" in refused.value.diagnostics[0].message
