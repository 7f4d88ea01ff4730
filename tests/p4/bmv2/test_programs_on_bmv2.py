"""Our programs give the same packets on BMv2 as on the engine: runs with losses and copies, replayed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import ATP, IPV4, SWITCHGNN, SWITCHML
from p4.targets.bmv2 import Bmv2
from tests.p4.bmv2.recording import Recording, ports_of, replay
from tests.p4.programs import switchgnn_net as gnn
from tests.p4.programs import test_atp as atp_net
from tests.p4.programs import test_switchml as switchml_net
from tests.p4.programs.frames import MAX, MIN


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gnn, atp_net, switchml_net):
        monkeypatch.setattr(module, "Engine", Recording)
    monkeypatch.setattr(
        atp_net, "IDLE_US", 1 << 31
    )  # simple_switch's clock moves while the engine's stands still


def run_again(bmv2: Callable[..., Bmv2], switch: Any, program: Path, defines: dict[str, str]) -> None:
    """What was done to `switch`, done to a simple_switch."""
    other = bmv2(program, ports=ports_of(switch.done), kind="veth", defines=defines, log_level="off")
    assert replay(switch.done, other) > 0
    for counter in switch.schema.counters:
        for index in range(counter.size):
            assert other.counter_read(counter.name, index)[0] == switch.counter_read(counter.name, index)[0]


@pytest.mark.parametrize("seed", range(2))
def test_switchgnn_blocks_with_losses_and_copies(
    bmv2: Callable[..., Bmv2], switchgnn: Path, seed: int
) -> None:
    rng = random.Random(seed)
    blocks = [gnn.Block.draw(rng, 4, 6) for _ in range(2)]
    switch = gnn.make_star(switchgnn)
    gnn.load_blocks(switch, blocks)
    for round_ in range(2):
        for number, block in enumerate(blocks):
            x = block.draw_features(rng)
            sent = block.uploads(x, block=number, round=round_)
            sent = [f for f in sent if round_ or rng.random() < 0.8]
            sent += [f for f in sent if rng.random() < 0.2]
            sent += [replace(f, resend=1, dst=0x0A000100) for f in sent if rng.random() < 0.1]
            rng.shuffle(sent)
            for frame in sent:
                switch.send(10 + frame.worker, frame.encode())
            for worker in (0, 2, 1, 1, 3, 3):
                done = gnn.Frame(gnn.DONE, worker=worker, block=number, round=round_)
                switch.send(10 + worker, done.encode())
    run_again(bmv2, switch, SWITCHGNN, gnn.DEFINES)


def test_switchgnn_saturation_partials_and_refusals(bmv2: Callable[..., Bmv2], switchgnn: Path) -> None:
    switch = gnn.make_star(switchgnn)
    block = gnn.Block([0, 1, 2], [[1, 2], [0], [0]])
    gnn.load_blocks(switch, [block])
    x = {(u, c): [MAX, MIN, 5, *[0] * 27] for u in range(3) for c in range(gnn.CHUNKS)}
    for frame in block.uploads(x):
        switch.send(10, frame.encode())
    for frame in (
        gnn.Frame(gnn.PARTIAL, count=1, worker=1, round=3, values=[7] * 30),
        gnn.Frame(gnn.PARTIAL, count=1, worker=2, round=3, values=[8] * 30),
        gnn.Frame(gnn.UPLOAD, vertex=77, worker=1, round=3),
        gnn.Frame(gnn.UPLOAD, vertex=1, worker=1, job=9, round=3),
        gnn.Frame(gnn.UPLOAD, vertex=1, worker=1, block=60, round=3),
        gnn.Frame(gnn.PULL, dst=0x0A000102),
        gnn.Frame(99, dst=0x0A000102),
    ):
        switch.send(11, frame.encode())
        switch.send(11, frame.encode()[:100])
    run_again(bmv2, switch, SWITCHGNN, gnn.DEFINES)


def test_switchgnn_leaf_and_spine(bmv2: Callable[..., Bmv2], switchgnn: Path) -> None:
    rng = random.Random(4)
    racks = [range(0, 2), range(2, 4)]
    block = gnn.Block.draw(rng, 4, 6)
    leaves = [gnn.make_leaf(switchgnn, n, racks) for n in range(2)]
    for n, leaf in enumerate(leaves):
        gnn.load_blocks(leaf, [block], set(racks[n]))
    for frame in block.uploads(block.draw_features(rng)):
        for n, leaf in enumerate(leaves):
            if frame.worker in racks[n]:
                leaf.send(10 + frame.worker, frame.encode())
                for packet in leaf.receive():
                    if packet.port == gnn.UPLINK:
                        leaves[1 - n].send(gnn.UPLINK, packet.data)
    run_again(bmv2, leaves[0], SWITCHGNN, gnn.DEFINES)


@pytest.mark.parametrize("faults", [0.0, 0.1])
def test_switchml(bmv2: Callable[..., Bmv2], switchml: Path, faults: float) -> None:
    net, hosts = switchml_net.make_net(switchml, [(3, 2, 6), (2, 3, 4)], 3, faults)
    net.run()
    switchml_net.check(hosts)
    run_again(bmv2, net.switches["star"], SWITCHML, {"SLOTS": "16"})


@pytest.mark.parametrize("faults", [0.0, 0.1])
def test_atp(bmv2: Callable[..., Bmv2], atp: Path, faults: float) -> None:
    net, workers, _ = atp_net.star(atp, [atp_net.Job(1, (1, 1, 1), atp_net.SERVER, 4)], 5, faults)
    net.run()
    atp_net.check(workers)
    run_again(bmv2, net.switches["star"], ATP, {"AGGREGATORS": "8"})


def test_ipv4(bmv2: Callable[..., Bmv2], libraries: Path) -> None:
    switch = Recording(build(generate(load_program(IPV4)), folder=libraries))
    switch.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", {"port": 2, "mac": 0x22})
    switch.insert("ipv4_lpm", {"dst": (0x0A010000, 16)}, "forward", {"port": 3, "mac": 0x33})
    for dst in (0x0A000001, 0x0A010001, 0x0B000001):
        for ecn in range(4):
            switch.send(1, gnn.Frame(gnn.DIRECT, dst=dst, ecn=ecn).encode())
    run_again(bmv2, switch, IPV4, {})
