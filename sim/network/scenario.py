"""A [network] scenario: hosts, links, P4 programs, traffic and faults as frozen dataclasses with limits.

One class for each table of the TOML file; attribute names are its keys (`from_` is "from"). Units
stand in the names, and texts such as "10Gbps" are taken. `sim/network/scenario_io.py` reads and writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sim.scenario import check_value, key
from workloads.errors import InputError

TCP_VARIANTS = ("cubic", "newreno", "dctcp", "bbr", "vegas", "westwood", "illinois")
FLOW_KINDS = ("udp", "echo", "tcp", "ping")
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=.*)?", re.ASCII)
SEQUENCE_BYTES = {"udp": 20, "echo": 12, "ping": 16, "tcp": 1}  # what ns-3's sources write into a payload


@dataclass(frozen=True)
class NetworkSection:
    """Shape and length of the run."""

    topology: str = "star"  # star, leaf-spine:LxS, fat-tree:K, or links: every [[link]] is listed
    hosts: int = key(0, low=1, high=4096, word="auto")  # auto: 8, or what a fat tree has
    switches: tuple[str, ...] = ()  # topology "links": which names are switches
    duration_ns: int = key(10_000_000, unit="ns", low=1, high=1e12)  # sources send until then
    drain_ns: int = key(2_000_000, unit="ns", low=0, high=1e12)  # time for what is under way
    sample_interval_ns: int = key(0, unit="ns", low=100, high=1e12, word="auto")  # auto: 200 in a run
    arp: str = key("static", choices=("static", "real"))  # static: hosts know whom they send to
    seed: int = key(1, low=1, high=2**31 - 1)


@dataclass(frozen=True)
class LinksSection:
    """What links are unless a [[link]] says otherwise."""

    rate_bps: int = key(10**10, unit="bps", low=10_000, high=1e13)
    fabric_rate_bps: int = key(
        0, unit="bps", low=10_000, high=1e13, word="auto"
    )  # between switches; auto: the same
    delay_ns: int = key(1000, unit="ns", low=0, high=1e10)
    mtu_bytes: int = key(1500, unit="bytes", low=100, high=9216)


@dataclass(frozen=True)
class HostsSection:
    """ns-3's hosts."""

    queue_bytes: int = key(1_000_000, unit="bytes", low=2000, high=1e10)  # of the network card, drop-tail
    tcp: str = key("cubic", choices=TCP_VARIANTS)
    tcp_ecn: bool = False
    # Linux has 200 ms; within a data centre a lower one is usual (Vasudevan et al., SIGCOMM 2009).
    tcp_min_rto_ns: int = key(5_000_000, unit="ns", low=1000, high=1e10)
    tcp_buffer_bytes: int = key(512 * 1024, unit="bytes", low=4096, high=1e9)  # for sending and for receiving


@dataclass(frozen=True)
class SwitchRule:
    """The program of switches. Rules for the same switch add up in order; one with a program starts anew."""

    nodes: tuple[str, ...] = ("*",)
    program: str = ""  # a path beside the scenario file, or one of netfold's own: "ipv4.p4"
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()  # NAME or NAME=VALUE
    entries: tuple[str, ...] = ()  # lines of STF, or files of them (*.stf)
    routes: tuple[str, ...] = ()  # lines of STF for every host, with placeholders (routes.py)
    ingress_latency_ns: int = key(200, unit="ns", low=0, high=1e9)
    egress_latency_ns: int = key(200, unit="ns", low=0, high=1e9)
    pass_rate_pps: int = key(0, unit="pps", low=1, high=1e12, word="unlimited")
    recirculation_bps: int = key(10**11, unit="bps", low=10_000, high=1e13, word="unlimited")
    queue_packets: int = key(1000, low=1, high=10**8, word="unlimited")  # each priority of a port
    buffer_bytes: int = key(0, unit="bytes", low=1, high=1e13, word="unlimited")
    ecn_kmin_bytes: int = key(0, unit="bytes", low=0, high=1e12)
    ecn_kmax_bytes: int = key(0, unit="bytes", low=1, high=1e12, word="off")
    ecn_pmax: float = key(0.1, low=0.0, high=1.0)
    max_rounds: int = key(10_000, low=1, high=2**31 - 1)  # of one packet; more have no end, and end the run


@dataclass(frozen=True)
class LinkEntry:
    """One link of topology "links", or other values for links of another topology."""

    a: str = ""
    b: str = ""
    rate_bps: int = key(0, unit="bps", low=10_000, high=1e13, word="auto")
    delay_ns: int = key(-1, unit="ns", low=-1, high=1e10)  # -1: as in [links]
    port_a: int = key(-1, low=-1, high=510)  # of the program; -1: the next free one
    port_b: int = key(-1, low=-1, high=510)


@dataclass(frozen=True)
class AddressEntry:
    """Another address for a host."""

    host: str = ""
    ip: str = ""
    mac: str = ""


