# ruff: noqa: E501 - programs and packets stay on one line
"""What the front end rejects, where it points, and that several mistakes are reported in one go."""

import pytest

from p4.lang import P4Error, check_text

FRAME = """#include <core.p4>
header h_t { bit<8> a; bit<16> b; int<8> s; }
struct s_t { h_t h; h_t[2] stack; }
enum E { A, B }
type bit<8> typed_t;
T any<T>(in T v) { return v; }
void nothing() { }
control other_t() { apply { } }
control c(inout s_t hdr, inout bit<8> p, in bit<8> q) {
    action act(bit<8> n) { p = n; }
    action dir(in bit<8> x, bit<8> n) { p = x + n; } other_t() other;
    table t { key = { p: exact; } actions = { act; } }
    apply {
%s
    }
}
"""


def errors(text: str) -> list[str]:
    with pytest.raises(P4Error) as caught:
        check_text(text, "t.p4")
    return [d.render() for d in caught.value.diagnostics]


STATEMENTS = [
    ("x = 1;", "unknown name 'x'"),
    ("hdr.g = 1;", "struct s_t has no field 'g'"),
    ("p = hdr.h.b;", "the assigned value has type bit<16>"),
    ("p = p + hdr.h.b;", "'+' of bit<8> and bit<16>"),
    ("p = p + hdr.h.s;", "'+' of bit<8> and int<8>"),
    ("q = 1;", "cannot be assigned to"),
    ("5 = p;", "cannot be assigned to"),
    ("p = true;", "has type bool"),
    ("if (p) { }", "the condition of 'if' has type bit<8>"),
    ("p = (bit<8>)hdr.h.s[3:0] ++ 4w0;", "bit<12>"),
    ("p = hdr.h.a[8:0];", "slice [8:0] of bit<8>"),
    ("p = hdr.h.a[p:0];", "not a compile-time integer"),
    ("int<16> i = (int<16>)p;", "cannot cast bit<8> to int<16>"),
    ("bool b = (bool)p;", "cannot cast bit<8> to bool"),
    ("p = p / 0;", "division by zero"),
    ("p = p << -1;", "by -1"),
    ("hdr.h.s = hdr.h.s >> hdr.h.s;", "by int<8>"),
    ("p = p / -1;", "'/' with a negative operand"),
    ("bit<32> i = hdr.stack.lastIndex;", "outside a parser"),
    ("tuple<bit<8>, bit<16>, int<8>> tt = { 1, 2, 3 }; hdr.h = tt;", "the assigned value has type tuple"),
    ("typed_t v = (typed_t)hdr.h.b;", "cannot cast bit<16> to typed_t"),
    ("bit<16> v = (bit<16>)(typed_t)p;", "cannot cast typed_t to bit<16>"),
    ("bit<8> v = any(3);", "the width of 'v' of 'any' is not known"),
    ("bit<8> p = 2;", "'p' hides a parameter"),
    ("if (nothing() == nothing()) { }", "'==' of void"),
    ("bit<8> v = any(other);", "argument for 'v' of 'any' is control"),
    ("bool b = E.A == 1;", "'==' of E and int"),
    ("E e = E.C;", "enum E has no member 'C'"),
    ("error e = error.Nope;", "unknown error 'Nope'"),
    ("hdr.stack[2].a = 1;", "index 2 of a stack of 2"),
    ("hdr.stack.next.a = 1;", "outside a parser"),
    ("hdr.h.isvalid();", "no method 'isvalid'"),
    ("hdr.setValid();", "struct s_t has no method"),
    ("t.apply(1);", "of table 't'"),
    ("t.run();", "'run' of table 't'"),
    ("act();", "argument 'n' of 'act' is missing"),
    ("act(1, 2);", "called with 2 arguments"),
    ("nope(1);", "unknown function or action 'nope'"),
    ("p;", "a value alone is not a statement"),
    ("break;", "'break' outside a loop"),
    ("return 1;", "'return' with a value"),
    ("verify(true, error.NoError);", "verify() outside a parser"),
    ("bit<8> p2 = 1; bit<8> p2 = 2;", "'p2' is declared twice"),
    ("switch (p) { 1: { } 1: { } }", "the same label twice"),
    ("switch (t.apply().action_run) { nope: { } }", "no action of table 't'"),
    ("hdr.h = { 1, 2 };", "a list of 2 values for h_t"),
    ("hdr.h = { a = 1, z = 2, ... };", "has no field 'z'"),
    ("hdr.h = { a = 1 };", "field 'b' of h_t is not given"),
    ("tuple<bit<8>> tt = { 1, 2 };", "a list of 2 values"),
    ("for (bit<8> i in hdr.stack) { }", "'for' over h_t[2] with a bit<8>"),
    ("for (bit<8> i in p) { }", "'for' over bit<8>"),
    ("for (bit<8> i in { 1, true }) { }", "an item of the list has type bool"),
    ("p = (bit<8>)hdr.h.b[p +: 17][7:0];", "a slice of 17 bits of bit<16>"),
    ("p = hdr.h.b[hdr.h.s +: 8];", "a slice of bit<16> at int<8>"),
    ("h_t x = {#}; p = {#};", "'{#}' for bit<8>"),
    ("int x = 1;", "variable 'x' of type int"),
    ("varbit x = 1;", "varbit needs a maximum width"),
]


