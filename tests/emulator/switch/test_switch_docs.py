"""The example of docs/emulator.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_example_runs(monkeypatch, capsys):
    [code, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "emulator.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(code, {})
    printed = capsys.readouterr().out
    assert [int(n) for n in re.findall(r"\d+", printed)] == list(range(32))
