"""P4 switches in the cluster: many, with programs of their own, refusals, traces replayed elsewhere."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from p4.programs import SWITCHGNN
from p4.targets import Engine
from p4.targets.engine import Batch
from sim import p4_model
from sim.engine import simulate
from sim.scenario import ClusterSection, SwitchSection
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems import SYSTEMS, System

P4 = SwitchSection(model="p4")

FORWARD = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<64> a; bit<64> b; bit<32> dst; }
header more_t { bit<512> x; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; more_t more; }
struct metadata_t { }
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); p.extract(h.ipv4); transition NEXT; }
    state round { transition select(h.ethernet.type) { 0: accept; default: round; } }
}
control Check(inout headers_t h, inout metadata_t m) { apply { } }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port, bit<48> mac) { s.egress_spec = port; }
    table ipv4_lpm { key = { h.ipv4.dst: lpm; } actions = { forward; drop; } default_action = drop(); }
    apply { ipv4_lpm.apply(); }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { EGRESS } }
control Sum(inout headers_t h, inout metadata_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) {
    apply { p.emit(h.ethernet); p.emit(h.ipv4); p.emit(h.more); }
}
V1Switch(Parse(), Check(), In(), Out(), Sum(), Deparse()) main;
"""

AGAIN = "recirculate_preserving_field_list(0);"


def write(folder: Path, name: str, *, parser: str = "accept", egress: str = "") -> Path:
    path = folder / name
    path.write_text(FORWARD.replace("NEXT", parser).replace("EGRESS", egress))
    return path


def test_sixty_four_switches_in_one_run(experiment):
    case = experiment("rmat:7", topology="leaf-spine:32x32", workers=32, width=30, phases=1)
    run = case.run("switchgnn", switch=P4)
    np.testing.assert_array_equal(run.results[0], case.expected())
    assert len(set(run.tables["queues"]["switch"])) == 64
    assert run.summary["fabric_partial_frames"] > 0


def test_leaf_and_spine_run_programs_of_their_own(experiment, tmp_path):
    """The spines of a host-based run on a plain forwarder, the leaves on switchgnn.p4."""
    case = experiment("karate", topology="leaf-spine:2x2")
    spine = write(tmp_path, "spine.p4")
    mixed = case.run("host", switch=replace(P4, spine_program=str(spine)))
    alone = case.run("host", switch=P4)
    for run in (mixed, alone):
        for received in run.results:
            np.testing.assert_array_equal(received, case.expected())
    assert mixed.summary["epoch_time_ns"] == alone.summary["epoch_time_ns"]
    with pytest.raises(InputError, match=r"switch.spine_program: .*spine.p4 cannot be set up"):
        case.run("switchgnn", switch=replace(P4, spine_program=str(spine)))


def test_a_program_of_the_users_own_serves_host_based_systems(experiment, tmp_path):
    case = experiment("karate", topology="star")
    run = case.run("host", switch=replace(P4, program=str(write(tmp_path, "mine.p4"))))
    for received in run.results:
        np.testing.assert_array_equal(received, case.expected())


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"parser": "round"}, r"mine.p4 has a parser that loops without end; port \d+, at \d+ ns"),
        pytest.param(
            {"egress": AGAIN},
            r"mine.p4 recirculates .* without end",
            marks=pytest.mark.slow,  # a million passes
        ),
        pytest.param(
            {"egress": "h.more.setValid(); " + AGAIN},
            r"mine.p4 makes a packet longer than 65536 bytes; port \d+, at \d+ ns",
            marks=pytest.mark.slow,
        ),
        (
            {"egress": "h.more.setValid(); if (s.packet_length < 3000) { " + AGAIN + " }"},
            r"mine.p4 sends a frame of 3\d\d\d bytes where cluster.mtu_bytes is 1500; port \d+, at \d+ ns",
        ),
    ],
)
def test_programs_without_an_end_stop_the_run(experiment, tmp_path, named, said):
    case = experiment("karate", topology="star")
    with pytest.raises(InputError, match=r"switch.program: switch: .*" + said):
        case.run("host", switch=replace(P4, program=str(write(tmp_path, "mine.p4", **named))))


def test_what_cannot_be_run_is_refused_in_one_line(experiment, tmp_path):
    case = experiment("karate", topology="star")

    def refused(system: str, **switch: str) -> str:
        with pytest.raises(InputError) as caught:
            case.run(system, switch=replace(P4, **switch))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "switch.program: 'none.p4': no such file" in refused("switchgnn", program="none.p4")
    broken = tmp_path / "broken.p4"
    broken.write_text(
        FORWARD.replace("NEXT", "accept").replace("EGRESS", "").replace("h.ipv4.dst: lpm", "h.ipv4.d: lpm")
    )
    said = refused("host", program=str(broken))
    assert f"switch.program: {broken}:17:30: header ipv4_t has no field" in said
    assert "no program for strawman; switchgnn.p4 serves switchgnn" in refused("strawman")
    assert "no program for presum" in refused("presum")
    plain = str(write(tmp_path, "plain.p4"))
    assert "cannot be set up as a program that aggregates" in refused("switchgnn", program=plain)


