"""Orchestration around an engine: variants, processes, failures, Ctrl-C. The engine here is a fake."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.prepare import expand
from sim.results import is_results
from sim.run import run_scenario
from sim.scenario_io import load_scenario
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.oracle import cross_sums
from workloads.partition import partition_graph

SMALL = {
    "graph.source": "karate",
    "cluster.workers": 4,
    "cluster.topology": "star",
    "model.layers": 2,
    "model.hidden": 8,
}


class Watcher:
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def stage(self, text: str) -> None:
        self.events.append(("stage", text))

    def started(self, label: str) -> None:
        self.events.append(("started", label))

    def advanced(self, label: str, simulated_ns: int, hops: int, share: float) -> None:
        self.events.append(("advanced", label, share))

    def finished(self, label: str, summary: dict[str, Any]) -> None:
        self.events.append(("finished", label))

    def failed(self, label: str, reason: str) -> None:
        self.events.append(("failed", label, reason))


def labels(**overrides: object) -> list[str]:
    settings = {"run.systems": "host,switchgnn"}
    settings |= {f"run.{name}": str(value) for name, value in overrides.items()}
    return [variant.label for variant in expand(load_scenario(overrides=settings))]


def test_variants() -> None:
    assert labels() == ["host", "switchgnn-free", "switchgnn-tofino"]
    assert labels(recirculation="tofino") == ["host", "switchgnn-tofino"]
    assert labels(systems="strawman-ul,g3") == ["g3", "strawman-ul-free", "strawman-ul-tofino"]
    swept = labels(
        systems="host,strawman-ul,switchgnn", recirculation="free", memory_sweep="10MB,100MB,unlimited"
    )
    assert swept == [
        "host", "strawman-ul-free", "switchgnn-free", "switchgnn-free@10MB", "switchgnn-free@unlimited",
    ]  # fmt: skip


def test_variants_settle_recirculation_and_memory() -> None:
    settings = {"run.systems": "switchgnn", "run.memory_sweep": "10MB", "switch.hierarchy": "multicast"}
    chosen = {variant.label: variant for variant in expand(load_scenario(overrides=settings))}
    assert chosen["switchgnn-tofino"].scenario.switch.recirculation == "tofino"
    assert chosen["switchgnn-free@10MB"].scenario.switch.memory_bytes == 10_000_000
    assert chosen["switchgnn-free"].system.hierarchy == "multicast"


def test_a_memory_given_twice_runs_once() -> None:
    swept = labels(recirculation="free", memory_sweep="10 MB, 10MB,10000000, 100MB")
    assert swept == ["host", "switchgnn-free", "switchgnn-free@10MB"]


@pytest.mark.parametrize("sweep", ["0", "lots", "10MB,,x"])
def test_bad_sweeps(sweep: str) -> None:
    with pytest.raises(InputError, match=r"run\.memory_sweep"):
        labels(memory_sweep=sweep)


def small(**more: object) -> Any:
    return load_scenario(overrides=SMALL | more)


def test_a_run_writes_its_folder(tmp_path: Path, fake_engine: str) -> None:
    place, watcher = tmp_path / "results" / "karate", Watcher()
    outcome = run_scenario(
        small(),
        place,
        watcher,
        default_systems="host,switchgnn",
        cache=tmp_path / "c",
        engine=f"{fake_engine}:simulate",
    )
    assert list(outcome.runs) == ["host", "switchgnn-free", "switchgnn-tofino"]
    assert not outcome.failures
    assert sorted(entry.name for entry in place.iterdir()) == [
        "host", "scenario.toml", "summary.json", "switchgnn-free", "switchgnn-tofino",
    ]  # fmt: skip
    assert [entry.name for entry in place.parent.iterdir()] == ["karate"]
    summary = json.loads((place / "summary.json").read_text())
    assert summary["order"] == list(outcome.runs)
    assert summary["graph"]["vertices"] == 34
    assert summary["compute"].startswith("modelled")
    assert summary["partitions"]["unit"]["replication_factor"] > 0
    assert load_scenario(place / "scenario.toml") == small(**{"run.systems": "host,switchgnn"})
    assert {event[1] for event in watcher.events if event[0] == "finished"} == set(outcome.runs)


def test_equal_seeds_give_equal_parquet(tmp_path: Path, fake_engine: str) -> None:
    for name in ("a", "b"):
        run_scenario(
            small(), tmp_path / name, Watcher(), default_systems="host", engine=f"{fake_engine}:simulate"
        )
    files = sorted((tmp_path / "a").rglob("*.parquet"))
    assert files
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.relative_to(tmp_path / "a")).read_bytes()


def test_a_crashed_child_is_one_line_and_the_rest_is_kept(tmp_path: Path, fake_engine: str) -> None:
    scenario = small(**{"run.systems": "host,g3,presum,strawman", "run.recirculation": "free"})
    outcome = run_scenario(
        scenario, tmp_path / "r", Watcher(), default_systems="", engine=f"{fake_engine}:crash"
    )
    assert list(outcome.runs) == ["host"]
    assert "signal 9" in outcome.failures["g3"]
    assert outcome.failures["presum-free"] == "ValueError: a broken invariant"
    assert outcome.failures["strawman-free"] == "switch.memory_bytes: too small for this system"
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["failures"] == outcome.failures


def test_nothing_is_left_when_nothing_ran(tmp_path: Path, fake_engine: str) -> None:
    scenario = small(**{"run.systems": "g3"})
    with pytest.raises(InputError, match="signal 9"):
        run_scenario(
            scenario, tmp_path / "out" / "r", Watcher(), default_systems="", engine=f"{fake_engine}:crash"
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster.workers": 40}, "34 vertices"),
        ({"graph.source": "no-such-graph"}, "no-such-graph"),
        ({"compute.device": "abacus"}, "rtx3090"),
        ({"compute.table": "missing.csv"}, "does not exist"),
    ],
)
def test_bad_input_leaves_nothing(
    tmp_path: Path, fake_engine: str, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as error:
        run_scenario(
            small(**change),
            tmp_path / "o" / "r",
            Watcher(),
            default_systems="host",
            engine=f"{fake_engine}:simulate",
        )
    assert "\n" not in str(error.value)
    assert not (tmp_path / "o").exists()


def test_ctrl_c_keeps_what_has_finished(
    tmp_path: Path, fake_engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "started"
    monkeypatch.setenv("FAKE_STARTED", str(flag))
    scenario = small(**{"run.systems": "host,switchgnn", "run.recirculation": "free"})
    watcher = Watcher()

    def interrupt() -> None:
        while not flag.exists() or ("finished", "host") not in watcher.events:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    # A process started in the background ignores SIGINT, and its Python then has no handler for it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        outcome = run_scenario(
            scenario, tmp_path / "r", watcher, default_systems="", engine=f"{fake_engine}:slow"
        )
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    assert outcome.interrupted
    assert list(outcome.runs) == ["host"]
    assert is_results(tmp_path / "r")
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["interrupted"] is True


@pytest.mark.parametrize("right", [True, False])
def test_value_mode_compares_with_the_oracle(
    tmp_path: Path, fake_engine: str, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    graph = load_graph("karate")
    partition = partition_graph(graph, 4, cache=tmp_path)
    random = np.random.default_rng(1)
    features = random.integers(-(2**15), 2**15, size=(34, 8), dtype=np.int32)
    sums = cross_sums(graph, partition, features)
    np.save(tmp_path / "sums.npy", sums if right else sums + 1)
    monkeypatch.setenv("FAKE_RESULTS", str(tmp_path / "sums.npy"))
    outcome = run_scenario(
        small(**{"run.value_mode": True}),
        tmp_path / "r",
        Watcher(),
        default_systems="host",
        cache=tmp_path,
        engine=f"{fake_engine}:simulate",
    )
    assert outcome.runs["host"]["values_equal_oracle"] is right
