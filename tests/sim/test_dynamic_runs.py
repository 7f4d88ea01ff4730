"""Runs on dynamic graphs: owners receive the sums, payload bytes equal the plan's, for every system."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sim.dynamic import prepare_dynamic
from sim.engine import simulate
from sim.prepare import expand
from sim.scenario import Scenario
from sim.scenario_io import load_scenario
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems import SYSTEMS

DYNAMIC = [name for name, system in SYSTEMS.items() if system.dynamic]
SETTINGS = {
    "graph.source": "contacts:40:10",
    "cluster.workers": 4,
    "cluster.topology": "leaf-spine:2x2",
    "model.layers": 2,
    "model.hidden": 7,
    "run.value_mode": True,
    "run.recirculation": "free",
    "dynamic.window": 3,
}


def scenario(**more: object) -> Scenario:
    return load_scenario(None, SETTINGS | more)


def simulated(asked: Scenario, folder: Path) -> tuple[dict[str, object], dict[str, int]]:
    """(summary, planned payload bytes by kind) of the one system asked for; every result is checked."""
    [variant] = expand(asked)
    [job], failures, facts = prepare_dynamic(asked, [variant], folder, stage=lambda _: None, cache=folder)
    assert not failures
    plans = {key: Plan.load(path) for key, path in job.plans.items()}
    values = {key: np.load(path) for key, path in job.values.items()}
    features = {key: values[key]["features"][plan.boundary] for key, plan in plans.items()}
    run = simulate(variant.scenario, variant.system, plans, job.phases, features=features)
    keys = [phase.plan_key for phase in job.phases if phase.width]
    assert len(run.results) == len(keys)
    for result, key in zip(run.results, keys, strict=True):
        assert np.array_equal(result, values[key]["expected"])
    return run.summary, facts["planned_payload_bytes"][variant.label]


@pytest.mark.parametrize("system", DYNAMIC)
def test_sums_arrive_and_bytes_are_the_plans(system: str, tmp_path: Path) -> None:
    summary, planned = simulated(scenario(**{"run.systems": system, "dynamic.share": 0.4}), tmp_path)
    assert summary["up_payload_bytes"] == sum(planned.values())
    if system == "dynahb":
        assert not sum(planned.values()) and summary["epoch_time_ns"] > 0
    else:
        assert planned["embeddings"] > 0 < planned["gradients"]
    if not SYSTEMS[system].presum:
        assert planned["embeddings"] == planned["gradients"]
        assert summary["down_payload_bytes"] == summary["up_payload_bytes"]
    assert (planned["features"] > 0) == (SYSTEMS[system].inputs_each and system != "snapshot")
    assert (planned["states"] > 0) == (system in ("snapshot", "chunk"))


@pytest.mark.parametrize("system", ["swash", "full", "chunk", "full-presum"])
def test_pairs_of_link_prediction_travel_as_the_trainer_counts_them(system: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from workloads.graphs.dynamic import load_dynamic_graph
    from workloads.partition.dynamic import partition_dynamic
    from workloads.plan.dynamic import training_windows
    from workloads.training.dynamic.options import make_options
    from workloads.training.dynamic.plan import planned_bytes
    from workloads.training.dynamic.task import make_task

    asked = scenario(**{"run.systems": system, "dynamic.share": 0.4, "graph.source": "social:50:10"})
    summary, planned = simulated(asked, tmp_path)
    assert summary["up_payload_bytes"] == sum(planned.values())
    if SYSTEMS[system].presum:  # only rows of pairs are compared: sums are not rows
        assert planned["embeddings"] > 0
        return
    graph = load_dynamic_graph("social:50:10", seed=asked.graph.seed, window=3)
    options = make_options(
        {"system": system, "layers": 2, "hidden": 7} | ({"p": 0.4, "s": 0} if system == "swash" else {})
    )
    placed = partition_dynamic(graph, 4, method=SYSTEMS[system].placing, seed=asked.partition.seed)
    windows = dict.fromkeys(range(len(training_windows(graph))), 0.4 if system == "swash" else 1.0)
    task = make_task(graph, asked.run.seed)
    told = planned_bytes(graph, task, placed, options, epochs=[windows], parameters=0)
    assert planned["embeddings"] == told["embeddings"] and planned["gradients"] == told["gradients"]


@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2"])
def test_a_small_switch_bypasses_and_the_sums_still_hold(topology: str, tmp_path: Path) -> None:
    asked = scenario(**{
        "run.systems": "full-presum", "switch.memory_bytes": 512, "cluster.topology": topology,
        "graph.source": "contacts:80:10",
    })  # fmt: skip
    summary, planned = simulated(asked, tmp_path)
    assert summary["up_payload_bytes"] == sum(planned.values())


def test_loss_does_not_change_the_sums(tmp_path: Path) -> None:
    for system in ("swash", "swash-presum"):
        asked = scenario(**{"run.systems": system, "loss.rate": 0.02, "cluster.topology": "star"})
        summary, _ = simulated(asked, tmp_path / system)
        assert summary["losses"] > 0


def test_knobs_lower_the_traffic(tmp_path: Path) -> None:
    def payload(number: int, **more: object) -> int:
        asked = {"run.systems": "swash", **{f"dynamic.{name}": value for name, value in more.items()}}
        return simulated(scenario(**asked), tmp_path / str(number))[0]["up_payload_bytes"]  # type: ignore[return-value]

    full = payload(0, share=1.0)
    assert 0 < payload(1, share=0.25) < 0.5 * full
    assert payload(2, share=1.0, windows=2) < full
    assert payload(3, share=1.0, interval=2, epoch=1) == 0
    assert payload(4, share=1.0, interval=2, epoch=2) == full


def test_a_run_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from netfold import main

    settings = [f"--set={name}={str(value).lower()}" for name, value in SETTINGS.items()]
    out = tmp_path / "run"
    command = ["run", "--system", "swash,swash-presum", "--no-plots", "--json", "-o", str(out), *settings]
    assert main(command) == 0
    capsys.readouterr()
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary["runs"]) == ["swash", "swash-presum-free"]
    for label, run in summary["runs"].items():
        assert run["values_equal_oracle"] and run["up_payload_bytes"] == sum(
            summary["planned_payload_bytes"][label].values()
        )
    assert summary["graph"]["epoch_windows"] == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"run.systems": "swash,host"}, "trains a dynamic graph, host a static one"),
        ({"run.systems": "swash", "graph.source": "debian"}, "no such name"),
        ({"run.systems": "swash", "dynamic.placing": "chunk"}, "needs a vertex partition"),
        ({"run.systems": "swash", "dynamic.window": 900}, "window: 900"),
        ({"run.systems": "swash", "cluster.workers": 64}, "workers: 64"),
        ({"run.systems": "swash", "compute.table": "rtx3090"}, "compute"),
    ],
)
def test_what_cannot_run_is_one_line(
    given: dict[str, object], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from netfold import main

    settings = [f"--set={name}={str(value).lower()}" for name, value in (SETTINGS | given).items()]
    assert main(["run", "--no-plots", "-o", str(tmp_path / "none"), *settings]) == 2
    told_line = [line for line in capsys.readouterr().err.splitlines() if line.startswith("netfold: error")]
    assert len(told_line) == 1 and told in told_line[0]
    assert not (tmp_path / "none").exists()


def test_unknown_knobs_are_refused() -> None:
    with pytest.raises(InputError, match=r"dynamic\.share"):
        scenario(**{"dynamic.share": 0.0})
    with pytest.raises(InputError, match=r"dynamic\.choose"):
        scenario(**{"dynamic.choose": "luck"})