@pytest.mark.parametrize(("statement", "message"), STATEMENTS, ids=[s for s, _ in STATEMENTS])
def test_statement(statement: str, message: str) -> None:
    found = errors(FRAME % statement)
    assert any(message in e for e in found), found
    assert all(e.startswith("t.p4:14:") for e in found), found


TOPS = [
    ("void f(in bit<8> a) { verify(a == 1, error.NoMatch); }", "verify() outside a parser"),
    ("header q { bool b; error e; }", "field 'e' of type error in a header"),
    ("header q { varbit<8> a; varbit<8> b; }", "more than one varbit"),
    ("header_union u { bit<8> b; }", "in a header_union"),
    ("struct q { bit<8> a; bit<8> a; }", "'a' is declared twice"),
    ("struct q { nope x; }", "unknown type 'nope'"),
    ("bit<0x200000> f() { return 1; }", "width 2097152"),
    ("enum bit<2> F { X = 4 }", "value 4 of 'X'"),
    ("enum bit<2> F { X }", "has no value"),
    ("enum F { X, X }", "'X' is declared twice"),
    ("const bit<8> k = f(1); bit<8> f(in bit<8> x) { return x; }", "unknown function or action 'f'"),
    ("bit<8> f(in bit<8> x) { if (x == 1) { return 1; } }", "can end without a return"),
    ("bit<8> f(in bit<8> x) { return true; }", "the returned value has type bool"),
    ("typedef void V;", "another name for void"),
    ("type h_t N;", "a new type over h_t"),
    ("extern X { Y(); }", "unexpected 'Y'"),
    ("extern X { void X(); }", "constructor 'X' with a result type"),
    ("parser p() { state begin { } }", "has no state 'start'"),
    ("parser p() { state start { transition nowhere; } }", "unknown state 'nowhere'"),
    ("parser p() { state start { } state start { } }", "state 'start' twice"),
    ("parser p() { state accept { } state start { } }", "is built in"),
    ("parser p(in bit<8> b) { state start { transition select(b) { (1, 2): accept; } } }", "2 values in this case"),
    ("parser p(in bit<8> b) { state start { transition select(b) { true: accept; } } }", "has type bool"),
    ("parser p(packet_in k, out s_t h) { state start { k.extract(h); } }", "extract into s_t"),
    ("parser p(packet_in k) { state start { bool b = k.lookahead<E>() == E.A; } }", "lookahead of E"),
    ("parser p<T>(in T x) { state start { } }", "parser 'p' has type parameters and a body"),
    ("control k<T>(in T x) { apply { } }", "control 'k' has type parameters and a body"),
    ("control k() { table t { key = { 8w1: nearly; } actions = { } } apply { } }", "unknown match kind 'nearly'"),
    ("control k() { table t { key = { 8w1: exact; } } apply { } }", "has no actions"),
    ("control k() { table t { actions = { nope; } } apply { } }", "unknown action 'nope'"),
    ("control k(in bit<8> b) { action a() { } table t { key = { b: exact; } actions = { a; } const entries = "
     "{ 1 &&& 2: a(); } } apply { } }", "a mask (&&&) for a key of kind exact"),
    ("control k(in bit<8> b) { action a() { } table t { key = { b: lpm; } actions = { a; } const entries = "
     "{ 1 &&& 5: a(); } } apply { } }", "is not a prefix"),
    ("control k() { action a() { } table t { actions = { } default_action = a(); } apply { } }", "not one of the table's actions"),
    ("control k() { action a(bit<8> d, in bit<8> x) { } apply { } }", "with a direction after one without"),
    ("control k() { action a() { t.apply(); } table t { actions = { } } apply { } }", "unknown name 't'"),
    ("control k() { table t { actions = { } } action a() { t.apply(); } apply { } }", "applied outside"),
    ("control k()(bit<8> n) { apply { } } control m() { k() i; apply { i.apply(); } }", "argument 'n' of 'k' is missing"),
    ("package P(bit<8> n); P(true) main;", "has type bool"),
    ("bit<8> main() { return 1; } const bit<8> q = static_assert(false) ? 1 : 2;", "static_assert failed"),
    ("const bit<8> q = true ? 8w1 : false ? 8w2 : 8w3;", "the first branch of '?:' has type bit<8>"),
    ("parser p() { state start { transition start; } }", "parser 'p' never ends"),
    ("parser p(in bit<8> b) { state start { transition select(b) { 1: start; _: start; } } }", "parser 'p' never ends"),
    ("parser p(in bit<8> b, in bit<8> d) { state start { transition select(b) { d: accept; } } }", "known only at run time in a case"),
    ("parser p(in bit<8> b, in bit<8> d) { state start { transition select(b) { 1 .. d: accept; } } }", "known only at run time in a case"),
    ("parser p(in s_t h) { state start { transition select(h) { default: accept; } } }", "select of s_t"),
    ("parser p() { state start { } } control k() { p() inner; apply { } }", "a parser made inside a control"),
    ("control k() { apply { } } control m()(k inner) { apply { } }", "of type k, which has a body"),
    ("parser p(); control m()(p inner) { apply { } }", "constructor parameter 'inner': a parser"),
    ("control k(in bit<8> b) { action a() { } table t { key = { b + 1: exact; } actions = { a; } } apply { } }", "a key that is not a field has no name"),
    ("control k(inout bit<8> b, inout bit<8> d) { action a(inout bit<8> x) { } table t { actions = { a(b); } default_action = a(d); } apply { } }",
     "another argument than in the actions list"),
    ("control k(in bit<8> b) { action a() { } table t { entries = { 1: a(); } key = { b: exact; } actions = { a; } } apply { } }", "entries before the table's key"),
    ("control k(in bit<8> b) { action a() { } table t { key = { b: exact; } actions = { a; } entries = { priority = 3: 1: a(); } } apply { } }",
     "a priority where at most one entry matches"),
    ("control k(in bit<8> b) { action a() { } table t { key = { b: ternary; } actions = { a; } entries = { 1: a(); priority = 3: 2: a(); } } apply { } }",
     "the first entry has no priority"),
    ("control k() { table t { actions = { } largest_priority_wins = 1; } apply { } }", "largest_priority_wins"),
    ("control k() { table t { actions = { } priority_delta = 0; } apply { } }", "priority_delta"),
    ("enum typed_t F { X = 1 }", "enum over typed_t"),
    ("@name(4) const bit<8> k = 1;", "@name without a string"),
    ("extern void e(in string s);", "of type string with a direction"),
    ("extern int e();", "'e' returns int"),
    ("extern X { X(); abstract void f(); } package P(X x); P(X()) main;", "X has abstract methods"),
    ("bit<8> f(in bit<8> a, in bit<8> b = any(8w1)) { return a; }", "known only at run time"),
    ("extern X { X(); } const tuple<X> k = { };", "X in a tuple"),
    ("control I<H, M>(inout H h, inout M m); package P<H, M>(I<H, M> a, I<H, M> b); struct n { } control x(inout n h, inout s_t m) { apply { } } "
     "control y(inout s_t h, inout n m) { apply { } } P(x(), y()) main;", "argument for 'b' of 'P'"),
    ("bit<8> f(in bit<8> a) { bit<8> a = 1; return a; }", "'a' hides a parameter"),
    ("@nope(", "never closed"),
    ("const bit<8> k = 1 ` 2;", "unexpected '`'"),
    ("control k() { apply { bit<8> x = ; } }", "unexpected ';'"),
    ("struct q { bit<8> a }", "unexpected '}'"),
    ("control k( { apply { } }", "unexpected '{'"),
    ("header h_t { }", "'h_t' is declared twice"),
    ("extern void e<T>(in T t); control k() { apply { e(); } }", "cannot take these 0 arguments"),
    ("extern T e<T>(); control k() { apply { e(); } }", "cannot be inferred"),
    ("extern G<T> { G(); } G<bit<8>, bit<8>>() g;", "with 2 type arguments"),
    ("extern G<T> { G(); } G() g;", "cannot be inferred"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), TOPS, ids=[t[:60] for t, _ in TOPS])
