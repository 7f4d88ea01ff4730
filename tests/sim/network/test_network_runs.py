"""Runs of small networks against figures that are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import rdpcap

from sim.network.run import NetworkOutcome
from tests.sim.network.conftest import EXAMPLES, ROUTER, flow
from workloads.errors import InputError

Simulate = Callable[..., NetworkOutcome]
WIRE = 14 + 28 + 24  # Ethernet, IPv4 and UDP headers, preamble, FCS and gap


def udp(**keys: object) -> str:
    given = {"from": '"h0"', "to": '"h1"', "rate_bps": '"1Gbps"', "packet_bytes": 1000} | keys
    return "\n[[flow]]\n" + "\n".join(f"{name} = {value}" for name, value in given.items())


def test_one_packet_takes_wires_cables_and_pipeline(simulate: Simulate) -> None:
    out = simulate(
        '[network]\ntopology = "star"\nhosts = 2\nduration_ns = "1ms"\n' + ROUTER + udp(bytes=1000)
    )
    row = flow(out)
    serialisation = (1000 + WIRE) * 8 / 10  # ns at 10 Gb/s
    assert row["latency_max_ns"] == pytest.approx(2 * serialisation + 2 * 1000 + 400)
    assert (row["sent_packets"], row["received_packets"], row["lost_packets"]) == (1, 1, 0)


def test_every_hop_of_a_leaf_spine_adds_its_own(simulate: Simulate) -> None:
    text = '[network]\ntopology = "leaf-spine:2x2"\nhosts = 4\nduration_ns = "1ms"\n'
    text += '[links]\nrate_bps = "10Gbps"\nfabric_rate_bps = "40Gbps"\ndelay_ns = "2us"\n'
    row = flow(simulate(text + ROUTER + udp(to='"h3"', bytes=5000)))
    bits = (1000 + WIRE) * 8
    assert row["latency_max_ns"] == pytest.approx(2 * bits / 10 + 2 * bits / 40 + 4 * 2000 + 3 * 400)
    assert row["received_packets"] == 5


def test_a_constant_rate_is_kept_and_ports_count_it(simulate: Simulate) -> None:
    out = simulate('[network]\nhosts = 2\nduration_ns = "10ms"\n' + ROUTER + udp(rate_bps='"800Mbps"'))
    row = flow(out)
    assert row["sent_packets"] == pytest.approx(1000, abs=2)
    assert row["lost_packets"] == 0
    assert row["throughput_bps"] == pytest.approx(800e6, rel=0.01)
    ports = out.tables["ports"]
    assert ports["packets"].tolist() == [0, row["received_packets"]]
    assert ports["bytes"][1] == row["received_packets"] * 1042
    assert out.summary["passes"] == 2 * row["received_packets"]


def test_a_full_queue_drops_what_the_link_cannot_carry(simulate: Simulate) -> None:
    """Two hosts at 8 Gb/s each into one 10 Gb/s link, with 20 packets of queue."""
    text = '[network]\nhosts = 3\nduration_ns = "2ms"\n' + ROUTER + "queue_packets = 20\n"
    text += udp(**{"from": '["h0", "h1"]', "to": '"h2"', "rate_bps": '"8Gbps"'})
    out = simulate(text)
    [group] = out.summary["flows"]
    through = 10e9 * 1000 / (1000 + WIRE)
    assert group["throughput_bps"] == pytest.approx(through, rel=0.02)
    assert group["lost_packets"] == out.summary["drops"] > 0
    assert out.summary["max_backlog_bytes"] == 21 * (1042 + 24)  # one on the wire
    assert out.tables["queues"]["backlog_bytes"].max() == out.summary["max_backlog_bytes"]
    assert set(out.tables["queues"]["switch"]) == {"s0"}


def test_ecn_marks_appear_between_the_thresholds_and_in_the_header(
    simulate: Simulate, tmp_path: Path
) -> None:
    text = '[network]\nhosts = 3\nduration_ns = "1ms"\n' + ROUTER
    text += 'queue_packets = 100\necn_kmin_bytes = "10kB"\necn_kmax_bytes = "20kB"\n'
    text += udp(**{"from": '["h0", "h1"]', "to": '"h2"', "rate_bps": '"8Gbps"', "ecn": "true"})
    out = simulate(text, pcap=("h2",))
    marked = [p for p in rdpcap(str(tmp_path / "pcap" / "h2.pcap")) if p[IP].tos & 3 == 3]
    assert len(marked) == out.summary["ecn_marks"] > 100
    again = IP(bytes(marked[0][IP]))
    del again.chksum
    assert IP(bytes(again)).chksum == marked[0][IP].chksum


def test_requests_pings_and_transfers_are_answered(simulate: Simulate) -> None:
    text = '[network]\nhosts = 3\nduration_ns = "4ms"\n' + ROUTER
    text += udp(kind='"echo"', packet_bytes=100, rate_bps='"auto"', interval_ns='"500us"')
    text += udp(kind='"ping"', packet_bytes=56, rate_bps='"auto"', interval_ns='"1ms"')
    text += udp(kind='"tcp"', packet_bytes='"auto"', rate_bps='"auto"', bytes='"1MB"', to='"h2"')
    out = simulate(text)
    echo, ping, tcp = (flow(out, i) for i in range(3))
    one_way = lambda size: 2 * (size + WIRE) * 0.8 + 2000 + 400  # noqa: E731
    assert (echo["sent_packets"], echo["received_packets"]) == (8, 8)
    assert echo["latency_p50_ns"] == pytest.approx(2 * one_way(100))
    assert (ping["sent_packets"], ping["lost_packets"]) == (4, 0)
    assert ping["latency_p50_ns"] == pytest.approx(2 * one_way(56), rel=0.01)
    assert tcp["received_bytes"] == 1_000_000
    assert 5e9 < tcp["throughput_bps"] < 10e9


def test_a_link_that_is_down_loses_what_crosses_it_meanwhile(simulate: Simulate) -> None:
    text = '[network]\nhosts = 2\nduration_ns = "10ms"\n' + ROUTER + udp(rate_bps='"80Mbps"')
    text += '\n[[fault]]\nlinks = "s0-h1"\nfrom_ns = "2ms"\nuntil_ns = "5ms"\n'
    out = simulate(text)
    row = flow(out)
    assert row["lost_packets"] == pytest.approx(30, abs=1)
    assert out.summary["lost_frames"] == row["lost_packets"]
    assert out.tables["links"]["lost_frames"].tolist() == [0, row["lost_packets"]]


@pytest.mark.parametrize("burst", [1, 4])
def test_losses_come_at_their_rate_and_in_bursts(simulate: Simulate, burst: int) -> None:
    text = '[network]\nhosts = 2\nduration_ns = "20ms"\n' + ROUTER + udp(packet_bytes=200)
    out = simulate(text + f'\n[[fault]]\nlinks = "h1-*"\nloss = 0.1\nmean_burst = {burst}\n')
    row = flow(out)
    assert row["sent_packets"] > 12_000
    assert row["lost_packets"] / row["sent_packets"] == pytest.approx(0.1, rel=0.15)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(simulate: Simulate) -> None:
    text = '[network]\nhosts = 4\nduration_ns = "2ms"\n' + ROUTER
    text += udp(**{"from": '"h*"', "to": '"h*"', "pattern": '"random"', "off_ns": '"50us"'})
    text += '\n[[fault]]\nlinks = "h1-*"\nloss = 0.05\n'
    first, again, other = simulate(text), simulate(text), simulate(text, network__seed=2)
    for name, table in first.tables.items():
        for key, column in table.items():
            assert np.array_equal(column, again.tables[name][key], equal_nan=column.dtype.kind == "f"), key
    assert first.tables["flows"]["sent_packets"].tolist() != other.tables["flows"]["sent_packets"].tolist()


def test_arp_crosses_a_program_that_floods(simulate: Simulate, tmp_path: Path) -> None:
    """Multicast, with real ARP; the program's egress drops the copy to where a packet came from."""
    text = '[network]\nhosts = 3\narp = "real"\nduration_ns = "2ms"\n'
    text += f'[[switch]]\nprogram = "{EXAMPLES / "l2_switch.p4"}"\n'
    text += 'entries = ["mc_mgrp_create 1", "mc_node_create 0 0 1 2", "mc_node_associate 1 0"]\n'
    out = simulate(text + udp(bytes=3000), pcap=("h*",))
    assert flow(out)["received_packets"] == 3
    seen = {i: rdpcap(str(tmp_path / "pcap" / f"h{i}.pcap")) for i in range(3)}
    assert [sum(ARP in p for p in seen[i]) for i in range(3)] == [2, 2, 2]  # request and answer, flooded
    assert [sum(UDP in p for p in seen[i]) for i in range(3)] == [3, 3, 3]
    assert all(p[Ether].src != p[Ether].dst for p in seen[2])


