"""Records, comparison, published figures, tables, plots, commands, on results with known figures."""

from __future__ import annotations

import argparse
import errno
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import analysis.cli
from analysis.metrics import backlog_over_time, change, comparison, memory_sweep
from analysis.plots import draw_all
from analysis.published import findings, load_claims
from analysis.records import Records, load_records
from analysis.render import render
from analysis.tables import as_plain, published_table
from sim.results import ResultsFolder, write_run
from sim.scenario import Scenario
from sim.scenario_io import dump_scenario, load_scenario
from workloads.errors import InputError
from workloads.systems import SYSTEMS

QUEUES = {
    "time_ns": np.array([0, 0, 100, 100, 100]),
    "switch": np.array(["leaf0", "leaf1", "leaf0", "leaf1", "leaf1"]),
    "port": np.array([0, 1, 0, 1, -1]),
    "backlog_bytes": np.array([5, 9, 70, 3, 10_000]),
    "shared_bytes": np.array([5, 9, 70, 3, 10_000]),
}


def one_run(
    label: str, *, traffic: int, epoch: int, backlog: int = 100, memory: int = 10**8
) -> dict[str, Any]:
    name = label.partition("@")[0]
    system, _, mode = name.rpartition("-") if name.endswith(("-free", "-tofino")) else (name, "", "")
    return {
        "system": system, "title": SYSTEMS[system].title, "recirculation": mode, "memory_bytes": memory,
        "up_bytes": traffic // 2, "down_bytes": traffic // 2, "total_bytes": traffic, "fabric_bytes": 3,
        "backlog_p50_bytes": 1, "backlog_p99_bytes": 2, "backlog_max_bytes": backlog, "passes": 10,
        "recirculated_passes": 9, "results": 4, "pulls": 0, "drops": 0, "ecn_marks": 0, "saturated": 0,
        "bypassed_share": 0.5, "comm_time_ns": epoch // 2, "epoch_time_ns": epoch,
    }  # fmt: skip


RUNS = {
    "host": one_run("host", traffic=1000, epoch=100_000),
    "g3": one_run("g3", traffic=1000, epoch=80_000),
    "strawman-ul-free": one_run("strawman-ul-free", traffic=60, epoch=90_000, memory=0),
    "switchgnn-free": one_run("switchgnn-free", traffic=190, epoch=26_000, backlog=50),
    "switchgnn-tofino": one_run("switchgnn-tofino", traffic=190, epoch=60_000),
    "switchgnn-no-gamr-free": one_run("switchgnn-no-gamr-free", traffic=190, epoch=30_000),
    "switchgnn-free@10MB": one_run("switchgnn-free@10MB", traffic=800, epoch=70_000, memory=10**7),
    "switchgnn-free@unlimited": one_run("switchgnn-free@unlimited", traffic=70, epoch=20_000, memory=0),
}


def results(
    place: Path, *, runs: dict[str, dict[str, Any]] | None = None, graph: str = "reddit (synthetic stand-in)"
) -> Records:
    runs = RUNS if runs is None else runs
    folder = ResultsFolder(place)
    for label, figures in runs.items():
        write_run(folder.building / label, figures, {"queues": QUEUES})
    summary = {
        "netfold": "0.1.0",
        "graph": {"name": graph, "kind": "synthetic stand-in", "top20_edge_share": 0.7},
        "partitions": {"unit": {"replication_factor": 15.0, "boundary_vertices": 1000}},
        "plans": {}, "widths": [256], "compute": "modelled (roofline, test)",
        "order": list(runs), "runs": runs,
        "failures": {},
        "interrupted": False,
    }  # fmt: skip
    folder.commit(dump_scenario(Scenario(), {"version": "0.1.0"}), summary)
    return load_records(place)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return results(tmp_path / "results")


def test_comparison_has_a_row_per_system(records: Records) -> None:
    table = comparison(records)
    assert list(table.index) == ["host", "g3", "strawman-ul", "switchgnn", "switchgnn-no-gamr"]
    ours = table.loc["switchgnn"]
    assert ours["traffic_vs_host"] == pytest.approx(-0.81)
    assert (ours["epoch_free_ns"], ours["epoch_tofino_ns"]) == (26_000, 60_000)
    assert ours["epoch_vs_host"] == pytest.approx(-0.74)
    assert table.loc["host", "epoch_free_ns"] == table.loc["host", "epoch_tofino_ns"] == 100_000
    assert math.isnan(table.loc["strawman-ul", "epoch_tofino_ns"])
    assert change(table, "switchgnn", "g3", "epoch_free_ns") == pytest.approx(-0.675)
    assert math.isnan(change(table, "switchgnn", "presum", "epoch_free_ns"))


