"""Hosts, switches and the links between them, with names, port numbers and addresses.

    star             h0.. around s0; host i at port i
    leaf-spine:LxS   hosts around leaf0..; a leaf's ports: its hosts, then spines; port i of a spine: leaf i
    fat-tree:K       K pods of K/2 edge and K/2 agg switches, (K/2)^2 cores (Al-Fares et al., SIGCOMM 2008)
    links            what [[link]] lists
A host's address is 10.0.<its switch>.<its number there + 1>.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from sim.network.scenario import LinkEntry, NetworkScenario
from workloads.errors import InputError

MAX_PORTS = 511  # 0 to 510: v1model's bit<9> less the port that drops
MAX_SWITCHES = 4096
HOST_MAC, SWITCH_MAC = 0x020000000000, 0x020100000000  # locally administered, the number behind
_SHAPE = re.compile(r"(leaf-spine):([0-9]{1,4})[x×]([0-9]{1,4})|(fat-tree):([0-9]{1,3})")


@dataclass
class Link:
    """`a` and `b`: node numbers, hosts first. Ports are the program's, 0 at a host."""

    a: int
    b: int
    rate_bps: int
    delay_ns: int
    port_a: int = 0
    port_b: int = 0


@dataclass
class Topology:
    """Nodes are numbered hosts first, then switches."""

    hosts: list[str]
    switches: list[str]
    links: list[Link] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)  # of the hosts
    macs: list[int] = field(default_factory=list)

    def name(self, node: int) -> str:
        return self.hosts[node] if node < len(self.hosts) else self.switches[node - len(self.hosts)]

    def mac(self, node: int) -> int:
        return self.macs[node] if node < len(self.hosts) else SWITCH_MAC | (node - len(self.hosts) + 1)

    def ports(self, switch: int) -> dict[int, int]:
        """Port -> node at its other end, ascending."""
        node = len(self.hosts) + switch
        found = {x.port_a: x.b for x in self.links if x.a == node} | {
            x.port_b: x.a for x in self.links if x.b == node
        }
        return dict(sorted(found.items()))

    def find_hosts(self, where: str, patterns: tuple[str, ...]) -> list[int]:
        return _matching(where, "host", self.hosts, patterns)

    def find_switches(self, where: str, patterns: tuple[str, ...]) -> list[int]:
        return _matching(where, "switch", self.switches, patterns)

    def find_links(self, where: str, patterns: tuple[str, ...]) -> list[int]:
        names = [
            (f"{self.name(x.a)}-{self.name(x.b)}", f"{self.name(x.b)}-{self.name(x.a)}") for x in self.links
        ]
        found = []
        for pattern in patterns:
            some = [i for i, pair in enumerate(names) if any(fnmatchcase(name, pattern) for name in pair)]
            if not some:
                raise InputError(f"{where}: {pattern[:60]!a} matches no link; the first is {names[0][0]}")
            found += some
        return sorted(set(found))


def make_topology(scenario: NetworkScenario) -> Topology:
    """Raises InputError for a shape that does not exist, unknown names, a host without exactly one link."""
    shape = scenario.network.topology
    if shape == "links":
        made = _listed(scenario)
    else:
        made = _shaped(scenario, shape)
        _override(made, scenario)
    _number_ports(made)
    _give_addresses(made, scenario)
    return made


def _matching(where: str, kind: str, names: list[str], patterns: tuple[str, ...]) -> list[int]:
    found: list[int] = []
    for pattern in patterns:
        some = [i for i, name in enumerate(names) if fnmatchcase(name, pattern)]
        if not some:
            shown = f"{names[0]} to {names[-1]}" if len(names) > 1 else (names or ["none"])[0]
            raise InputError(f"{where}: {pattern[:60]!a} is no {kind}; there are {shown}")
        found += some
    return list(dict.fromkeys(found))