def test_declaration(text: str, message: str) -> None:
    found = errors(FRAME % "" + text)
    assert any(message in e for e in found), found


def test_several_mistakes_in_one_go() -> None:
    text = "struct a { bit<8> x }\nconst bit<8> b = true;\nconst bit<8> c = d;\ncontrol k( { apply { } }\n"
    found = errors(text)
    assert [e.split(": error")[0] for e in found] == ["t.p4:1:21", "t.p4:4:12", "t.p4:2:18", "t.p4:3:18"]


def test_a_diagnostic_shows_the_line_and_a_caret() -> None:
    [found] = errors("const bit<8> good = 1;\n\tconst bit<8> wrong = goood;\n")
    assert found == (
        "t.p4:2:23: error: unknown name 'goood'\n"
        "  2 | \tconst bit<8> wrong = goood;\n"
        "    | \t                     ^~~~~\n"
        "    expected a declared name; did you mean 'good'?"
    )


def test_a_diagnostic_in_an_include_names_that_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "inner.p4").write_text("\nconst bit<8> a = nope;\n")
    with pytest.raises(P4Error) as caught:
        check_text('#include "inner.p4"\n', "outer.p4", folder=tmp_path)
    assert caught.value.diagnostics[0].render().startswith(f"{tmp_path}/inner.p4:2:18: error")


def test_one_mistake_gives_one_error() -> None:
    assert len(errors("const bit<8> a = nope + 1 * nope; const bit<8> b = a + a; const bit<16> c = a;")) == 2


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    deep = "(" * 5000 + "1" + ")" * 5000
    assert any("nested" in e for e in errors(f"const int a = {deep};"))
    assert any("nested" in e for e in errors("const int a = " + "-" * 3000 + "1;"))
