"""Runs as a whole: determinism, conservation of packets, odd shapes, refusals, interruption."""

from __future__ import annotations

import numpy as np
import pytest

from sim.engine import simulate, switch_names
from sim.scenario import BackgroundSection, LossSection, RunSection
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.systems import STATIC_SYSTEMS as SYSTEMS


def tables_equal(one, other) -> bool:
    return all(
        np.array_equal(column, other.tables[table][name])
        for table, columns in one.tables.items()
        for name, column in columns.items()
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_same_seed_same_run_other_seed_other_run(experiment, system):
    case = experiment(topology="leaf-spine:2x2", aggregators=60)
    sections = {"loss": LossSection(rate=0.05), "background": BackgroundSection(load=0.3)}
    first, second = (case.run(system, **sections) for _ in range(2))
    assert first.summary == second.summary
    assert tables_equal(first, second)
    other = case.run(system, **sections, run=RunSection(seed=99))
    assert other.summary != first.summary


def test_every_packet_that_goes_up_is_accounted_for(experiment):
    case = experiment("les-miserables", topology="leaf-spine:2x2", width=256)
    host = case.run("host", values=False).summary
    assert host["up_raw_frames"] == host["down_raw_frames"]
    plan = case.plan(SYSTEMS["switchgnn"])
    ina = case.run("switchgnn", values=False).summary
    assert ina["up_upload_frames"] == ina["down_result_frames"] == 2 * plan.num_uploads * plan.chunks
    assert ina["contributions"] == 2 * len(plan.adj) * plan.chunks
    assert ina["passes"] == ina["contributions"] + ina["fabric_partial_frames"] // 2
    presum = case.run("presum", values=False).summary
    assert presum["down_result_frames"] == ina["down_result_frames"]
    assert presum["up_presum_frames"] > ina["up_upload_frames"]


def test_multicast_crosses_each_uplink_once(experiment):
    case = experiment("les-miserables", topology="leaf-spine:4x2", width=30, phases=1)
    run = case.run("strawman-ul", values=False, system={"hierarchy": "multicast"}).summary
    plan = case.plan(SYSTEMS["strawman-ul"])
    rack = plan.owner // 2
    remote = [
        set(rack[plan.block_vertices[plan.adj[plan.adj_ptr[t] : plan.adj_ptr[t + 1]]]])
        - {rack[plan.block_vertices[t]]}
        for t in range(plan.num_uploads)
    ]
    up = sum(1 for racks in remote if racks)
    down = sum(len(racks) for racks in remote)
    assert run["fabric_upload_frames"] == up + down


def test_a_worker_without_cross_edges_takes_part(experiment_on):
    from workloads.graphs.csr import build_csr
    from workloads.graphs.graph import Provenance, make_graph

    # two components; METIS puts each on a worker of its own, the third worker shares an edge with nobody
    source, target = np.array([0, 1, 2, 3, 5, 6]), np.array([1, 2, 3, 0, 6, 7])
    graph = make_graph("islands", build_csr(9, source, target), Provenance("generated", "test"))
    case = experiment_on(graph, workers=4)
    for system in SYSTEMS:
        run = case.run(system)
        for received in run.results:
            np.testing.assert_array_equal(received, case.expected())


def test_phases_without_propagation(experiment):
    case = experiment()
    compute = np.full(8, 1000)
    run = simulate(case.scenario(), SYSTEMS["switchgnn"], {}, [Phase(1, "forward", 0, compute, compute)])
    assert run.summary["epoch_time_ns"] == 2000
    assert run.summary["packet_hops"] == 0


def test_queue_rows_cover_every_port(experiment):
    case = experiment(topology="leaf-spine:2x3")
    run = case.run("switchgnn", values=False)
    queues = run.tables["queues"]
    scenario = case.scenario()
    assert (
        set(queues["switch"])
        == set(switch_names(scenario))
        == {"leaf0", "leaf1", "spine0", "spine1", "spine2"}
    )
    ports = {(s, p) for s, p in zip(queues["switch"], queues["port"], strict=True)}
    assert len(ports) == 2 * (4 + 3) + 3 * 2 + 5  # egress ports, and one recirculation queue (-1) a switch
    assert queues["backlog_bytes"][queues["port"] >= 0].max() == run.summary["backlog_max_bytes"]
    assert np.all(np.diff(np.unique(queues["time_ns"])) > 0)


LINK_CASES = {
    "plain": {},
    "loss": {"loss": LossSection(rate=0.05)},
    "loss and background": {"loss": LossSection(rate=0.05), "background": BackgroundSection(load=0.4)},
}


@pytest.mark.parametrize("sections", LINK_CASES.values(), ids=LINK_CASES)
@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x3"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_links_add_up_to_the_summary(experiment, system, topology, sections):
    case = experiment(topology=topology, aggregators=60)
    run = case.run(system, values=False, **sections)
    links, summary = run.tables["links"], run.summary
    for hop in ("up", "down", "fabric"):
        of = links["hop"] == hop
        assert links["bytes"][of].sum() == summary[f"{hop}_bytes"]
        own = sum(
            summary[f"{hop}_{kind}_frames"]
            for kind in ("upload", "presum", "partial", "result", "raw", "pull", "finish", "complete", "cnp")
        )
        assert links["packets"][of].sum() == own
        assert links["background_packets"][of].sum() == summary[f"{hop}_background_frames"]
    assert links["packets"].sum() + links["background_packets"].sum() == summary["packet_hops"]
    assert (links["background_bytes"].sum() > 0) == ("background" in sections)
    ends = list(zip(links["source"], links["target"], links["hop"], strict=True))
    if topology == "star":
        wires = [(f"worker{w}", "switch", "up") for w in range(8)]
        wires += [("switch", f"worker{w}", "down") for w in range(8)]
    else:
        wires = [(f"worker{w}", f"leaf{w // 4}", "up") for w in range(8)]
        for leaf in range(2):
            wires += [(f"leaf{leaf}", f"worker{w}", "down") for w in range(4 * leaf, 4 * leaf + 4)]
            wires += [(f"leaf{leaf}", f"spine{spine}", "fabric") for spine in range(3)]
        wires += [(f"spine{spine}", f"leaf{leaf}", "fabric") for spine in range(3) for leaf in range(2)]
    assert ends == wires


def test_links_by_hand(experiment):
    """Every sampled packet (all of them) that has one hop names the link it crossed."""
    case = experiment(topology="star", phases=1)
    run = case.run("host", values=False, run=RunSection(packet_sample=1))
    packets, links = run.tables["packets"], run.tables["links"]
    for source, target, hop, count, size in zip(
        *(links[name] for name in ("source", "target", "hop", "packets", "bytes")), strict=True
    ):
        end, worker = ("src", source) if hop == "up" else ("dst", target)
        crossed = (packets["hop"] == hop) & (packets[end] == worker)
        assert (count, size) == (crossed.sum(), packets["bytes"][crossed].sum())
        assert count > 0


def test_long_runs_keep_a_bounded_number_of_samples(experiment):
    case = experiment(compute_ns=30_000_000)
    times = np.unique(case.run("host", values=False).tables["queues"]["time_ns"])
    assert 1000 <= len(times) <= 2049


def test_sampled_packets_say_what_they_carry(experiment):
    case = experiment(topology="leaf-spine:2x2", phases=1)
    run = case.run("switchgnn", values=False, run=RunSection(packet_sample=1))
    packets = run.tables["packets"]
    assert len(packets["time_ns"]) == run.summary["packet_hops"]
    uploads = (packets["kind"] == "upload") & (packets["hop"] == "up")
    plan = case.plan(SYSTEMS["switchgnn"])
    assert sorted(packets["vertex"][uploads]) == sorted(
        np.repeat(plan.boundary[plan.block_vertices], plan.chunks)
    )
    owner = {int(v): f"worker{w}" for v, w in zip(plan.boundary, plan.owner, strict=True)}
    assert all(
        owner[v] == src for v, src in zip(packets["vertex"][uploads], packets["src"][uploads], strict=True)
    )
    assert np.all(np.diff(packets["time_ns"]) >= 0)


def test_refusals(experiment):
    case = experiment()
    plan = case.plan(SYSTEMS["switchgnn"])
    zero = np.zeros(8, dtype=np.int64)
    with pytest.raises(InputError, match="no plan for propagations of width 7"):
        simulate(case.scenario(), SYSTEMS["host"], {case.width: plan}, [Phase(1, "forward", 7, zero, zero)])
    with pytest.raises(InputError, match="host forwards only"):
        case.run("host", plan=plan)
    with pytest.raises(InputError, match="pipelined bins"):
        case.run("switchgnn", plan=plan, system={"pipeline_bins": 4})


def test_a_progress_callback_can_stop_the_run(experiment):
    case = experiment(compute_ns=1000)

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    zero = np.full(8, 10**10)
    with pytest.raises(Stop):
        simulate(case.scenario(), SYSTEMS["host"], {}, [Phase(1, "forward", 0, zero, zero)], progress=stop)
    assert case.run("host").summary["packet_hops"] > 0  # and the next run starts afresh
