"""`netfold compare --substrates`: one scenario file, simulated and emulated, counts the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netfold
from emulator import compare

SCENARIOS = {
    "odd workers on a star": '[graph]\nsource = "rmat:6:4"\n[cluster]\nworkers = 5\ntopology = "star"\n'
    '[model]\nhidden = 33\nlayers = 3\n[switch]\nmemory_bytes = "9kB"\n',
    "seven racks of one, three spines": '[graph]\nsource = "rmat:6:3"\n[cluster]\nworkers = 7\n'
    'topology = "leaf-spine:7x3"\n[model]\nhidden = 16\nlayers = 2\n[switch]\nmemory_bytes = "20kB"\n',
    "racks of three": '[graph]\nsource = "karate"\n[cluster]\nworkers = 9\ntopology = "leaf-spine:3x2"\n'
    '[model]\nhidden = 61\nlayers = 3\n[switch]\nmemory_bytes = "30kB"\n',
    "all the memory": '[graph]\nsource = "rmat:7:6"\n[cluster]\nworkers = 3\ntopology = "star"\n'
    '[model]\nhidden = 8\nlayers = 4\n[switch]\nmemory_bytes = "unlimited"\n',
    "a star graph, loss left out": '[graph]\nsource = "star:40"\n[cluster]\nworkers = 4\ntopology = "star"\n'
    '[model]\nhidden = 30\nlayers = 2\n[loss]\nrate = 0.05\n',
    "a residual at the hosts": '[graph]\nsource = "rmat:7:6"\n[cluster]\nworkers = 4\ntopology = "star"\n'
    '[model]\nhidden = 16\nlayers = 2\n[plan]\nresidual = "host"\n[switch]\nmemory_bytes = "20kB"\n',
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = netfold.main(["compare", "--substrates", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_file_in_both(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS[name])
    status, out, _ = run(capsys, str(file), "--json")
    assert status == 0
    told: dict[str, Any] = json.loads(out)
    assert told["equal"] is told["values_equal_oracle"] is True
    rows = {row["what"]: row for row in told["rows"]}
    for what in ("up: upload", "down: result", "passes"):
        assert rows[what]["simulated"] == rows[what]["emulated"] > 0, what
    ports = [row for row in told["rows"] if row["port"]]
    assert len(ports) >= 2 * told["workers"]
    assert (
        sum(row["equal"] for row in ports) > 0 if "residual" in name else all(row["equal"] for row in ports)
    )
    assert told["left_out"] == (["loss.rate"] if "loss" in name else [])
    assert list(tmp_path.iterdir()) == [file]


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS["odd workers on a star"])
    status, out, _ = run(capsys, str(file))
    assert status == 0
    assert "bytes of values at 10 of 10 ports" in out
    assert "equal wherever they count the same thing; sums equal to A H, bit for bit" in out


def test_a_difference_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS["odd workers on a star"])
    simulate = compare.simulate

    def off_by_one(*arguments: Any) -> Any:
        simulated = simulate(*arguments)
        simulated.summary["passes"] += 1
        links = simulated.tables["links"]
        links["bytes"] = links["bytes"] + np.where(links["source"] == "worker2", 122, 0)
        return simulated

    monkeypatch.setattr(compare, "simulate", off_by_one)
    status, out, _ = run(capsys, str(file))
    assert status == 1
    assert "DIFFERENT: passes, worker2 > switch: bytes of values" in out
    assert "bytes of values at 9 of 10 ports" in out


def test_a_simulation_of_the_program_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS["odd workers on a star"])
    status, out, _ = run(capsys, str(file), "--set", "switch.model=p4", "--json")
    rows = {row["what"]: row for row in json.loads(out)["rows"]}
    assert status == 0
    for what in ("up: upload", "down: result", "passes"):
        assert rows[what]["simulated"] == rows[what]["emulated"] > 0, what


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--workers", "128"], "an emulated cluster has 2 to 64"),
        (["--system", "strawman"], "strawman cannot be emulated"),
        (["--system", "host", "--system", "switchgnn"], "a cluster emulates one system"),
        (["--memory", "1MB,2MB"], "a cluster emulates one memory size"),
        (["--propagations", "0"], "--propagations: 0 given"),
        (["-o", "somewhere"], "--output: --substrates writes no folder"),
        (["nowhere.toml"], "nowhere.toml"),
        (["docs/examples/router_128.toml"], "a [network] scenario has no propagations to emulate"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


def test_propagations_need_substrates(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold.main(["compare", "--propagations", "2"]) == 2
    assert "--propagations: needs --substrates" in capsys.readouterr().err
