"""switchgnn.p4 adds up: random graphs, orders, duplicates, losses, blocks, two leaves, saturation."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import SWITCHGNN
from p4.targets import Engine, Packet

UPLOAD, PARTIAL, RESULT, DIRECT, PULL, DONE, COMPLETE, LOAD = range(1, 9)
RESEND, BYPASS, PULLED, SATURATED = 0x80, 0x40, 0x20, 0x10
CHUNKS, GROUP, RECIRCULATE_PORT, UPLINK = 2, 3, 510, 100
MIN, MAX = -(2**31), 2**31 - 1


def internet_checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass
class Frame:
    """One aggregation packet, as its fields."""

    type: int
    vertex: int = 0
    chunk: int = 0
    worker: int = 0
    count: int = 1
    flags: int = 0
    block: int = 0
    round: int = 0
    level: int = 0
    job: int = 1
    ecn: int = 2
    values: list[int] = field(default_factory=lambda: [0] * 30)
    dst: int = 0x0A0000FE

    def encode(self) -> bytes:
        head = struct.pack(
            ">BBBBHHIHHI", self.type, self.flags, self.job, self.level, self.block, self.round, self.vertex,
            self.chunk, self.worker, self.count,
        )  # fmt: skip
        body = head[:8] + head[8:] + struct.pack(">30i", *self.values)
        udp = struct.pack(">HHHH", 5555, 9000, 8 + len(body), 0)
        ip = struct.pack(">BBHHHBBHII", 0x45, self.ecn, 28 + len(body), 0, 0, 64, 17, 0, 0x0A000001, self.dst)
        ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
        return bytes.fromhex("0000000000fe 000000000001 0800") + ip + udp + body

    @staticmethod
    def decode(data: bytes) -> Frame:
        assert len(data) == 14 + 20 + 8 + 20 + 120
        assert internet_checksum(data[14:34]) == 0
        kind, flags, job, level, block, round_, vertex, chunk, worker, count = struct.unpack(
            ">BBBBHHIHHI", data[42:62]
        )
        values = list(struct.unpack(">30i", data[62:]))
        ecn, dst = data[15] & 3, int.from_bytes(data[30:34], "big")
        return Frame(kind, vertex, chunk, worker, count, flags, block, round_, level, job, ecn, values, dst)


@dataclass
class Block:
    """A block's graph: slots, their owners, symmetric neighbours."""

    owners: list[int]
    neighbours: list[list[int]]

    @staticmethod
    def draw(rng: random.Random, workers: int, slots: int) -> Block:
        neighbours: list[set[int]] = [set() for _ in range(slots)]
        for _ in range(rng.randint(1, slots * 3)):
            u, v = rng.sample(range(slots), 2)
            neighbours[u].add(v)
            neighbours[v].add(u)
        return Block([rng.randrange(workers) for _ in range(slots)], [sorted(n) for n in neighbours])

    def sums(self, x: dict[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[int]]:
        """What every slot with neighbours must receive, for each chunk."""
        return {
            (v, c): [sum(x[u, c][i] for u in n) for i in range(30)]
            for v, n in enumerate(self.neighbours)
            if n
            for c in range(CHUNKS)
        }


def load(switch: Engine, array: int, first: int, words: list[int]) -> None:
    for at in range(0, len(words), 30):
        part = words[at : at + 30]
        values = part + [0] * (30 - len(part))
        switch.send(0, Frame(LOAD, vertex=first + at, chunk=array, count=len(part), values=values).encode())
    assert switch.receive() == []


def load_blocks(switch: Engine, blocks: list[Block], local: set[int] | None = None) -> None:
    """Every block's adjacency. ``local``: this leaf's workers, if it is one of several."""
    first, edges = 0, 0
    for number, block in enumerate(blocks):
        load(switch, 0, number, [first])
        degrees = [len(n) for n in block.neighbours]
        starts = [edges + sum(degrees[:i]) for i in range(len(degrees))]
        expected = degrees
        if local is not None:  # of a remote vertex, only this leaf's contributions are summed here
            expected = [
                len(n) if block.owners[v] in local else sum(block.owners[u] in local for u in n)
                for v, n in enumerate(block.neighbours)
            ]
        load(switch, 1, first, starts)
        load(switch, 2, first, degrees)
        load(switch, 3, first, expected)
        load(switch, 4, first, block.owners)
        load(switch, 5, edges, [v for n in block.neighbours for v in n])
        first += len(degrees)
        edges += sum(degrees)


@pytest.fixture(scope="module")
def library(libraries: Path) -> Path:
    defines = {"AGGREGATORS": "4096", "ENTRIES": "4096", "EDGES": "65536", "BLOCKS": "64", "WORKERS": "64"}
    return build(generate(load_program(SWITCHGNN, defines=defines)), folder=libraries)


def make_switch(library: Path, workers: int = 4, local: set[int] | None = None) -> Engine:
    switch = Engine(library)
    switch.clone_session(1, port=RECIRCULATE_PORT)
    switch.insert("job", {"job": 1}, "set_job", {"chunks": CHUNKS, "workers": workers, "group": GROUP})
    for w in range(workers):
        remote = local is not None and w not in local
        action = "to_remote_worker" if remote else "to_worker"
        port = UPLINK if remote else 10 + w
        switch.insert("worker", {"worker": w}, action, {"port": port, "mac": 0x100 + w, "ip": 0x0A000100 + w})
        switch.insert("ipv4_lpm", {"dst": (0x0A000100 + w, 32)}, "forward", {"port": port, "mac": 0x100 + w})
    switch.multicast_group(GROUP, [(10 + w, w) for w in range(workers)])
    return switch


@pytest.fixture
def switch(library: Path) -> Iterator[Engine]:
    made = make_switch(library)
    yield made
    made.close()


def features(rng: random.Random, block: Block, bound: int = 10**6) -> dict[tuple[int, int], list[int]]:
    return {
        (u, c): [rng.randint(-bound, bound) for _ in range(30)]
        for u in range(len(block.owners))
        for c in range(CHUNKS)
    }


def uploads(block: Block, x: dict[tuple[int, int], list[int]], number: int, round_: int) -> list[Frame]:
    return [
        Frame(UPLOAD, vertex=u, chunk=c, worker=block.owners[u], block=number, round=round_, values=x[u, c])
        for u, n in enumerate(block.neighbours)
        if n
        for c in range(CHUNKS)
    ]


def results(block: Block, packets: list[Packet]) -> dict[tuple[int, int], Frame]:
    """Results by (slot, chunk), each once and at its owner's port."""
    out: dict[tuple[int, int], Frame] = {}
    for packet in packets:
        frame = Frame.decode(packet.data)
        assert frame.type == RESULT
        assert packet.port == 10 + block.owners[frame.vertex]
        assert frame.worker == block.owners[frame.vertex]
        assert frame.count == len(block.neighbours[frame.vertex])
        assert (frame.vertex, frame.chunk) not in out, "a second result"
        out[frame.vertex, frame.chunk] = frame
    return out


def test_every_owner_receives_the_sum(library: Path) -> None:
    @given(st.integers(0, 2**32), st.integers(2, 25))
    @settings(max_examples=25, deadline=None)
    def adds_up(seed: int, slots: int) -> None:
        rng = random.Random(seed)
        block = Block.draw(rng, 4, slots)
        x = features(rng, block)
        with make_switch(library) as switch:
            load_blocks(switch, [block])
            sent = uploads(block, x, 0, 0)
            # Copies in the network, and retransmissions by hosts, anywhere after the original.
            extra = [f for f in sent if rng.random() < 0.3]
            resent = [
                Frame(**{**vars(f), "flags": RESEND, "dst": 0x0A000100}) for f in sent if rng.random() < 0.3
            ]
            rng.shuffle(sent)
            order = [*sent, *extra, *resent]
            packets: list[Packet] = []
            for frame in order:
                switch.send(1, frame.encode())
                got = switch.receive()
                if frame.flags & RESEND:
                    assert [(p.port, Frame.decode(p.data).type) for p in got] == [(10, UPLOAD)]
                else:
                    packets += got
            assert {k: f.values for k, f in results(block, packets).items()} == block.sums(x)
            assert switch.counter_read("events", 2)[0] == len(extra)
            assert switch.statistics()["runaways"] == 0

    adds_up()


def test_a_duplicate_in_the_middle_is_not_added(switch: Engine) -> None:
    block = Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])
    x = {(u, c): [u + 1] * 30 for u in range(3) for c in range(CHUNKS)}
    load_blocks(switch, [block])
    packets: list[Packet] = []
    for frame in uploads(block, x, 0, 7):
        for _ in range(3):
            switch.send(1, frame.encode())
        packets += switch.receive()
    assert {k: f.values for k, f in results(block, packets).items()} == block.sums(x)


