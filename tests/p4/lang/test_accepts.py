# ruff: noqa: E501 - programs and packets stay on one line
"""What the front end accepts: one small program for each feature of the language."""

from pathlib import Path

import pytest

from p4.lang import check_text, ir
from p4.lang import types as ty

REFERENCE = Path("/work/shared/reference/agg30.p4")


def in_control(body: str, before: str = "", locals_: str = "") -> str:
    """A v1model-free program whose control `c` runs `body`."""
    return f"""
#include <core.p4>
header h_t {{ bit<8> a; bit<16> b; int<8> s; }}
header g_t {{ bit<8> x; varbit<64> v; }}
header_union u_t {{ h_t h; g_t g; }}
struct s_t {{ h_t h; bit<8> f; h_t[4] stack; u_t u; }}
{before}
control c(inout s_t hdr, inout bit<8> p) {{ {locals_} apply {{ {body} }} }}
"""


STATEMENTS = {
    "widths and signs": "bit<8> x = 8w255; int<8> y = -8s128; bit<1> z = 1w1; bit<256> w = 256w1 << 255;",
    "number forms": "bit<32> x = 0xFF_00; x = 0b1010; x = 0o17; x = 32w0d10; x = 0B1;",
    "implicit cast of constants": "hdr.h.a = 1; hdr.h.b = 0xABCD; hdr.h.s = -1;",
    "explicit casts": "hdr.h.b = (bit<16>)hdr.h.a; int<8> i = (int<8>)hdr.h.a; bit<1> o = (bit<1>)true;",
    "bool and bit<1>": "bool t = (bool)1w1; bit<1> o = (bit<1>)(hdr.h.a == 1);",
    "concatenation and slices": "hdr.h.b = hdr.h.a ++ hdr.h.a[7:0]; hdr.h.a[3:0] = hdr.h.b[15:12]; p = hdr.h.b[4+:8];",
    "saturating": "p = p |+| 1; p = p |-| 200; int<8> i = hdr.h.s |+| 1;",
    "shifts": "p = p << 3; p = p >> p; int<8> i = hdr.h.s >> 1; hdr.h.b = hdr.h.b << hdr.h.a;",
    "logic": "if (!(p == 1) && p != 2 || p < 3) { p = ~p; } else if (p >= 4) p = -p; else { p = +p; }",
    "ternary": "p = p > 1 ? p : 8w0; p = p == 0 ? 1 : p;",
    "compound assignment": "p += 1; p |= 2; p <<= 1; p |+|= 3; hdr.h.b ^= 0xFF;",
    "lists": "hdr.h = { 1, 2, 3 }; hdr.h = { a = 1, s = 2, b = 3 }; hdr.h = { a = 1, ... }; tuple<bit<8>, bool> t = { p, true };",
    "tuples": "tuple<bit<8>, bool> t = { 1, true }; p = t[0]; bool b = t[1] && t == { 8w1, true };",
    "invalid header": "hdr.h = {#}; hdr.u = {#}; hdr.h = (h_t){#};",
    "header methods": "hdr.h.setValid(); if (hdr.h.isValid()) hdr.h.setInvalid(); bool u = hdr.u.isValid();",
    "stacks": "hdr.stack.push_front(1); hdr.stack.pop_front(2); hdr.stack[0] = hdr.h; hdr.stack[p].a = 1; p = (bit<8>)hdr.stack.size;",
    "sizes": "bit<32> n = hdr.h.minSizeInBits() + hdr.u.maxSizeInBytes();",
    "equality of structures": "bool q = hdr.h == hdr.stack[1]; q = hdr.u.h != hdr.h;",
    "switch on a value": "switch (p) { 1: { p = 2; } 2: 3: { p = 4; } default: { p = 0; } }",
    "exit and return": "if (p == 1) { exit; } if (p == 2) { return; } p = 3;",
    "blocks and shadowing": "bit<8> x = 1; { bit<16> x = 2; hdr.h.b = x; } p = x;",
    "annotations": "@likely p = 1; @name(\"x\") bit<8> x = 2; @atomic { p = x; }",
    "for range": "for (bit<8> i in 0 .. 9) { p = p + i; if (p == 7) break; }",
    "for c-style": "for (bit<8> i = 0; i < 10; i = i + 1) { if (i == 3) { continue; } p += i; }",
    "empty": ";;{}",
}  # fmt: skip


