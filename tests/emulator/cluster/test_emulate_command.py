"""`netfold emulate` as a user meets it: figures, records, refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import netfold

SMALL = ["--graph", "rmat:6:4", "--set", "model.hidden=32", "--memory", "20kB", "--workers", "3"]


def emulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = netfold.main(["emulate", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, _ = emulate(capsys, *arguments, "--json")
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("how", [["--in-process"], []])
def test_records_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: list[str]) -> None:
    place = tmp_path / "run"
    told = as_json(capsys, *SMALL, "-o", str(place), "--propagations", "4", *how)
    assert told["values_equal_oracle"] is True
    assert told["propagations"] == 4
    assert told["provenance"].startswith("emulated")
    assert ("virtual time" in told["provenance"]) == bool(how)
    assert {path.name for path in place.iterdir()} >= {"scenario.toml", "summary.json", "links.parquet"}
    links = pd.read_parquet(place / "links.parquet")
    up = links[(links["kind"] == "upload") & links["source"].str.startswith("worker")]
    down = links[(links["kind"] == "result") & links["target"].str.startswith("worker")]
    assert up["frames"].sum() == told["workers_total"]["uploads"] == told["packets"]["up"]["upload"] > 0
    assert down["frames"].sum() == told["workers_total"]["results"] == up["frames"].sum()
    assert (links["bytes"] == links["frames"] * 186).all()
    assert pd.read_parquet(place / "propagations.parquet")["equal"].all()
    assert (place / "scenario.toml").read_text().count("workers = 3") == 1


@pytest.mark.parametrize("command", ["show", "report"])
def test_other_readers_say_what_the_folder_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    as_json(capsys, *SMALL, "--in-process", "-o", str(tmp_path / "e"), "--propagations", "1")
    assert netfold.main([command, str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"netfold: error: {tmp_path / 'e'}: the results of `netfold emulate`")
    assert err.count("\n") == 1


def test_same_seed_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = ["--in-process", "--fault", "*: loss=0.03, reorder=0.05, duplicate=0.05"]
    runs = []
    for name in ("a", "b"):
        as_json(capsys, *SMALL, *loss, "-o", str(tmp_path / name), "--propagations", "2")
        runs.append(
            [(tmp_path / name / f"{t}.parquet").read_bytes() for t in ("links", "workers", "propagations")]
        )
    assert runs[0] == runs[1]
    as_json(capsys, *SMALL, *loss, "-o", str(tmp_path / "c"), "--propagations", "2", "--seed", "2")
    assert (tmp_path / "c" / "links.parquet").read_bytes() != runs[0][0]


@pytest.mark.parametrize(
    "shape", [[], ["--racks", "3", "--spines", "2"], ["--system", "switchgnn-no-gamr"], ["--memory", "6kB"]]
)
def test_both_substrates_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: list[str]) -> None:
    told = as_json(capsys, *SMALL, *shape, "--in-process", "--compare", "-o", str(tmp_path / "x"))
    rows = {row["what"]: row for row in told["substrates"]}
    must = ["up: upload", "down: result", "passes", "up: bytes of values", "down: bytes of values"]
    if "--racks" in shape:
        must += ["fabric: partial", "fabric: bytes of values"]
    for what in must:
        assert rows[what]["simulated"] == rows[what]["emulated"] > 0, what
    assert all(row["equal"] or row["reason"] for row in told["substrates"])


def test_host_based_and_residual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = as_json(capsys, *SMALL, "--system", "host", "--in-process", "-o", str(tmp_path / "h"))
    assert host["packets"]["up"]["direct"] == host["workers_total"]["contributions"] > 0
    assert "upload" not in host["packets"]["up"]
    rest = ["--set", "plan.residual=host", "--memory", "4kB"]
    mixed = as_json(capsys, *SMALL, *rest, "--in-process", "-o", str(tmp_path / "m"))
    assert mixed["packets"]["up"]["direct"] > 0


def test_scenario_file_of_the_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[graph]\nsource = "rmat:6:4"\n[model]\nhidden = 32\nlayers = 3\n[cluster]\nworkers = 4\n'
        'topology = "leaf-spine:2x2"\nswitch_latency_ns = 300\n[switch]\nmemory_bytes = "20kB"\n'
        'recirculation = "tofino"\n[loss]\nrate = 0.01\n'
    )
    told = as_json(capsys, str(file), "--in-process", "-o", str(tmp_path / "run"))
    assert (told["workers"], told["racks"], told["spines"], told["propagations"]) == (4, 2, 2, 4)
    assert told["unused_keys"] == ["switch.recirculation"]
    assert told["faults"]["lost"] > 0


def test_captures_are_pcap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from p4.targets.pcap import read_pcap

    for how in (["--in-process"], []):
        folder = tmp_path / f"pcap{len(how)}"
        told = as_json(
            capsys, *SMALL, *how, "--pcap", str(folder), "-o", str(tmp_path / "r"), "--propagations", "1"
        )
        records = [r for path in sorted(folder.glob("*.pcap")) for r in read_pcap(path)]
        sent = sum(n for hop in ("up", "down") for n in told["packets"][hop].values())
        assert len(records) == sent
        assert {len(r.data) for r in records} == {182}


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    place = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "netfold",
        "emulate",
        *SMALL,
        "--propagations",
        "1000000",
        "-o",
        str(place),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        children: list[int] = []
        deadline = time.monotonic() + 60
        while len(children) < 4 and time.monotonic() < deadline:  # three workers and a switch
            time.sleep(0.1)
            children = _children(running.pid)
        assert len(children) == 4
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told.splitlines()[-1] == "netfold: interrupted"
    assert "Traceback" not in told
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert list(tmp_path.iterdir()) == []


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def test_clean_removes_what_nobody_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, kept = tmp_path / "netfold-bmv2-left", tmp_path / "another"
    left.mkdir()
    kept.mkdir()
    status, out, _ = emulate(capsys, "--clean")
    assert (status, out) == (0, f"removed {left}\n")
    assert list(tmp_path.iterdir()) == [kept]
    assert emulate(capsys, "--clean")[1] == "nothing was left behind\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--system", "strawman"], "run.systems: strawman cannot be emulated"),
        (["--system", "switchgnn,host"], "a cluster emulates one system"),
        (["--workers", "65"], "cluster.workers: 65 given; an emulated cluster has 2 to 64"),
        (["--racks", "2", "--workers", "3"], "cannot be spread evenly over 2 leaves"),
        (["--spines", "2"], "--spines: needs --racks"),
        (["--propagations", "0"], "--propagations: 0 given"),
        (["--patience", "nan"], "--patience: nan given"),
        (["--fault", "worker9.up: loss=0.1"], "fault: no link 'worker9.up'"),
        (["--fault", "worker1.up: lose=0.1"], "fault: unknown key 'lose'"),
        (["--fault", "worker1.up: loss=2"], "fault: loss='2' given; allowed: 0 to 1"),
        (["--fault", "worker1: stall=5ms"], "expected FROM..TO"),
        (["--fault", "worker1: kill=5"], "expected a time such as"),
        (["--fault", "spine0: restart=5ms"], "no switch 'spine0'; there are: switch"),
        (["--fault", "nothing"], "expected WHERE: KEY=VALUE"),
        (["--fault", "*: delay=9999999999999s"], "at most a day, 86400s"),
        (["--set", "switch.aggregator_bytes=64"], "the wire format carries 30 values"),
        (["--set", "background.load=0.2"], "background.load"),
        (["--set", "model.layers=1"], "a model of one layer propagates nothing"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    status, out, err = emulate(capsys, *SMALL, "-o", str(tmp_path / "x"), "--in-process", *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("netfold: error: ")
    assert line in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