@pytest.mark.slow  # compiles a copy of switchgnn.p4
def test_a_graph_too_large_for_the_programs_memory(experiment, tmp_path):
    """A copy whose sizes are its own."""
    shutil.copytree(SWITCHGNN.parent / "include", tmp_path / "include")
    text = SWITCHGNN.read_text().replace(
        "#ifndef EDGES\n#define EDGES 4194304\n#endif", "#undef EDGES\n#define EDGES 8"
    )
    (tmp_path / "small.p4").write_text(text)
    case = experiment("karate", topology="star")
    with pytest.raises(InputError, match=r"register edge_slot has 8 elements, \d+ are needed"):
        case.run("switchgnn", switch=replace(P4, program=str(tmp_path / "small.p4")))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"switch": replace(P4, pfc=True)}, "switch.pfc"),
        ({"switch": replace(P4, aggregator_bytes=64)}, "switch.aggregator_bytes"),
        ({"switch": P4, "cluster": ClusterSection(ecmp="packet")}, "cluster.ecmp"),
        ({"switch": replace(P4, spine_program="ipv4.p4")}, "switch.spine_program: .* star has no spines"),
    ],
)
def test_scenarios_that_p4_switches_cannot_serve(experiment, settings, said):
    with pytest.raises(InputError, match=said):
        experiment("karate", topology="star").scenario(**settings)


# ---- the same packets through other switches


def traced(case, system: System, plan: Plan):
    """Every packet at every switch's ports, and the scenario it came from."""
    scenario = case.scenario(switch=P4)
    phases = [
        Phase(2 + i, "forward", case.width, *case.compute[2 * i : 2 * i + 2]) for i in range(case.phases)
    ]
    trace: list = []
    simulate(
        scenario,
        system,
        {case.width: plan},
        phases,
        features={case.width: case.x[plan.boundary]},
        trace=trace,
    )
    return scenario, trace


def by_port(packets):
    out: dict[int, list[bytes]] = {}
    for port, data in packets:
        out.setdefault(port, []).append(data)
    return out


@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2"])
def test_the_emulators_switch_answers_the_trace_with_the_same_packets(experiment, topology):
    """What came in at a simulated switch, into one as the emulator runs it: byte for byte, port by port."""
    case = experiment("karate", topology=topology, aggregators=60)
    system = SYSTEMS["switchgnn"]
    plan = case.plan(system)
    scenario, trace = traced(case, system, plan)
    fresh = p4_model.make_switches(scenario, system, {case.width: plan})
    try:
        for rows, engine in zip(trace, fresh.engines, strict=True):
            arrived = [(port, data) for _, port, out, data in rows if not out]
            sent = by_port((port, data) for _, port, out, data in rows if out)
            ends = np.cumsum([len(data) for _, data in arrived]).astype(np.uint64)
            ports = np.array([port for port, _ in arrived], np.uint32)
            data = np.frombuffer(b"".join(data for _, data in arrived), np.uint8)
            answered = by_port(unpacked(engine.run(Batch(data, ends, ports, np.zeros(0, np.uint32)))))
            assert answered == sent
    finally:
        fresh.close()


def unpacked(batch: Batch):
    start = 0
    for port, end in zip(batch.ports, batch.ends, strict=True):
        yield int(port), batch.data[start : int(end)].tobytes()
        start = int(end)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("p4c-bm2-ss") and shutil.which("simple_switch_grpc")), reason="no BMv2")
def test_bmv2_answers_the_trace_with_the_same_packets(experiment):
    from p4.control.fabric import Fabric
    from p4.control.switchgnn import SwitchJob, defines, install
    from p4.targets.bmv2 import Bmv2

    case = experiment("karate", topology="star", aggregators=60, workers=4, width=30, phases=1)
    system = SYSTEMS["switchgnn"]
    plan = case.plan(system)
    _, trace = traced(case, system, plan)
    fabric = Fabric(4)
    jobs = [SwitchJob(1, plan.chunks, p4_model.needs(plan))]
    with Bmv2(SWITCHGNN, defines=defines(fabric, jobs)) as switch:
        install(switch, fabric.switches[0], fabric, jobs)
        loads = p4_model.load_frames(p4_model.words(plan, None), 1, 0)
        for frame in loads:
            switch.send(0, frame.tobytes())
        assert len(switch.receive(len(loads))) == len(loads)
        sent = by_port((port, data) for _, port, out, data in trace[0] if out)
        for _, port, out, data in trace[0]:
            if not out:
                switch.send(port, data)
                switch.settle()
        expected = sum(len(packets) for packets in sent.values())
        assert by_port((p.port, p.data) for p in switch.receive(expected)) == sent


def test_the_programs_engine_needs_no_simulation(experiment):
    """What Python sees of a switch in a run is the very object: its tables and counters."""
    case = experiment("karate", topology="star")
    system = SYSTEMS["switchgnn"]
    switches = p4_model.make_switches(case.scenario(switch=P4), system, {case.width: case.plan(system)})
    [engine] = switches.engines
    assert isinstance(engine, Engine)
    assert switches.load_packets > 0
    assert engine.counter_read("events", 0)[0] == 0
    switches.close()
