"""switchgnn.p4 in tests: its packets, blocks of random graphs, and switches set up for jobs.

Worker w has IP 10.0.1.w and is on port 10 + w; an uplink is port 100, and the spine has leaf n on port n.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from p4.targets import Engine, Packet
from tests.p4.programs.frames import Protocol

UPLOAD, PARTIAL, RESULT, DIRECT, PULL, DONE, COMPLETE, LOAD, CNP = range(1, 10)
ADDED, RESULTS, DUPLICATES, STALE, SATURATED, COMPLETIONS, REFUSED = range(7)
GROUP, RECIRCULATE_PORT, UPLINK, CHUNKS = 3, 510, 100, 2
WIRE = Protocol("wire.p4", "aggregation_t", 9000)
DEFINES = {"AGGREGATORS": "1024", "ENTRIES": "1024", "EDGES": "8192", "BLOCKS": "64", "WORKERS": "64"}
Features = dict[tuple[int, int], list[int]]


@dataclass
class Frame:
    """One aggregation packet, as its fields."""

    type: int
    vertex: int = 0
    chunk: int = 0
    worker: int = 0
    count: int = 1
    block: int = 0
    round: int = 0
    level: int = 0
    job: int = 1
    resend: int = 0
    bypass: int = 0
    pull: int = 0
    saturated: int = 0
    ecn: int = 2
    values: list[int] = field(default_factory=lambda: [0] * 30)
    dst: int = 0x0A0000FE
    mac: int = 0xFE

    def encode(self) -> bytes:
        fields = {name: vars(self)[name] for name, _ in WIRE.layout if name != "reserved"}
        return WIRE.frame(fields, self.values, src=0x0A000001, dst=self.dst, ecn=self.ecn)

    @staticmethod
    def decode(data: bytes) -> Frame:
        got, values = WIRE.parse(data)
        assert got.pop("reserved") == 0
        own = {k: v for k, v in got.items() if not k.startswith(("ip_", "mac_"))}
        return Frame(**own, values=values, ecn=got["ip_ecn"], dst=got["ip_dst"], mac=got["mac_dst"])


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

    def draw_features(self, rng: random.Random, bound: int = 10**6) -> Features:
        return {
            (u, c): [rng.randint(-bound, bound) for _ in range(30)]
            for u in range(len(self.owners))
            for c in range(CHUNKS)
        }

    def sums(self, x: Features) -> Features:
        """What every slot with neighbours must receive, for each chunk."""
        return {
            (v, c): [sum(x[u, c][i] for u in n) for i in range(30)]
            for v, n in enumerate(self.neighbours)
            if n
            for c in range(CHUNKS)
        }

    def uploads(self, x: Features, **fields: int) -> list[Frame]:
        return [
            Frame(UPLOAD, vertex=u, chunk=c, worker=self.owners[u], values=x[u, c], **fields)
            for u, n in enumerate(self.neighbours)
            if n
            for c in range(CHUNKS)
        ]


@dataclass(frozen=True)
class Memory:
    """A job's part of each array."""

    blocks_at: int = 0
    blocks: int = 64
    entries_at: int = 0
    entries: int = 1024
    edges_at: int = 0
    edges: int = 8192
    aggregators_at: int = 0
    aggregators: int = 1024
    workers_at: int = 0

    @staticmethod
    def half(which: int) -> Memory:
        """The lower or upper half of everything."""
        return Memory(
            which * 32, 32, which * 512, 512, which * 4096, 4096, which * 512, 512, which * 32
        )  # fmt: skip


def load(switch: Engine, array: int, first: int, words: list[int], job: int = 1) -> None:
    """Words for one array; every packet must come back as its acknowledgment."""
    for at in range(0, len(words), 30):
        part = words[at : at + 30]
        values = part + [0] * (30 - len(part))
        frame = Frame(LOAD, vertex=first + at, chunk=array, count=len(part), values=values, job=job)
        switch.send(7, frame.encode())
        [answer] = switch.receive()
        assert answer.port == 7
        assert Frame.decode(answer.data) == replace(frame, bypass=1, dst=0x0A000001, mac=1)


def load_blocks(switch: Engine, blocks: list[Block], local: set[int] | None = None, job: int = 1) -> None:
    """Every block's adjacency. ``local``: this leaf's workers, if it is one of several."""
    first, edges = 0, 0
    for number, block in enumerate(blocks):
        load(switch, 0, number, [first], job)
        load(switch, 6, number, [len(block.owners)], job)
        degrees = [len(n) for n in block.neighbours]
        expected = degrees
        if local is not None:  # of a remote vertex, only this leaf's contributions are summed here
            expected = [
                len(n) if block.owners[v] in local else sum(block.owners[u] in local for u in n)
                for v, n in enumerate(block.neighbours)
            ]
        load(switch, 1, first, [edges + sum(degrees[:i]) for i in range(len(degrees))], job)
        load(switch, 2, first, degrees, job)
        load(switch, 3, first, expected, job)
        load(switch, 4, first, block.owners, job)
        load(switch, 5, edges, [v for n in block.neighbours for v in n], job)
        first += len(degrees)
        edges += sum(degrees)


