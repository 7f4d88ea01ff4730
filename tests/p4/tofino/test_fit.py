# ruff: noqa: E501 - each program stays on few lines
"""Every limit has a program that keeps it and one that breaks it, and the broken one is told by its line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netfold
from p4.lang import check_text, load_program
from p4.programs import TNA_SWITCHGNN
from p4.tofino import TOFINO, TOFINO2, check_fit
from tests.p4.tofino.tna_frame import fit, problems, tna, used


def register(
    name: str = "r", width: str = "bit<32>", size: int = 1024, body: str = "value = value + 1;"
) -> str:
    """A register with an action `name_act` that returns the value."""
    return (
        f"    Register<{width}, bit<32>>({size}) {name};\n"
        f"    RegisterAction<{width}, bit<32>, bit<32>>({name}) {name}_act = {{\n"
        f"        void apply(inout {width} value, out bit<32> result) {{\n"
        f"            {body}\n"
        f"            result = 0;\n"
        f"        }}\n"
        f"    }};\n"
    )


PAIR = "struct pair_t { bit<32> one; bit<32> two; }"
R = register()
# name: (good parts, bad parts, what the bad one's line holds, what is said)
LIMITS: dict[str, tuple[dict[str, str], dict[str, str], str, str]] = {
    "two accesses on one path": (
        {"locals": R, "ingress": "if (m.f == 1) {\n m.a = r_act.execute(m.c);\n } else {\n m.b = r_act.execute(m.d);\n }"},
        {"locals": R, "ingress": "m.a = r_act.execute(m.c);\n if (m.f == 1) {\n m.b = r_act.execute(m.d);\n }"},
        "m.b = r_act.execute(m.d);", "'r' is reached 2 times in one pass",
    ),
    "an access behind a return": (
        {"locals": R, "ingress": "if (m.f == 1) {\n m.a = r_act.execute(m.c);\n return;\n }\n m.b = r_act.execute(m.d);"},
        {"locals": R, "ingress": "if (m.f == 1) {\n m.a = r_act.execute(m.c);\n m.d = 1;\n }\n m.b = r_act.execute(m.d);"},
        "m.b = r_act.execute(m.d);", "'r' is reached 2 times in one pass",
    ),
    "accesses in a table's actions": (
        {"locals": R + "action one() { r_act.execute(m.c); }\n action two() { m.a = r_act.execute(m.c); }\n"
         "table t { key = { m.s: exact; } actions = { one; two; } }", "ingress": "t.apply();"},
        {"locals": R + "action one() { r_act.execute(m.c); }\n action two() { m.a = 1; }\n"
         "table t { key = { m.s: exact; } actions = { one; two; } }",
         "ingress": "t.apply();\n r_act.execute(m.d);"},
        "r_act.execute(m.d);", "'r' is reached 2 times in one pass",
    ),
    "an access in the case of another action": (
        {"locals": R + "action one() { r_act.execute(m.c); }\n action two() { }\n"
         "table t { key = { m.s: exact; } actions = { one; two; } }",
         "ingress": "switch (t.apply().action_run) {\n two: {\n m.a = r_act.execute(m.c);\n }\n }"},
        {"locals": R + "action one() { r_act.execute(m.c); }\n action two() { }\n"
         "table t { key = { m.s: exact; } actions = { one; two; } }",
         "ingress": "switch (t.apply().action_run) {\n one: {\n m.a = r_act.execute(m.c);\n }\n }"},
        "m.a = r_act.execute(m.c);", "'r' is reached 2 times in one pass",
    ),
    "a table twice": (
        {"locals": "table t { key = { m.s: exact; } actions = { NoAction; } }", "ingress": "if (m.f == 1) {\n t.apply();\n } else {\n m.a = 1;\n t.apply();\n }"},
        {"locals": "table t { key = { m.s: exact; } actions = { NoAction; } }", "ingress": "if (m.f == 1) {\n t.apply();\n }\n if (t.apply().hit) { m.a = 1; }"},
        "if (t.apply().hit) { m.a = 1; }", "table 't' is applied twice",
    ),
    "an inner control's array": (
        {"types": "control Inner(inout bit<32> v) { " + R + " apply { v = r_act.execute(v); } }",
         "locals": "Inner() one; Inner() two;", "ingress": "one.apply(m.a);\n two.apply(m.a);"},
        {"types": "control Inner(inout bit<32> v) { " + R + " apply { v = r_act.execute(v); } }",
         "locals": "Inner() one;", "ingress": "one.apply(m.a);\n one.apply(m.b);"},
        "apply { v = r_act.execute(v); } }", "'r' is reached 2 times in one pass",
    ),
    "a counter twice": (
        {"locals": "Counter<bit<32>, bit<8>>(8, CounterType_t.PACKETS) n;", "ingress": "n.count(m.t);"},
        {"locals": "Counter<bit<32>, bit<8>>(8, CounterType_t.PACKETS) n;", "ingress": "n.count(m.t);\n n.count(3);"},
        "n.count(3);", "'n' is reached 2 times in one pass",
    ),
    "the width of an element": (
        {"locals": register(width="bit<16>")}, {"locals": register(width="bit<24>")},
        "Register<bit<24>, bit<32>>(1024) r;", "register 'r' has elements of 24 bits",
    ),
    "a pair": (
        {"types": PAIR, "locals": register(width="pair_t", body="value.one = 1;")},
        {"types": "struct pair_t { bit<32> one; bit<32> two; bit<32> three; }",
         "locals": register(width="pair_t", body="value.one = 1;")},
        "Register<pair_t, bit<32>>(1024) r;", "register 'r' has elements of 96 bits",
    ),
    "comparisons": (
        {"locals": register(body="if (value == 1 || value == 2) { value = 0; }")},
        {"locals": register(body="if (value == 1 || value == 2 || value == 3) { value = 0; }")},
        "RegisterAction<bit<32>, bit<32>, bit<32>>(r) r_act = {", "needs 3 comparisons",
    ),
    "packet fields of an ALU": (
        {"locals": register(body="value = m.a + m.b;")},
        {"locals": register(body="if (value == m.c) { value = m.a + m.b; }")},
        "RegisterAction<bit<32>, bit<32>, bit<32>>(r) r_act = {", "needs 3 packet fields",
    ),
    "updates of a word": (
        {"locals": register(body="if (value == 1) { value = 2; } else { value = 3; }")},
        {"locals": register(body="if (value == 1) { value = 2; } else if (value == 2) { value = 3; } else { value = 4; }")},
        "RegisterAction<bit<32>, bit<32>, bit<32>>(r) r_act = {", "needs 3 ways to update one word",
    ),
    "what an ALU computes": (
        {"locals": register(body="value = value + m.a;")}, {"locals": register(body="value = value * m.a;")},
        "value = value * m.a;", "'*': a stateful ALU has none",
    ),
    "an index": (
        {"locals": R, "ingress": "m.a = m.b + m.c;\n r_act.execute(m.a);"},
        {"locals": R, "ingress": "r_act.execute(m.b + m.c);"},
        "r_act.execute(m.b + m.c);", "arithmetic in an array's index",
    ),
    "stages by dependency": (
        {"ingress": "\n".join(["m.a = m.a + m.b;"] * 12)},
        {"ingress": "\n".join(["m.a = m.a + m.b;"] * 12 + ["m.c = m.a;"])},
        "m.c = m.a;", "comes to stage 12",
    ),
    "stateful ALUs": (
        {"locals": "".join(register(f"r{i}") for i in range(48)),
         "ingress": "\n".join(f"r{i}_act.execute(m.a);" for i in range(48))},
        {"locals": "".join(register(f"r{i}") for i in range(49)),
         "ingress": "\n".join(f"r{i}_act.execute(m.a);" for i in range(49))},
        "r48_act.execute(m.a);", "comes to stage 12",
    ),
    "an array's memory": (
        {"locals": register(size=47 * 4096), "ingress": "r_act.execute(m.a);"},
        {"locals": register(size=47 * 4096 + 1), "ingress": "r_act.execute(m.a);"},
        "Register<bit<32>, bit<32>>(192513) r;", "takes 49 memory blocks of a stage",
    ),
    "TCAM": (
        {"locals": "table t { key = { m.a: ternary; } actions = { NoAction; } size = 147456; }", "ingress": "t.apply();"},
        {"locals": "table t { key = { m.a: ternary; } actions = { NoAction; } size = 147457; }", "ingress": "t.apply();"},
        "table t { key = { m.a: ternary; } actions = { NoAction; } size = 147457; }", "comes to stage 12",
    ),
    "SRAM": (
        {"locals": "table t { key = { m.a: exact; m.b: exact; m.c: exact; } actions = { NoAction; } size = 800000; }",
         "ingress": "t.apply();"},
        {"locals": "table t { key = { m.a: exact; m.b: exact; m.c: exact; } actions = { NoAction; } size = 900000; }",
         "ingress": "t.apply();"},
        "table t { key = { m.a: exact; m.b: exact; m.c: exact; } actions = { NoAction; } size = 900000; }",
        "comes to stage 12",
    ),
    "the ternary crossbar": (
        {"meta": "bit<528> key;", "locals": "table t { key = { m.key: ternary; } actions = { NoAction; } }",
         "ingress": "t.apply();"},
        {"meta": "bit<536> key;", "locals": "table t { key = { m.key: ternary; } actions = { NoAction; } }",
         "ingress": "t.apply();"},
        "table t { key = { m.key: ternary; } actions = { NoAction; } }", "'t' fits no stage",
    ),
    "the exact crossbar": (
        {"meta": "bit<1024> key;", "locals": "table t { key = { m.key: exact; } actions = { NoAction; } }",
         "ingress": "t.apply();"},
        {"meta": "bit<1032> key;", "locals": "table t { key = { m.key: exact; } actions = { NoAction; } }",
         "ingress": "t.apply();"},
        "table t { key = { m.key: exact; } actions = { NoAction; } }", "'t' fits no stage",
    ),
    "comparing two fields": (
        {"ingress": "if (m.a == m.b) { m.c = 1; }"}, {"ingress": "if (m.a < m.b) { m.c = 1; }"},
        "if (m.a < m.b) { m.c = 1; }", "'<' of two fields in a condition",
    ),
    "computing in a condition": (
        {"ingress": "m.d = m.a + m.b;\n if (m.d == 0) { m.c = 1; }"}, {"ingress": "if (m.a + m.b == 0) { m.c = 1; }"},
        "if (m.a + m.b == 0) { m.c = 1; }", "'+' inside a condition",
    ),
    "an action's steps": (
        {"locals": "action go() { m.a = m.b + 1; m.c = m.d + 1; }", "ingress": "go();"},
        {"locals": "action go() { m.a = m.b + 1;\n m.c = m.a + 1; }", "ingress": "go();"},
        "m.c = m.a + 1; }", "'m.a' is computed and used in one action",
    ),
    "a swap": (
        {"locals": "action go() { bit<32> old = m.a; m.a = m.b; m.b = old; }", "ingress": "go();"},
        {"locals": "action go() { bit<32> sum = m.a + m.c;\n m.b = sum; }", "ingress": "go();"},
        "m.b = sum; }", "is computed and used in one action",
    ),
    "a condition in an action": (
        {"locals": "action go() { m.a = 1; }", "ingress": "if (m.f == 1) { go(); }"},
        {"locals": "action go() {\n if (m.f == 1) { m.a = 1; } }", "ingress": "go();"},
        "if (m.f == 1) { m.a = 1; } }", "a condition inside an action",
    ),
    "a conditional value": (
        {"locals": "action go(bool b) { m.a = b ? m.b : m.c; } table t { key = { m.s: exact; } actions = { go; } }", "ingress": "t.apply();"},
        {"locals": "action go(bit<8> v) {\n m.a = m.f == 1 ? m.b : m.c; } table t { key = { m.s: exact; } actions = { go; } }", "ingress": "t.apply();"},
        "m.a = m.f == 1 ? m.b : m.c; } table t { key = { m.s: exact; } actions = { go; } }", "a conditional value in an action",
    ),
    "products": (
        {"ingress": "m.a = m.b << 3;"}, {"ingress": "m.a = m.b * m.c;"}, "m.a = m.b * m.c;", "'*': an ALU of a stage has none",
    ),
    "shifts": (
        {"ingress": "m.a = m.b >> 3;"}, {"ingress": "m.a = m.b >> m.t;"}, "m.a = m.b >> m.t;", "a shift by a field",
    ),
    "wide sums": (
        {"meta": "bit<48> w;", "ingress": "m.w = ig.ingress_mac_tstamp;"},
        {"meta": "bit<48> w;", "ingress": "m.w = m.w + ig.ingress_mac_tstamp;"},
        "m.w = m.w + ig.ingress_mac_tstamp;", "arithmetic on 48 bits",
    ),
    "a loop": (
        {"ingress": "m.a = 1;"}, {"ingress": "for (bit<8> i = 0; i < 3; i = i + 1) { m.a = 1; }"},
        "for (bit<8> i = 0; i < 3; i = i + 1) { m.a = 1; }", "a loop: a pipeline has none",
    ),
    "a select's width": (
        {"parser": "transition select(hdr.h.x) {\n 1: accept;\n default: accept;\n }"},
        {"parser": "\ntransition select(hdr.h.x, hdr.h.k) {\n (1, 1): accept;\n default: accept;\n }"},
        "transition select(hdr.h.x, hdr.h.k) {",
        "state 'start' selects on 40 bits",
    ),
    "parser rows": (
        {"parser": "transition s0;", "states": "".join(
            f"state s{i} {{ transition {'accept' if i == 250 else f's{i + 1}'}; }}\n" for i in range(251))},
        {"parser": "transition s0;", "states": "".join(
            f"state s{i} {{ transition {'accept' if i == 260 else f's{i + 1}'}; }}\n" for i in range(261))},
        "parser IngressParser(packet_in p, out headers_t hdr, out meta_t m, out ingress_intrinsic_metadata_t ig) {",
        "takes 263 rows",
    ),
    "PHV": (
        {"meta": "".join(f"bit<32> v{i}; " for i in range(100)),
         "ingress": "\n".join(f"m.v{i} = {i};" for i in range(100))},
        {"meta": "".join(f"bit<32> v{i}; " for i in range(140)),
         "ingress": "\n".join(f"m.v{i} = {i};" for i in range(140))},
        "control In(inout headers_t hdr, inout meta_t m, META_IN, META_OUT) {", "headers and metadata take",
    ),
}  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
def test_a_program_that_keeps_a_limit_fits(limit: str) -> None:
    report = fit(**LIMITS[limit][0])
    assert problems(report) == []
    assert report.fits


@pytest.mark.parametrize("limit", LIMITS)
def test_a_program_that_breaks_it_does_not_and_its_line_is_named(limit: str) -> None:
    _, parts, line, message = LIMITS[limit]
    report = fit(**parts)
    assert not report.fits
    assert any(at == line and message in said for at, said in problems(report)), problems(report)


def test_more_than_four_register_actions() -> None:
    def program(count: int) -> dict[str, str]:
        actions = "".join(
            f"RegisterAction<bit<32>, bit<32>, bit<32>>(r) a{i} = "
            f"{{ void apply(inout bit<32> value) {{ value = {i}; }} }};\n"
            for i in range(count)
        )
        return {"locals": "Register<bit<32>, bit<32>>(8) r;\n" + actions}

    assert fit(**program(4)).fits
    report = fit(**program(5))
    assert problems(report) == [("Register<bit<32>, bit<32>>(8) r;", "register 'r' has 5 RegisterActions")]


# ---- stages


@pytest.mark.parametrize(
    ("ingress", "stages"),
    [
        ("m.a = 1; m.b = 2;", 1),
        ("m.a = 1; m.b = m.a;", 2),  # action dependency
        ("m.a = 1; if (m.a == 2) { m.b = 1; }", 2),  # match dependency, by a gateway
        ("m.b = m.a; m.a = 1;", 1),  # writes what was read before
        ("m.a = 1; m.a = 2;", 2),  # both write
        ("if (m.f == 1) { m.a = 1; } else { m.b = m.a; }", 1),  # they exclude each other
        ("if (m.f == 1) { m.a = 1; } if (m.f == 0) { m.b = m.a; }", 2),  # not by their branches
        ("if (m.f == 1) { m.a = 1; return; } m.b = m.a;", 1),
        ("if (m.f == 1) { m.a = 1; } m.b = m.a;", 2),
        ("t.apply(); m.b = m.a;", 2),
        ("if (t.apply().hit) { m.b = 1; }", 1),  # by hit or miss: may share the stage
        ("switch (t.apply().action_run) { one: { m.b = 1; } }", 1),
        ("m.s = 3; t.apply(); m.b = m.a;", 3),
        ("hdr.wide.setValid(); if (hdr.wide.isValid()) { m.a = 1; }", 2),
        ("hdr.wide.w0 = 1; m.b = hdr.wide.w1;", 1),
        ("hdr.wide = { 1, 2, 3, 4, 5, 6, 7, 8 }; m.b = hdr.wide.w1;", 2),
        ("bit<32> v = m.a + 1; m.b = v;", 2),
    ],
)
def test_dependencies_make_stages(ingress: str, stages: int) -> None:
    table = "action one() { m.a = 1; } table t { key = { m.s: exact; } actions = { one; NoAction; } }"
    report = fit(locals=table, ingress=ingress)
    assert used(report, "stages, ingress") == stages


def test_what_is_longer_gets_its_place_first() -> None:
    """Sixteen units that wait for nothing do not displace a chain that needs every stage."""
    idle = "".join(f"if (m.t == {i}) {{ m.s = {i}; }} else {{ m.d = {i}; }} " for i in range(1))
    chain = " ".join(["m.a = m.a + m.b;"] * 12)
    assert fit(ingress=idle + chain).fits


def test_a_register_reached_in_two_branches_is_one_array_in_one_stage() -> None:
    ingress = "if (m.f == 1) { m.a = m.b + 1; m.c = r_act.execute(m.a); } else { m.d = r_act.execute(m.b); }"
    report = fit(locals=R, ingress=ingress)
    assert report.fits
    assert used(report, "stateful ALUs") == 1
    assert used(report, "stages, ingress") == 2  # the second branch waits for the first one's stage


def test_a_table_applied_in_two_branches_is_one_table_in_one_stage() -> None:
    ingress = "if (m.f == 1) { t.apply(); } else { m.s = 1; t.apply(); }"
    report = fit(
        locals="table t { key = { m.s: exact; } actions = { NoAction; } size = 40000; }", ingress=ingress
    )
    once = fit(
        locals="table t { key = { m.s: exact; } actions = { NoAction; } size = 40000; }", ingress="t.apply();"
    )
    assert report.fits
    assert used(report, "stages, ingress") == 2
    assert used(report, "SRAM blocks (16 KiB)") == used(once, "SRAM blocks (16 KiB)")


def test_copies_take_no_stage_of_their_own_in_an_action() -> None:
    """As SwitchML's: what an array or a hash returns, a field or action data may be used in the same action."""
    action = "action go(bit<32> v) { m.a = r_act.execute(m.c); m.b = m.a & v; m.d = v; m.c = m.d; }"
    table = "table t { key = { m.s: exact; } actions = { go; } }"
    assert fit(locals=R + action + table, ingress="t.apply();").fits


