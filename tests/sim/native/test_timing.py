"""Times worked out by hand: serialisation, links, switch, queues, recirculation, compute and pipelining."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim import wire
from sim.engine import simulate
from sim.scenario import ClusterSection, CongestionSection, Scenario, SwitchSection
from workloads.compute import Phase
from workloads.graphs import load_graph
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Provenance, make_graph
from workloads.partition import Partition
from workloads.partition.partition import freeze_partition
from workloads.plan import Plan, make_plan
from workloads.systems import SYSTEMS

BYTE_NS = 0.08  # at 100 Gb/s
LINK_NS, SWITCH_NS = 1000, 400


def graph_of(n, edges):
    source, target = np.array(edges).T
    return make_graph("by hand", build_csr(n, source, target), Provenance("generated", "test"))


def on_workers(graph, parts, workers) -> Partition:
    return freeze_partition(
        graph, np.array(parts, dtype=np.int32), workers, method="given", balance="unit", seed=1
    )


def plan_for(name, graph, partition, width, memory_bytes=None) -> Plan:
    system = SYSTEMS[name]
    return make_plan(graph, partition, width=width, memory_bytes=memory_bytes, blocks=system.blocks,
                     order=system.order, residual="none", seed=1)  # fmt: skip


def run(name, plan, *, phases=None, topology="star", bins=1, **sections):
    workers = plan.num_workers
    zero = np.zeros(workers, dtype=np.int64)
    phases = phases or [Phase(1, "forward", plan.width, zero, zero)]
    scenario = Scenario(
        cluster=replace(sections.pop("cluster", ClusterSection()), workers=workers, topology=topology),
        congestion=sections.pop("congestion", CongestionSection(control="none")),
        **sections,
    )
    return simulate(scenario, replace(SYSTEMS[name], pipeline_bins=bins), {plan.width: plan}, phases)


def wire_ns(payload_values: int) -> float:
    return (wire.FRAME_OVERHEAD_BYTES + 4 * payload_values + wire.GAP_BYTES) * BYTE_NS


@pytest.mark.parametrize(("topology", "links", "switches"), [("star", 2, 1), ("leaf-spine:2x1", 4, 3)])
def test_one_packet_each_way_takes_links_switches_and_serialisation(topology, links, switches):
    graph = graph_of(2, [(0, 1)])
    plan = plan_for("host", graph, on_workers(graph, [0, 1], 2), 100)
    epoch = run("host", plan, topology=topology).summary["epoch_time_ns"]
    assert epoch == pytest.approx(links * (LINK_NS + wire_ns(100)) + switches * SWITCH_NS, abs=1)


def test_an_upload_comes_back_as_a_result_after_one_round_trip():
    graph = graph_of(2, [(0, 1)])
    plan = plan_for("switchgnn", graph, on_workers(graph, [0, 1], 2), 30)
    epoch = run("switchgnn", plan).summary["epoch_time_ns"]
    assert epoch == pytest.approx(2 * (LINK_NS + wire_ns(30)) + SWITCH_NS, abs=1)


def test_a_rack_sends_one_partial_sum():
    # vertices 1..4 in the other rack neighbour vertex 0: four uploads, one partial, one result
    graph = graph_of(5, [(0, i) for i in range(1, 5)])
    plan = plan_for("switchgnn", graph, on_workers(graph, [0, 4, 5, 6, 7], 8), 30)
    summary = run("switchgnn", plan, topology="leaf-spine:2x1").summary
    assert summary["up_upload_frames"] == 5
    assert summary["fabric_partial_frames"] == 2 * (
        1 + 4
    )  # up and down: one for vertex 0, one for each of 1..4
    assert summary["down_result_frames"] == 5
    assert summary["passes"] == 8 + 5  # an addition per directed edge, one per partial


def test_line_rate_back_to_back():
    # 50 vertices on each of two workers, matched one to one: 50 packets each way, then the last one's flight
    graph = graph_of(100, [(i, 50 + i) for i in range(50)])
    plan = plan_for("host", graph, on_workers(graph, [0] * 50 + [1] * 50, 2), 363)
    epoch = run("host", plan).summary["epoch_time_ns"]
    assert epoch == pytest.approx(50 * wire_ns(363) + wire_ns(363) + 2 * LINK_NS + SWITCH_NS, abs=2)


def test_incast_queues_and_backlog_is_exact():
    # workers 1..8 send 20 packets each to worker 0 at once: the queue grows by 7/8 of what arrives
    edges = [(worker, 8 + 1 + worker * 20 + i) for worker in range(8) for i in range(20)]
    graph = graph_of(8 + 1 + 160, edges)
    parts = [0] * 9 + [1 + worker for worker in range(8) for _ in range(20)]
    plan = plan_for("host", graph, on_workers(graph, parts, 9), 363)
    summary = run("host", plan).summary
    packet = wire.FRAME_OVERHEAD_BYTES + 4 * 363 + wire.GAP_BYTES
    assert summary["down_raw_frames"] == 160 + 8
    # the 160th packet arrives when 20 packet times have passed since the first one did, and 19 have been sent
    assert summary["backlog_max_bytes"] == pytest.approx((160 - 19) * packet, abs=packet)
    assert summary["epoch_time_ns"] == pytest.approx(161 * wire_ns(363) + 2 * LINK_NS + SWITCH_NS, abs=2)


def test_recirculation_serves_passes_at_the_ports_rate():
    # vertex 0 has 1000 neighbours, each on the other worker: 1000 passes for its upload, 999 recirculated
    n = 1001
    graph = graph_of(n, [(0, i) for i in range(1, n)])
    plan = plan_for("switchgnn", graph, on_workers(graph, [0] + [1] * 1000, 2), 30)
    free = run("switchgnn", plan).summary
    slow = run("switchgnn", plan, switch=SwitchSection(recirculation="tofino", pipelines=1)).summary
    assert free["passes"] == slow["passes"] == 2000
    assert free["recirculated_passes"] == slow["recirculated_passes"] == 999
    # Vertex 0's upload occupies the pipeline for 999 recirculations at 100 Gb/s. Meanwhile the other worker's
    # uploads arrive and wait; then each takes one pass of 1 ns, and the last of them completes vertex 0.
    there, back = LINK_NS + wire_ns(30) + SWITCH_NS, LINK_NS + wire_ns(30)
    assert slow["epoch_time_ns"] == pytest.approx(there + 999 * wire_ns(30) + 1000 + back, rel=0.005)
    assert slow["recirculation_backlog_max_bytes"] == pytest.approx(
        1000 * (wire.FRAME_OVERHEAD_BYTES + 120), rel=0.01
    )


def test_phases_add_compute_and_propagation():
    graph = graph_of(2, [(0, 1)])
    plan = plan_for("host", graph, on_workers(graph, [0, 1], 2), 100)
    flight = 2 * (LINK_NS + wire_ns(100)) + SWITCH_NS
    pre, post = np.array([5_000, 7_000]), np.array([3_000, 1_000])
    phases = [Phase(1, "forward", 100, pre, post), Phase(1, "backward", 0, pre, post)]
    result = run("host", plan, phases=phases)
    # worker 0's packet leaves at 5000, worker 1's at 7000; each computes once the other's has come
    forward, backward = result.tables["epochs"]["end_ns"].reshape(2, 2)
    assert forward == pytest.approx([7_000 + flight + 3_000, max(5_000 + flight, 7_000) + 1_000], abs=1)
    assert backward == pytest.approx(forward + pre + post, abs=1)
    assert result.summary["epoch_time_ns"] == pytest.approx(backward.max(), abs=1)
    assert result.summary["compute_time_ns"] == 16_000


def test_pipelined_bins_overlap_compute_with_communication():
    graph = graph_of(2000, [(i, 1000 + i) for i in range(1000)])
    plan = plan_for("host", graph, on_workers(graph, [0] * 1000 + [1] * 1000, 2), 363)
    compute = np.array([100_000, 100_000])
    zero = np.zeros(2, dtype=np.int64)
    phases = [Phase(1, "forward", 363, zero, compute), Phase(2, "forward", 363, zero, compute)]
    serial = run("host", plan, phases=phases).summary["epoch_time_ns"]
    pipelined = run("host", plan, phases=phases, bins=10).summary["epoch_time_ns"]
    sending = 1000 * wire_ns(363)
    assert serial == pytest.approx(2 * (sending + 100_000 + 2 * LINK_NS + SWITCH_NS + wire_ns(363)), rel=1e-3)
    # one bin of the first transfer, then sending and computing overlap; the longer of the two rules
    assert max(2 * sending, 200_000) < pipelined < 0.7 * serial


def test_gamr_finishes_a_star_in_n_slots_and_random_order_in_about_three_halves():
    n = 400
    graph = load_graph(f"star:{n}")
    parts = np.arange(n) % 2
    parts[0] = 0
    partition = on_workers(graph, parts, 2)
    times = {}
    for order in ("gamr", "random"):
        plan = make_plan(
            graph,
            partition,
            width=30,
            memory_bytes=None,
            blocks="single",
            order=order,
            residual="none",
            seed=3,
        )
        system = replace(SYSTEMS["switchgnn"], order=order)
        zero = np.zeros(2, dtype=np.int64)
        scenario = Scenario(
            cluster=ClusterSection(workers=2, topology="star"), congestion=CongestionSection(control="none")
        )
        result = simulate(scenario, system, {30: plan}, [Phase(1, "forward", 30, zero, zero)])
        times[order] = result.summary["epoch_time_ns"]
    assert times["gamr"] <= times["random"]
