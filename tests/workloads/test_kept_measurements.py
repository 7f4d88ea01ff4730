"""A benchmark that was stopped goes on: what it measured is read again, the rest is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[1] / "benchmarks"


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHES))
    from kept import UNFINISHED, Kept

    made: list[str] = []

    def measure() -> dict[str, float]:
        made.append("one")
        return {"seconds": 0.25}

    log = tmp_path / "log.jsonl"
    assert Kept(log, 60).get(["a", 1, None], measure) == {"seconds": 0.25}
    over = Kept(log, -1)
    assert over.get(["a", 1, None], measure) == {"seconds": 0.25} and made == ["one"]
    with pytest.raises(SystemExit) as ended:
        over.get(["a", 2, None], measure)
    assert ended.value.code == UNFINISHED and made == ["one"]
    assert "the same command goes on" in capsys.readouterr().err
    Kept(log, 60).get(["a", 2, None], measure)
    assert made == ["one", "one"] and len(log.read_text().splitlines()) == 2
