"""switchgnn.p4 in the simulation against the native model: the same packets at the same nanosecond.

Both run the same plan with the same protocol. What differs, and why, has a test of its own at the end.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4.codegen import announce, compiled
from p4.programs import SWITCHGNN
from sim import p4_model
from sim.scenario import (
    BackgroundSection,
    ClusterSection,
    CongestionSection,
    LossSection,
    RunSection,
    SwitchSection,
)
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Provenance, make_graph

PACKET = ("time_ns", "kind", "vertex", "chunk", "block", "bytes", "hop")
# Counted where the models differ in what they count, not in what they send: see the tests at the end.
COUNTED_ALIKE = (
    *(
        "drops",
        "losses",
        "ecn_marks",
        "cnps",
        "timeouts",
        "pulls",
        "resends",
        "passes",
        "packet_hops",
    ),
    *("epoch_time_ns", "comm_time_ns", "up_bytes", "down_bytes", "fabric_bytes", "backlog_max_bytes"),
)


def recorded(case, model, system="switchgnn", *, values=True, switch=None, seed=1, **sections):
    """A run with every packet in its tables."""
    return case.run(
        system,
        values=values,
        switch=replace(switch or SwitchSection(), protocol="wire", model=model),
        cluster=ClusterSection(ecmp="destination"),
        run=RunSection(packet_sample=1, seed=seed),
        **sections,
    )


def both(case, system="switchgnn", **how):
    """The native model's run and the program's."""
    return [recorded(case, model, system, **how) for model in ("native", "p4")]


def packets(run):
    table = run.tables["packets"]
    return list(zip(*(table[column].tolist() for column in PACKET), strict=True))


def assert_same_packets(native, p4):
    ours, theirs = packets(native), packets(p4)
    first = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
    assert first is None, f"first packet that differs: native {first[0]}, p4 {first[1]}"
    assert len(ours) == len(theirs)
    assert {k: native.summary[k] for k in COUNTED_ALIKE} == {k: p4.summary[k] for k in COUNTED_ALIKE}
    for one, other in zip(native.results, p4.results, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same(case, native, p4):
    assert_same_packets(native, p4)
    # a result that a full buffer drops was one to the native model; of the program's those that leave count
    assert 0 <= native.summary["results"] - p4.summary["results"] <= native.summary["drops"]
    expected = case.expected()
    for received in p4.results:
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("system", ["switchgnn", "switchgnn-no-gamr"])
@pytest.mark.parametrize("aggregators", [0, 60])
@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2", "leaf-spine:4x3"])
def test_memory_sizes_orders_and_topologies(experiment, topology, aggregators, system):
    case = experiment("rmat:7", topology=topology, aggregators=aggregators, width=40)
    native, p4 = both(case, system)
    assert_same(case, native, p4)
    assert p4.summary["p4_refused"] == 0


@pytest.mark.parametrize("loss", [LossSection(rate=0.02), LossSection(rate=0.1, mean_burst=3.0)])
@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2", "leaf-spine:4x3"])
def test_losses(experiment, topology, loss):
    case = experiment("karate", topology=topology, aggregators=60)
    native, p4 = both(case, loss=loss, seed=7)
    assert native.summary["losses"] > 0 and native.summary["pulls"] > 0
    assert_same(case, native, p4)


@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2"])
def test_full_buffers_drop_the_same_packets(experiment, topology):
    case = experiment("rmat:7", topology=topology, width=70)
    native, p4 = both(case, switch=SwitchSection(buffer_bytes=4000))
    assert native.summary["drops"] > 0
    assert_same(case, native, p4)


@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2"])
def test_congestion_marks_and_background_traffic(experiment, topology):
    case = experiment("rmat:7", topology=topology, width=70)
    congestion = CongestionSection(ecn_kmin_bytes=1500, ecn_kmax_bytes=8000)
    native, p4 = both(case, congestion=congestion, background=BackgroundSection(load=0.2))
    assert native.summary["ecn_marks"] > 0
    assert native.summary["cnps"] > 0
    assert native.summary["background_bytes"] > 0
    assert_same(case, native, p4)


def test_without_values_the_same_packets_carry_zeros(experiment):
    case = experiment("karate", topology="leaf-spine:2x2")
    valued, empty = both(case), both(case, values=False)
    assert packets(valued[1]) == packets(empty[0]) == packets(empty[1])
    assert empty[1].results == []


@pytest.mark.parametrize("system", ["host", "switchgnn-residual"])
def test_host_based_traffic_passes_a_p4_switch(experiment, system):
    case = experiment("karate", topology="leaf-spine:2x2", aggregators=60)
    native, p4 = both(case, system, loss=LossSection(rate=0.02))
    assert_same(case, native, p4)


@st.composite
def random_cases(draw):
    count = draw(st.integers(8, 40))
    near = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = [pair for pair in draw(st.lists(near, min_size=8, max_size=120)) if pair[0] != pair[1]]
    ring = [(i, (i + 1) % count) for i in range(count)]
    source, target = np.array([*pairs, *ring]).T
    graph = make_graph("drawn", build_csr(count, source, target), Provenance("generated", "hypothesis"))
    shapes = [("star", 4), ("star", 7), ("leaf-spine:2x2", 4), ("leaf-spine:3x2", 6)]
    topology, workers = draw(st.sampled_from(shapes))
    return graph, {
        "topology": topology,
        "workers": workers,
        "aggregators": draw(st.sampled_from([0, 20, 40])),
        "width": draw(st.sampled_from([1, 30, 31, 64])),
        "seed": draw(st.integers(0, 1000)),
        "loss": draw(st.sampled_from([0.0, 0.0, 0.03, 0.2])),
    }


def check_random_graphs(experiment_on, examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(random_cases())
    def check(drawn):
        check_drawn(experiment_on, drawn)

    check()


def test_random_graphs(experiment_on):
    check_random_graphs(experiment_on, 5)


@pytest.mark.slow
def test_many_random_graphs(experiment_on):
    check_random_graphs(experiment_on, 60)


def check_drawn(experiment_on, drawn):
    graph, named = drawn
    loss = LossSection(rate=named.pop("loss"))
    case = experiment_on(graph, **named)
    native, p4 = both(case, loss=loss, seed=named["seed"])
    assert_same(case, native, p4)


# ---- what differs, and why


HARD = {
    "loss": LossSection(rate=0.03),
    "congestion": CongestionSection(ecn_kmin_bytes=1500, ecn_kmax_bytes=8000),
    "background": BackgroundSection(load=0.2),
}


# Each of these compiles a switchgnn.p4 or two of its own.
TOPOLOGIES = [pytest.param("star", marks=pytest.mark.slow), "leaf-spine:2x2"]


@pytest.fixture
def rehearsed(monkeypatch):
    """From when it is called on, programs are rehearsed, as the default run's is: no other test's graph is
    large enough."""

    def begin():
        monkeypatch.setattr(p4_model, "_built", {})
        monkeypatch.setattr(announce, "LARGE_BYTES", 0)
        monkeypatch.setattr(compiled, "_front_end", lambda: "of these tests")

    return begin


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_programs_with_large_memory_are_rehearsed_and_send_the_same(experiment, rehearsed, topology):
    rehearsed()
    native, p4 = both(experiment("rmat:7", topology=topology, width=70, aggregators=300), **HARD)
    assert native.summary["losses"] > 0 and native.summary["ecn_marks"] > 0
    assert_same_packets(native, p4)


def test_rehearsals_between_packets_that_wait_for_their_rounds_change_nothing(experiment, rehearsed):
    case = experiment("rmat:7", topology="leaf-spine:2x2", width=70, aggregators=300)
    slow = SwitchSection(recirculation="tofino", pipelines=1, recirculation_bps=20_000_000_000)
    runs = [recorded(case, "p4", switch=slow, **HARD)]
    rehearsed()
    runs.append(recorded(case, "p4", switch=slow, **HARD))
    assert runs[0].summary["recirculated_passes"] > 0
    assert_same_packets(*runs)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    "look", ["hdr.agg.vertex[0:0] == 1", pytest.param("true", marks=pytest.mark.slow)]
)
def test_packets_that_wait_for_their_egress_leave_alike(experiment, tmp_path, topology, look):
    """switchgnn.p4's packets pass egress before they wait, as it cannot tell. Those that look at the queue
    pass it behind, and both kinds share the ports."""
    shutil.copytree(SWITCHGNN.parent / "include", tmp_path / "include")
    egress = "        if (standard.egress_port == RECIRCULATE_PORT) {"
    text = SWITCHGNN.read_text()
    assert egress in text
    looked = f"if ({look} && standard.deq_qdepth == 19w0x7ffff) {{ hdr.ipv4.ttl = 1; }}\n"
    program = tmp_path / "looks.p4"
    program.write_text(text.replace(egress, looked + egress))
    case = experiment("rmat:7", topology=topology, width=70, aggregators=300)
    plain = recorded(case, "p4", **HARD)
    waits = recorded(case, "p4", switch=SwitchSection(model="p4", program=str(program)), **HARD)
    assert plain.summary["ecn_marks"] > 0 and plain.summary["losses"] > 0
    assert_same_packets(plain, waits)
    assert plain.summary["p4_passes"] == waits.summary["p4_passes"]


def test_recirculation_within_limits_takes_the_same_packets_in_another_order(experiment):
    """The native model serves one upload after the other, to its last neighbour. In a P4 switch uploads share
    the recirculation port: each waits behind the others' rounds, so results leave in another order. What is
    sent, and what it sums to, is the same; and the same passes take about the same time in all."""
    case = experiment("rmat:7", topology="star", width=70)
    slow = SwitchSection(recirculation="tofino", pipelines=1, recirculation_bps=20_000_000_000)
    native, p4 = both(case, switch=slow)

    def sent(run):
        return Counter(row[1:4] for row in packets(run) if row[1] in ("upload", "result"))

    assert sent(native) == sent(p4)
    assert packets(native) != packets(p4)
    for one, other in zip(native.results, p4.results, strict=True):
        np.testing.assert_array_equal(one, other)
    ratio = p4.summary["comm_time_ns"] / native.summary["comm_time_ns"]
    assert 0.8 < ratio < 1.25
    free, _ = both(case)
    assert native.summary["comm_time_ns"] > 1.5 * free.summary["comm_time_ns"]


def test_the_lean_protocol_sends_the_same_values_with_smaller_reports(experiment):
    """By default the native model's workers report to the block's root themselves, in 64 bytes, as a switch
    that reads shorter headers could let them. switchgnn.p4's frames carry values, and its leaves count."""
    case = experiment("rmat:7", topology="leaf-spine:2x2", width=70)
    lean = case.run("switchgnn", run=RunSection(packet_sample=1))
    wire, _ = both(case)

    def values(run):
        return Counter(row[1:4] for row in packets(run) if row[1] in ("upload", "partial", "result"))

    assert values(lean) == values(wire)
    blocks, workers, leaves = 1, case.workers, 2
    reports = case.phases * blocks * 2
    assert lean.summary["up_finish_frames"] == wire.summary["up_finish_frames"] == reports * workers
    # on to the root: all workers' reports, or one for each leaf (the run ends before the last ones are there)
    assert wire.summary["fabric_finish_frames"] <= reports * leaves
    assert reports * leaves < lean.summary["fabric_finish_frames"] <= reports * workers
    sizes = [{row[5] for row in packets(run) if row[1] == "finish"} for run in (lean, wire)]
    assert sizes == [{64}, {186}]


def test_late_reports_are_counted_by_the_program_alone(experiment):
    """`duplicates` and `stale` are the program's own events: reports that came twice are among them."""
    case = experiment("karate", topology="star", aggregators=60)
    native, p4 = both(case, loss=LossSection(rate=0.1), seed=3)
    assert p4.summary["duplicates"] >= native.summary["duplicates"]
    assert packets(native) == packets(p4)
