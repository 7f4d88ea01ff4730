"""switchgnn.p4 with hosts that keep to the protocol, a star and two leaves, over links that lose and reorder.

The hosts are small models: upload, wait, pull what is missing from its owners, report, go on when told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from p4.targets import Engine, Packet
from tests.p4.programs.net import Net
from tests.p4.programs.switchgnn_net import (
    CHUNKS,
    COMPLETE,
    COMPLETIONS,
    DIRECT,
    DONE,
    PARTIAL,
    PULL,
    RESULT,
    UPLINK,
    UPLOAD,
    Block,
    Features,
    Frame,
    assert_clean,
    events,
    load_blocks,
    make_leaf,
    make_spine,
    make_star,
    results,
)

RACKS = [range(0, 3), range(3, 5)]


@dataclass
class Host:
    """Worker `number`: what it has sent and received of its present block."""

    number: int
    blocks: list[Block]
    features: list[Features]
    at: int = 0
    sums: list[Features] = field(default_factory=list)
    answers: dict[tuple[int, int], dict[int, list[int]]] = field(default_factory=dict)
    pulled: int = 0

    def __post_init__(self) -> None:
        self.sums = [{} for _ in self.blocks]

    @property
    def finished(self) -> bool:
        return self.at == len(self.blocks)

    def wanted(self) -> list[tuple[int, int]]:
        block = self.blocks[self.at]
        mine = [v for v, n in enumerate(block.neighbours) if n and block.owners[v] == self.number]
        return [(v, c) for v in mine for c in range(CHUNKS) if (v, c) not in self.sums[self.at]]

    def start(self) -> list[bytes]:
        return [f.encode() for f in self.begin()]

    def receive(self, data: bytes) -> list[bytes]:
        return [f.encode() for f in self.take(Frame.decode(data))]

    def timeout(self) -> list[bytes]:
        return [f.encode() for f in self.ask()]

    def begin(self) -> list[Frame]:
        """The uploads of the block it has come to; and done, if it waits for nothing."""
        if self.finished:
            return []
        self.answers = {}
        sent = self.blocks[self.at].uploads(self.features[self.at], block=self.at, round=5)
        sent = [f for f in sent if f.worker == self.number]
        return sent + ([] if self.wanted() else [self.done()])

    def done(self, resend: int = 0) -> Frame:
        return Frame(DONE, worker=self.number, block=self.at, round=5, resend=resend)

    def ask(self) -> list[Frame]:
        """Pulls for what is missing, or done once more."""
        if self.finished:
            return []
        missing = self.wanted()
        if not missing:
            return [self.done(resend=1)]
        block, out = self.blocks[self.at], []
        for v, c in missing:
            for u in block.neighbours[v]:
                if u not in self.answers.get((v, c), {}):
                    there = 0x0A000100 + block.owners[u]
                    # `count` carries the asker's slot here: the answer brings it back.
                    ask = Frame(PULL, vertex=u, chunk=c, worker=self.number, count=v, dst=there)
                    out.append(replace(ask, block=self.at, round=5))
        return out

    def take(self, f: Frame) -> list[Frame]:
        assert f.dst == 0x0A000100 + self.number
        if f.type == PULL:
            values, back = self.features[f.block][f.vertex, f.chunk], 0x0A000100 + f.worker
            return [replace(f, type=DIRECT, pull=1, worker=self.number, values=values, dst=back)]
        if self.finished or f.block < self.at:
            return []
        if f.block > self.at:  # it has overtaken the completion of this block
            assert (f.type, f.block) == (RESULT, self.at + 1)
            self.sums[f.block][f.vertex, f.chunk] = f.values
            return []
        if f.type == COMPLETE:
            assert not self.wanted(), "completed before it was done"
            self.at += 1
            return self.begin()
        key = (f.vertex, f.chunk) if f.type == RESULT else (f.count, f.chunk)
        if key not in self.wanted():
            return []
        if f.type == RESULT:
            self.sums[self.at][key] = f.values
        else:
            assert f.type == DIRECT
            parts = self.answers.setdefault(key, {})
            parts[f.vertex] = f.values
            if len(parts) < len(self.blocks[self.at].neighbours[key[0]]):
                return []
            self.pulled += 1
            self.sums[self.at][key] = [sum(column) for column in zip(*parts.values(), strict=True)]
        return [] if self.wanted() else [self.done()]


def make_net(library: Path, *, leaves: bool, seed: int, faults: float) -> tuple[Net, list[Host]]:
    rng = random.Random(seed)
    workers = RACKS[-1].stop
    blocks = [Block.draw(rng, workers, rng.randint(2, 12)) for _ in range(3)]
    features = [b.draw_features(rng) for b in blocks]
    hosts = [Host(w, blocks, features) for w in range(workers)]
    links = {}
    if leaves:
        switches = {f"leaf{n}": make_leaf(library, n, RACKS) for n in range(2)}
        switches["spine"] = make_spine(library, RACKS)
        homes = {w: f"leaf{n}" for n, rack in enumerate(RACKS) for w in rack}
        for n in range(2):
            load_blocks(switches[f"leaf{n}"], blocks, set(RACKS[n]))
            links["spine", n] = (f"leaf{n}", UPLINK)
            links[f"leaf{n}", UPLINK] = ("spine", n)
    else:
        switches = {"star": make_star(library, workers)}
        homes = dict.fromkeys(range(workers), "star")
        load_blocks(switches["star"], blocks)
    for w, home in homes.items():
        links[home, 10 + w] = ("host", w)
    return Net(switches, links, hosts, rng, faults), hosts


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("faults", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_every_owner_receives_the_sum_whatever_the_network_does(
    switchgnn: Path, leaves: bool, faults: float, seed: int
) -> None:
    net, hosts = make_net(switchgnn, leaves=leaves, seed=seed, faults=faults)
    timeouts = net.run()
    for number, block in enumerate(hosts[0].blocks):
        received = {key: values for host in hosts for key, values in host.sums[number].items()}
        assert received == block.sums(hosts[0].features[number])
    if faults == 0:
        assert timeouts == 0
        assert all(host.pulled == 0 for host in hosts)
        last = hosts[0].blocks[-1]
        for name, switch in net.switches.items():
            assert events(switch)[COMPLETIONS] == 3
            if name != "spine":
                local = RACKS[int(name[-1])] if leaves else None
                assert_clean(switch, last, 5 << 16 | 2, local)
    else:
        assert timeouts > 0
    net.close()


# ---- single steps


@pytest.fixture
def leaf(switchgnn: Path) -> Iterator[Engine]:
    """Leaf 1, with workers 3 and 4; block: slot 0 is worker 0's, slots 1 and 2 are here."""
    made = make_leaf(switchgnn, 1, RACKS)
    load_blocks(made, [Block([0, 3, 4], [[1, 2], [0, 2], [0, 1]])], set(RACKS[1]))
    yield made
    made.close()