def _shaped(scenario: NetworkScenario, shape: str) -> Topology:
    hosts = scenario.network.hosts
    match = _SHAPE.fullmatch(shape)
    if shape == "star":
        count = hosts or 8
        made = Topology([f"h{i}" for i in range(count)], ["s0"])
        _join(made, scenario, [(f"h{i}", "s0") for i in range(count)])
    elif match and match[1]:
        made = _leaf_spine(scenario, int(match[2]), int(match[3]))
    elif match:
        made = _fat_tree(scenario, int(match[5]))
    else:
        raise InputError(
            f"network.topology: {shape[:40]!r} given; "
            'allowed: "star", "leaf-spine:LEAVESxSPINES", "fat-tree:K", "links"'
        )
    return made


def _leaf_spine(scenario: NetworkScenario, leaves: int, spines: int) -> Topology:
    if leaves < 1 or spines < 1 or leaves + spines > MAX_SWITCHES:
        raise InputError(
            f"network.topology: {leaves} leaves and {spines} spines given; "
            f"at least one of each, {MAX_SWITCHES} in all"
        )
    count = scenario.network.hosts or 2 * leaves
    if count % leaves:
        raise InputError(f"network.hosts: {count} given; a multiple of the {leaves} leaves is needed")
    made = Topology(
        [f"h{i}" for i in range(count)],
        [*(f"leaf{i}" for i in range(leaves)), *(f"spine{i}" for i in range(spines))],
    )
    _join(made, scenario, [(f"h{i}", f"leaf{i // (count // leaves)}") for i in range(count)])
    _join(made, scenario, [(f"leaf{i}", f"spine{j}") for i in range(leaves) for j in range(spines)])
    return made


def _fat_tree(scenario: NetworkScenario, k: int) -> Topology:
    if k < 2 or k % 2 or k > 32:
        raise InputError(f"network.topology: fat-tree:{k} given; K is an even number from 2 to 32")
    half = k // 2
    count = k * half * half
    if scenario.network.hosts not in (0, count):
        raise InputError(f"network.hosts: {scenario.network.hosts} given; fat-tree:{k} has {count}")
    made = Topology(
        [f"h{i}" for i in range(count)],
        [
            f"{tier}{i}"
            for tier, n in (("edge", k * half), ("agg", k * half), ("core", half * half))
            for i in range(n)
        ],
    )
    _join(made, scenario, [(f"h{i}", f"edge{i // half}") for i in range(count)])
    pods = [(pod, i, j) for pod in range(k) for i in range(half) for j in range(half)]
    _join(made, scenario, [(f"edge{pod * half + i}", f"agg{pod * half + j}") for pod, i, j in pods])
    _join(made, scenario, [(f"agg{pod * half + i}", f"core{i * half + j}") for pod, i, j in pods])
    return made


def _join(made: Topology, scenario: NetworkScenario, pairs: list[tuple[str, str]]) -> None:
    number = {name: i for i, name in enumerate([*made.hosts, *made.switches])}
    for a, b in pairs:
        made.links.append(_link(made, scenario, number[a], number[b], LinkEntry()))


def _link(made: Topology, scenario: NetworkScenario, a: int, b: int, given: LinkEntry) -> Link:
    links = scenario.links
    inside = a >= len(made.hosts) and b >= len(made.hosts)
    usual = (links.fabric_rate_bps or links.rate_bps) if inside else links.rate_bps
    delay = links.delay_ns if given.delay_ns < 0 else given.delay_ns
    return Link(a, b, given.rate_bps or usual, delay, given.port_a, given.port_b)


def _listed(scenario: NetworkScenario) -> Topology:
    switches = list(scenario.network.switches)
    if not scenario.link or not switches:
        raise InputError(
            'network.topology: "links" needs network.switches = ["s0", ...] '
            "and a [[link]] with a and b for each link"
        )
    names = [name for entry in scenario.link for name in (entry.a, entry.b)]
    if "" in names:
        raise InputError(f"link {names.index('') // 2 + 1}: both ends, a and b, are needed")
    for name in switches:
        if name not in names:
            raise InputError(f"network.switches: {name[:60]!a} has no [[link]]")
    made = Topology([name for name in dict.fromkeys(names) if name not in switches], switches)
    number = {name: i for i, name in enumerate([*made.hosts, *made.switches])}
    for at, entry in enumerate(scenario.link, 1):
        a, b = number[entry.a], number[entry.b]
        if a == b or (a < len(made.hosts) and b < len(made.hosts)):
            raise InputError(
                f"link {at}: {entry.a} to {entry.b} given; one end at least is a switch, and another node"
            )
        made.links.append(_link(made, scenario, a, b, entry))
    return made


