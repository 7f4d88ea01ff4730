"""ECN and DCQCN: marks where queues are deep, cuts where marks are echoed, shorter queues for it."""

from __future__ import annotations

import pytest

from sim.scenario import BackgroundSection, CongestionSection

SHALLOW = {"ecn_kmin_bytes": 3_000, "ecn_kmax_bytes": 12_000}


@pytest.fixture
def incast(experiment):
    # a star graph: every leaf vertex's worker sends to the hub's worker in every propagation
    return experiment("rmat:9:8", workers=16, width=363, phases=3, compute_ns=0)


def test_marks_only_beyond_kmin(incast):
    deep = incast.run(
        "host", values=False, congestion=CongestionSection(ecn_kmin_bytes=2**39, ecn_kmax_bytes=2**40)
    )
    assert deep.summary["ecn_marks"] == deep.summary["cnps"] == 0
    shallow = incast.run("host", values=False, congestion=CongestionSection(**SHALLOW))
    assert shallow.summary["ecn_marks"] > 0
    assert 0 < shallow.summary["cnps"] <= shallow.summary["ecn_marks"]


@pytest.mark.parametrize("system", ["host", "switchgnn", "presum"])
def test_without_control_nothing_is_marked(incast, system):
    run = incast.run(system, values=False, congestion=CongestionSection(control="none"))
    assert run.summary["ecn_marks"] == run.summary["cnps"] == 0


def test_control_keeps_queues_shorter(incast):
    free = incast.run("host", values=False, congestion=CongestionSection(control="none")).summary
    controlled = incast.run("host", values=False, congestion=CongestionSection(**SHALLOW)).summary
    assert controlled["backlog_p99_bytes"] < free["backlog_p99_bytes"]
    assert controlled["epoch_time_ns"] >= free["epoch_time_ns"]


def test_a_cnp_interval_bounds_the_cnps(incast):
    often = incast.run(
        "host", values=False, congestion=CongestionSection(**SHALLOW, cnp_interval_ns=1_000)
    ).summary
    seldom = incast.run(
        "host", values=False, congestion=CongestionSection(**SHALLOW, cnp_interval_ns=50_000)
    ).summary
    pairs = 16 * 15
    assert seldom["cnps"] <= pairs * (seldom["epoch_time_ns"] / 50_000 + 1)
    assert often["cnps"] > seldom["cnps"]


def test_background_load_is_offered_as_asked(experiment):
    case = experiment("karate", workers=8, width=363, phases=1, compute_ns=0)
    case.compute[:] = 20_000_000  # 20 ms of quiet in which only the background sends
    run = case.run(
        "host",
        values=False,
        background=BackgroundSection(load=0.3),
        congestion=CongestionSection(control="none"),
    )
    seconds = run.summary["epoch_time_ns"] * 1e-9
    offered = run.summary["background_bytes"] * 8 / (8 * 100e9 * seconds)
    assert run.summary["background_flows"] > 50
    assert offered == pytest.approx(0.3, rel=0.35)  # a heavy-tailed sample of some hundred flows


def test_background_slows_a_propagation_down(incast):
    quiet = incast.run("host", values=False).summary
    busy = incast.run("host", values=False, background=BackgroundSection(load=0.8)).summary
    assert busy["epoch_time_ns"] > quiet["epoch_time_ns"]
    assert busy["up_bytes"] >= quiet["up_bytes"] * 0.99  # own traffic is counted apart from the background's