def out(switch: Engine) -> list[tuple[int, Frame]]:
    return [(p.port, Frame.decode(p.data)) for p in switch.receive()]


def test_a_leaf_sends_one_partial_to_the_owner_s_leaf(leaf: Engine) -> None:
    for vertex, worker in ((1, 3), (2, 4)):
        leaf.send(1, Frame(UPLOAD, vertex=vertex, worker=worker, values=[vertex] * 30).encode())
    [(port, partial)] = [(p, f) for p, f in out(leaf) if f.type == PARTIAL]
    assert port == UPLINK
    assert (partial.level, partial.worker, partial.vertex, partial.count) == (1, 1, 0, 2)
    assert partial.values == [3] * 30
    assert partial.dst == 0x0A000100


def test_the_owner_s_leaf_completes_the_sum_and_adds_each_leaf_once(leaf: Engine) -> None:
    partial = Frame(PARTIAL, vertex=1, worker=0, level=1, values=[7] * 30)
    for _ in range(3):
        leaf.send(UPLINK, partial.encode())
    assert out(leaf) == []
    leaf.send(1, Frame(UPLOAD, vertex=2, worker=4, values=[1] * 30).encode())
    [(port, result)] = [(p, f) for p, f in out(leaf) if f.type == RESULT]
    assert (port, result.vertex, result.worker, result.level, result.count) == (13, 1, 3, 0, 2)
    assert result.values == [8] * 30


