"""Random faults for a while: no wrong sum, nothing grows. NETFOLD_SOAK_S=1800: half an hour, by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing

GROWTH_BYTES = 24 << 20  # caches of numpy and the allocator may fill; a leak of frames passes this in seconds


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def soak(case: Any, rules: list[str], seconds: float, seed: int) -> int:
    """Propagations for so long on one cluster; returns how many."""
    random = np.random.default_rng(seed)
    timing = Timing(2_000_000, 200_000_000, 60_000_000_000)
    faults = parse_faults(rules, case.topology)
    with ProcessCluster(
        case.topology, {1: case.plan}, faults, Settings(timing, DcqcnConfig(), seed=seed)
    ) as made:
        made.load()

        def once() -> None:
            values = case.values(random)
            np.testing.assert_array_equal(made.propagate(1, values), case.sums(values))

        for _ in range(5):
            once()
        pids = [os.getpid(), *(worker.pid for worker in made.workers)]
        before = {pid: (resident(pid), descriptors(pid)) for pid in pids}
        until = time.monotonic() + seconds
        done = 0
        while time.monotonic() < until or done < 3:
            once()
            done += 1
        for pid in pids:
            assert resident(pid) - before[pid][0] < GROWTH_BYTES
            assert descriptors(pid) == before[pid][1]
        assert made.buffers_in_use() == [0] * len(made.workers)
        return done


def random_rules(random: np.random.Generator) -> list[str]:
    """Faults of links, and now and then of a worker and of the switch."""
    loss, twice, late, bad = (float(x) for x in random.choice([0.0, 0.002, 0.01], 4))
    rules = [f"*: loss={loss}, duplicate={twice}, reorder={late}, corrupt={bad}"]
    start = int(random.integers(20, 200))
    rules.append(f"worker{int(random.integers(3))}: stall={start}ms..{start + int(random.integers(5, 60))}ms")
    rules.append(f"switch: restart={int(random.integers(20, 400))}ms")
    return rules


@pytest.mark.parametrize("seed", [1, 2])
def test_soak_for_seconds(make_case: Callable[..., Any], seed: int) -> None:
    case = make_case(graph="rmat:6:4", memory=4000)
    assert soak(case, random_rules(np.random.default_rng(seed)), 4.0, seed) >= 3


@pytest.mark.slow
def test_soak_for_a_minute(make_case: Callable[..., Any]) -> None:
    seconds = float(os.environ.get("NETFOLD_SOAK_S", "60"))
    random = np.random.default_rng()
    case = make_case(graph="rmat:7:6", workers=4, memory=8000)
    until = time.monotonic() + seconds
    before = descriptors(os.getpid())
    done = 0
    while time.monotonic() < until:
        seed = int(random.integers(2**32))
        rules = random_rules(random)
        print(seed, rules, flush=True)
        done += soak(case, rules, min(15.0, until - time.monotonic()), seed)
    assert descriptors(os.getpid()) <= before + 1
    print(f"{done} propagations in {seconds:g} s")
