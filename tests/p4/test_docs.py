"""docs/p4.md keeps its promises: its program, its test and its Python run as written."""

import re
from pathlib import Path

import pytest

from netfold import main

DOCS = Path(__file__).parents[2] / "docs" / "p4.md"


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return str(text)


def test_the_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("knock.p4").write_text(block("p4"))
    Path("knock.stf").write_text(block("stf"))
    assert main(["p4", "check", "knock.p4"]) == 0
    assert main(["p4", "test", "knock.p4"]) == 0
    assert "passed: 3 packets sent, 1 as expected, 0 not" in capsys.readouterr().out
    exec(compile(block("python"), "docs/p4.md", "exec"), {})