def test_comparison_without_host_or_with_tofino_only(tmp_path: Path) -> None:
    records = results(tmp_path / "r", runs={"switchgnn-tofino": RUNS["switchgnn-tofino"]})
    table = comparison(records)
    assert math.isnan(table.loc["switchgnn", "traffic_vs_host"])
    assert math.isnan(table.loc["switchgnn", "epoch_free_ns"])
    assert table.loc["switchgnn", "epoch_tofino_ns"] == 60_000
    assert draw_all(records, tmp_path / "figures")


def test_a_run_of_which_only_the_sweep_ended_well(tmp_path: Path) -> None:
    records = results(tmp_path / "r", runs={"switchgnn-free@10MB": RUNS["switchgnn-free@10MB"]})
    assert comparison(records).empty
    render(records.folder, plots=True, as_json=False)
    assert as_plain(records)["systems"] == []
    assert len(memory_sweep(records)) == 1


def test_backlog_over_time_is_the_longest_egress_queue(records: Records) -> None:
    backlog = backlog_over_time(records.table("host", "queues"))
    assert backlog["time_ns"].tolist() == [0, 100]
    assert backlog["backlog_bytes"].tolist() == [9, 70]


def test_memory_sweep_includes_the_scenarios_own_memory(records: Records) -> None:
    sweep = memory_sweep(records)
    assert sweep["memory_bytes"].tolist() == [10**7, 10**8, 0]
    assert sweep["traffic_vs_host"].tolist() == pytest.approx([-0.2, -0.81, -0.93])
    assert set(sweep["system"]) == {"switchgnn"}


def test_published_figures_beside_ours(records: Records) -> None:
    found = {one.id: one for one in findings(records)}
    assert found["traffic-100MB"].ours == pytest.approx(-0.81)
    assert found["traffic-10MB"].ours == pytest.approx(-0.2)
    assert found["traffic-unlimited"].ours == pytest.approx(-0.94)
    assert found["epoch-host"].ours == pytest.approx(-0.74)
    assert found["gamr-backlog"].ours == pytest.approx(-0.5)
    assert found["replication"].ours == 15.0
    assert found["epoch-host"].note == "same setting, synthetic stand-in"
    assert found["epoch-strawman"].ours is None
    assert found["epoch-strawman"].note == "not run: needs switchgnn and strawman"
    assert found["aggregators"].note == "other setting: 128 workers, not 32"
    assert (found["epoch-host"].show(-0.74), found["replication"].show(16)) == ("-74%", "16.0x")


def test_a_disturbed_network_is_another_setting(records: Records) -> None:
    lossy = replace(records, scenario=load_scenario(None, {"loss.rate": 0.01, "background.load": 0.5}))
    notes = {finding.id: finding.note for finding in findings(lossy)}
    assert "loss.rate = 0.01, not 0.0" in notes["epoch-host"]
    assert "background.load = 0.5, not 0.0" in notes["traffic-unlimited"]
    assert notes["replication"].startswith("same setting"), "the graph alone"
    assert "loss.rate = 0.01, background.load = 0.5" in lossy.provenance()
    assert "loss" not in records.provenance()


def test_wrong_values_are_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {label: run | {"values_equal_oracle": label != "g3"} for label, run in RUNS.items()}
    render(results(tmp_path / "r", runs=runs).folder, plots=False, as_json=False)
    assert "WRONG in g3" in capsys.readouterr().out


def test_other_graphs_have_no_published_figures(tmp_path: Path) -> None:
    records = results(tmp_path / "r", graph="debian-bookworm")
    assert all(one.ours is None for one in findings(records))
    assert isinstance(published_table(records), str)


def test_every_claim_says_where_it_stands() -> None:
    for claim in load_claims():
        assert claim["place"]
        assert claim["setting"]["graph"] == "reddit"
        assert claim["kind"] in ("change", "factor", "share", "bytes", "lower")
        assert ("value" in claim) == (claim["kind"] != "lower")
        assert set(claim["metric"][1:]) <= set(SYSTEMS)


def test_json_has_no_nan(records: Records) -> None:
    text = json.dumps(as_plain(records), allow_nan=False)
    assert json.loads(text)["systems"][0]["system"] == "host"


def test_figures_are_written_twice_the_same(records: Records, tmp_path: Path) -> None:
    first = draw_all(records, tmp_path / "a")
    assert [path.name for path in first] == [
        "comparison.png", "comparison.svg", "backlog.png", "backlog.svg", "memory.png", "memory.svg",
    ]  # fmt: skip
    for path in draw_all(records, tmp_path / "b"):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
    assert "synthetic stand-in" in (tmp_path / "a" / "backlog.svg").read_text()
    assert "modelled" in (tmp_path / "a" / "comparison.svg").read_text()