def test_ingress_and_egress_share_the_stages() -> None:
    half = "".join(register(f"r{i}") for i in range(24))
    more = "".join(register(f"r{i}") for i in range(25))
    run = "\n".join(f"r{i}_act.execute(m.a);" for i in range(24))
    egress = "\n".join(f"r{i}_act.execute(m.x);" for i in range(25))
    fits_ = fit(locals=half, ingress=run, egress_locals=half, egress=egress.rsplit("\n", 1)[0])
    assert fits_.fits
    assert used(fits_, "stateful ALUs") == 48
    assert not fit(locals=half, ingress=run, egress_locals=more, egress=egress).fits


def test_tofino_2_has_more() -> None:
    for name in ("stages by dependency", "comparisons", "stateful ALUs"):
        _, parts, _, _ = LIMITS[name]
        assert not fit(TOFINO, **parts).fits
        assert fit(TOFINO2, **parts).fits


def test_inner_controls_count_where_they_are_applied() -> None:
    inner = "control Add(inout bit<32> v) { apply { v = v + 1; } }"
    report = fit(types=inner, locals="Add() add;", ingress="add.apply(m.a); add.apply(m.a); add.apply(m.b);")
    assert used(report, "stages, ingress") == 2


# ---- whole programs


def test_switchgnn_fits() -> None:
    report = check_fit(load_program(TNA_SWITCHGNN), TOFINO)
    assert problems(report) == []
    assert report.fits
    assert used(report, "stages, ingress") <= 12
    assert used(report, "stateful ALUs") == 42
    assert used(report, "accesses to one array in a pass") == 1