def test_a_leaf_reports_once_all_its_workers_are_done_and_again_if_asked(leaf: Engine) -> None:
    leaf.send(1, Frame(DONE, worker=3).encode())
    leaf.send(1, Frame(DONE, worker=3, resend=1).encode())
    assert out(leaf) == []
    leaf.send(1, Frame(DONE, worker=4).encode())
    [(port, report)] = out(leaf)
    assert (port, report.type, report.level, report.worker) == (UPLINK, DONE, 1, 1)
    leaf.send(1, Frame(DONE, worker=3, resend=1).encode())  # the report, or its answer, was lost
    [(port, report)] = out(leaf)
    assert (port, report.type, report.worker) == (UPLINK, DONE, 1)
    leaf.send(UPLINK, Frame(COMPLETE, level=1).encode())
    assert [(p, f.type, f.level, f.dst) for p, f in out(leaf)] == [
        (13, COMPLETE, 0, 0x0A000103), (14, COMPLETE, 0, 0x0A000104),
    ]  # fmt: skip


def test_a_worker_of_another_rack_cannot_report_here(leaf: Engine) -> None:
    for worker in (0, 2, 5):
        leaf.send(1, Frame(DONE, worker=worker).encode())
    leaf.send(1, Frame(DONE, worker=3).encode())
    assert out(leaf) == []


def test_a_spine_counts_leaves_and_forwards_the_rest(switchgnn: Path) -> None:
    with make_spine(switchgnn, RACKS) as spine:
        spine.send(0, Frame(DONE, level=1, worker=0).encode())
        spine.send(0, Frame(DONE, level=1, worker=2).encode())  # there is no leaf 2
        spine.send(0, Frame(DONE, level=0, worker=1).encode())  # a worker's, which its leaf counts
        assert out(spine) == []
        spine.send(1, Frame(DONE, level=1, worker=1).encode())
        assert [(p, f.type, f.level) for p, f in out(spine)] == [(0, COMPLETE, 1), (1, COMPLETE, 1)]
        spine.send(1, Frame(DONE, level=1, worker=1, resend=1).encode())
        assert [(p, f.type, f.level) for p, f in out(spine)] == [(1, COMPLETE, 1)]
        for kind in (UPLOAD, PARTIAL, RESULT, DIRECT):
            spine.send(0, Frame(kind, level=1, values=[3] * 30, dst=0x0A000104).encode())
            [(port, frame)] = out(spine)
            assert (port, frame.type, frame.values) == (1, kind, [3] * 30)


def test_a_switch_in_transit_forwards_everything(switchgnn: Path) -> None:
    with Engine(switchgnn) as spine:
        spine.insert("job", {"job": 1}, "transit")
        spine.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", {"port": 4, "mac": 1})
        for kind in (UPLOAD, PARTIAL, RESULT, DIRECT, PULL, DONE, COMPLETE):
            spine.send(0, Frame(kind, level=1).encode())
            [(port, frame)] = out(spine)
            assert (port, frame.type) == (4, kind)


def test_two_leaves_without_a_spine(switchgnn: Path) -> None:
    """Leaf partial -> owner's leaf completes: random blocks, every owner exactly once."""
    rng = random.Random(4)
    for _ in range(4):
        block = Block.draw(rng, 5, 15)
        x = block.draw_features(rng)
        leaves = [make_leaf(switchgnn, n, RACKS) for n in range(2)]
        for leaf, rack in zip(leaves, RACKS, strict=True):
            load_blocks(leaf, [block], set(rack))
        sent = block.uploads(x)
        rng.shuffle(sent)
        packets: list[Packet] = []
        for frame in sent:
            here = 0 if frame.worker in RACKS[0] else 1
            leaves[here].send(1, frame.encode())
            for packet in leaves[here].receive():
                if packet.port != UPLINK:
                    packets.append(packet)
                    continue
                assert Frame.decode(packet.data).type == PARTIAL
                leaves[1 - here].send(UPLINK, packet.data)
                packets += leaves[1 - here].receive()
        assert {k: f.values for k, f in results(block, packets).items()} == block.sums(x)
        for leaf in leaves:
            leaf.close()
