"""docs/tofino.md keeps its promises: its commands and its Python run, its figures are the report's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import netfold
from p4.lang import load_program
from p4.programs import TNA_SWITCHGNN
from p4.tofino import TOFINO, check_fit
from p4.tofino.model import missing_tools

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "tofino.md").read_text()


def test_its_commands_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    [block] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        assert words[:3] == ["netfold", "p4", "check"]
        assert netfold.main(words[1:]) == 0
        assert capsys.readouterr().out.rstrip().endswith("fits")


def test_its_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "/nowhere")
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/tofino.md", "exec"), {})
    assert missing_tools()
    assert capsys.readouterr().out == ""


def test_its_figures_are_the_report_s() -> None:
    rows = {row.name: (row.used, row.limit) for row in check_fit(load_program(TNA_SWITCHGNN), TOFINO).rows}
    [line] = [x for x in PAGE.splitlines() if x.startswith("| stages | 12")]
    for name, said in {
        "stages, ingress": r"(\d+) of (\d+) \(modelled\)",
        "stateful ALUs": r"(\d+) of (\d+) stateful ALUs",
        "SRAM blocks (16 KiB)": r"(\d+) of (\d+) SRAM blocks",
        "TCAM blocks (44 x 512)": r"(\d+) of (\d+) TCAM blocks",
        "PHV bits": r"(\d+) of (\d+) PHV bits",
    }.items():
        [found] = re.findall(said, line)
        assert tuple(map(int, found)) == rows[name]
