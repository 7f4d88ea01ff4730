"""The commands of docs/p4.md that need BMv2."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from netfold import main
from tests.p4.test_docs import block


def test_the_five_minutes_on_bmv2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("knock.p4").write_text(block("p4.md", "p4"))
    Path("knock.stf").write_text(block("p4.md", "stf"))
    lines = block("p4.md", "console").splitlines()
    assert len(lines) == 2
    for line in lines:
        for ports in ("veth", "pcap"):
            assert main([*shlex.split(line, comments=True)[1:], "--ports", ports]) == 0
            assert "3 packets sent, 1 as expected, 0 not" in capsys.readouterr().out


def test_a_difference_is_told_by_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """simple_switch reads a register of int<32> without its sign; the engine reads what was written."""
    program, stf = tmp_path / "signed.p4", tmp_path / "signed.stf"
    program.write_text(SIGNED)
    stf.write_text("packet 1 000000000001000000000002 1234 ffffffff\nexpect 2 * \n")
    assert main(["p4", "test", str(program), "--stf", str(stf), "--target", "both"]) == 1
    shown = capsys.readouterr().out
    assert "packet 1 of port 2 is not the same" in shown
    [line] = [x for x in shown.splitlines() if x.strip().startswith("value.v")]
    assert line.split() == ["value.v", "engine", "-2", "(-0x2)", "bmv2", "2147483647", "(0x7fffffff)"]


SIGNED = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header value_t { int<32> v; }
struct headers_t { ethernet_t ethernet; value_t value; }
struct metadata_t { }
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); p.extract(h.value); transition accept; }
}
control Check(inout headers_t h, inout metadata_t m) { apply { } }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<int<32>>(1) kept;
    apply {
        int<32> held;
        kept.write(0, h.value.v);
        kept.read(held, 0);
        h.value.v = held |+| h.value.v;
        s.egress_spec = 2;
    }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sum(inout headers_t h, inout metadata_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(Parse(), Check(), In(), Out(), Sum(), Deparse()) main;
"""
