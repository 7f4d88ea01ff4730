"""`p4 show`: the control flow of tables, the state's bytes, and both with the parser as a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from netfold import main
from p4.codegen.schema import Schema, StateInfo
from p4.flow import control_flow, text_of, without_runs
from p4.lang import check_text, ir
from p4.picture import Panel, layers_of, place
from p4.programs import ATP, IPV4, SWITCHGNN
from p4.show import state_lines
from tests.p4.conftest import v1model

TABLES = """action go(bit<9> p) { s.egress_spec = p; } action stop() { mark_to_drop(s); }
    table a { actions = { go; stop; } default_action = stop(); }
    table b { actions = { go; } } table c { actions = { go; } } """


def flow(body: str) -> list[tuple[str, str, str]]:
    program = check_text(v1model(meta="bit<8> x;", locals=TABLES, ingress=body))
    return control_flow(program.controls["ingress"]).edges


@pytest.mark.parametrize(
    ("body", "edges"),
    [
        ("a.apply(); b.apply();", [("start", "", "a"), ("a", "", "b"), ("b", "", "end")]),
        (
            "if (a.apply().hit) { b.apply(); } else { c.apply(); }",
            [("start", "", "a"), ("a", "hit", "b"), ("a", "miss", "c"), ("b", "", "end"), ("c", "", "end")],
        ),
        (
            "if (!a.apply().hit) { return; } b.apply();",
            [("start", "", "a"), ("a", "miss", "end"), ("a", "hit", "b"), ("b", "", "end")],
        ),
        (
            "if (m.x == 3) { a.apply(); } b.apply();",
            [("start", "m.x == 3", "a"), ("a", "", "b"), ("start", "else", "b"), ("b", "", "end")],
        ),
        (
            "switch (a.apply().action_run) { go: { b.apply(); } default: { c.apply(); } }",
            [("start", "", "a"), ("a", "go", "b"), ("a", "default", "c"), ("b", "", "end"), ("c", "", "end")],
        ),
        (
            "switch (a.apply().action_run) { go: { b.apply(); } }",
            [("start", "", "a"), ("a", "go", "b"), ("a", "otherwise", "end"), ("b", "", "end")],
        ),
        ("m.x = 1; if (m.x > 2) { m.x = 3; }", [("start", "", "end")]),
        (
            "if (m.x > 2) { if (m.x < 9) { a.apply(); } }",
            [
                ("start", "m.x > 2, m.x < 9", "a"),
                ("a", "", "end"),
                ("start", "m.x > 2", "end"),
                ("start", "else", "end"),
            ],
        ),
    ],
)
def test_control_flow(body: str, edges: list[tuple[str, str, str]]) -> None:
    assert sorted(flow(body)) == sorted(edges)


def test_inner_blocks_are_part_of_the_flow() -> None:
    text = v1model(
        types="control inner() { action n() {} table t { actions = { n; } } apply { t.apply(); } }",
        locals="inner() first;" + TABLES,
        ingress="first.apply(); a.apply();",
    )
    edges = control_flow(check_text(text).controls["ingress"]).edges
    assert edges == [("start", "", "first()"), ("first()", "", "a"), ("a", "", "end")]


def test_a_run_of_numbered_tables_is_one_node() -> None:
    plain = [("start", "", "v0"), *((f"v{n}", "", f"v{n + 1}") for n in range(11)), ("v11", "", "end")]
    assert without_runs(plain) == [("start", "", "v0..11"), ("v0..11", "", "end")]
    branching = [*plain, ("v5", "hit", "end")]  # the run goes on only where nothing else leaves or comes in
    assert without_runs(branching) == [
        ("start", "", "v0..5"), ("v0..5", "", "v6..11"), ("v6..11", "", "end"), ("v0..5", "hit", "end"),
    ]  # fmt: skip
    short = [("start", "", "a1"), ("a1", "", "a2"), ("a2", "", "b3"), ("b3", "", "end")]
    assert without_runs(short) == short


def test_a_long_condition_is_cut() -> None:
    [(_, label, _), *_] = flow("if (m.x == 3 || m.x == 4 || m.x == 5 || m.x == 6 || m.x == 7) { a.apply(); }")
    assert len(label) == 34
    assert label.endswith("...")
    program = check_text(v1model(meta="bit<8> x;", ingress="m.x = -m.x[7:4] ++ 4w1;"))
    [assign] = program.controls["ingress"].body.items
    assert isinstance(assign, ir.Assign)
    assert text_of(assign.value) == "-m.x[7:4] ++ 1"


def test_bytes_of_the_state() -> None:
    schema = Schema(
        registers=[StateInfo(f"i.v{n}", 10, 32) for n in range(3)]
        + [StateInfo("i.odd", 4, 9), StateInfo("i.v9", 7, 32)],
        counters=[StateInfo("i.c", 5, unit="packets")],
        meters=[StateInfo("i.m", 2, unit="bytes")],
    )
    assert state_lines(schema) == [
        "register i.v0..2   3 x 10 x 32 bits = 120 bytes",
        "register i.odd   4 x 9 bits = 8 bytes",
        "register i.v9   7 x 32 bits = 28 bytes",
        "registers together: 156 bytes",
        "counter i.c   5 cells packets = 80 bytes",
        "meter i.m   2 cells bytes",
    ]


def test_the_programs_say_the_memory_of_an_aggregator(capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes in the comments at the head of switchgnn.p4 and atp.p4 are those of their registers."""
    for program, per_aggregator, names in (
        (SWITCHGNN, 128 + 4 + 4, {"tag", "count", "value", "seen", "sources"}),
        (ATP, 136, {"owner", "bitmap", "status", "used_us", "value"}),
    ):
        assert main(["p4", "show", str(program), "--json", "-D", "AGGREGATORS=1000"]) == 0
        registers = json.loads(capsys.readouterr().out)["schema"]["registers"]
        mine = [r for r in registers if r["name"].rsplit(".")[-1].rstrip("0123456789") in names]
        assert sum(r["size"] * r["bits"] // 8 for r in mine) == 1000 * per_aggregator


# ---- pictures


def layered(edges: list[tuple[str, str]]) -> tuple[Panel, list[list[str]]]:
    nodes = dict.fromkeys(n for e in edges for n in e)
    panel = Panel("t", {n: [n] for n in nodes}, [(a, "", b) for a, b in edges])
    return panel, [[n for n in layer if n in nodes] for layer in layers_of(panel)]


def test_edges_lead_down_and_loops_lead_back() -> None:
    panel, layers = layered(
        [("start", "a"), ("a", "a"), ("a", "b"), ("b", "a"), ("start", "accept"), ("b", "accept")]
    )
    assert layers == [["start"], ["a"], ["b"], ["accept"]]
    assert set(panel.routes) == {("start", "a"), ("a", "b"), ("start", "accept"), ("b", "accept")}
    assert len(panel.routes["start", "accept"]) == 4  # two bends


def test_no_two_boxes_overlap() -> None:
    edges = (
        [("start", f"n{i}") for i in range(6)] + [(f"n{i}", "accept") for i in range(6)] + [("n1", "reject")]
    )
    panel, _ = layered(edges)
    place(panel)
    boxes = [(*panel.place[n], *panel.box(n)) for n in panel.nodes]
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert abs(x - x2) >= (w + w2) / 2 or abs(y - y2) >= (h + h2) / 2
        assert x - w / 2 >= 0
        assert x + w / 2 <= panel.size[0]


@pytest.mark.parametrize("program", [IPV4, SWITCHGNN])
def test_a_picture_has_states_tables_and_bytes(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.svg"
    assert main(["p4", "show", str(program), "--picture", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    texts = {e.text for e in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {"parser Parse", "control SwitchIngress", "extract hdr.ipv4", "accept", "0x800"} <= texts
    assert {"ipv4_lpm", "hdr.ipv4.dst: lpm", "forward, drop"} <= texts
    if program == SWITCHGNN:
        assert {"hit", "miss", "adjacency()", "registers together: 29924352 bytes"} <= texts
    again = tmp_path / "again.svg"
    assert main(["p4", "show", str(program), "--picture", str(again)]) == 0
    assert again.read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.svg", "p.svg"]


def test_a_picture_as_png(tmp_path: Path) -> None:
    assert main(["p4", "show", str(IPV4), "--picture", str(tmp_path / "p.png")]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["p4", "show", str(IPV4), "--picture", str(tmp_path / "p.jpg")]) == 2
    assert "p.jpg: a name that ends in .svg or .png is needed" in capsys.readouterr().err
    assert main(["p4", "show", str(IPV4), "--picture", "/nowhere/p.svg"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_text_and_json_have_the_control_flow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["p4", "show", str(SWITCHGNN)]) == 0
    assert "  adjacency() -> worker   [complete]" in capsys.readouterr().out
    assert main(["p4", "show", str(SWITCHGNN), "--json"]) == 0
    assert ["start", "", "job"] in json.loads(capsys.readouterr().out)["controls"]["SwitchIngress"]