def test_switchgnn_with_more_aggregators_does_not() -> None:
    report = check_fit(load_program(TNA_SWITCHGNN, defines={"AGGREGATORS": "65536"}), TOFINO)
    assert not report.fits
    assert report.problems


def test_random_chains_are_never_placed_before_what_they_need() -> None:
    @given(st.integers(0, 2**32))
    @settings(max_examples=20, deadline=None)
    def keeps_order(seed: int) -> None:
        rng = random.Random(seed)
        names = ["a", "b", "c", "d"]
        steps = [(rng.choice(names), rng.choice(names)) for _ in range(rng.randint(1, 10))]
        report = fit(ingress="\n".join(f"m.{to} = m.{source} + 1;" for to, source in steps))
        # The longest chain, by hand: each step waits for the last writer of both its fields.
        stage: dict[str, int] = {}
        reads: dict[str, int] = {}
        most = 0
        for to, source in steps:
            at = max(stage.get(source, -1) + 1, stage.get(to, -1) + 1, reads.get(to, 0))
            stage[to] = at
            reads[source] = max(reads.get(source, 0), at)
            most = max(most, at + 1)
        assert used(report, "stages, ingress") == most

    keeps_order()


# ---- the command


def write(folder: Path, **parts: str) -> str:
    path = folder / "program.p4"
    path.write_text(tna(**parts))
    return str(path)


