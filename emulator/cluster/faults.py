"""Faults on request, as text: of links in one direction, of workers and of switches.

    worker3.up: loss=0.01, duplicate=0.001      from worker 3 to its switch
    worker*.down: burst=20, loss=0.05           from the switches to every worker; 20 in a row on average
    leaf0>spine1: reorder=0.1, delay=200us      any link by its two ends
    *: corrupt=0.001                            every link; a frame with a bad FCS is dropped on arrival
    worker1.up: down=5ms..20ms                  the link loses everything meanwhile
    worker2: stall=3ms..50ms                    the worker does nothing meanwhile
    worker2: kill=3ms                           the worker ends there
    switch: restart=4ms                         the switch loses all state, tables included, and starts again

Times count from the start of the first propagation. Rules for one link add up: the last value of a key wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase

from emulator.cluster.topology import Topology
from workloads.errors import InputError

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s)")
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
MOST_NS = 86_400 * 10**9
Span = tuple[int, int]


@dataclass(frozen=True)
class LinkFaults:
    """One direction of one link. loss, duplicate, reorder, corrupt: probabilities of a frame; burst: mean
    length of losses in frames; delay_ns: of every frame; late_ns: most that late frames and second copies
    wait more; down_ns: (from, to) spans.
    """

    loss: float = 0.0
    burst: float = 1.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    delay_ns: int = 0
    late_ns: int = 100_000
    down_ns: tuple[Span, ...] = ()

    @property
    def none(self) -> bool:
        """Whether frames pass untouched."""
        return self == LinkFaults()

    def shifted(self, origin_ns: int) -> LinkFaults:
        """The same with `down_ns` counted from another beginning."""
        return replace(self, down_ns=tuple((origin_ns + a, origin_ns + b) for a, b in self.down_ns))


@dataclass(frozen=True)
class Faults:
    """links: (from, to) -> what happens there; stalls and kills: worker -> when; restarts: switch -> when."""

    links: dict[tuple[str, str], LinkFaults]
    stalls: dict[int, tuple[Span, ...]]
    kills: dict[int, int]
    restarts: dict[str, tuple[int, ...]]

    def link(self, source: str, target: str) -> LinkFaults:
        """Faults from one node to the next."""
        return self.links.get((source, target), LinkFaults())

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return bool(self.links or self.stalls or self.kills or self.restarts)


def parse_faults(rules: Sequence[str], topology: Topology) -> Faults:
    """Rules as above. Raises InputError with the rule and what is allowed."""
    directions = _directions(topology)
    switches = [switch.name for switch in topology.switches]
    found = Faults({}, {}, {}, {})
    for rule in rules:
        where, colon, what = rule.partition(":")
        settings = [part.strip() for part in what.split(",") if part.strip()]
        if not colon or not settings:
            raise InputError(f"fault: {rule!r} given; expected WHERE: KEY=VALUE, ...")
        for setting in settings:
            key, equals, value = (part.strip() for part in setting.partition("="))
            if not equals:
                raise InputError(f"fault: {setting!r} given; expected KEY=VALUE")
            if key in ("stall", "kill", "restart"):
                _node_fault(found, rule, (where.strip(), key, value), topology, switches)
            else:
                _link_fault(found, where.strip(), key, value, directions)
    return found


def _directions(topology: Topology) -> list[tuple[str, str]]:
    return [
        pair
        for switch in topology.switches
        for other in switch.links
        if switch.kind != "spine"
        for pair in ((switch.name, other), (other, switch.name))
    ]


def _link_fault(
    found: Faults, where: str, key: str, value: str, directions: Sequence[tuple[str, str]]
) -> None:
    chosen = [pair for pair in directions if _names(where, pair)]
    if not chosen:
        raise InputError(
            f"fault: no link {where!r}; allowed: worker0.up, worker0.down, worker*.up, leaf0>spine0, *"
        )
    for pair in chosen:
        old = found.links.get(pair, LinkFaults())
        if key in ("loss", "duplicate", "reorder", "corrupt"):
            new = replace(old, **{key: _number(key, value, 0.0, 1.0)})  # type: ignore[arg-type]
        elif key == "burst":
            new = replace(old, burst=_number(key, value, 1.0, 1e6))
        elif key == "delay":
            new = replace(old, delay_ns=_time(key, value))
        elif key == "late":
            new = replace(old, late_ns=_time(key, value))
        elif key == "down":
            new = replace(old, down_ns=(*old.down_ns, _span(key, value)))
        else:
            known = ", ".join(f.name.removesuffix("_ns") for f in fields(LinkFaults))
            raise InputError(f"fault: unknown key {key!r}; allowed: {known}, stall, kill, restart")
        found.links[pair] = new


def _names(where: str, pair: tuple[str, str]) -> bool:
    source, target = pair
    if where == "*":
        return True
    if where.endswith(".up"):
        return source.startswith("worker") and fnmatchcase(source, where.removesuffix(".up"))
    if where.endswith(".down"):
        return target.startswith("worker") and fnmatchcase(target, where.removesuffix(".down"))
    first, arrow, second = where.partition(">")
    return bool(arrow) and fnmatchcase(source, first) and fnmatchcase(target, second)


def _node_fault(
    found: Faults, rule: str, setting: tuple[str, str, str], topology: Topology, switches: Sequence[str]
) -> None:
    where, key, value = setting
    if key == "restart":
        if where not in switches:
            raise InputError(f"fault: no switch {where!r}; there are: {', '.join(switches[:8])}")
        found.restarts[where] = (*found.restarts.get(where, ()), _time(key, value))
        return
    match = re.fullmatch(r"worker([0-9]{1,5})", where)
    if not match or int(match[1]) >= topology.workers:
        raise InputError(
            f"fault: {rule!r}: no worker {where!r}; there are worker0 to worker{topology.workers - 1}"
        )
    worker = int(match[1])
    if key == "stall":
        found.stalls[worker] = (*found.stalls.get(worker, ()), _span(key, value))
    else:
        found.kills[worker] = _time(key, value)


def _number(key: str, value: str, low: float, high: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise InputError(f"fault: {key}={value!r} given; allowed: {low:g} to {high:g}")
    return number


def _time(key: str, value: str) -> int:
    match = _TIME.fullmatch(value)
    if not match:
        raise InputError(f"fault: {key}={value!r} given; expected a time such as 200us, 5ms, 1s")
    time_ns = float(match[1]) * _UNITS[match[2]]
    if time_ns > MOST_NS:
        raise InputError(f"fault: {key}={value!r} given; at most a day, {MOST_NS // 10**9}s")
    return round(time_ns)


def _span(key: str, value: str) -> Span:
    first, dots, last = value.partition("..")
    if not dots:
        raise InputError(f"fault: {key}={value!r} given; expected FROM..TO such as 5ms..20ms")
    span = _time(key, first), _time(key, last)
    if span[0] >= span[1]:
        raise InputError(f"fault: {key}={value!r} given; it ends before it begins")
    return span
