"""The in-process cluster on any Target, packet by packet; on BMv2 where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from emulator.cluster.bmv2 import PacketwiseSwitch, bmv2_switch
from emulator.cluster.faults import parse_faults
from emulator.cluster.topology import Topology
from emulator.cluster.virtual import VirtualCluster
from p4.control.fabric import Switch
from p4.control.switchgnn import SwitchJob, build_switch
from p4.targets import Engine


def engine_by_packets(switch: Switch, topology: Topology, jobs: Sequence[SwitchJob]) -> PacketwiseSwitch:
    return PacketwiseSwitch(Engine(build_switch(topology, jobs)))


def propagate(case: Any, rules: list[str], make_switch: Any) -> dict[str, int]:
    settings = case.cluster().settings
    random = np.random.default_rng(1)
    faults = parse_faults(rules, case.topology)
    with VirtualCluster(case.topology, {1: case.plan}, faults, settings, make_switch=make_switch) as cluster:
        cluster.load()
        for _ in range(2):
            values = case.values(random)
            np.testing.assert_array_equal(cluster.propagate(1, values), case.sums(values))
        return cluster.switch_events()


@pytest.mark.parametrize("rules", [[], ["*: loss=0.05, duplicate=0.05", "switch: restart=20us"]])
def test_packet_by_packet_is_the_same(make_case: Callable[..., Any], rules: list[str]) -> None:
    case = make_case(graph="rmat:5:4", memory=0)
    by_packet, by_burst = (propagate(case, rules, make) for make in (engine_by_packets, None))
    by_burst.pop("passes")
    assert {k: n for k, n in by_packet.items() if k != "passes"} == by_burst


def test_bmv2_gives_the_same_sums(make_case: Callable[..., Any]) -> None:
    pytest.importorskip("grpc")
    from p4.targets.bmv2 import missing_tools
    from p4.targets.bmv2.process import may_make_networks

    if missing_tools() or not may_make_networks():
        pytest.skip(missing_tools() or "BMv2's ports need root")
    case = make_case(memory=0)
    bmv2, engine = (propagate(case, [], make) for make in (bmv2_switch, None))
    # Where this machine is slow, an answer comes after the switch seemed silent, and a report is sent again.
    for event in ("added", "results", "completions", "stale", "saturated", "refused"):
        assert bmv2[event] == engine[event], event