@dataclass(frozen=True)
class FlowEntry:
    """Traffic from some hosts to others."""

    name: str = ""
    kind: str = key("udp", choices=FLOW_KINDS)
    from_: tuple[str, ...] = ()
    to: tuple[str, ...] = ()  # hosts, or one IPv4 address
    listen: tuple[str, ...] = ()  # who answers to an address that is no host's
    pattern: str = "pairs"  # pairs, all, shift:N, random (traffic.py)
    rate_bps: int = key(0, unit="bps", low=1, high=1e13, word="auto")  # udp: of payload; auto: 100 Mbit/s
    packet_bytes: int = key(
        0, unit="bytes", low=1, high=65_000, word="auto"
    )  # payload; auto: 1000, echo 100, ping 56
    bytes: int = key(0, unit="bytes", low=1, high=2**62, word="unlimited")
    interval_ns: int = key(100_000, unit="ns", low=1, high=1e12)  # echo and ping
    on_ns: int = key(100_000, unit="ns", low=1, high=1e12)  # udp: mean length of a burst ...
    off_ns: int = key(0, unit="ns", low=0, high=1e12)  # ... and of a pause; 0: a constant rate
    start_ns: int = key(0, unit="ns", low=0, high=1e12)
    stop_ns: int = key(0, unit="ns", low=1, high=1e12, word="auto")  # auto: the run's duration
    dscp: int = key(0, low=0, high=63)
    ecn: bool = False  # udp, echo, ping: packets say that they are ECN-capable


@dataclass(frozen=True)
class FaultEntry:
    """Frames that are lost on some links, either way."""

    links: tuple[str, ...] = ()  # "h0-leaf0", "leaf*-spine0", either end first
    loss: float = key(1.0, low=0.0, high=1.0)
    mean_burst: float = key(1.0, low=1.0, high=1e6)
    from_ns: int = key(0, unit="ns", low=0, high=1e12)
    until_ns: int = key(0, unit="ns", low=1, high=1e12, word="end")


SECTIONS: dict[str, Any] = {"network": NetworkSection, "links": LinksSection, "hosts": HostsSection}
LISTS: dict[str, Any] = {
    "switch": SwitchRule, "link": LinkEntry, "address": AddressEntry, "flow": FlowEntry, "fault": FaultEntry
}  # fmt: skip


@dataclass(frozen=True)
class NetworkScenario:
    """All of it. `given` has, for each switch rule, the keys that the file wrote: only those override."""

    network: NetworkSection = NetworkSection()
    links: LinksSection = LinksSection()
    hosts: HostsSection = HostsSection()
    switch: tuple[SwitchRule, ...] = ()
    link: tuple[LinkEntry, ...] = ()
    address: tuple[AddressEntry, ...] = ()
    flow: tuple[FlowEntry, ...] = ()
    fault: tuple[FaultEntry, ...] = ()
    given: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        for name in SECTIONS:
            values = getattr(self, name)
            for item in fields(values):
                check_value(f"{name}.{item.name}", getattr(values, item.name), item)
        for number, flow in enumerate(self.flow, 1):
            _check_flow(f"flow {flow.name or number}", flow, self)
        for number, rule in enumerate(self.switch, 1):
            _check_rule(f"switch {number}", rule)
        for number, fault in enumerate(self.fault, 1):
            if not fault.links:
                raise InputError(f'fault {number}: no links given; write links = "h0-leaf0", or a pattern')
            if fault.until_ns and fault.until_ns <= fault.from_ns:
                raise InputError(
                    f"fault {number}: until_ns = {fault.until_ns} given; after from_ns = {fault.from_ns}"
                )


def _check_rule(where: str, rule: SwitchRule) -> None:
    for define in rule.define:
        if not _DEFINE.fullmatch(define):
            raise InputError(f"{where}: define = {define[:60]!a} given; expected NAME or NAME=VALUE")
    for folder in rule.include:
        if not Path(folder).is_dir():
            raise InputError(f"{where}: include = {folder[:60]!a}: no such folder")


def check_marking(where: str, rule: SwitchRule) -> None:
    """The ECN keys of all rules for a switch together. Raises InputError."""
    if not rule.ecn_kmax_bytes and (rule.ecn_kmin_bytes or rule.ecn_pmax != SwitchRule.ecn_pmax):
        name = "ecn_kmin_bytes" if rule.ecn_kmin_bytes else "ecn_pmax"
        raise InputError(
            f"{where}: {name} = {getattr(rule, name)} given, but nothing is marked without ecn_kmax_bytes"
        )
    if rule.ecn_kmax_bytes and rule.ecn_kmin_bytes > rule.ecn_kmax_bytes:
        raise InputError(
            f"{where}: ecn_kmin_bytes = {rule.ecn_kmin_bytes} given; "
            f"at most ecn_kmax_bytes = {rule.ecn_kmax_bytes}"
        )


def _check_flow(where: str, flow: FlowEntry, scenario: NetworkScenario) -> None:
    for name, hosts in (("from", flow.from_), ("to", flow.to)):
        if not hosts:
            raise InputError(f'{where}: no "{name}" given; write {name} = "h0", a pattern ("h*") or a list')
    stop = flow.stop_ns or scenario.network.duration_ns
    if stop > scenario.network.duration_ns or flow.start_ns >= stop:
        raise InputError(
            f"{where}: from {flow.start_ns} to {stop} ns given; it must begin before it ends, "
            f"and end by network.duration_ns = {scenario.network.duration_ns}"
        )
    least = SEQUENCE_BYTES[flow.kind]
    # An IPv4 packet of UDP or ICMP. More would be cut into fragments, of which only the first has ports.
    most = scenario.links.mtu_bytes - 28
    if flow.packet_bytes and flow.kind != "tcp" and not least <= flow.packet_bytes <= most:
        raise InputError(
            f"{where}: packet_bytes = {flow.packet_bytes} given; {least} to {most} for {flow.kind} "
            f"and links.mtu_bytes = {scenario.links.mtu_bytes}"
        )
