"""`netfold diff` and `export`: by value, significance where there are seeds, files that others read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import netfold
from analysis.compare.diff import ONE_RUN, diff
from analysis.compare.export import escape_tex, latex, write_table
from sim.scenario_io import load_scenario
from tests.analysis.made_runs import figures, results
from workloads.errors import InputError


def sweep(place: Path, epochs: list[int], *, loss: float) -> Path:
    """A folder of one host run per seed."""
    for seed, epoch in enumerate(epochs):
        scenario = load_scenario(None, {"run.seed": seed, "loss.rate": loss})
        results(place / str(seed), {"host": figures("host", epoch_time_ns=epoch)}, scenario=scenario)
    return place


def rows_of(found: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["run"], row["figure"]): row for row in found.results.to_dict("records")}


def test_one_run_each_has_no_significance(tmp_path: Path) -> None:
    for name, epoch, loss in (("a", 200, 0.0), ("b", 300, 0.01)):
        runs = {"host": figures("host", epoch_time_ns=epoch), "g3": figures("g3")}
        scenario = load_scenario(None, {"loss.rate": loss, "run.seed": 1 if name == "a" else 2})
        results(tmp_path / name, runs, scenario=scenario)
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.scenario.to_dict("records") == [
        {"key": "loss.rate", "a": "0", "b": "0.01"}, {"key": "run.seed", "a": "1", "b": "2"},
    ]  # fmt: skip
    row = rows_of(found)["host", "epoch_time_ns"]
    assert (row["a"], row["b"], row["change"], row["says"]) == (200, 300, pytest.approx(0.5), ONE_RUN)
    assert rows_of(found)["g3", "epoch_time_ns"]["says"] == "equal"
    assert set(found.changed()["run"]) == {"host"}
    assert ONE_RUN in found._repr_html_()


def test_seeds_give_a_permutation_test(tmp_path: Path) -> None:
    a = sweep(tmp_path / "a", [100, 101, 102, 103, 104], loss=0.0)
    b = sweep(tmp_path / "b", [200, 201, 202, 203, 204], loss=0.01)
    row = rows_of(diff(a, b))["host", "epoch_time_ns"]
    # of C(10, 5) = 252 splits only the two extreme ones differ as much
    assert (row["runs_a"], row["runs_b"], row["p"]) == (5, 5, pytest.approx(2 / 252))
    assert (row["a"], row["b"], row["says"]) == (102, 202, "significant at 5 %")
    c = sweep(tmp_path / "c", [99, 102, 103, 104, 103], loss=0.01)
    assert rows_of(diff(a, c))["host", "epoch_time_ns"]["says"] == "may be chance"


def test_single_runs_pair_whatever_they_are(tmp_path: Path) -> None:
    runs = {
        "switchgnn-free": figures("switchgnn-free", backlog_max_bytes=50),
        "switchgnn-no-gamr-free": figures("switchgnn-no-gamr-free", backlog_max_bytes=100),
    }
    folder = results(tmp_path / "r", runs)
    found = diff(folder / "switchgnn-free", folder / "switchgnn-no-gamr-free")
    assert found.scenario.to_dict("records") == [
        {"key": "system", "a": "switchgnn", "b": "switchgnn-no-gamr"}
    ]
    [row] = found.changed().to_dict("records")
    assert (row["figure"], row["change"]) == ("backlog_max_bytes", 1.0)


def test_what_varies_on_both_sides_pairs(tmp_path: Path) -> None:
    for name, factor in (("a", 1), ("b", 2)):
        for rate in (0.0, 0.1):
            scenario = load_scenario(None, {"loss.rate": rate, "cluster.workers": 64 * factor})
            runs = {"host": figures("host", epoch_time_ns=factor * int(100 + rate * 1000))}
            results(tmp_path / name / f"{rate}", runs, scenario=scenario)
    shutil.rmtree(tmp_path / "b" / "0.0")
    found = diff(tmp_path / "a", tmp_path / "b")
    [row] = [row for row in found.results.to_dict("records") if row["figure"] == "epoch_time_ns"]
    assert (row["run"], row["a"], row["b"]) == ("host, loss.rate 0.1", 200, 400)
    assert found.only == (f"host, loss.rate 0 only in {tmp_path / 'a'}",)


def test_the_diff_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = results(tmp_path / "a", {"host": figures("host")})
    b = results(tmp_path / "b", {"host": figures("host", total_bytes=3000)})
    assert netfold.main(["diff", str(a), str(b), "-o", str(tmp_path / "d.csv")]) == 0
    shown = capsys.readouterr().out
    assert "The scenarios are the same." in shown
    assert "+200.0%" in shown and ONE_RUN in shown
    assert pd.read_csv(tmp_path / "d.csv")["change"].tolist() == [2.0]
    assert netfold.main(["diff", str(a), str(b), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["results"]
    assert (row["figure"], row["p"]) == ("total_bytes", None)
    assert netfold.main(["diff", str(a), str(a)]) == 0
    assert "Every figure is equal." in capsys.readouterr().out
    g3 = results(tmp_path / "c", {"g3": figures("g3"), "presum-free": figures("presum-free")})
    for wrong in ([str(a), str(tmp_path / "no")], [str(a), str(g3)], [str(a), str(b), "-o", "d.xls"]):
        assert netfold.main(["diff", *wrong]) == 2
        assert capsys.readouterr().err.startswith("netfold: error: ")


def test_exports_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sweep(tmp_path / "s", [100, 300], loss=0.0)
    for table, rows in (("runs", 2), ("summary", 1), ("metrics", 2), ("queues", 18), ("blocks", 6)):
        for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
            place = tmp_path / f"{table}{suffix}"
            assert netfold.main(["export", str(folder), "--table", table, "-o", str(place)]) == 0
            assert len(read(place)) == rows
    summary = pd.read_parquet(tmp_path / "summary.parquet")
    assert summary["epoch_time_ns"].tolist() == [200.0]
    assert summary["epoch_time_ns_low"].tolist() == [107.5]
    assert pd.read_csv(tmp_path / "runs.csv")["epoch_time_ns"].tolist() == [100, 300]
    assert netfold.main(["export", str(folder), "-o", str(tmp_path / "x.docx")]) == 2
    assert netfold.main(["export", str(tmp_path / "runs.csv"), "-o", str(tmp_path / "x.csv")]) == 2
    assert netfold.main(["export", str(folder), "-o", str(tmp_path / "runs.csv" / "x.csv")]) == 2
    assert not (tmp_path / "x.docx").exists()
    assert netfold.main(["export", str(folder), "-o", str(tmp_path / "new" / "x.csv")]) == 0
    assert (tmp_path / "new" / "x.csv").read_bytes() == (tmp_path / "summary.csv").read_bytes()


def test_latex_is_a_table_people_read(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"system": ["a_b & 50%"], "epoch_time_ns": [1_234_567], "total_bytes": [float("nan")]}
    )
    text = latex(frame, "Figures #1")
    assert r"\begin{tabular}{lrr}" in text
    assert r"    system & epoch\_time\_ns & total\_bytes \\" in text
    assert r"    a\_b \& 50\% & 1.23 ms & -- \\" in text
    assert r"\caption{Figures \#1}" in text
    write_table(frame, tmp_path / "t.tex", caption="x")
    assert (tmp_path / "t.tex").read_text() == latex(frame, "x")
    if shutil.which("pdflatex"):
        body = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{text}\end{{document}}"
        (tmp_path / "doc.tex").write_text(body)
        subprocess.run(
            ["pdflatex", "-halt-on-error", "doc.tex"], cwd=tmp_path, check=True, capture_output=True
        )


def test_every_special_character_is_escaped() -> None:
    assert escape_tex("\\&%$#_{}~^") == (r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}")
    with pytest.raises(InputError, match="must end in"):
        write_table(pd.DataFrame(), "nowhere.txt")
