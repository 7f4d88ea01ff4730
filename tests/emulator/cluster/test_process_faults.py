"""Real processes: what is lost, killed, stalled or restarted ends in the same sums or in one line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from emulator.cluster.errors import ClusterError
from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing


@contextmanager
def cluster(case: Any, rules: list[str], patience_s: float = 30) -> Iterator[ProcessCluster]:
    timing = Timing(2_000_000, 200_000_000, int(patience_s * 1e9))
    faults = parse_faults(rules, case.topology)
    with ProcessCluster(case.topology, {1: case.plan}, faults, Settings(timing, DcqcnConfig())) as made:
        made.load()
        yield made


def propagate(made: ProcessCluster, case: Any, count: int) -> None:
    random = np.random.default_rng(3)
    for _ in range(count):
        values = case.values(random)
        np.testing.assert_array_equal(made.propagate(1, values), case.sums(values))


@pytest.mark.parametrize(
    ("shape", "rules"),
    [
        ({"workers": 3, "memory": 0}, ["*: loss=0.02, duplicate=0.05, reorder=0.05, corrupt=0.01"]),
        ({"workers": 4, "racks": 2, "memory": 0}, ["*: loss=0.02, burst=3"]),
        ({"workers": 3, "memory": 0}, ["worker1: stall=2ms..200ms", "worker2.down: down=1ms..60ms"]),
        ({"workers": 3, "memory": 0}, ["switch: restart=2ms"]),
        ({"workers": 4, "racks": 2, "memory": 0}, ["leaf1: restart=2ms", "worker0.up: delay=1ms"]),
    ],
)
def test_sums_hold(make_case: Callable[..., Any], shape: dict[str, Any], rules: list[str]) -> None:
    case = make_case(graph="rmat:6:4", **shape)
    with cluster(case, rules) as made:
        propagate(made, case, 30 if any("restart" in rule for rule in rules) else 6)
        if "restart" in rules[0]:
            assert made.switch_events()["restarts"] == 1
        assert made.buffers_in_use() == [0] * shape["workers"]


def test_a_killed_worker_is_named_at_once(make_case: Callable[..., Any]) -> None:
    case = make_case(graph="rmat:6:4", memory=0)
    with cluster(case, ["worker1: kill=1ms"]) as made, pytest.raises(ClusterError) as error:
        propagate(made, case, 10_000)
    assert str(error.value) == "worker 1 was lost (killed by SIGKILL); the run was ended"


def test_a_silent_worker_is_named(make_case: Callable[..., Any]) -> None:
    case = make_case(graph="rmat:6:4", memory=0)
    with (
        cluster(case, ["worker2: stall=0us..1000s"], patience_s=0.5) as made,
        pytest.raises(ClusterError, match=r"silent: worker 2\)"),
    ):
        propagate(made, case, 10)


def test_a_switch_that_dies_is_named(make_case: Callable[..., Any]) -> None:
    case = make_case(graph="rmat:6:4", memory=0)
    with cluster(case, []) as made:
        propagate(made, case, 1)
        made.switches["switch"].kill()
        with pytest.raises(ClusterError, match="switch ended without being told to"):
            propagate(made, case, 1)


def test_nothing_is_left(make_case: Callable[..., Any]) -> None:
    """No process, no descriptor and no memory file outlives a cluster, however it ended."""
    case = make_case(graph="rmat:6:4", memory=0)

    def once(rules: list[str], count: int) -> None:
        try:
            with cluster(case, rules, patience_s=0.3) as made:
                pids.extend(worker.pid for worker in made.workers)
                propagate(made, case, count)
        except ClusterError:
            pass

    pids: list[int] = []
    once([], 1)
    before = len(os.listdir("/proc/self/fd"))
    once([], 1)
    once(["worker0: kill=1ms"], 10_000)
    assert len(os.listdir("/proc/self/fd")) <= before
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
