"""The example of docs/emulator.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_example_runs(monkeypatch, capsys):
    page = (ROOT / "docs" / "emulator.md").read_text()
    [code] = re.findall(r"## A host and a switch in twenty lines\n\n```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(code, {})
    printed = capsys.readouterr().out
    assert [int(n) for n in re.findall(r"\d+", printed)] == list(range(32))
