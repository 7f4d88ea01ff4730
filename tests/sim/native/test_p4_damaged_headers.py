"""A P4 switch that writes nonsense into frames' headers: hosts take nothing from what cannot be, and the run
ends. Under sanitizers, too (test_cluster_sanitized.py)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from p4.programs import SWITCHGNN
from sim.scenario import RunSection, SwitchSection
from workloads.errors import InputError

P4 = SwitchSection(model="p4")

# Of one packet in sixteen: one field, at random, or its length.
DAMAGE = """
    bit<4> luck;
    random(luck, 0, 15);
    if (luck == 0) {
        bit<4> which;
        bit<32> value;
        random(which, 0, 9);
        random(value, 0, 0xffffffff);
        if (value[31:31] == 1) { value = value & 0xf; }
        if (which == 0) { AGG.type = (packet_type_t)(value[7:0] & 15); }
        else if (which == 1) { AGG.vertex = value; }
        else if (which == 2) { AGG.chunk = value[15:0]; }
        else if (which == 3) { AGG.count = value; }
        else if (which == 4) { AGG.job = value[7:0]; }
        else if (which == 5) { AGG.block = AGG.block + value[15:0]; }
        else if (which == 6) { AGG.round = value[15:0]; }
        else if (which == 7) { hdr.ipv4.dst = hdr.ipv4.dst ^ (value & 7); }
        else if (which == 8) { hdr.udp.src = hdr.udp.src ^ value[15:0]; }
        else { truncate(value & 255); }
    }
"""

FORWARDER = """
#include <core.p4>
#include <v1model.p4>
#include "WIRE"
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; aggregation_t agg; }
struct metadata_t { }
parser Parse(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.ethernet); p.extract(hdr.ipv4); p.extract(hdr.udp); p.extract(hdr.agg); transition accept; }
}
control Check(inout headers_t hdr, inout metadata_t m) { apply { } }
control In(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port, bit<48> mac) { s.egress_spec = port; }
    table ipv4_lpm { key = { hdr.ipv4.dst: lpm; } actions = { forward; drop; } default_action = drop(); }
    apply { ipv4_lpm.apply(); if (s.egress_spec != 511) { DAMAGE } }
}
control Out(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sum(inout headers_t hdr, inout metadata_t m) { apply { } }
control Deparse(packet_out p, in headers_t hdr) {
    apply { p.emit(hdr.ethernet); p.emit(hdr.ipv4); p.emit(hdr.udp); p.emit(hdr.agg); }
}
V1Switch(Parse(), Check(), In(), Out(), Sum(), Deparse()) main;
"""  # noqa: E501


def test_host_based(experiment, tmp_path: Path) -> None:
    program = tmp_path / "damaging.p4"
    text = FORWARDER.replace("DAMAGE", DAMAGE.replace("AGG", "hdr.agg"))
    program.write_text(text.replace("WIRE", str(SWITCHGNN.parent / "include" / "wire.p4")))
    unreadable = 0
    for seed in range(4):
        for width in (8, 64, 900):
            case = experiment("karate", topology="star", workers=4, width=width, phases=3, seed=seed)
            run = case.run("host", switch=replace(P4, program=str(program)), run=RunSection(seed=seed))
            unreadable += run.summary["p4_unreadable"]
    assert unreadable > 0


@pytest.mark.slow  # compiles another switchgnn.p4
@pytest.mark.parametrize("topology", ["star", "leaf-spine:2x2"])
def test_in_network(experiment, tmp_path: Path, topology: str) -> None:
    """A sum may be lost for good where a switch was told nonsense, and then the run says who is stuck."""
    shutil.copytree(SWITCHGNN.parent / "include", tmp_path / "include")
    text = SWITCHGNN.read_text()
    marked = "if (hdr.ipv4.isValid()) { ecn.apply(); }"
    assert text.count(marked) == 1
    damage = DAMAGE.replace("AGG", "hdr.agg")
    guarded = f"{marked}\nif (hdr.agg.isValid() && hdr.agg.type != packet_type_t.load) {{ {damage} }}"
    program = tmp_path / "damaging.p4"
    program.write_text(text.replace(marked, guarded))
    unreadable = 0
    for seed in range(4):
        case = experiment("karate", topology=topology, workers=4, width=900, phases=2, seed=seed)
        try:
            run = case.run("switchgnn-residual", switch=replace(P4, program=str(program)))
        except (InputError, RuntimeError) as error:
            assert "\n" not in str(error)
            continue
        unreadable += run.summary["p4_unreadable"]
    assert unreadable > 0
