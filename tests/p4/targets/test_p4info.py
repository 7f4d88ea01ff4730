"""P4Info by value: ids as p4c gives them, widths, kinds, what belongs to what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from p4.config.v1 import p4info_pb2

from p4.codegen import generate
from p4.lang import check_text, load_program
from p4.programs import ATP, IPV4, SWITCHGNN, SWITCHML
from p4.targets import Engine
from p4.targets.p4info import jenkins_hash, make_p4info
from tests.p4.conftest import v1model


def info_of(**parts: str) -> p4info_pb2.P4Info:
    return make_p4info(generate(check_text(v1model(**parts))).schema)


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"a", 0xCA2E9442), (b"The quick brown fox jumps over the lazy dog", 0x519E91F5)],
)
def test_the_hash_of_names(text: bytes, value: int) -> None:
    """Values that are published with the one-at-a-time hash."""
    assert jenkins_hash(text) == value


def test_a_table_with_keys_actions_and_direct_resources() -> None:
    info = info_of(
        types="header h_t { bit<8> a; bit<32> b; bit<48> c; }",
        headers="h_t h;",
        locals="""
        direct_counter(CounterType.bytes) hits;
        direct_meter<bit<2>>(MeterType.packets) limit;
        action send(bit<9> port, bit<48> mac) { s.egress_spec = port; h.h.c = mac; limit.read(m.colour); }
        action none() { }
        table t {
            key = { h.h.a: ternary; h.h.b: lpm; h.h.c: range; h.h.isValid(): exact; }
            actions = { send; @defaultonly none; }
            default_action = none(); size = 77; counters = hits; meters = limit;
        }""",
        meta="bit<2> colour;",
        ingress="t.apply();",
    )
    [table] = info.tables
    assert (table.preamble.name, table.preamble.alias, table.size) == ("ingress.t", "t", 77)
    assert table.preamble.id == 0x02 << 24 | jenkins_hash(b"ingress.t") & 0xFFFFFF
    kinds = p4info_pb2.MatchField.MatchType
    assert [(f.id, f.name, f.bitwidth, kinds.Name(f.match_type)) for f in table.match_fields] == [
        (1, "h.h.a", 8, "TERNARY"), (2, "h.h.b", 32, "LPM"), (3, "h.h.c", 48, "RANGE"),
        (4, "h.h.$valid$", 1, "EXACT"),
    ]  # fmt: skip
    actions = {a.preamble.name: a for a in info.actions}
    assert [(p.id, p.name, p.bitwidth) for p in actions["ingress.send"].params] == [
        (1, "port", 9),
        (2, "mac", 48),
    ]
    only = p4info_pb2.ActionRef.Scope.Value("DEFAULT_ONLY")
    assert {r.id: r.scope for r in table.action_refs} == {
        actions["ingress.send"].preamble.id: 0, actions["ingress.none"].preamble.id: only,
    }  # fmt: skip
    [counter], [meter] = info.direct_counters, info.direct_meters
    assert counter.direct_table_id == meter.direct_table_id == table.preamble.id
    assert set(table.direct_resource_ids) == {counter.preamble.id, meter.preamble.id}
    assert counter.spec.unit == p4info_pb2.CounterSpec.Unit.Value("BYTES")
    assert not info.meters
    assert not info.counters


def test_a_table_without_a_default_action_has_no_action() -> None:
    info = info_of(
        locals="action a() { } table t { key = { m.x: exact; } actions = { a; } }",
        meta="bit<4> x;",
        ingress="t.apply();",
    )
    assert sorted(a.preamble.name for a in info.actions) == ["NoAction", "ingress.a"]
    assert info.tables[0].size == 1024


def test_registers_counters_meters_and_digests() -> None:
    info = info_of(
        types="struct seen_t { bit<9> port; bit<48> mac; }",
        locals="""register<bit<17>>(5) r; register<int<8>>(6) i;
        counter(7, CounterType.packets_and_bytes) c; meter(8, MeterType.bytes) p;""",
        meta="bit<17> x; int<8> y; bit<2> z;",
        ingress="""r.read(m.x, 0); i.read(m.y, 0); c.count(0); p.execute_meter(0, m.z);
        digest<seen_t>(1, { s.ingress_port, 0 });""",
    )
    registers = {x.preamble.alias: x for x in info.registers}
    assert (registers["r"].size, registers["r"].type_spec.bitstring.bit.bitwidth) == (5, 17)
    assert (registers["i"].size, registers["i"].type_spec.bitstring.int.bitwidth) == (6, 8)
    assert (info.counters[0].size, info.counters[0].spec.unit) == (
        7,
        p4info_pb2.CounterSpec.Unit.Value("BOTH"),
    )
    assert (info.meters[0].size, info.meters[0].spec.unit) == (8, p4info_pb2.MeterSpec.Unit.Value("BYTES"))
    members = info.type_info.structs[info.digests[0].type_spec.struct.name].members
    assert [(x.name, x.type_spec.bitstring.bit.bitwidth) for x in members] == [("port", 9), ("mac", 48)]


def test_an_alias_is_as_long_as_it_must_be() -> None:
    info = info_of(
        locals="register<bit<8>>(1) x; register<bit<8>>(1) y;",
        egress_locals="register<bit<8>>(1) x;",
        meta="bit<8> a;",
        ingress="x.read(m.a, 0); y.read(m.a, 0);",
        egress="x.read(m.a, 0);",
    )
    names = {r.preamble.name: r.preamble.alias for r in info.registers}
    assert names == {"ingress.x": "ingress.x", "ingress.y": "y", "egress.x": "egress.x"}


def test_an_engine_has_its_program_s(compiled: Callable[[str], Path]) -> None:
    with Engine(
        compiled(v1model(locals="register<bit<8>>(3) r;", meta="bit<8> a;", ingress="r.read(m.a, 0);"))
    ) as e:
        assert [r.preamble.name for r in e.p4info.registers] == ["ingress.r"]


@pytest.mark.parametrize("program", [SWITCHGNN, ATP, SWITCHML, IPV4])
def test_ids_are_all_different(program: Path) -> None:
    info = make_p4info(generate(load_program(program)).schema)
    ids = [x.preamble.id for _, group in info.ListFields() if hasattr(group, "__len__") for x in group]
    assert len(ids) == len(set(ids)) > 2
