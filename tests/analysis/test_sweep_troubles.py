"""Sweeps in trouble: any text as a file, simulations that fail, memory that runs out, processes that die."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.sweep import child, drive, task
from analysis.sweep.folder import SweepFolder
from analysis.sweep.spec import Sweep, load_sweep, make_sweep
from sim.job import Job
from workloads.errors import InputError

BASE = {"graph.source": "karate", "cluster.workers": 4, "cluster.topology": "star", "run.systems": "host"}
KEYS = st.sampled_from(
    ["cluster.workers", "loss.rate", "run.seed", "graph.source", "switch.memory_bytes", "x"]
)
VALUES = st.one_of(
    st.integers(-5, 10**20), st.floats(), st.booleans(), st.text(max_size=5), st.lists(st.integers(0, 9))
)
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # on a busy machine
TABLES = st.dictionaries(KEYS, VALUES, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(st.one_of(st.binary(max_size=80), st.text("[]{}=\"'.,#\n abcsweptgrid0123", max_size=80)))
def test_any_text_is_a_sweep_or_one_line(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        assert isinstance(load_sweep(path), Sweep)
    except InputError as error:
        assert "\n" not in str(error)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(TABLES, st.dictionaries(KEYS, st.lists(VALUES, min_size=1, max_size=2), max_size=2))
def test_any_keys_and_values_are_a_sweep_or_one_line(point: dict[str, Any], grid: dict[str, Any]) -> None:
    try:
        sweep = make_sweep(base=BASE, points=[point], grid=grid)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert all(name in sweep.units for point in sweep.points for name in point.units)


@pytest.fixture
def ready(tmp_path: Path) -> tuple[SweepFolder, child.RunRequest]:
    """A folder in which one unit is prepared, with nothing to simulate it by."""
    [unit] = make_sweep(base=BASE).units.values()
    folder = SweepFolder(tmp_path / "s")
    folder.create()
    facts = {"graph": {}, "partitions": {}, "plans": {}, "widths": [], "compute": ""}
    prepared = child.Prepared(Job(unit.variant, {}, [], {}, 1), "", facts)
    folder.job_file("plan").write_bytes(pickle.dumps(prepared))
    request = child.RunRequest(folder.root, unit.name, "plan", unit.variant, engine="no.such:engine")
    return folder, request


def test_a_simulation_that_fails_is_kept_with_its_trace(
    ready: tuple[SweepFolder, child.RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, request = ready
    monkeypatch.setattr("sim.job.signal.signal", lambda *_: None)  # it is this process here
    told = child.answer_run(request)
    assert told["outcome"] == "failed"
    kept = json.loads((folder.failed / f"{request.name}.json").read_text())
    assert "no" in kept["reason"]
    assert "Traceback" in kept["trace"]
    assert 'source = "karate"' in kept["scenario"]
    assert list(folder.runs.iterdir()) == [], "nothing half-written"


def test_a_unit_that_another_is_at_is_busy(ready: tuple[SweepFolder, child.RunRequest]) -> None:
    folder, request = ready
    with folder.lock(request.name, wait=False) as held:
        assert held
        assert child.answer_run(request) == {"outcome": "busy"}
    folder.job_file("plan").unlink()
    assert child.answer_run(request) == {"outcome": "unprepared"}


def test_what_is_prepared_stays_while_someone_reads_it(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s")
    folder.create()
    folder.job_file("plan").write_bytes(b"")
    with folder.reading(), folder.in_use():
        pass
    assert folder.job_file("plan").exists()
    with folder.in_use():
        pass
    assert not folder.job_file("plan").exists()


def answers(monkeypatch: pytest.MonkeyPatch, log: Path, answer: dict[str, Any], memory: int) -> None:
    """Instead of a process, an answer; the log has a line per request."""

    def carry_out(request: Any) -> dict[str, Any]:
        with log.open("a") as file:
            print(type(request).__name__, file=file)
        if hasattr(request, "variants"):
            return {"plans": dict.fromkeys(request.variants, memory)}
        return answer

    monkeypatch.setattr(drive, "carry_out", carry_out)


def test_a_unit_that_runs_out_of_memory_is_tried_once_more_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, tmp_path / "log", {"outcome": "killed", "signal": 9}, memory=100)
    outcome = drive.run_sweep(make_sweep(base=BASE), tmp_path / "s", memory_bytes=1000)
    assert (tmp_path / "log").read_text().split() == ["PrepareRequest", "RunRequest", "RunRequest"]
    [reason] = outcome.failures.values()
    assert "killed by signal 9; is there too little memory?" in reason
    assert SweepFolder(tmp_path / "s").failure(next(iter(outcome.failures))) == reason


def test_another_signal_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, tmp_path / "log", {"outcome": "killed", "signal": 11}, memory=100)
    outcome = drive.run_sweep(make_sweep(base=BASE), tmp_path / "s", memory_bytes=1000)
    assert list(outcome.failures.values()) == ["its process was killed by signal 11"]
    assert (tmp_path / "log").read_text().split() == ["PrepareRequest", "RunRequest"]


def test_a_folder_that_a_worker_does_not_see_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, tmp_path / "log", {"outcome": "unreachable"}, memory=100)
    with pytest.raises(InputError, match="use a shared folder"):
        drive.run_sweep(make_sweep(base=BASE), tmp_path / "s", memory_bytes=1000)
    [unit] = make_sweep(base=BASE).units.values()
    request = child.RunRequest(tmp_path / "nowhere", "x", "y", unit.variant)
    assert task.carry_out(request) == {"outcome": "unreachable"}


def test_a_process_that_dies_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [unit] = make_sweep(base=BASE).units.values()
    request = child.RunRequest(tmp_path, unit.name, "plan", unit.variant)
    task.allow()
    for script, told in (
        ("import os; os.kill(os.getpid(), 11)", {"outcome": "killed", "signal": 11}),
        ("raise SystemExit('no more')", {"reason": "its process ended with status 1: no more"}),
    ):
        fake = tmp_path / "python"
        real = sys.executable
        fake.write_text(f'#!/bin/sh\nexec {real} -c "{script}"\n')
        fake.chmod(0o755)
        monkeypatch.setattr(task.sys, "executable", str(fake))
        answer = task.carry_out(request)
        assert told.items() <= answer.items()
        monkeypatch.undo()
