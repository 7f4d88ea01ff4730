"""Which host sends what to whom: the [[flow]] entries spread out.

    pairs     the first to the first, the second to the second; one end alone is paired with all of the other
    all       every source to every destination but itself
    shift:N   source i to destination i + N
    random    every source to one destination, every destination from one source as far as there are enough
Packets of a constant rate begin at a random point of their first interval, so that hosts do not send in step.
"""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sim.network.scenario import FlowEntry, NetworkScenario
from sim.network.topology import Topology, parse_address
from workloads.errors import InputError

FIRST_PORT = 10_000
MAX_FLOWS = 50_000  # each has a port of its own
_DEFAULT_RATE_BPS = 100_000_000
_PACKET = {"udp": 1000, "echo": 100, "ping": 56, "tcp": 1448}
_ECT0 = 2  # RFC 3168


@dataclass(frozen=True)
class Flow:
    """One source and destination; times in ns, `entry` is the number of its [[flow]]."""

    entry: int
    name: str
    kind: str
    source: int
    listeners: tuple[int, ...]
    address: int
    port: int
    tos: int
    start_ns: int
    stop_ns: int
    rate_bps: int
    packet_bytes: int
    bytes: int
    interval_ns: int
    on_ns: int
    off_ns: int


def expand_flows(scenario: NetworkScenario, topology: Topology) -> list[Flow]:
    """Raises InputError for unknown hosts and patterns that do not fit."""
    flows: list[Flow] = []
    for number, entry in enumerate(scenario.flow):
        where = f"flow {entry.name or number + 1}"
        draw = random.Random(f"{scenario.network.seed} {number}")
        sources = topology.find_hosts(f"{where}: from", entry.from_)
        for source, address, listeners in _ends(where, entry, sources, topology, draw):
            if len(flows) == MAX_FLOWS:
                raise InputError(f"{where}: more than {MAX_FLOWS} flows in all; use fewer hosts, or shift:N")
            flows.append(
                _flow(scenario, entry, number, (source, address, listeners, FIRST_PORT + len(flows)), draw)
            )
    return flows


def _flow(
    scenario: NetworkScenario,
    entry: FlowEntry,
    number: int,
    ends: tuple[int, int, tuple[int, ...], int],
    draw: random.Random,
) -> Flow:
    packet = entry.packet_bytes or min(_PACKET[entry.kind], scenario.links.mtu_bytes - 28)
    rate = entry.rate_bps or _DEFAULT_RATE_BPS
    stop = entry.stop_ns or scenario.network.duration_ns
    interval = packet * 8 * 10**9 // rate if entry.kind == "udp" else entry.interval_ns
    phase = draw.randrange(max(1, min(interval, stop - entry.start_ns))) if entry.kind != "tcp" else 0
    source, address, listeners, port = ends
    return Flow(
        entry=number,
        name=entry.name or f"{entry.kind} {number + 1}",
        kind=entry.kind,
        source=source,
        listeners=listeners,
        address=address,
        port=port,
        tos=entry.dscp << 2 | (_ECT0 if entry.ecn else 0),
        start_ns=entry.start_ns + phase,
        stop_ns=stop,
        rate_bps=rate,
        packet_bytes=packet,
        bytes=entry.bytes,
        interval_ns=entry.interval_ns,
        on_ns=entry.on_ns,
        off_ns=entry.off_ns,
    )


def _ends(
    where: str, entry: FlowEntry, sources: list[int], topology: Topology, draw: random.Random
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(source, address, listeners) of each flow."""
    if len(entry.to) == 1 and _is_address(entry.to[0]):
        address = parse_address(f"{where}: to", entry.to[0])
        known = [host for host, other in enumerate(topology.addresses) if other == address]
        listeners = topology.find_hosts(f"{where}: listen", entry.listen) if entry.listen else known
        if not listeners:
            raise InputError(
                f'{where}: {entry.to[0]} is no host\'s address; say who answers: listen = ["h0", ...]'
            )
        for source in sources:
            yield source, address, tuple(listeners)
        return
    if entry.listen:
        raise InputError(f"{where}: listen goes with an address in to, not with hosts")
    targets = topology.find_hosts(f"{where}: to", entry.to)
    for source, target in _pairs(where, entry.pattern, sources, targets, draw):
        yield source, topology.addresses[target], (target,)


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _pairs(
    where: str, pattern: str, sources: list[int], targets: list[int], draw: random.Random
) -> list[tuple[int, int]]:
    shift = re.fullmatch(r"shift:([0-9]{1,6})", pattern)
    if pattern == "all" or (pattern == "pairs" and 1 in (len(sources), len(targets))):
        made = [(a, b) for a in sources for b in targets if a != b]
    elif pattern == "pairs":
        if len(sources) != len(targets):
            raise InputError(f"{where}: {len(sources)} sources and {len(targets)} destinations make no pairs")
        made = list(zip(sources, targets, strict=True))
    elif shift:
        made = [(a, targets[(i + int(shift[1])) % len(targets)]) for i, a in enumerate(sources)]
    elif pattern == "random":
        made = _random_pairs(sources, targets, draw)
    else:
        raise InputError(f"{where}: pattern = {pattern[:40]!a} given; allowed: pairs, all, shift:N, random")
    if any(a == b for a, b in made) or not made:
        raise InputError(
            f'{where}: a host would send to itself; pattern = "shift:1", "all" or "random" is another way'
        )
    return made


def _random_pairs(sources: list[int], targets: list[int], draw: random.Random) -> list[tuple[int, int]]:
    """A random assignment without a host that sends to itself, where there is one."""
    rounds = -(-len(sources) // len(targets))
    pool = [x for _ in range(rounds) for x in draw.sample(targets, len(targets))][: len(sources)]
    for i, source in enumerate(sources):
        for j in draw.sample(range(len(pool)), len(pool)) if pool[i] == source else ():
            if pool[j] != source and sources[j] != pool[i]:
                pool[i], pool[j] = pool[j], pool[i]
                break
    return list(zip(sources, pool, strict=True))