def test_render_prints_tables(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    render(records.folder, plots=False, as_json=False)
    shown = capsys.readouterr().out
    for word in (
        "switchgnn-no-gamr",
        "-81%",
        "epoch tofino",
        "same setting, synthetic stand-in",
        "unlimited",
    ):
        assert word in shown
    assert not (records.folder / "figures").exists()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_width_gets_every_figure(records: Records, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    monkeypatch.setattr("analysis.render.wide_console", lambda: console)
    render(records.folder, plots=False, as_json=False)
    shown = console.export_text().partition("The SwitchGNN paper")[0]
    assert "…" not in shown
    for figure in ("190 B", "-81%", "50 B", "50%", "26.0 µs", "60.0 µs", "switchgnn-no-gamr", "simulated"):
        assert figure in shown
    assert ("Switches" in shown) == (width < 200)


def test_figures_that_cannot_be_written_are_one_line_after_the_tables(
    records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    (records.folder / "figures").write_text("a file in the way")
    for as_json in (False, True):
        with pytest.raises(InputError, match="figures cannot be written"):
            render(records.folder, plots=True, as_json=as_json)
        assert "switchgnn-no-gamr" in capsys.readouterr().out


def test_a_figure_is_whole_or_not_there(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Figure, path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="No space left"):
        draw_all(records, tmp_path / "figures")
    assert list((tmp_path / "figures").iterdir()) == []


def test_folders_that_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a results folder"):
        load_records(tmp_path)
    (tmp_path / "scenario.toml").write_text("")
    for text in ("", "[]", "{}", "\x00"):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(InputError, match=r"summary\.json"):
            load_records(tmp_path)


def test_damaged_tables_are_one_line(records: Records) -> None:
    (records.folder / "host" / "queues.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(InputError, match="not a readable table") as error:
        records.table("host", "queues")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="not a readable table"):
        records.table("nobody", "queues")


def test_long_backlogs_keep_their_peak(tmp_path: Path) -> None:
    times = np.arange(10_001)
    backlog = np.where(times == 7777, 9_000_000, 1)
    queues = pd.DataFrame({"time_ns": times, "backlog_bytes": backlog})
    thinned = analysis.plots._thin(queues["time_ns"].to_numpy(), queues["backlog_bytes"].to_numpy())
    assert len(thinned[0]) == len(thinned[1]) <= 2000
    assert thinned[1].max() == 9_000_000


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    analysis.cli.add_commands(parser.add_subparsers())
    return parser.parse_args(arguments)


def overrides(*arguments: str) -> Scenario:
    return load_scenario(overrides=analysis.cli._overrides(parse(*arguments)))


def test_command_line_options_become_scenario_keys() -> None:
    scenario = overrides(
        "run", "--graph", "ring:64", "--workers", "16", "--topology", "star", "--system", "host,g3",
        "--system", "switchgnn", "--memory", "10MB", "--set", "loss.rate=0.01",
        "--recirculation", "tofino", "--residual", "host",
    )  # fmt: skip
    assert (scenario.graph.source, scenario.cluster.workers, scenario.cluster.topology) == (
        "ring:64",
        16,
        "star",
    )
    assert scenario.run.systems == "host,g3,switchgnn"
    assert scenario.switch.memory_bytes == 10_000_000
    assert (scenario.loss.rate, scenario.run.recirculation, scenario.plan.residual) == (
        0.01,
        "tofino",
        "host",
    )


def test_ablations_have_short_options() -> None:
    scenario = overrides("run", "--system", "switchgnn", "--no-gamr", "--no-blocks")
    assert scenario.run.systems == "switchgnn,switchgnn-no-gamr,switchgnn-no-blocks"


def test_several_memories_make_a_sweep() -> None:
    scenario = overrides("compare", "--memory", "10MB, 30MB,unlimited")
    assert scenario.run.memory_sweep == "10MB,30MB,unlimited"
    assert scenario.switch.memory_bytes == 100_000_000
    with pytest.raises(InputError, match="--memory"):
        overrides("run", "--memory", ",")


def test_default_names_are_plain_file_names() -> None:
    name = analysis.cli._default_name("run", overrides("run", "--graph", "/data/my graph;rm -rf.mtx"))
    assert name == "run-my-graph-rm--rf.mtx-128w-ls8x8"
    scaled = analysis.cli._default_name(
        "compare", overrides("compare", "--graph", "reddit", "--scale", "0.1")
    )
    assert scaled == "compare-reddit-0.1-128w-ls8x8"


def test_tables_print_names_as_they_are(capsys):
    from analysis.render import wide_console

    wide_console().print("graph contacts:100:12, mail[bold].txt")
    assert capsys.readouterr().out == "graph contacts:100:12, mail[bold].txt\n"
