"""`netfold epoch-time`: counted bytes against simulated ones, the link model by hand, overlap, provenance."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import netfold
from analysis.epoch_time.estimate import COUNTED, MEASURED, MODELLED, SIMULATED, Estimate, Estimator, Part
from analysis.epoch_time.links import host_based_ns, in_network_ns, way_ns
from analysis.epoch_time.show import mark, ms
from analysis.epoch_time.simulated import simulated_estimates
from analysis.epoch_time.traffic import Uploads, count_sends, count_uploads
from sim.scenario import ClusterSection, GraphSection, ModelSection, Scenario
from workloads.compute import propagation_widths
from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.plan import make_plan
from workloads.training.extractor import node_bits

SMALL = ["--graph", "rmat:9:8", "--workers", "8", "--topology", "star", "--set", "model.hidden=32"]
SHAPE = ["--set", "model.layers=3"]


def scenario(topology: str = "star", workers: int = 8) -> Scenario:
    cluster = ClusterSection(workers=workers, topology=topology, host_link_bps=10_000_000_000)
    return Scenario(
        graph=GraphSection(source="rmat:9:8"), cluster=cluster, model=ModelSection(layers=3, hidden=32)
    )


@pytest.fixture(scope="module")
def graph():
    return load_graph("rmat:9:8")


def test_sends_are_the_partitions_and_their_bytes_follow_the_mask(graph):
    partition = partition_graph(graph, 8)
    sends = count_sends(graph, partition)
    assert sends.count.sum() == partition.stats(graph)["host_sends"]
    assert not sends.count.sum(0).diagonal().any()
    exact = sends.main_bytes(32, None)
    assert exact.sum() == 4 * 32 * sends.count.sum()
    for base in (1, 2, 4, 8):
        widths = node_bits(base, np.arange(4, dtype=np.uint8))
        expected = sum(sends.count[level].sum() * 32 * int(widths[level]) / 8 for level in range(4))
        assert sends.main_bytes(32, base).sum() == expected
        if base <= 2:
            assert expected <= exact.sum() / 15
    wire = sends.wire_bytes(32, 2, 1500)
    assert wire.sum() == pytest.approx(
        (sends.main_bytes(32, 2).sum() + 8 * sends.count.sum()) * 1.045, rel=0.01
    )


def test_the_link_model_by_hand():
    star = scenario()
    moved = np.zeros((8, 8))
    moved[0, 1], moved[2, 1] = 1e6, 2e6
    assert way_ns(star) == 2 * 1000 + 400
    assert host_based_ns(moved, star) == pytest.approx(3e6 * 8 / 10 + 2400)  # what worker 1 receives
    assert host_based_ns(np.zeros((8, 8)), star) == 0
    racks = scenario("leaf-spine:4x1")
    slow = replace(racks, cluster=replace(racks.cluster, fabric_link_bps=1_000_000_000))
    assert host_based_ns(moved, slow) == pytest.approx(2e6 * 8 / 1 + way_ns(slow))  # leaf 1 to leaf 0
    assert way_ns(slow) == 4 * 1000 + 3 * 400
    near = np.zeros((8, 8))
    near[0, 1] = 1e6  # the same rack
    assert host_based_ns(near, slow) == pytest.approx(1e6 * 8 / 10 + way_ns(slow))
    uploads = Uploads(np.full(8, 1e6), np.full(8, 2e6), np.zeros((0, 0)), 3, 32)
    assert in_network_ns(uploads, star) == pytest.approx(2e6 * 8 / 10 + 3 * 2 * 2400)


def test_uploads_are_the_plans_and_quantised_ones_fit_16_bit_sums(graph):
    partition = partition_graph(graph, 8)
    plan = make_plan(graph, partition, width=32, memory_bytes=None)
    levels = count_sends(graph, partition).levels
    exact = count_uploads(plan, scenario(), 32, levels, None)
    assert exact.lane_bits == 32
    assert exact.up.sum() == exact.down.sum() == plan.num_uploads * (2 * 66 + 4 * 32)
    most = int(np.diff(plan.adj_ptr).max())
    packed = count_uploads(plan, scenario(), 32, levels, 2)
    assert packed.lane_bits == (16 if most * 255 < 2**16 else 32)
    assert packed.up.sum() < 0.6 * exact.up.sum()
    racks = count_uploads(plan, scenario("leaf-spine:4x2"), 32, levels, None)
    assert racks.across.shape == (4, 4) and racks.across.sum() > 0
    # No more than one partial sum per other rack and entry.
    assert racks.across.sum() <= 4 * plan.num_uploads * (2 * 66 + 4 * 32)


def test_what_runs_beside_compute_is_not_waited_for():
    parts = [
        Part(1, "forward", "compute", 100, MEASURED),
        Part(1, "forward", "quantise", 10, MODELLED),
        Part(1, "forward", "communicate", 70, COUNTED),
        Part(1, "forward", "dequantise", 40, MODELLED),
        Part(0, "backward", "weights", 5, MODELLED),
    ]
    one, beside = Estimate("sync", parts), Estimate("async", parts, asynchronous=True)
    assert one.epoch_ns == 225 and one.exposed_ns == 120
    assert beside.epoch_ns == 125 and beside.exposed_ns == 20
    long = Estimate("async", [Part(1, "forward", "compute", 500, MEASURED), *parts[1:]], asynchronous=True)
    assert long.epoch_ns == 505 and long.exposed_ns == 0
    assert one.provenance("compute", "communicate") == f"{MEASURED} + {COUNTED}"
    assert mark(one.provenance("compute", "weights")) == "mr"
    assert ms(2.5e6, f"{SIMULATED} + {COUNTED}") == "2.50 sc"
    assert ms(0, "") == "-"


def test_systems_send_what_they_should(graph):
    estimator = Estimator(scenario(), graph, lambda text: None)
    exact = estimator.host_based("dgl")
    share = estimator.host_based("bns-gcn", share=0.25)
    sylvie = estimator.host_based("sylvie", base=1)
    late = estimator.host_based("pipegcn", asynchronous=True)
    talks = [part for part in exact.parts if part.kind == "communicate"]
    sends = estimator.sends.count.sum()
    # use_pp: layers 2 and 3 propagate forward and backward, all at the hidden width.
    assert propagation_widths(estimator.scenario.model, graph) == [32]
    assert len(talks) == 4 and all(part.main_bytes == 4 * 32 * sends for part in talks)
    assert sum(part.main_bytes for part in share.parts) == pytest.approx(sends * 4 * 32)
    assert sum(part.main_bytes for part in sylvie.parts) <= sum(part.main_bytes for part in exact.parts) / 15
    assert sum(part.scale_bytes for part in sylvie.parts) == 4 * 8 * sends
    assert {part.kind for part in sylvie.parts} >= {"quantise", "dequantise"}
    assert late.total_ns("communicate") == exact.total_ns("communicate")
    assert late.epoch_ns < exact.epoch_ns
    both = estimator.in_network("both", base=2)
    plain = estimator.in_network("switchgnn")
    assert sum(part.main_bytes for part in both.parts) < sum(part.main_bytes for part in plain.parts) / 15
    faster = replace(scenario(), cluster=replace(scenario().cluster, host_link_bps=100_000_000_000))
    assert Estimator(faster, graph, lambda text: None).host_based("dgl").epoch_ns < exact.epoch_ns


def test_the_command_from_trace_and_simulation_with_provenance_everywhere(tmp_path, capsys):
    trace, results, place = (str(tmp_path / name) for name in ("t.parquet", "run", "epoch"))
    shape = ["--layers", "3", "--hidden", "32", "--graph", "rmat:9:8", "--workers", "8", "--repeats", "2"]
    assert netfold.main(["trace", *shape, "-o", trace]) == 0
    run = ["run", *SMALL, *SHAPE, "--compute", trace, "--system", "host,switchgnn", "--recirculation", "free"]
    assert netfold.main([*run, "--no-plots", "--json", "-o", results]) == 0
    capsys.readouterr()
    assert netfold.main(["epoch-time", "--results", results, "-o", place, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "compute measured on" in answer["about"]
    systems = {one["system"]: one for one in answer["systems"]}
    assert {"dgl", "sylvie, sync", "sylvie, async", "switchgnn", "switchgnn+sylvie, async", "host"} <= set(
        systems
    )
    for one in systems.values():
        for part in one["layers"]:
            assert set(part["provenance"].split(" + ")) <= {MEASURED, MODELLED, SIMULATED, COUNTED}
    # What the simulation sent is what was counted, and it cannot be faster than the busiest link.
    counted, timed = (
        [p for p in systems[name]["layers"] if p["kind"] == "communicate"] for name in ("dgl", "host")
    )
    assert sum(p["main_bytes"] for p in timed) == sum(p["main_bytes"] for p in counted)
    [simulated] = [one for one in simulated_estimates(tmp_path / "run")[1] if one.system == "host"]
    summary = json.loads((tmp_path / "run" / "host" / "summary.json").read_text())
    assert simulated.epoch_ns == summary["epoch_time_ns"]
    quantised = [p for p in systems["sylvie, sync"]["layers"] if p["kind"] == "quantise"]
    assert len(quantised) == 4 and all(p["provenance"] == MEASURED and p["ns"] > 0 for p in quantised)
    for name in ("epoch-time.png", "epoch-time.svg"):
        assert (tmp_path / "epoch" / "figures" / name).stat().st_size > 1000
    published = answer["published"]
    [sylvie] = [
        row for row in published if row["setting"].startswith("sage, ogbn") and row["system"] == "sylvie"
    ]
    assert sylvie["published_epoch_s"] == 0.23 and sylvie["published_speedup"] == pytest.approx(
        4.30, abs=0.01
    )
    assert netfold.main(["epoch-time", "--results", results, "-o", place]) == 0
    shown = capsys.readouterr().out
    assert "m measured, r modelled" in shown and "switchgnn+sylvie, async" in shown and "in no paper" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--share", "0"], "share: 0.0 given"),
        (["--results", "/nonexistent"], "nonexistent"),
        (["--compute", "nothing.parquet"], "shipped traces: debian-gcn-128-cpu"),
        (["--compute", "debian-gcn-128-cpu"], "measured on graph debian-bookworm"),
    ],
)
def test_bad_input_is_one_line(arguments, told, tmp_path, capsys):
    options = [] if "--results" in arguments else SMALL
    assert netfold.main(["epoch-time", *options, *arguments, "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("netfold: error: ") and told in error
    assert not (tmp_path / "out").exists()


def test_another_partition_than_the_traces_is_refused(tmp_path, capsys):
    trace = str(tmp_path / "t.parquet")
    shape = ["--layers", "3", "--hidden", "32", "--graph", "rmat:9:8", "--workers", "4", "--repeats", "2"]
    assert netfold.main(["trace", *shape, "-o", trace]) == 0
    assert netfold.main(["run", *SMALL, *SHAPE, "--compute", trace, "-o", str(tmp_path / "run")]) == 2
    assert "measured on other partitions (4 workers) than this run's (8 workers" in capsys.readouterr().err


def test_the_shipped_trace_is_of_the_default_scenario():
    from workloads.compute_table import load_compute_table, measured_phases, table_path
    from workloads.traces.record import check_trace, trace_facts

    facts = trace_facts(table_path("debian-gcn-128-cpu"))
    default = Scenario()
    graph = load_graph(default.graph.source)
    partition = partition_graph(graph, default.cluster.workers)
    check_trace(facts, graph, partition)
    assert {"python", "torch", "numpy", "netfold"} <= set(facts["versions"])
    plan = make_plan(graph, partition, width=256, memory_bytes=default.switch.memory_bytes)
    assert facts["plan_digests"] == {"256": plan.digest}
    assert (facts["layers"], facts["hidden"], facts["use_pp"]) == (
        default.model.layers,
        default.model.hidden,
        default.model.use_pp,
    )
    table = load_compute_table("debian-gcn-128-cpu")
    assert set(table["worker"]) == set(range(128))
    phases = Estimator(replace(default), graph, lambda text: None).phases("host")
    assert len(measured_phases(table, phases, "host")) == len(phases)
    assert {"quantise", "dequantise"} <= set(pd.unique(table["phase"]))
