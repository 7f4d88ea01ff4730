"""Every fault at every place, on processes: the same sums in time, or one line that names who is missing.

In parts of some minutes: `-k "not leafspine"`, `-k "leafspine and part1"`, part2, part3, and its rest.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from emulator.cluster.errors import ClusterError
from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing

SHAPES: dict[str, dict[str, Any]] = {
    "star": {"graph": "rmat:6:4", "workers": 3, "memory": 8_000},
    "leafspine": {"graph": "rmat:6:4", "workers": 4, "racks": 2, "memory": 8_000},
}
PLACES = {
    "star": ["*", "worker*.up", "worker*.down", "worker1.up", "worker1.down"],
    "leafspine": [
        *("*", "worker*.up", "worker*.down", "worker3.up", "worker3.down"),
        *("leaf*>spine*", "spine*>leaf*", "leaf0>spine1", "spine1>leaf0"),
    ],
}
# What is asked for, and the counter that says that it happened.
LINKS = {
    "loss": ("loss=0.05", "lost"),
    "burst": ("loss=0.05, burst=4", "burst_lost"),
    # Only frames end a burst: where none but a report repeats, a barrier lasts for several timeouts.
    "harsh": ("loss=0.1, burst=8", "burst_lost"),
    "duplicate": ("duplicate=0.2", "duplicated"),
    "reorder": ("reorder=0.2, late=3ms", "reordered"),
    "corrupt": ("corrupt=0.1", "crc_errors"),
    "delay": ("delay=2ms", "delayed"),
    "down": ("down=1ms..400ms", "lost while down"),
    "all": ("loss=0.03, burst=3, duplicate=0.1, reorder=0.1, corrupt=0.03, delay=300us", "burst_lost"),
}
SWITCHES = {"star": ["switch"], "leafspine": ["leaf0", "leaf1", "spine0", "spine1"]}
PATIENCE_S = 20.0
BOUND_S = 90.0  # of a case: its propagations, and patience once
LEAST, MOST = 2, 60  # propagations, until the fault was seen

link_cases = [
    pytest.param(shape, f"{place}: {rule}", counter, id=f"{shape} part{1 + at // 3} {place} {kind}")
    for shape, places in PLACES.items()
    for at, place in enumerate(places)
    for kind, (rule, counter) in LINKS.items()
]
node_cases = [
    (shape, rules)
    for shape, wanted in SHAPES.items()
    for rules in [
        *([f"worker{w}: stall=1ms..150ms"] for w in range(wanted["workers"])),
        *([f"{name}: restart={ms}ms"] for name in SWITCHES[shape] for ms in (1, 4, 15)),
        *([f"{name}: restart=3ms", f"{name}: restart=60ms"] for name in SWITCHES[shape]),
        *(
            [f"{name}: restart=3ms", "*: loss=0.03, duplicate=0.05, reorder=0.05"]
            for name in SWITCHES[shape]
        ),
        [f"{SWITCHES[shape][0]}: restart=3ms", "worker1: stall=1ms..150ms", "worker0.down: down=2ms..50ms"],
    ]
]
fatal_cases = [
    *((shape, f"worker{w}: kill=3ms", f"worker {w} was lost") for shape in SHAPES
      for w in range(SHAPES[shape]["workers"])),
    *((shape, f"worker{w}: stall=1ms..1000s", f"silent: worker {w}") for shape in SHAPES for w in (0, 2)),
    *((shape, f"worker2.{way}: down=1ms..1000s", "worker 2") for shape in SHAPES for way in ("up", "down")),
    ("leafspine", "leaf1>spine*: down=1ms..1000s", "leaf1|worker [23]"),
    ("leafspine", "spine*>leaf1: down=1ms..1000s", "leaf1|worker [23]"),
]  # fmt: skip


def name_of(case: Any) -> str:
    return re.sub(r"[^a-z0-9*.>=]+", " ", str(case)).strip() if isinstance(case, str | list) else str(case)


def left_over() -> tuple[int, int, set[str]]:
    """Descriptors and mapped links of this process, and shared memory with a name of ours."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    names = {name for name in os.listdir("/dev/shm") if "netfold" in name}
    return len(os.listdir("/proc/self/fd")), maps.count("memfd:netfold"), names


@pytest.fixture(autouse=True)
def nothing_is_left(make_case: Callable[..., Any]) -> Iterator[None]:
    """No process, link, descriptor or shared memory stays behind a case, and it ends in time."""
    for shape in SHAPES.values():  # what is compiled and opened once
        make_case(**shape)
    before, start = left_over(), time.monotonic()
    children = set(psutil.Process().children(recursive=True))
    yield
    assert time.monotonic() - start < BOUND_S
    assert not set(psutil.Process().children(recursive=True)) - children
    after = left_over()
    assert after[0] <= before[0] and after[1] <= before[1] and after[2] <= before[2], (before, after)


def run(
    case: Any, rules: list[str], seen: Callable[[ProcessCluster], bool], *, patience_s: float = PATIENCE_S,
    most: int = MOST,
) -> None:  # fmt: skip
    """Propagations, each checked, until the fault was seen."""
    timing = Timing(2_000_000, 200_000_000, int(patience_s * 1e9))
    random = np.random.default_rng(3)
    faults = parse_faults(rules, case.topology)
    with ProcessCluster(case.topology, {1: case.plan}, faults, Settings(timing, DcqcnConfig())) as made:
        made.load()
        for done in range(most):
            values = case.values(random)
            np.testing.assert_array_equal(made.propagate(1, values), case.sums(values))
            if done + 1 >= LEAST and seen(made):
                break
        else:
            pytest.fail(f"{rules}: not seen in {most} propagations")
        deadline = time.monotonic() + 10  # frames that faults hold back leave when their time has come
        while any(made.buffers_in_use()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert made.buffers_in_use() == [0] * case.topology.workers


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rule", "counter"), link_cases)
def test_links(make_case: Callable[..., Any], shape: str, rule: str, counter: str) -> None:
    def seen(made: ProcessCluster) -> bool:
        return counter == "delayed" or made.measured().faults.get(counter, 0) > 0

    run(make_case(**SHAPES[shape]), [rule], seen)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rules"), node_cases, ids=name_of)
def test_nodes(make_case: Callable[..., Any], shape: str, rules: list[str]) -> None:
    restarts = sum("restart" in rule for rule in rules)
    last_ns = 160_000_000  # after which everything has happened

    def seen(made: ProcessCluster) -> bool:
        over = time.monotonic_ns() - int(made.shared.origin_ns[0]) > last_ns
        return over and made.switch_events().get("restarts", 0) == restarts

    run(make_case(**SHAPES[shape]), rules, seen, most=10_000)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rule", "named"), fatal_cases, ids=name_of)
def test_what_cannot_go_on(make_case: Callable[..., Any], shape: str, rule: str, named: str) -> None:
    start = time.monotonic()
    with pytest.raises(ClusterError) as error:
        run(make_case(**SHAPES[shape]), [rule], lambda made: False, patience_s=2, most=100_000)
    assert re.search(named, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - start < 30