def test_losses_in_one_block_leave_nothing_in_the_next(switch: Engine) -> None:
    rng = random.Random(8)
    blocks = [Block.draw(rng, 4, 12) for _ in range(3)]
    load_blocks(switch, blocks)
    for round_ in range(2):
        for number, block in enumerate(blocks):
            x = features(rng, block)
            sent = uploads(block, x, number, round_)
            lossy = number != 2
            sent = [f for f in sent if not lossy or rng.random() < 0.7]
            rng.shuffle(sent)
            for frame in sent:
                switch.send(1, frame.encode())
            got = results(block, switch.receive())
            want = block.sums(x)
            assert all(f.values == want[k] for k, f in got.items())
            if not lossy:
                assert set(got) == set(want)
            else:
                assert set(got) < set(want)


def test_completion_is_multicast_once_when_the_last_worker_is_done(switch: Engine) -> None:
    def done(worker: int, number: int, flags: int = 0) -> list[tuple[int, int]]:
        switch.send(10 + worker, Frame(DONE, worker=worker, block=number, flags=flags).encode())
        return [(p.port, Frame.decode(p.data).type) for p in switch.receive()]

    for number in (0, 1):
        assert [done(w, number) for w in (2, 0)] == [[], []]
        assert done(2, number, RESEND) == []  # reported twice: counted once
        assert done(1, number) == []
        assert done(3, number) == [(10 + w, COMPLETE) for w in range(4)]
        assert done(1, number, RESEND) == [(11, COMPLETE)]  # its completion was lost
    assert switch.counter_read("events", 5)[0] == 2