@pytest.mark.parametrize("body", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_statement(body: str) -> None:
    program = check_text(in_control(body))
    assert len(program.controls["c"].body.items) > 0


TOPS = {
    "constants": "const bit<8> A = 1; const int B = A + 2; const bool C = B == 3; const h_t H = { 1, 2, 3 };",
    "typedef and type": "typedef bit<8> T; type T N; const N x = (N)8w1; struct q { T a; N b; }",
    "enum": "enum E { A, B } const E x = E.B;",
    "serializable enum": "enum bit<8> E { A = 1, B = 1 << 4 } header q { E e; } const bit<8> x = E.B;",
    "errors and match kinds": "error { Mine } match_kind { mine } const error e = error.Mine;",
    "functions": "bit<8> f(in bit<8> x) { if (x == 0) { return 1; } return x; } void g(inout bit<8> x) { x = f(x); }",
    "generic function": "T first<T>(in T a, in T b) { return a; } const bit<8> n = 1; bit<8> h(in bit<8> x) { return first(x, 2); }",
    "generic struct": "struct pair<A, B> { A a; B b; } header hd<T> { T t; } struct q { pair<bit<8>, bool> p; hd<bit<16>> h; }",
    "extern with generics": "extern E<T> { E(T init); T get(in bit<8> i); void put<U>(in U u, in T t); abstract void f(inout T t); }",
    "extern overloads": "extern void f(in bit<8> a); extern void f(in bit<8> a, in bit<8> b);",
    "abstract method": "extern E { E(); abstract bit<8> f(in bit<8> x); } E() e = { bit<8> f(in bit<8> x) { return x + 1; } };",
    "default argument": "bit<8> f(in bit<8> x = 5) { return x; } bit<8> g() { return f(); }",
    "named arguments": "bit<8> f(in bit<8> x, in bit<8> y) { return x; } bit<8> g() { return f(y = 1, x = 2); }",
    "top-level action": "action a(inout bit<8> x) { x = 1; } action b(bit<8> data) { }",
    "prefix dot": "const bit<8> k = 1; bit<8> f() { return .k; }",
    "string": 'const string s = "a\\"b";',
    "static assert": 'const bool ok = static_assert(1 + 1 == 2, "arithmetic");',
    "stray semicolon": "const bit<8> A = 1;;",
    "big constants": "const int big = 1 << 200; const bit<201> b = big;",
}  # fmt: skip


@pytest.mark.parametrize("text", TOPS.values(), ids=TOPS.keys())
def test_declaration(text: str) -> None:
    check_text(in_control("", before=text))


TABLES = {
    "all match kinds": "key = { p: exact; hdr.h.a: ternary; hdr.h.b: lpm; } actions = { a; NoAction; } size = 16;",
    "entries": "key = { p: ternary; } actions = { a; b; } const entries = { 1: a(); 2 &&& 3: b(7); _: a(); } default_action = b(1);",
    "entries with priority": "key = { p: ternary; } actions = { a; b; } largest_priority_wins = false; entries = { const priority = 3: 1: a(); priority = 5: _: b(2); }",
    "tuple entries": "key = { p: exact; hdr.h.a: lpm; } actions = { b; } const entries = { (1, 0x10 &&& 0xF0): b(1); (2, _): b(2); }",
    "bound arguments": "key = { p: exact; } actions = { d(p); } const default_action = d(p, 1);",
    "annotations": "key = { p: exact @name(\"P\"); } actions = { @tableonly a; @defaultonly NoAction; } default_action = NoAction;",
    "key expressions": "key = { p + 1: exact @name(\"q\"); hdr.h.isValid(): exact; hdr.h.b[3:0]: exact; } actions = { a; }",
}  # fmt: skip


@pytest.mark.parametrize("properties", TABLES.values(), ids=TABLES.keys())
def test_table(properties: str) -> None:
    locals_ = (
        "action a() { p = 1; } action b(bit<8> n) { p = n; } action d(in bit<8> m, bit<8> n) { p = m + n; }"
        f"table t {{ {properties} }}"
    )
    program = check_text(in_control("if (t.apply().hit) { p = 2; }", locals_=locals_))
    table = next(x for x in program.controls["c"].locals if isinstance(x, ir.Table))
    assert table.keys and table.actions


def test_switch_on_action_run() -> None:
    locals_ = "action a() {} action b() {} table t { key = { p: exact; } actions = { a; b; } }"
    body = "switch (t.apply().action_run) { a: { p = 1; } default: { p = 2; } }"
    control = check_text(in_control(body, locals_=locals_)).controls["c"]
    switch = control.body.items[0]
    assert isinstance(switch, ir.Switch) and switch.table is not None and switch.table.name == "t"


PARSERS = {
    "select": "transition select(h.h.a, h.h.b) { (1, 2): next; (_, 3 &&& 0xF): next; (4 .. 9, default): accept; default: reject; }",
    "select without default": "transition select(h.h.a) { 1: next; }",
    "value set": "transition select(h.h.a) { vs: next; _: accept; }",
    "lookahead and advance": "bit<16> x = p.lookahead<bit<16>>(); p.advance(8); h.h = p.lookahead<h_t>(); transition accept;",
    "verify": "verify(h.h.a == 1, error.NoMatch); transition accept;",
    "stack": "p.extract(h.stack.next); transition select(h.stack.last.a) { 0: start; default: next; }",
    "union and varbit": "p.extract(h.u.h); p.extract(h.u.g, (bit<32>)h.h.a * 8); transition accept;",
    "underscore": "p.extract<h_t>(_); transition accept;",
    "conditional": "if (h.h.a == 1) { p.extract(h.h); } transition accept;",
    "subparser": "inner.apply(p, h); transition accept;",
    "no transition": "",
}  # fmt: skip


@pytest.mark.parametrize("state", PARSERS.values(), ids=PARSERS.keys())
def test_parser_state(state: str) -> None:
    text = in_control("") + (
        "parser in_t(packet_in p, inout s_t h) { state start { p.extract(h.h); transition accept; } }"
        "parser q(packet_in p, out s_t h) { value_set<bit<8>>(4) vs; in_t() inner;"
        f" state start {{ p.extract(h.h); {state} }} state next {{ transition accept; }} }}"
    )
    assert [s.name for s in check_text(text).parsers["q"].states] == ["start", "next"]


def test_constructor_parameters_and_direct_application() -> None:
    text = in_control(
        "i.apply(p); k.apply(p); plain.apply(p);",
        "control k(inout bit<8> x) { apply { x = x + 1; } } control plain(inout bit<8> x)(bit<8> n) { apply { x = n; } }"
        .replace("plain(inout bit<8> x)(bit<8> n) { apply { x = n; } }", "plain(inout bit<8> x) { apply { x = 0; } }")
        + "control n_t(inout bit<8> x)(bit<8> n) { apply { x = x + n; } }",
        "n_t(3) i;",
    )  # fmt: skip
    assert len(check_text(text).controls["c"].body.items) == 3


def test_types_and_folding_are_in_the_typed_program() -> None:
    program = check_text(
        "const bit<8> A = 250 + 10 - 5; enum bit<4> E { X = 3 } const int B = 7 / 2 * 0 + 9 % 4;"
    )
    assert program.constants["A"].value == 255
    assert program.constants["A"].type == ty.Bits(8)
    assert program.constants["B"].value == 1
    assert program.enums["E"].value("X") == 3


def test_both_forms_of_v1model() -> None:
    old = "#include <v1model.p4>\nregister<bit<8>>(4) r;"
    new = "#define V1MODEL_VERSION 20200408\n#include <v1model.p4>\nregister<bit<8>, PortId_t>(4) r;"
    for text in (old, new):
        assert str(check_text(text).instances[0].type).startswith("register<bit<8>")


def test_tna_declarations_check() -> None:
    text = """#include <tna.p4>
struct m { } struct h { }
control i(inout h hdr, inout m md, in ingress_intrinsic_metadata_t a, in ingress_intrinsic_metadata_from_parser_t b,
          inout ingress_intrinsic_metadata_for_deparser_t d, inout ingress_intrinsic_metadata_for_tm_t e) {
    Register<bit<32>, bit<16>>(1024) values;
    RegisterAction<bit<32>, bit<16>, bit<32>>(values) add = {
        void apply(inout bit<32> value, out bit<32> rv) { value = value |+| 1; rv = value; }
    };
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    apply { bit<32> x = add.execute(hash.get({ 8w1, 16w2 })); e.ucast_egress_port = x[8:0]; }
}"""
    control = check_text(text).controls["i"]
    add = next(x for x in control.locals if isinstance(x, ir.Instance) and x.name == "add")
    assert set(add.methods) == {"apply"}


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference program agg30.p4 is not on this machine")
def test_the_reference_program() -> None:
    program = check_text(REFERENCE.read_text(), str(REFERENCE))
    assert program.main is not None and program.main.type.name == "V1Switch"  # type: ignore[attr-defined]
    assert len([x for x in program.controls["I"].locals if isinstance(x, ir.Instance)]) == 31
