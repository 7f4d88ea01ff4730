"""`netfold reproduce sylvie`: rows by value from made-up records, trainings run once; a real one (slow)."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import netfold
from analysis.reproduce.sylvie import FIGURES, Choice, compare, trainings
from analysis.reproduce.trainings import Trained, Training, bring, load_training
from workloads.errors import InputError

CHOICE = Choice("reddit", 0.003, 4, 4, 64, 30)
ABOUT = {"graph_provenance": "synthetic stand-in"}


def made(
    main: float, comm: float, *, scales: float = 0.0, mode: str = "synchronous", score: float = 0.9
) -> Trained:
    """Two equal epochs."""
    row = {
        "embeddings_bytes": main / 2, "gradients_bytes": main / 2, "scales_bytes": scales,
        "weights_bytes": 10.0, "counted_comm_s": comm, "mode": mode,
    }  # fmt: skip
    return Trained(ABOUT, {"test_score": score}, pd.DataFrame([row, row]))


def test_rows_by_value() -> None:
    found = {
        CHOICE.training("dgl"): made(1000, 6.0),
        CHOICE.training("sylvie"): made(45, 0.5, scales=5, mode="asynchronous", score=0.897),
        CHOICE.training("pipegcn"): made(1000, 6.0, mode="asynchronous"),
        CHOICE.training("bns-gcn"): made(100, 0.6),
        CHOICE.fixed("1"): made(40, 0.3),
    }
    figures = {figure.id: figure for figure in compare(CHOICE, found, compute_s=2.0)}
    assert list(figures) == list(FIGURES)
    rows = {row.text: row for figure in figures.values() for row in figure.rows}
    assert rows["messages over weight gradients, exact"].ours == 100
    assert rows["messages over weight gradients, exact"].theirs == pytest.approx(3.11e9 / 0.40e6)
    assert rows["main data, SYLVIE against DGL (reddit)"].ours == pytest.approx(-0.955)
    assert rows["main data, SYLVIE against DGL (reddit)"].theirs == pytest.approx(126.9 / 2791.7 - 1)
    assert rows["scales over DGL's main data (reddit)"].ours == pytest.approx(0.005)
    assert rows["communication time, FP32 to INT1"].ours == pytest.approx(-0.95)
    # dgl: 6 + 2 in turn; asynchronous SYLVIE: the longer of 0.5 and 2; PipeGCN: 6; BNS-GCN: 2.6
    assert rows["epoch time, SYLVIE against DGL"].ours == pytest.approx(2 / 8 - 1)
    assert rows["throughput over DGL, SYLVIE"].ours == pytest.approx(4)
    assert rows["throughput over DGL, SYLVIE"].theirs == 14.64
    assert rows["epoch time, pipegcn against DGL"].ours == pytest.approx(6 / 8 - 1)
    assert rows["epoch time, bns-gcn against DGL"].ours == pytest.approx(2.6 / 8 - 1)
    assert rows["epoch time, bns-gcn against DGL"].theirs == pytest.approx(0.39 / 0.99 - 1)
    score = rows["score, SYLVIE against DGL"]
    assert (score.ours, score.theirs) == (pytest.approx(-0.3), pytest.approx(-0.23))
    assert score.show(score.ours) == "-0.30 points"
    assert score.verdict == "-"
    assert rows["epoch time, 1 bits against FP32"].theirs == pytest.approx(0.22 / 0.90 - 1)
    assert math.isnan(rows["epoch time, 8 bits against FP32"].ours), "not trained"
    assert rows["epoch time, all three dimensions against exact"].theirs == pytest.approx(0.27 / 0.90 - 1)
    assert any("yelp" in reason for reason in figures["bits"].why)
    assert not any("overlap" in reason for reason in figures["mode"].why)
    swift = {figure.id: figure for figure in compare(CHOICE, found, compute_s=0.006)}
    assert any("0.1% of an exact epoch" in reason for reason in swift["mode"].why)
    assert json.dumps([figure.plain() for figure in figures.values()], allow_nan=False)


def test_every_figure_has_its_trainings() -> None:
    assert len(set(trainings(CHOICE))) == 2 + 2 + 5 + 4, "one bit in turn is in both ablations"
    only = Choice("reddit", 0.003, 4, 4, 64, 30, figures=("volume",))
    assert [dict(one.options)["system"] for one in trainings(only)] == ["dgl", "sylvie", "sylvie"]
    assert Training.of(system="dgl", epochs=3).name != Training.of(system="dgl", epochs=4).name
    flags = Training.of(system="dgl", link_gbps=1.0).command(Path("x"))
    assert flags[3:] == ["train", "--link-gbps", "1.0", "--system", "dgl", "--json", "-o", "x"]


TRAINER = """
import json, sys
from pathlib import Path
import pandas as pd
place = Path(sys.argv[1])
if "sick" in sys.argv[2]:
    print("netfold: error: the loss is not a number", file=sys.stderr)
    sys.exit(2)
place.mkdir()
pd.DataFrame({"loss": [1.0]}).to_parquet(place / "epochs.parquet")
(place / "summary.json").write_text(json.dumps({"settings": {"options": sys.argv[2]}, "summary": {}}))
"""


def test_trainings_run_once_and_failures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(self: Training, folder: Path) -> list[str]:
        return [sys.executable, "-c", TRAINER, str(folder), str(self.options)]

    monkeypatch.setattr(Training, "command", command)
    well, sick = Training.of(system="dgl"), Training.of(system="sick")
    said: list[tuple[int, int, str]] = []

    def told(*what: Any) -> None:
        said.append(what)

    found, failures = bring([well, sick, well], tmp_path / "r", told)
    assert set(found) == {well}
    assert failures == {sick.name: "the loss is not a number"}
    assert (
        json.loads((tmp_path / "r" / "failed" / f"{sick.name}.json").read_text())["reason"]
        == failures[sick.name]
    )
    assert said == [(0, 2, well.name), (1, 2, sick.name)]
    stamp = (tmp_path / "r" / "trainings" / well.name / "summary.json").stat().st_mtime_ns
    said.clear()
    bring([well], tmp_path / "r", told)
    assert not said
    assert (tmp_path / "r" / "trainings" / well.name / "summary.json").stat().st_mtime_ns == stamp


def test_a_damaged_training_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(InputError, match="not a training run"):
        load_training(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        ["--jobs", "2"], ["--workers", "2,4"], ["--epochs", "0"], ["--figure", "x"],
        ["--graph", "debian", "--scale", "0.5"],
    ],
)  # fmt: skip
def test_bad_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    pytest.importorskip("torch")
    assert netfold.main(["reproduce", "sylvie", "-o", str(tmp_path / "r"), *options]) == 2
    assert capsys.readouterr().err.startswith("netfold: error: --")


@pytest.mark.slow
def test_the_command_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    shape = ["--graph", "karate", "--workers", "2", "--layers", "2", "--hidden", "16", "--epochs", "6"]
    options = [*shape, "--figure", "volume", "-o", str(tmp_path / "r"), "--json"]
    assert netfold.main(["reproduce", "sylvie", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["text"]: row for row in told["figures"][0]["rows"]}
    assert rows["main data, SYLVIE against DGL (reddit)"]["ours"] < -0.5
    assert rows["main data, SYLVIE against DGL (reddit)"]["same_direction"]
    assert netfold.main(["reproduce", "sylvie", *options]) == 0
    assert "trainings;" not in capsys.readouterr().err, "nothing is trained again"
