"""Route lines: what a switch is told about every host, over shortest paths.

A line of STF with placeholders is repeated for every host that a switch can reach:

    add ipv4_lpm hdr.ipv4.dst:{address}/32 forward(port:{port}, mac:{mac})

    {host} {n}        the host's name and number
    {address}         its IPv4 address
    {port} {mac}      out of which port, and the MAC address of what is there: the host, or the next switch
    {path} {paths}    number of the path, and count of the equally short ones; a line with {path} is repeated
                      for each with its {port} and {mac}, a line without takes path n % paths
Lines that come out the same are entered once.
"""

from __future__ import annotations

import re
from collections import deque

from sim.network.topology import Topology
from workloads.errors import InputError

NAMES = ("host", "n", "address", "port", "mac", "path", "paths")
_PLACE = re.compile(r"\{([^{}]*)\}")


def next_hops(topology: Topology) -> list[list[list[int]]]:
    """[switch][destination switch] -> ports on shortest paths, ascending; none for itself."""
    first = len(topology.hosts)
    count = len(topology.switches)
    neighbours = [
        {port: node - first for port, node in topology.ports(s).items() if node >= first}
        for s in range(count)
    ]
    hops: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(count)]
    for destination in range(count):
        distance = {destination: 0}
        waiting = deque([destination])
        while waiting:
            at = waiting.popleft()
            for other in neighbours[at].values():
                if other not in distance:
                    distance[other] = distance[at] + 1
                    waiting.append(other)
        for switch, away in distance.items():
            hops[switch][destination] = [
                port for port, other in neighbours[switch].items() if distance.get(other, away) == away - 1
            ]
    return hops


def expand(where: str, templates: tuple[str, ...], topology: Topology) -> list[list[str]]:
    """For each switch, the lines of every host in turn. Raises InputError for an unknown placeholder."""
    for template in templates:
        for name in _PLACE.findall(template):
            if name not in NAMES:
                raise InputError(
                    f"{where}: no placeholder {{{ascii(name[:40])[1:-1]}}}; there are "
                    + ", ".join(f"{{{x}}}" for x in NAMES)
                )
    hops = next_hops(topology)
    ends = _ends(topology)
    out: list[list[str]] = []
    for switch in range(len(topology.switches)):
        ports = topology.ports(switch)
        lines: dict[str, None] = {}
        for host, (home, port) in enumerate(ends):
            paths = [port] if home == switch else hops[switch][home]
            for template in templates if paths else ():
                each = range(len(paths)) if "{path}" in template else (host % len(paths),)
                for path in each:
                    values = {
                        "host": topology.hosts[host],
                        "n": host,
                        "address": dotted(topology.addresses[host]),
                        "port": paths[path],
                        "mac": hex(topology.mac(ports[paths[path]])),
                        "path": path,
                        "paths": len(paths),
                    }
                    lines[_PLACE.sub(lambda m, v=values: str(v[m[1]]), template)] = None  # type: ignore[misc]
        out.append(list(lines))
    return out


def dotted(address: int) -> str:
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def _ends(topology: Topology) -> list[tuple[int, int]]:
    """Of each host: its switch, and the port there."""
    first = len(topology.hosts)
    found = {}
    for link in topology.links:
        if link.a < first:
            found[link.a] = (link.b - first, link.port_b)
        elif link.b < first:
            found[link.b] = (link.a - first, link.port_a)
    return [found[host] for host in range(first)]