def add_workers(switch: Engine, job: int, workers: int, local: range | None = None) -> None:
    for w in range(workers):
        here = local is None or w in local
        where = {"port": 10 + w if here else UPLINK, "mac": 0x100 + w}
        address = 0x0A000100 + w
        action = "to_worker" if here else "to_remote_worker"
        switch.insert("worker", {"job": job, "worker": w}, action, {**where, "ip": address})
        switch.insert("replica", {"job": job, "egress_rid": w}, "to_host", {"mac": 0x100 + w, "ip": address})


def add_routes(switch: Engine, port_of: Callable[[int], int], workers: int) -> None:
    for w in range(workers):
        entry = {"port": port_of(w), "mac": 0x100 + w}
        switch.insert("ipv4_lpm", {"dst": (0x0A000100 + w, 32)}, "forward", entry)


def make_star(library: Path, workers: int = 4) -> Engine:
    """One switch, job 1 with all of its memory."""
    switch = Engine(library)
    switch.clone_session(1, port=RECIRCULATE_PORT)
    add_job(switch, 1, Memory(), workers)
    add_routes(switch, lambda w: 10 + w, workers)
    return switch


def add_job(switch: Engine, job: int, memory: Memory, workers: int = 4) -> None:
    """A job of a star; its completions go to group GROUP + job."""
    entry = {"chunks": CHUNKS, "workers": workers, "group": GROUP + job}
    switch.insert("job", {"job": job}, "set_job", entry)
    switch.insert("memory", {"job": job}, "set_memory", vars(memory))
    add_workers(switch, job, workers)
    switch.multicast_group(GROUP + job, [(10 + w, w) for w in range(workers)])


def make_leaf(library: Path, number: int, racks: list[range]) -> Engine:
    """One leaf of a fabric that reports what is done to a spine."""
    switch = Engine(library)
    switch.clone_session(1, port=RECIRCULATE_PORT)
    rack, workers = racks[number], racks[-1].stop
    entry = {
        "chunks": CHUNKS, "first_worker": rack.start, "workers": len(rack), "group": GROUP, "up_port": UPLINK,
        "leaf": number,
    }  # fmt: skip
    switch.insert("job", {"job": 1}, "set_leaf", entry)
    switch.insert("memory", {"job": 1}, "set_memory", vars(Memory()))
    add_workers(switch, 1, workers, rack)
    add_routes(switch, lambda w: 10 + w if w in rack else UPLINK, workers)
    switch.multicast_group(GROUP, [(10 + w, w) for w in rack])
    return switch


def make_spine(library: Path, racks: list[range]) -> Engine:
    """The switch above the leaves, leaf n on port n."""
    switch = Engine(library)
    switch.insert("job", {"job": 1}, "set_spine", {"leaves": len(racks), "group": GROUP})
    switch.insert("memory", {"job": 1}, "set_memory", vars(Memory()))
    for n in range(len(racks)):
        entry = {"port": n, "mac": 0x500 + n, "ip": 0x0A000200 + n}
        switch.insert("worker", {"job": 1, "worker": n}, "to_worker", entry)
    add_routes(switch, lambda w: next(n for n, rack in enumerate(racks) if w in rack), racks[-1].stop)
    switch.multicast_group(GROUP, [(n, n) for n in range(len(racks))])
    return switch


def state(switch: Engine) -> dict[str, np.ndarray]:
    """A copy of every register."""
    return {r.name: switch.register_array(r.name).copy() for r in switch.schema.registers}


def same_state(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


def events(switch: Engine) -> list[int]:
    return [switch.counter_read("events", n)[0] for n in range(7)]


def results(block: Block, packets: list[Packet]) -> dict[tuple[int, int], Frame]:
    """Results by (slot, chunk), each once and at its owner's port."""
    out: dict[tuple[int, int], Frame] = {}
    for packet in packets:
        frame = Frame.decode(packet.data)
        assert frame.type == RESULT
        assert packet.port == 10 + block.owners[frame.vertex]
        assert frame.worker == block.owners[frame.vertex]
        assert frame.dst == 0x0A000100 + frame.worker
        assert frame.count == len(block.neighbours[frame.vertex])
        assert (frame.vertex, frame.chunk) not in out, "a second result"
        out[frame.vertex, frame.chunk] = frame
    return out


def assert_clean(switch: Engine, block: Block, now: int, local: range | None = None) -> None:
    """After block `now` (round << 16 | block): what it used holds whole sums, no other aggregator is new."""
    tags, counts = switch.register_array("tag"), switch.register_array("count")
    used = set()
    for v, n in enumerate(block.neighbours):
        here = local is None or block.owners[v] in local
        expected = len(n) if here else sum(block.owners[u] in (local or ()) for u in n)
        for c in range(CHUNKS):
            if expected:
                used.add(v * CHUNKS + c)
                assert tags[v * CHUNKS + c] == now + 1
                assert counts[v * CHUNKS + c] & 0x7FFFFFFF == expected
    assert set(np.flatnonzero(tags == now + 1).tolist()) == used
