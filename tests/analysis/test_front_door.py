"""The commands from the front door, with the real engine on a tiny graph: tables, JSON, and bad input."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path

import pytest

import netfold
from sim.results import is_results

TINY = ["--graph", "karate", "--workers", "4", "--topology", "leaf-spine:2x2", "--set", "model.hidden=32"]


def test_run_and_show(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "tiny"
    options = ["--system", "host,switchgnn,switchgnn-no-gamr", "--set", "run.value_mode=true", "--json"]
    assert netfold.main(["run", *TINY, *options, "-o", str(place)]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert [row["system"] for row in shown["systems"]] == ["host", "switchgnn", "switchgnn-no-gamr"]
    assert shown["values_equal_oracle"] == dict.fromkeys(shown["values_equal_oracle"], True)
    assert len(shown["values_equal_oracle"]) == 5
    assert all(row["total_bytes"] > 0 and row["epoch_tofino_ns"] > 0 for row in shown["systems"])
    assert (place / "figures" / "backlog.svg").is_file()
    summary = json.loads((place / "summary.json").read_text())
    assert all(run["values_equal_oracle"] for run in summary["runs"].values())
    assert netfold.main(["show", str(place), "--no-plots"]) == 0
    assert "switchgnn-no-gamr" in capfd.readouterr().out


def test_a_results_folder_repeats_its_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    lossy = ["--set", "loss.rate=0.01", "--set", "run.packet_sample=3", "--set", "run.recirculation=tofino"]
    command = ["compare", *TINY, *lossy, "--system", "strawman,g3", "--no-plots"]
    assert netfold.main([*command, "-o", str(first)]) == 0
    assert netfold.main(["run", str(first / "scenario.toml"), "--no-plots", "-o", str(second)]) == 0
    files = sorted(path.relative_to(first) for path in first.rglob("*.parquet"))
    assert len(files) == 2 * 5, "two runs, five tables"
    for file in files:
        assert (first / file).read_bytes() == (second / file).read_bytes()


def test_scenarios_print_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold.main(["scenario", "--workers", "16", "--memory", "unlimited"]) == 0
    text = capsys.readouterr().out
    assert 'memory_bytes = "unlimited"' in text
    (tmp_path / "mine.toml").write_text(text)
    assert netfold.main(["scenario", str(tmp_path / "mine.toml")]) == 0
    assert capsys.readouterr().out == text


def test_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold.main(["systems", "--json"]) == 0
    assert "presum" in [row["name"] for row in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--set", "switch.memory=1"],
        ["run", "--set", "cluster.host_link_bps=0"],
        ["run", "--set", "nonsense"],
        ["run", "--workers", "12", "--topology", "leaf-spine:5x2"],
        ["run", "--workers", "40", "--topology", "star", "--graph", "karate"],
        ["run", *TINY, "--memory", "300", "--system", "switchgnn"],
        ["run", "--graph", "no-such-graph"],
        ["run", "--system", "hots"],
        ["run", "--system", ""],
        ["run", "--memory", ""],
        ["run", "missing.toml"],
        ["run", "--set", "compute.device=abacus", "--graph", "karate"],
        ["compare", "--recirculation", "maybe"],
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    place = tmp_path / "out" / "r"
    assert netfold.main([*arguments, "-o", str(place)]) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("netfold: error: ")]
    assert len(said) == 1
    assert not is_results(place)
    assert not place.parent.exists()


def test_output_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if text:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return 0

    monkeypatch.setattr("sys.stdout", Full())
    assert netfold.main(["scenario"]) == 2
    assert capsys.readouterr().err == "netfold: error: output: No space left on device\n"


def test_ctrl_c_while_loading_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(netfold, "import_module", interrupted)
    assert netfold.main(["systems"]) == 130
    assert capsys.readouterr().err == "netfold: interrupted\n"


def test_an_ascii_terminal_shows_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    options = ["--system", "host", "--no-plots", "-o", str(tmp_path / "r")]
    assert netfold.main(["run", *TINY, *options]) == 0
    terminal.flush()
    assert "\\xb5s" in terminal.buffer.getvalue().decode("ascii"), "a micro sign, escaped"


def test_a_trainings_folder_is_shown_and_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = {"settings": {"graph": "karate", "workers": 2}, "summary": {"epochs": 7, "test_score": 0.5}}
    (tmp_path / "summary.json").write_text(json.dumps(trained))
    assert netfold.main(["show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "karate" in out and "test_score" in out and "a training run, measured" in out
    assert netfold.main(["show", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["epochs"] == 7
    for command in (["diff", str(tmp_path), str(tmp_path)], ["report", str(tmp_path)]):
        assert netfold.main(command) == 2
        err = capsys.readouterr().err
        assert "a training run, which `netfold train` made" in err and err.count("\n") == 1


def test_show_needs_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold.main(["show", str(tmp_path)]) == 2
    assert "not a results folder" in capsys.readouterr().err
