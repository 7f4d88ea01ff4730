"""`netfold trace`: its table is the one the simulation reads, whole, and names what was measured."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch

import netfold
from workloads.compute import allreduce_phase, compute_table, load_device
from workloads.compute_table import load_compute_table, measured_phases
from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.systems import STATIC_SYSTEMS as SYSTEMS
from workloads.traces.kernels import TraceModel, WorkerSteps
from workloads.traces.measure import WARMUPS, Stopwatch, measure
from workloads.traces.record import trace_facts
from workloads.training.local_graph import local_graph

CPU = torch.device("cpu")
SMALL = [
    "trace",
    "--graph",
    "rmat:8:4",
    "--workers",
    "4",
    "--layers",
    "3",
    "--hidden",
    "16",
    "--repeats",
    "2",
    "--rounds",
    "2",
]


@pytest.mark.parametrize("extra", [[], ["--no-pp", "--model", "sage"]])
def test_every_system_finds_every_phase_in_the_trace(extra, tmp_path, capsys):
    path = tmp_path / "trace.parquet"
    assert netfold.main([*SMALL, *extra, "--json", "-o", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    graph = load_graph("rmat:8:4")
    table = load_compute_table(path)
    model = TraceModel("gcn", 3, 16, use_pp=not extra)
    for system in SYSTEMS.values():
        partition = partition_graph(graph, 4, balance=system.balance or "unit")
        assert partition.digest in answer["partition_digests"].values()
        modelled = compute_table(graph, partition, model, load_device("rtx3090"), cross_sum=system.cross_sum)
        phases = measured_phases(table, modelled, system.name)
        for phase, model_phase in zip(phases, modelled, strict=True):
            for got, shape in ((phase.pre_ns, model_phase.pre_ns), (phase.post_ns, model_phase.post_ns)):
                assert got.shape == (4,)
                assert ((got > 0) == (shape > 0)).all()
    assert set(table["system"]) == {"*", *SYSTEMS}
    assert_quantiser_and_optimiser(table, first_layer=bool(extra))
    facts = trace_facts(path)
    assert set(facts["plan_digests"]) == {"16"}
    assert {"torch", "numpy", "netfold", "python", "kernels"} <= set(facts["versions"])
    assert facts["graph_digest"] == graph.digest and "torch" in facts["device"]
    assert [file.name for file in tmp_path.iterdir()] == ["trace.parquet"]
    spread = pd.read_parquet(path)
    assert ((spread["low_ns"] <= spread["ns"]) & (spread["ns"] <= spread["high_ns"])).all()


def assert_quantiser_and_optimiser(table, *, first_layer: bool) -> None:
    for phase in ("quantise", "dequantise"):
        rows = table[table["phase"] == phase]
        assert set(rows["system"]) == {"*"} and len(rows) == 4 * 3 * 2
        for (layer, direction), group in rows.groupby(["layer", "direction"]):
            idle = layer == 1 and (direction == "backward" or not first_layer)
            assert (group["ns"] == 0).all() if idle else (group["ns"] > 0).all()
    steps = table[table["layer"] == 0]
    assert set(steps["phase"]) == {"post"} and (steps["ns"] > 0).all()
    assert len(steps) == 4 * (1 + len(SYSTEMS))


def test_the_optimisers_step_ends_the_epoch_and_the_all_reduce_stays_modelled(tmp_path):
    path = tmp_path / "trace.parquet"
    assert netfold.main([*SMALL, "-o", str(path)]) == 0
    graph = load_graph("rmat:8:4")
    model = TraceModel("gcn", 3, 16, use_pp=True)
    reduce = allreduce_phase(model, graph, 4, link_bps=1e9, hop_ns=1000)
    [phase] = measured_phases(load_compute_table(path), [reduce], "host")
    assert (phase.pre_ns == reduce.pre_ns).all()
    assert (phase.post_ns > 0).all() and (reduce.post_ns == 0).all()


def test_on_cuda_the_time_between_events_is_taken():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    device = torch.device("cuda", 0)
    graph = load_graph("rmat:8:4")
    table = measure(
        graph,
        {"": partition_graph(graph, 2)} | {s.balance: partition_graph(graph, 2) for s in SYSTEMS.values()},
        TraceModel("gcn", 3, 16, use_pp=True),
        repeats=2,
        rounds=2,
        progress=lambda done, total: None,
        device=device,
    ).table
    assert (table["ns"] >= 0).all() and (table["ns"] > 0).any()


def test_a_simulation_takes_its_compute_time_from_the_trace(tmp_path, capsys):
    path = tmp_path / "trace.parquet"
    assert netfold.main([*SMALL, "--json", "-o", str(path)]) == 0
    capsys.readouterr()
    long = pd.read_parquet(path)
    long["ns"] *= 1000  # more than any model would say
    long.to_parquet(tmp_path / "long.parquet")
    run = [
        *("run", "--graph", "rmat:8:4", "--workers", "4", "--topology", "star", "--system", "host"),
        *("--set", "model.layers=3", "--set", "model.hidden=16", "--no-plots", "--json"),
        *("--compute", str(tmp_path / "long.parquet"), "-o", str(tmp_path / "run")),
    ]
    assert netfold.main(run) == 0
    capsys.readouterr()
    [file] = (tmp_path / "run").glob("host*/summary.json")
    took = json.loads(file.read_text())["compute_time_ns"]
    of_workers = long[long["system"] == "host"].groupby("worker")["ns"].sum()
    assert 0.9 * of_workers.max() <= took <= 2 * long.loc[long["system"].isin(["host", "*"]), "ns"].sum()


def test_steps_cover_each_phase_once_and_idle_phases_take_no_time():
    graph = load_graph("karate")
    local = local_graph(graph, partition_graph(graph, 2), 0)
    steps = WorkerSteps(local, "switch").steps(TraceModel("gcn", 3, 8, use_pp=True), [8, 8, 8, 2])
    keys = [(s.layer, s.direction, s.phase) for s in steps]
    assert sorted(keys) == sorted(
        (layer, way, part)
        for layer in (1, 2, 3)
        for way in ("forward", "backward")
        for part in ("pre", "post")
    )
    assert {key for key, s in zip(keys, steps, strict=True) if s.step is None} == {
        (1, "forward", "pre"),
        (1, "backward", "post"),
    }
    assert Stopwatch(CPU).time(None, 5) == [0] * 5


def test_timing_warms_up_and_knows_when_it_waited():
    calls = []
    watch = Stopwatch(CPU)
    times = watch.time(lambda: calls.append(np.arange(10).sum()), 7)
    assert len(calls) == WARMUPS + 7 and len(times) == 7 and min(times) >= 0
    asleep = Stopwatch(CPU)
    assert asleep.waited_share == 0
    asleep.time(lambda: time.sleep(0.02), 3)
    assert 0.5 < asleep.waited_share <= 1


def test_rounds_take_turns_and_medians_are_over_all_of_them(monkeypatch):
    """A disturbance that lasts a whole round moves no median, and shows in how far the rounds lie apart."""
    graph = load_graph("karate")
    partitions = {"": partition_graph(graph, 2)} | {
        s.balance: partition_graph(graph, 2) for s in SYSTEMS.values() if s.balance
    }
    seen: list[int] = []

    def made(watch, step, repeats):
        turn = progress[-1] // visits
        seen.append(turn)
        return [0] * repeats if step is None else [9000 if turn == 1 else 1000] * repeats

    visits, progress = 8, [0]
    monkeypatch.setattr(Stopwatch, "time", made)
    found = measure(
        graph,
        partitions,
        TraceModel("gcn", 3, 8, use_pp=True),
        repeats=2,
        rounds=3,
        progress=lambda done, total: progress.append(done),
    )
    assert progress[-1] == 3 * visits and seen == sorted(seen) and set(seen) == {0, 1, 2}
    for column in ("low_ns", "ns"):
        assert set(found.table[column]) == {0, 1000}
    assert set(found.table["high_ns"]) == {0, 7000}  # of 1, 1, 1, 1, 9, 9 us, interpolated
    assert found.rounds_apart == 8
    assert not found.table.duplicated(["system", "layer", "direction", "phase", "worker"]).any()


def test_a_busy_machine_is_warned_of_or_refused(tmp_path, capsys, monkeypatch):
    path = tmp_path / "trace.parquet"
    monkeypatch.setattr("os.getloadavg", lambda: (3.2, 1.0, 1.0))
    assert netfold.main([*SMALL, "--require-idle", "-o", str(path)]) == 2
    assert "require-idle: the load average is 3.20; allowed: 0.5" in capsys.readouterr().err
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 1.0, 1.0))
    monkeypatch.setattr(Stopwatch, "waited_share", 0.25)
    assert netfold.main([*SMALL, "--require-idle", "-o", str(path)]) == 2
    told = capsys.readouterr().err
    assert "the work waited 25 % of the time for a processor" in told and "nothing was written" in told
    assert not list(tmp_path.iterdir())
    assert netfold.main([*SMALL, "--json", "-o", str(path)]) == 0
    answer = capsys.readouterr()
    assert "netfold: warning: the work waited 25 %" in answer.err
    assert json.loads(answer.out)["waited_share"] == trace_facts(path)["waited_share"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--layers", "0"], "layers: 0 given"),
        (["--repeats", "0"], "repeats: 0 given"),
        (["--rounds", "0"], "rounds: 0 given"),
        (["-o", "trace.csv"], "must end in .parquet"),
        (["--workers", "1000"], "only 256 vertices"),
        (["--graph", "nonsense"], "no such name"),
        (["-o", "/proc/none/trace.parquet"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line(arguments, told, tmp_path, capsys):
    assert netfold.main([*SMALL, "-o", str(tmp_path / "trace.parquet"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: ") and error.count("\n") == 1
    assert told in error