def test_the_load_balancer_spreads_flows_over_equal_paths_and_counts_them(simulate: Simulate) -> None:
    text = '[network]\ntopology = "leaf-spine:2x4"\nhosts = 8\nduration_ns = "1ms"\n'
    text += f"""[[switch]]
program = "{EXAMPLES / "load_balancer.p4"}"
routes = ["add destinations hdr.ipv4.dst:{{address}}/32 set_group(group:{{n}}, count:{{paths}})",
          "add next_hops meta.group:{{n}} meta.choice:{{path}} forward(port:{{port}}, mac:{{mac}})"]
"""
    text += udp(**{"from": '"h0"', "to": '"h4"', "rate_bps": '"100Mbps"'}) * 40
    out = simulate(text)
    [*_] = rows = out.summary["flows"]
    assert all(row["lost_packets"] == row["reordered"] == 0 for row in rows)
    ports = out.tables["ports"]
    used = ports["packets"][[i for i, p in enumerate(ports["peer"]) if p.startswith("spine")]][:4]
    assert (used > 0).all()
    assert used.sum() == sum(row["sent_packets"] for row in rows)
    counters = out.tables["counters"]
    leaf = [i for i, name in enumerate(counters["switch"]) if name == "leaf0"]
    chosen = [i for i in leaf if counters["entry"][i].startswith("meta.group:0x4 ")]
    assert sorted(counters["packets"][chosen].tolist()) == sorted(used.tolist())


