"""Links in virtual time do what their faults say; fault rules are read as written; shapes come out even."""

from __future__ import annotations

import numpy as np
import pytest

from emulator import wire
from emulator.cluster.faults import LinkFaults, parse_faults
from emulator.cluster.line import Line
from emulator.cluster.meter import _as_host_faults
from emulator.cluster.station import as_bytes, as_frames
from emulator.cluster.topology import Topology
from p4.control.adjacency import Needs
from p4.control.switchgnn import SwitchJob, defines
from workloads.errors import InputError

COUNT = 20_000


def frames(count: int) -> tuple[np.ndarray, np.ndarray]:
    made = wire.blank(count)
    made["agg"]["vertex"] = np.arange(count)
    wire.put(made, "ipv4", "ecn", 2)
    wire.seal(made)
    return as_bytes(made), np.full(count, wire.FRAME_BYTES, np.int64)


def line(faults: LinkFaults, ecn_frames: int = 0, rate_bps: float = 1e9) -> Line:
    return Line(rate_bps, 1000, faults, np.random.default_rng(1), ecn_frames)


def through(made: Line, count: int = COUNT) -> list[tuple[int, int]]:
    """(arrival, vertex) of what arrives."""
    data, lengths = frames(count)
    return [
        (when, int(vertex))
        for when, some, _ in made.carry(data, lengths, 0)
        for vertex in as_frames(some)["agg"]["vertex"]
    ]


def test_a_plain_line_keeps_all_and_takes_its_time() -> None:
    arrived = through(line(LinkFaults()), 100)
    assert [vertex for _, vertex in arrived] == list(range(100))
    assert {when for when, _ in arrived} == {100 * (182 + 24) * 8 + 1000}


@pytest.mark.parametrize(("loss", "burst"), [(0.05, 1.0), (0.05, 10.0), (0.3, 4.0)])
def test_losses_have_their_share_and_length(loss: float, burst: float) -> None:
    there = {vertex for _, vertex in through(line(LinkFaults(loss=loss, burst=burst)))}
    lost = np.array([at not in there for at in range(COUNT)])
    assert abs(lost.mean() - loss) < 0.3 * loss
    starts = np.flatnonzero(lost & ~np.concatenate([[False], lost[:-1]]))
    expected = burst if burst > 1 else 1 / (1 - loss)
    assert abs(lost.sum() / len(starts) - expected) < 0.25 * expected


def test_copies_delays_and_lateness() -> None:
    made = line(LinkFaults(duplicate=0.1, reorder=0.1, delay_ns=5000, late_ns=7000))
    arrived = through(made)
    copies = len(arrived) - COUNT
    assert abs(copies / COUNT - 0.1) < 0.02
    assert made.counts["duplicated"] == copies
    assert abs(made.counts["reordered"] / COUNT - 0.1) < 0.02
    on_time = COUNT * (182 + 24) * 8 + 1000 + 5000
    assert {vertex for _, vertex in arrived} == set(range(COUNT))
    assert all(on_time <= when <= on_time + 7000 for when, _ in arrived)


def test_corrupt_frames_are_dropped_by_their_fcs() -> None:
    made = line(LinkFaults(corrupt=0.2))
    arrived = through(made, 2000)
    assert len(arrived) == 2000 - made.counts["bad_fcs"]
    assert 300 < made.counts["bad_fcs"] < 500


def test_down_for_a_while() -> None:
    made = line(LinkFaults(down_ns=((100, 200),)))
    data, lengths = frames(3)
    kept = [sum(len(some) for _, some, _ in made.carry(data, lengths, now)) for now in (0, 100, 199, 200)]
    assert kept == [3, 0, 0, 3]


def test_marks_behind_a_queue_keep_the_checksum() -> None:
    made = line(LinkFaults(), ecn_frames=10)
    data, lengths = frames(30)
    [(_, first, _)] = made.carry(data, lengths, 0)
    marked = wire.get(as_frames(first), "ipv4", "ecn") == 3
    assert marked.tolist() == [False] * 10 + [True] * 20
    assert wire.valid(as_frames(first), lengths).all()
    assert not (data[:, 15] & 1).any()  # the sender's frames are as they were


def test_rules() -> None:
    topology = Topology(4, racks=2, spines=2)
    found = parse_faults(
        [
            "*: loss=0.1", "worker1.up: loss=0.5, delay=2us", "worker*.down: corrupt=0.25",
            "leaf0>spine*: burst=3",
            "worker3: stall=1ms..2ms", "worker3: stall=5ms..6ms", "worker0: kill=1s", "spine1: restart=3ms",
            "worker2.up: down=1us..2us",
        ],
        topology,
    )  # fmt: skip
    assert found.link("worker1", "leaf0") == LinkFaults(loss=0.5, delay_ns=2000)
    assert found.link("leaf0", "worker1") == LinkFaults(loss=0.1, corrupt=0.25)
    assert found.link("leaf0", "spine1") == LinkFaults(loss=0.1, burst=3)
    assert found.link("spine1", "leaf0") == LinkFaults(loss=0.1)
    assert found.link("worker2", "leaf1").down_ns == ((1000, 2000),)
    assert found.stalls == {3: ((1_000_000, 2_000_000), (5_000_000, 6_000_000))}
    assert (found.kills, found.restarts) == ({0: 10**9}, {"spine1": (3_000_000,)})
    assert not parse_faults([], topology).any


def test_the_drivers_faults_lose_as_much() -> None:
    host = _as_host_faults(LinkFaults(loss=0.2, burst=5))
    assert host.loss == 0
    assert host.burst_start / (host.burst_start + host.burst_end) == pytest.approx(0.2)
    assert 1 / host.burst_end == 5
    assert _as_host_faults(LinkFaults(loss=0.2)).loss == 0.2


def test_shapes() -> None:
    topology = Topology(6, racks=3, spines=2)
    assert [switch.name for switch in topology.switches] == ["leaf0", "leaf1", "leaf2", "spine0", "spine1"]
    assert topology.switches[1].links == ("worker2", "worker3", "spine0", "spine1")
    assert topology.leaf_of(5) == 2
    for shape in ((1, 0, 0), (5, 2, 1), (4, 2, 0), (600, 0, 0)):
        with pytest.raises(InputError):
            Topology(*shape)


def test_sizes_are_powers_of_two_and_enough() -> None:
    jobs = [SwitchJob(n, 2, Needs(100, 5000, 70_000, 3000)) for n in (1, 2)]
    sizes = {name: int(size) for name, size in defines(Topology(40), jobs).items()}
    assert sizes == {
        "AGGREGATORS": 16_384, "BLOCKS": 1024, "ENTRIES": 16_384, "EDGES": 262_144,
        "WORKERS": 256, "SOURCES": 64,
    }  # fmt: skip