def test_check_prints_a_table_and_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold.main(["p4", "check", write(tmp_path, ingress="m.a = 1;")]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "modelled" in shown.out
    assert "stages, ingress" in shown.out
    assert shown.out.rstrip().endswith("fits")


def test_check_names_the_line_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path, ingress="\nm.a = m.b * m.c;")
    line = Path(name).read_text().split("\n").index("m.a = m.b * m.c;") + 1
    assert netfold.main(["p4", "check", name]) == 2
    shown = capsys.readouterr()
    assert f"{name}:{line}:" in shown.err
    assert "does not fit" in shown.out
    assert "Traceback" not in shown.err


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path, ingress="m.a = m.b * m.c;")
    assert netfold.main(["p4", "check", name, "--json", "--target", "tofino2"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert data["tofino"]["target"] == "tofino2"
    assert data["tofino"]["fits"] is False
    assert data["errors"][0]["message"].startswith("'*'")
    assert {"name": "stages, ingress", "used": 1, "limit": 20}.items() <= data["tofino"]["rows"][0].items()


def test_what_goes_round_must_fit_the_ports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path, ingress="tm.ucast_egress_port = 68;")
    assert netfold.main(["p4", "check", name, "--recirculations", "10", "--load", "10"]) == 0
    assert netfold.main(["p4", "check", name, "--recirculations", "10", "--load", "10.1"]) == 2
    assert "tm.ucast_egress_port = 68;" in capsys.readouterr().err
    two = write(
        tmp_path, ingress="if (m.f == 1) { tm.ucast_egress_port = 68; } else { tm.ucast_egress_port = 69; }"
    )
    assert netfold.main(["p4", "check", two, "--recirculations", "10", "--load", "20"]) == 0


@pytest.mark.parametrize("flags", [["--recirculations", "3"], ["--load", "-1", "--recirculations", "1"]])
def test_wrong_flags_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    assert netfold.main(["p4", "check", write(tmp_path), *flags]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.strip().split("\n")) == 1


def test_a_program_of_two_pipelines_is_refused_by_name() -> None:
    text = tna().replace("Switch(pipe) main;", "Pipeline(IngressParser(), In(), IngressDeparser(), EgressParser(), "
                         "Eg(), EgressDeparser()) other;\nSwitch(pipe, other) main;")  # fmt: skip
    with pytest.raises(Exception, match="several pipelines"):
        check_fit(check_text(text), TOFINO)
