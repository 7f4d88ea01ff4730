"""The worked examples in docs/examples run as they stand, block after block, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "docs" / "examples").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "backlog-by-port",
        "compare-and-export",
        "sweep-and-summarise",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{path.name}, block {number + 1}", "exec"), names)
    for value in names.values():
        if type(value).__module__.startswith("analysis."):
            assert "<table" in value._repr_html_(), "objects render themselves"