def test_sixty_four_switches_run_side_by_side(simulate: Simulate) -> None:
    text = '[network]\ntopology = "leaf-spine:48x16"\nhosts = 96\nduration_ns = "500us"\n'
    text += ROUTER + udp(**{"from": '"h*"', "to": '"h*"', "pattern": '"shift:2"', "rate_bps": '"100Mbps"'})
    out = simulate(text)
    assert out.summary["switches"] == 64
    [group] = out.summary["flows"]
    assert group["flows"] == 96 and group["sent_packets"] > 400
    assert group["lost_packets"] == 0
    assert out.summary["passes"] == 3 * 2 * group["sent_packets"]


def test_a_fat_tree_reaches_everyone(simulate: Simulate) -> None:
    text = '[network]\ntopology = "fat-tree:4"\nduration_ns = "1ms"\n'
    text += ROUTER + udp(
        **{"from": '"h*"', "to": '"h*"', "pattern": '"all"', "rate_bps": '"50Mbps"', "bytes": 1000}
    )
    out = simulate(text)
    [group] = out.summary["flows"]
    assert (group["flows"], group["received_packets"]) == (16 * 15, 16 * 15)


def test_explicit_links_ports_and_addresses(simulate: Simulate, tmp_path: Path) -> None:
    text = """
[network]
topology = "links"
switches = ["west", "east"]
duration_ns = "1ms"
[[link]]
a = "alice"
b = "west"
port_b = 7
[[link]]
a = "west"
b = "east"
rate_bps = "1Gbps"
delay_ns = "10us"
[[link]]
a = "bob"
b = "east"
[[address]]
host = "bob"
ip = "192.0.2.1"
mac = "02:00:00:00:00:77"
"""
    text += ROUTER + udp(**{"from": '"alice"', "to": '"bob"', "bytes": 1000})
    out = simulate(text, pcap=("bob", "west"))
    bits = (1000 + WIRE) * 8
    assert flow(out)["latency_max_ns"] == pytest.approx(2 * bits / 10 + bits + 12_000 + 800)
    [packet] = rdpcap(str(tmp_path / "pcap" / "bob.pcap"))
    assert (packet[IP].dst, packet[Ether].dst, packet[IP].ttl) == ("192.0.2.1", "02:00:00:00:00:77", 62)
    assert sorted(p.name for p in (tmp_path / "pcap").iterdir()) == ["bob.pcap", "west-0.pcap", "west-7.pcap"]


