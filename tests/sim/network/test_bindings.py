"""P4Switch in ns-3's own Python bindings: the docs' example with its pcap files, FlowMonitor, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet
from scapy.utils import rdpcap

from tests.sim.network.conftest import EXAMPLES

SCRIPT = EXAMPLES / "p4_in_ns3.py"
DATAGRAM = 1000 + 28 + 14 + 24  # on the wire


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pcap")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """The example has run, and what in_ns3.py saw after it."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("in_ns3.py")), str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def echoes(packets: list[Packet]) -> list[tuple[str, int]]:
    """(source address, bytes) of each datagram to or from the echo port, in order."""
    return [(p[IP].src, len(p[UDP].payload)) for p in packets if UDP in p]


def test_the_example_sends_echoes_over_two_switches_and_records_them(
    told: dict[str, Any], folder: Path
) -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 40
    files = {p.name: list(rdpcap(str(p))) for p in folder.glob("*.pcap")}
    # Node 4 is the first switch; its device 0 is on ns-3's CSMA, which the script does not record.
    assert sorted(files) == ["p4-4-1.pcap", "p4-5-0.pcap", "p4-5-1.pcap", "p4-5-2.pcap"]
    trunk, bystander, far = (files[f"p4-5-{i}.pcap"] for i in range(3))
    assert echoes(trunk) == echoes(far) == [("10.1.1.1", 100), ("10.1.1.4", 100)] * 5
    assert [bytes(p) for p in files["p4-4-1.pcap"]] == [bytes(p) for p in trunk]
    # The entry for h3 keeps requests off h2's cable; answers go to an address without an entry: flooded.
    assert echoes(bystander) == [("10.1.1.4", 100)] * 5
    assert {p[Ether].dst for p in trunk if UDP in p and p[IP].src == "10.1.1.1"} == {"02:00:00:00:00:03"}
    assert [p[ARP].op for p in trunk if ARP in p] == [1, 2, 1, 2]


def test_flow_monitor_follows_packets_through_the_switch(told: dict[str, Any]) -> None:
    sent, received, lost, delay_ns = told["monitor"]
    assert sent == received and sent > 200 and lost == 0
    assert delay_ns == pytest.approx(2 * DATAGRAM * 0.8 + 2 * 5000 + 400, rel=0.02)  # the first waits for ARP
    packets, drops, backlog = told["counters"]
    assert (packets, drops) == (sent + 1, 0)  # and the ARP request; its answer leaves by the other port
    assert backlog == DATAGRAM
    assert told["time"] == 40 * 10**9  # picoseconds


def test_what_cannot_be_a_port_is_refused(told: dict[str, Any]) -> None:
    assert "P4Switch: ns3::PointToPointNetDevice carries no Ethernet frames; use netfold::" in told["ppp"]
    assert told["ports"] == [2, True, False]
    assert told["taken"].endswith("P4Switch: port 1 is taken")
    assert told["big"].endswith("P4Switch: port 511 given; at most 510")