def _override(made: Topology, scenario: NetworkScenario) -> None:
    for at, entry in enumerate(scenario.link, 1):
        if entry.port_a >= 0 or entry.port_b >= 0:
            raise InputError(f'link {at}: port numbers are given with network.topology = "links" only')
        for i in made.find_links(f"link {at}", (f"{entry.a}-{entry.b}",)):
            old = made.links[i]
            made.links[i] = _link(made, scenario, old.a, old.b, entry)


def _number_ports(made: Topology) -> None:
    """Ports that were not given: the next free number of their node, in the order of the links."""
    for node in range(len(made.hosts), len(made.hosts) + len(made.switches)):
        ends = [(x, side) for x in made.links for side in ("a", "b") if getattr(x, side) == node]
        taken = [getattr(x, f"port_{side}") for x, side in ends if getattr(x, f"port_{side}") >= 0]
        twice = [p for p in taken if taken.count(p) > 1]
        if twice or len(ends) > MAX_PORTS:
            what = (
                f"port {twice[0]} is given to two links"
                if twice
                else f"{len(ends)} links; at most {MAX_PORTS}"
            )
            raise InputError(f"switch {made.name(node)}: {what}")
        free = (p for p in range(MAX_PORTS) if p not in taken)
        for link, side in ends:
            if getattr(link, f"port_{side}") < 0:
                setattr(link, f"port_{side}", next(free))
    for link in made.links:
        link.port_a, link.port_b = max(link.port_a, 0), max(link.port_b, 0)


def _give_addresses(made: Topology, scenario: NetworkScenario) -> None:
    at = [[x for x in made.links if host in (x.a, x.b)] for host in range(len(made.hosts))]
    for host, links in enumerate(at):
        if len(links) != 1:
            raise InputError(f"host {made.hosts[host]}: {len(links)} links given; a host has one")
    home = [links[0].b if links[0].a == host else links[0].a for host, links in enumerate(at)]
    most = max((home.count(node) for node in set(home)), default=1)
    bits = max(8, (most + 1).bit_length())
    seen: dict[int, int] = {}
    for node in home:
        seen[node] = seen.get(node, 0) + 1
        made.addresses.append(0x0A000000 + ((node - len(made.hosts)) << bits) + seen[node])
        made.macs.append(HOST_MAC | len(made.macs) + 1)
    for number, entry in enumerate(scenario.address, 1):
        where = f"address {number}"
        for host in made.find_hosts(where, (entry.host,)):
            if entry.ip:
                made.addresses[host] = parse_address(where, entry.ip)
            if entry.mac:
                made.macs[host] = _mac(where, entry.mac)
    for what, values in (("address", made.addresses), ("MAC address", made.macs)):
        if len(set(values)) < len(values):
            raise InputError(f"[[address]]: two hosts have the same {what}")


def parse_address(where: str, text: str) -> int:
    """A unicast IPv4 address as a number."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        raise InputError(f"{where}: {text[:60]!a} is no IPv4 address") from None
    if address.is_multicast or address.is_loopback or int(address) in (0, 0xFFFFFFFF):
        raise InputError(f"{where}: {text} given; a host's address is a unicast one")
    return int(address)


def _mac(where: str, text: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", text) or int(text[:2], 16) & 1:
        raise InputError(f'{where}: {text[:60]!a} given; expected a unicast MAC address, "02:00:00:00:00:07"')
    return int(text.replace(":", ""), 16)
