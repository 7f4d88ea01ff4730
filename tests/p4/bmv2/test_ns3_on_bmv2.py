"""A P4 switch among ns-3's hosts sends the frames that BMv2 sends for the same arrivals, on every port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from p4.programs import IPV4
from p4.targets import Packet
from p4.targets.bmv2 import Bmv2
from p4.targets.both import first_difference
from p4.targets.pcap import read_pcap
from p4.targets.stf import run_stf_text
from sim.network.run import simulate_network
from sim.network.scenario_io import load_network

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HOSTS = 4
# Packets of one size at low rates: none overtakes another on its way, and arrival times tell their order.
FLOWS = """
[[flow]]
from = "h*"
to = "h*"
pattern = "all"
rate_bps = "10Mbps"
packet_bytes = 200
[[flow]]
kind = "echo"
from = "h0"
to = "h3"
packet_bytes = 200
interval_ns = "300us"
"""
PROGRAMS = {
    "router": (IPV4, ["add ipv4_lpm hdr.ipv4.dst:{address}/32 forward(port:{port}, mac:{mac})"], []),
    "balancer": (
        EXAMPLES / "load_balancer.p4",
        [
            "add destinations hdr.ipv4.dst:{address}/32 set_group(group:{n}, count:{paths})",
            "add next_hops meta.group:{n} meta.choice:{path} forward(port:{port}, mac:{mac})",
        ],
        [],
    ),
    "flooding": (
        EXAMPLES / "l2_switch.p4",
        [],
        ["mc_mgrp_create 1", "mc_node_create 0 0 1 2 3", "mc_node_associate 1 0",
         "add addresses hdr.ethernet.dst:0x020000000001 forward(port:0)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_frames_leave_every_port(bmv2: Callable[..., Bmv2], tmp_path: Path, name: str) -> None:
    program, routes, entries = PROGRAMS[name]
    text = f'[network]\nhosts = {HOSTS}\nduration_ns = "2ms"\n[[switch]]\nprogram = "{program}"\n'
    text += f"routes = {routes}\nentries = {entries}\n" + FLOWS
    (tmp_path / "network.toml").write_text(text.replace("'", '"'))
    scenario = load_network(tmp_path / "network.toml")
    out = simulate_network(scenario, pcap=("s0",), pcap_folder=tmp_path / "pcap")
    assert out.topology is not None
    assert all(flow["lost_packets"] == 0 for flow in out.summary["flows"])
    arrived: list[tuple[int, int, bytes]] = []
    left: list[Packet] = []
    for port in range(HOSTS):
        mac = out.topology.macs[port].to_bytes(6, "big")
        for record in read_pcap(tmp_path / "pcap" / f"s0-{port}.pcap"):
            # What is for the host, or from another one, leaves by its port; the rest comes from it.
            if record.data[:6] == mac or record.data[6:12] != mac:
                left.append(Packet(port, record.data))
            else:
                arrived.append((record.time_us, port, record.data))
    arrived.sort(key=lambda x: x[0])
    assert len(arrived) > 100 and len(left) >= len(arrived)
    switch = bmv2(program, ports=range(HOSTS), log_level="off")
    run_stf_text(switch, "\n".join(out.programs[0].lines))
    for _, port, data in arrived:
        switch.send(port, data)
        switch.settle()
    theirs = switch.receive(len(left))
    assert len(theirs) == len(left)
    assert first_difference(left, theirs, range(HOSTS)) is None
