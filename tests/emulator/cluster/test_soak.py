"""Random faults for a minute: no wrong sum, and neither memory nor descriptors grow.

By hand, half an hour of it at full speed:

    NETFOLD_SOAK_S=1800 python -m pytest -s -m slow tests/emulator/cluster/test_soak.py
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.cluster.topology import Topology
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing

GROWTH_BYTES = 24 << 20  # caches of numpy and the allocator may fill; a leak of frames passes this in seconds
WARM = 5  # propagations after which a process is taken to have all that it needs
SHAPES: list[dict[str, Any]] = [
    {"graph": "rmat:6:4", "workers": 4, "memory": 10_000},
    {"graph": "rmat:6:4", "workers": 4, "racks": 2, "memory": 10_000},
    {"graph": "rmat:7:6", "workers": 3, "memory": 30_000, "residual": "host"},
    {"graph": "rmat:6:4", "workers": 6, "racks": 3, "memory": 0},
]


# The first cluster's, so that no soak is without any of them.
ALL_KINDS = [
    "*: loss=0.01, burst=2, duplicate=0.02, reorder=0.02, corrupt=0.01, late=1ms, delay=100us",
    "worker1: stall=50ms..200ms",
    "worker2.up: down=300ms..700ms, down=1s..1300ms",
    "switch: restart=600ms",
]
SEEN = ("burst_lost", "duplicated", "reordered", "crc_errors", "lost while down", "restarts")


class Growth:
    """Memory and descriptors of this process and of a cluster's, each since it was warm."""

    def __init__(self) -> None:
        self.sightings: Counter[int] = Counter()
        self.warm: dict[int, tuple[int, int]] = {}
        self.now: dict[int, tuple[int, int]] = {}

    def look(self, pids: list[int]) -> None:
        for pid in pids:
            self.sightings[pid] += 1
            if self.sightings[pid] >= WARM:
                self.now[pid] = resident(pid), len(os.listdir(f"/proc/{pid}/fd"))
                self.warm.setdefault(pid, self.now[pid])

    def check(self) -> None:
        for pid, (memory, descriptors) in self.now.items():
            assert memory - self.warm[pid][0] < GROWTH_BYTES, pid
            assert descriptors == self.warm[pid][1], pid


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def soak(case: Any, rules: list[str], seconds: float, seed: int, rest: float) -> Counter[str]:
    """Propagations for so long on one cluster, idle for `rest` times as long after each; what was counted."""
    random = np.random.default_rng(seed)
    timing = Timing(2_000_000, 200_000_000, 60_000_000_000)
    settings = Settings(timing, DcqcnConfig(), seed=seed)
    growth, done = Growth(), 0
    with ProcessCluster(case.topology, {1: case.plan}, parse_faults(rules, case.topology), settings) as made:
        made.load()
        until = time.monotonic() + seconds
        while time.monotonic() < until or not done:
            values, before = case.values(random), time.monotonic()
            np.testing.assert_array_equal(made.propagate(1, values), case.sums(values))
            done += 1
            pids = [node.pid for node in (*made.workers, *made.switches.values())]
            growth.look([os.getpid(), *pids])
            time.sleep(rest * (time.monotonic() - before))
        growth.check()
        deadline = time.monotonic() + 10  # frames that faults hold back leave when their time has come
        while any(made.buffers_in_use()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert made.buffers_in_use() == [0] * len(made.workers)
        measured = made.measured()
    counted = Counter(propagations=done, restarts=measured.switches.get("restarts", 0), **measured.faults)
    for worker in measured.workers:
        counted.update({name: worker.get(name, 0) for name in ("uploads", "pulls", "timeouts")})
    return counted


def random_rules(random: np.random.Generator, topology: Topology, seconds: float) -> list[str]:
    """Every kind of fault: of links, at any time of a worker and of a switch."""

    def one(*choices: str) -> str:
        return str(choices[int(random.integers(len(choices)))])

    def span(longest_ms: int) -> str:
        start = int(random.integers(1, int(1000 * seconds)))
        return f"{start}ms..{start + int(random.integers(5, longest_ms))}ms"

    somebody = f"worker{int(random.integers(topology.workers))}"
    switches = [switch.name for switch in topology.switches]
    fabric = ["leaf*>spine*", "spine0>leaf1", "leaf0>spine1"] if topology.racks else []
    places = ["*", "worker*.up", "worker*.down", f"{somebody}.up", f"{somebody}.down", *fabric]
    rules = []
    for _ in range(int(random.integers(1, 4))):
        loss, twice, late, bad = (float(x) for x in random.choice([0.0, 0.0, 0.002, 0.01, 0.05], 4))
        rule = f"{one(*places)}: loss={loss}, burst={one('1', '1', '5')}, duplicate={twice}, reorder={late}"
        rule += f", corrupt={bad}, late={one('1ms', '20ms')}, delay={one('0us', '0us', '200us', '3ms')}"
        rules.append(rule)
    rules.append(f"worker{int(random.integers(topology.workers))}: stall={span(300)}")
    rules.append(f"{one(*places[1:])}: down={span(200)}")
    for _ in range(int(random.integers(1, 4))):
        rules.append(f"{one(*switches)}: restart={int(random.integers(1, int(1000 * seconds)))}ms")
    return rules


def soak_all(make_case: Callable[..., Any], seconds: float, rest: float) -> Counter[str]:
    """Cluster after cluster, each with its own faults."""
    start, each = time.monotonic(), max(8.0, seconds / 16)
    seeds = np.random.SeedSequence()
    growth, total = Growth(), Counter[str]()
    at = 0
    while (left := start + seconds - time.monotonic()) > 0:
        seed = int(seeds.spawn(1)[0].generate_state(1)[0])
        case = make_case(**SHAPES[at % len(SHAPES)])
        rules = random_rules(np.random.default_rng(seed), case.topology, min(each, left)) if at else ALL_KINDS
        print(f"\nseed {seed}, {SHAPES[at % len(SHAPES)]}, {rules}", flush=True)
        total += soak(case, rules, min(each, left), seed, rest)
        growth.look([os.getpid()] * (WARM if at == 0 else 1))
        at += 1
    growth.check()
    print(f"{at} clusters in {time.monotonic() - start:.0f} s, {dict(total)}", flush=True)
    return total


def test_soak_for_a_minute(make_case: Callable[..., Any]) -> None:
    """A minute by the clock, idle for half of it."""
    total = soak_all(make_case, 60.0, rest=1)
    assert total["propagations"] >= WARM + 3
    assert total["uploads"] > 0
    assert not [fault for fault in SEEN if not total[fault]]


@pytest.mark.slow
def test_soak_by_hand(make_case: Callable[..., Any]) -> None:
    """As fast as it goes."""
    soak_all(make_case, float(os.environ.get("NETFOLD_SOAK_S", "60")), rest=0)