def test_an_address_that_is_no_hosts_is_answered_by_those_who_listen(
    simulate: Simulate, tmp_path: Path
) -> None:
    """A rule that overrides one switch's entries adds to those of the rule before it."""
    text = '[network]\nhosts = 3\nduration_ns = "1ms"\n' + ROUTER
    entry = "add ipv4_lpm hdr.ipv4.dst:203.0.113.9/32 forward(port:2, mac:0x020000000003)"
    text += f'[[switch]]\nnodes = "s0"\nentries = "{entry}"\n'
    text += udp(to='"203.0.113.9"', listen='"h2"', bytes=2000)
    out = simulate(text, pcap=("h2",))
    # The program forwards it, but h2 is another address: a host takes only what is its own.
    assert flow(out)["received_packets"] == 0
    assert [p[IP].dst for p in rdpcap(str(tmp_path / "pcap" / "h2.pcap"))] == ["203.0.113.9"] * 2


ENDLESS = Path(__file__).with_name("endless.p4")
NEVER = {
    100: "has a parser that loops without end",
    200: "recirculates or resubmits a packet without end",
    300: "recirculates or resubmits a packet without end",
    400: "clones a packet without end",
}


def endless(payload_bytes: int) -> str:
    text = f'[network]\nhosts = 2\nduration_ns = "20ms"\n[[switch]]\nprogram = "{ENDLESS}"\n'
    return text + 'entries = "mirroring_add 1 1"\n' + udp(packet_bytes=payload_bytes, bytes=payload_bytes)


@pytest.mark.parametrize("payload_bytes", NEVER)
def test_a_program_that_never_ends_is_stopped_and_named(simulate: Simulate, payload_bytes: int) -> None:
    with pytest.raises(InputError, match=NEVER[payload_bytes]) as error:
        simulate(endless(payload_bytes))
    assert str(error.value).startswith("s0: endless.p4 ")
    assert "\n" not in str(error.value)


def test_a_run_after_a_stopped_one_is_not_disturbed(simulate: Simulate) -> None:
    before = simulate(endless(500))
    with pytest.raises(InputError):
        simulate(endless(100))
    after = simulate(endless(500))
    assert (
        after.tables["flows"]["latency_max_ns"].tolist() == before.tables["flows"]["latency_max_ns"].tolist()
    )
    assert after.summary["events"] == before.summary["events"]


def test_a_stopped_run_that_is_still_held_does_not_end_the_next_one(simulate: Simulate) -> None:
    good = '[network]\nhosts = 2\nduration_ns = "1ms"\n' + ROUTER + udp(bytes=3000)
    held: list[BaseException] = []
    try:
        simulate(endless(100))
    except InputError as error:
        held.append(error)  # its traceback holds the run
    assert flow(simulate(good))["received_packets"] == 3
    held.clear()
    assert flow(simulate(good))["received_packets"] == 3