def test_saturation_is_flagged_and_clamped(switch: Engine) -> None:
    block = Block([0, 1, 2], [[1, 2], [0], [0]])
    x = {(u, c): [MAX, MIN, 5] + [0] * 27 for u in range(3) for c in range(CHUNKS)}
    load_blocks(switch, [block])
    for frame in uploads(block, x, 0, 0):
        switch.send(1, frame.encode())
    got = results(block, switch.receive())
    assert got[0, 0].values[:3] == [MAX, MIN, 10]
    assert got[0, 0].flags == SATURATED
    assert got[1, 0].flags == 0
    assert switch.counter_read("events", 4)[0] == CHUNKS


def test_partial_sums_take_one_pass(switch: Engine) -> None:
    block = Block([3], [[0, 0, 0]])  # three contributions, as two partials
    load_blocks(switch, [block])
    for count, value in ((2, 10), (1, 5)):
        switch.send(1, Frame(PARTIAL, count=count, worker=0, values=[value] * 30).encode())
    [packet] = switch.receive()
    frame = Frame.decode(packet.data)
    assert (packet.port, frame.type, frame.count, frame.values) == (13, RESULT, 3, [15] * 30)
    assert switch.statistics()["passes"] - 6 == 3  # six loads; two in ingress, one of them on to egress


def test_two_leaves(library: Path) -> None:
    rng = random.Random(4)
    for _ in range(5):
        block = Block.draw(rng, 4, 15)
        x = features(rng, block)
        racks = [{0, 1}, {2, 3}]
        leaves = [make_switch(library, local=rack) for rack in racks]
        for leaf, rack in zip(leaves, racks, strict=True):
            load_blocks(leaf, [block], rack)
        sent = uploads(block, x, 0, 0)
        rng.shuffle(sent)
        packets: list[Packet] = []
        for frame in sent:
            here = 0 if frame.worker in racks[0] else 1
            leaves[here].send(1, frame.encode())
            for packet in leaves[here].receive():
                if packet.port != UPLINK:
                    packets.append(packet)
                    continue
                partial = Frame.decode(packet.data)
                assert (partial.type, partial.level) == (PARTIAL, 1)
                leaves[1 - here].send(UPLINK, packet.data)
                packets += leaves[1 - here].receive()
        assert {k: f.values for k, f in results(block, packets).items()} == block.sums(x)
        for leaf in leaves:
            leaf.close()


@pytest.mark.parametrize(
    ("kind", "flags"),
    [(UPLOAD, BYPASS), (UPLOAD, RESEND), (DIRECT, PULLED), (PULL, 0), (RESULT, 0), (DIRECT, BYPASS)],
)
def test_what_is_not_for_the_switch_is_forwarded(switch: Engine, kind: int, flags: int) -> None:
    values = list(range(30))
    switch.send(1, Frame(kind, vertex=5, worker=2, flags=flags, values=values, dst=0x0A000102).encode())
    [packet] = switch.receive()
    frame = Frame.decode(packet.data)
    assert packet.port == 12
    assert (frame.type, frame.flags, frame.vertex, frame.values) == (kind, flags, 5, values)
    assert packet.data[22] == 63  # TTL


def test_packets_of_other_jobs_or_with_a_bad_checksum_are_dropped(switch: Engine) -> None:
    switch.send(1, Frame(UPLOAD, job=9).encode())
    broken = bytearray(Frame(UPLOAD, dst=0x0A000100).encode())
    broken[20] ^= 1
    switch.send(1, bytes(broken))
    assert switch.receive() == []


def test_garbage_does_no_harm(switch: Engine) -> None:
    whole = Frame(UPLOAD, vertex=3).encode()

    @given(st.integers(0, len(whole)), st.binary(max_size=40), st.integers(0, 200))
    @settings(max_examples=300, deadline=None)
    def survives(cut: int, noise: bytes, at: int) -> None:
        data = bytearray(whole[:cut])
        data[at : at + len(noise)] = noise
        switch.send(1, bytes(data))
        switch.receive()

    survives()
