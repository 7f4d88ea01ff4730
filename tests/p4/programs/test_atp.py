"""atp.p4: every worker receives the sum, whatever collides, is lost or copied; two levels, two jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from p4.targets import Engine
from tests.p4.programs.frames import MAX, MIN, Protocol
from tests.p4.programs.net import Net

WIRE = Protocol("atp.p4", "atp_t", 9001)
ADDED, SENT, DUPLICATES, COLLISIONS, SATURATED, FREED, REFUSED, EVICTED = range(8)
SERVER, IDLE_US, GROUP, UPLINK = 0x0A0000FE, 1000, 3, 100
Values = list[int]


@dataclass
class Frame:
    sequence: int = 0
    job: int = 1
    bitmap0: int = 1
    bitmap1: int = 1
    fan_in0: int = 1
    fan_in1: int = 2
    level: int = 1
    ack: int = 0
    resend: int = 0
    collision: int = 0
    ecn: int = 0
    saturated: int = 0
    values: Values = field(default_factory=lambda: [0] * 30)
    src: int = 0x0A000001
    dst: int = SERVER
    ip_ecn: int = 2

    def encode(self) -> bytes:
        fields = {name: vars(self)[name] for name, _ in WIRE.layout if name != "reserved"}
        return WIRE.frame(fields, self.values, src=self.src, dst=self.dst, ecn=self.ip_ecn)

    @staticmethod
    def decode(data: bytes) -> Frame:
        got, values = WIRE.parse(data)
        own = {name: got[name] for name, _ in WIRE.layout if name != "reserved"}
        return Frame(**own, values=values, src=got["ip_src"], dst=got["ip_dst"], ip_ecn=got["ip_ecn"])


@dataclass(frozen=True)
class Job:
    """`children` of the server's switch: how many workers each is (1: a worker itself)."""

    number: int
    children: tuple[int, ...]
    server: int
    packets: int

    @property
    def workers(self) -> list[tuple[int, int]]:
        return [(child, w) for child, size in enumerate(self.children) for w in range(size)]


@dataclass
class Worker:
    job: Job
    child: int
    number: int
    ip: int
    values: list[Values]
    window: int = 4
    received: dict[int, Values] = field(default_factory=dict)
    next: int = 0

    @property
    def finished(self) -> bool:
        return len(self.received) == self.job.packets

    def packet(self, sequence: int, resend: int = 0) -> bytes:
        size = self.job.children[self.child]
        return Frame(
            sequence, self.job.number, 1 << self.number, 1 << self.child, size, len(self.job.children),
            level=int(size == 1), resend=resend, values=self.values[sequence], src=self.ip,
            dst=self.job.server,
        ).encode()  # fmt: skip

    def start(self) -> list[bytes]:
        out = []
        while self.next < self.job.packets and self.next - len(self.received) < self.window:
            out.append(self.packet(self.next))
            self.next += 1
        return out

    def timeout(self) -> list[bytes]:
        return [self.packet(s, resend=1) for s in range(self.next) if s not in self.received]

    def receive(self, data: bytes) -> list[bytes]:
        frame = Frame.decode(data)
        assert frame.dst == self.ip
        if frame.job != self.job.number:  # the other job's, from a rack's shared group
            return []
        assert frame.ack
        assert self.received.setdefault(frame.sequence, frame.values) == frame.values
        return self.start()


@dataclass
class Server:
    """Adds up what the switches did not; never the same worker twice."""

    job: Job
    finished: bool = True  # it waits for nobody
    sums: dict[int, Values] = field(default_factory=dict)
    have: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    whole: int = 0  # packets that carried every worker's values

    def start(self) -> list[bytes]:
        return []

    def timeout(self) -> list[bytes]:
        return []

    def members(self, f: Frame) -> set[tuple[int, int]]:
        if f.level == 1:
            return {(c, w) for c, w in self.job.workers if f.bitmap1 >> c & 1}
        child = f.bitmap1.bit_length() - 1
        return {(c, w) for c, w in self.job.workers if c == child and f.bitmap0 >> w & 1}

    def receive(self, data: bytes) -> list[bytes]:
        f = Frame.decode(data)
        assert (f.job, f.ack) == (self.job.number, 0)
        members, everyone = self.members(f), set(self.job.workers)
        have = self.have.setdefault(f.sequence, set())
        if have == everyone:  # they have not got the answer: to each once more
            back = replace(f, ack=1, resend=1, values=self.sums[f.sequence], src=self.job.server)
            return [replace(back, dst=address(self.job, c, w)).encode() for c, w in members]
        if have & members:
            return []
        self.whole += members == everyone
        have |= members
        old = self.sums.get(f.sequence, [0] * 30)
        self.sums[f.sequence] = [a + b for a, b in zip(old, f.values, strict=True)]
        if have != everyone:
            return []
        answer = replace(f, ack=1, resend=0, collision=0, values=self.sums[f.sequence], src=self.job.server)
        return [answer.encode()]


def address(job: Job, child: int, worker: int) -> int:
    return 0x0A000000 | job.number << 16 | child << 8 | worker


# ---- one rack


def make_switch(library: Path, jobs: list[Job], first_port: int = 10) -> Engine:
    """The server's switch: children of one worker on ports from 10 on, then each job's server."""
    switch = Engine(library)
    port = first_port
    for job in jobs:
        group = GROUP + job.number
        entry = {"level": 1, "group": group, "server": job.server, "idle_us": IDLE_US}
        switch.insert("job", {"job": job.number}, "aggregate", entry)
        replicas = []
        for child, _ in enumerate(job.children):
            ip = address(job, child, 0)
            switch.insert("ipv4_lpm", {"dst": (ip, 24)}, "forward", {"port": port, "mac": port})
            switch.insert(
                "replica", {"job": job.number, "egress_rid": child}, "to_host", {"mac": port, "ip": ip}
            )
            replicas.append((port, child))
            port += 1
        switch.insert("ipv4_lpm", {"dst": (job.server, 32)}, "forward", {"port": port, "mac": port})
        switch.multicast_group(group, replicas)
        port += 1
    return switch


def star(library: Path, jobs: list[Job], seed: int, faults: float) -> tuple[Net, list[Worker], list[Server]]:
    rng = random.Random(seed)
    hosts: list[Worker | Server] = []
    links = {}
    for job in jobs:
        for child, worker in job.workers:
            hosts.append(Worker(job, child, worker, address(job, child, worker), draw(rng, job.packets)))
        hosts.append(Server(job))
    for number in range(len(hosts)):
        links["star", 10 + number] = ("host", number)
    net = Net({"star": make_switch(library, jobs)}, links, hosts, rng, faults)
    workers = [h for h in hosts if isinstance(h, Worker)]
    return net, workers, [h for h in hosts if isinstance(h, Server)]


def draw(rng: random.Random, packets: int) -> list[Values]:
    return [[rng.randint(-(10**6), 10**6) for _ in range(30)] for _ in range(packets)]


def check(workers: list[Worker]) -> None:
    """Every worker has the sum of its job's workers, of every packet."""
    for w in workers:
        mine = [o for o in workers if o.job is w.job]
        for sequence in range(w.job.packets):
            want = [sum(column) for column in zip(*(o.values[sequence] for o in mine), strict=True)]
            assert w.received[sequence] == want


def events(switch: Engine) -> list[int]:
    return [switch.counter_read("events", n)[0] for n in range(8)]


def test_every_worker_receives_the_sum(atp: Path) -> None:
    @given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.3]))
    @example(42240, 2, 11, 0.0)  # two of its packets share an aggregator
    @settings(max_examples=25, deadline=None)
    def adds_up(seed: int, workers: int, packets: int, faults: float) -> None:
        net, all_workers, _ = star(atp, [Job(1, (1,) * workers, SERVER, packets)], seed, faults)
        timeouts = net.run()
        check(all_workers)
        if not faults:
            # Of two packets that share an aggregator the later may find it free for some workers only;
            # what waits there then is fetched after a timeout.
            assert timeouts == 0 or events(net.switches["star"])[COLLISIONS] > 0
            assert not net.switches["star"].register_array("owner").any()  # all are free again
        net.close()

    adds_up()


def test_the_switch_adds_up_but_for_collisions(atp: Path) -> None:
    """Two jobs over eight aggregators: what collides, and what waits for it, is added up by the server."""
    jobs = [Job(1, (1, 1, 1), SERVER, 40), Job(2, (1, 1), SERVER + 1, 40)]
    net, workers, servers = star(atp, jobs, 3, 0.0)
    net.run()
    check(workers)
    counted = events(net.switches["star"])
    assert 0 < counted[COLLISIONS] < counted[ADDED]
    whole = sum(s.whole for s in servers)
    assert 20 < whole < 80
    assert whole <= counted[SENT]
    assert not net.switches["star"].register_array("owner").any()
    assert not net.switches["star"].register_array("bitmap").any()
    net.close()


@pytest.mark.parametrize("faults", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_two_jobs_at_once(atp: Path, seed: int, faults: float) -> None:
    jobs = [Job(1, (1, 1, 1), SERVER, 15), Job(2, (1, 1), SERVER + 1, 15)]
    net, workers, _ = star(atp, jobs, seed, faults)
    net.run()
    check(workers)
    net.close()


# ---- two levels


def two_racks(library: Path, job: Job, seed: int, faults: float) -> tuple[Net, list[Worker], Server]:
    """Children of several workers have a leaf of their own; the server's switch is above."""
    rng = random.Random(seed)
    workers = [Worker(job, c, w, address(job, c, w), draw(rng, job.packets)) for c, w in job.workers]
    server = Server(job)
    hosts: list[Worker | Server] = [*workers, server]
    number = {(w.child, w.number): n for n, w in enumerate(workers)}
    switches = {"top": make_switch(library, [job])}
    links = {("top", 10 + len(job.children)): ("host", len(workers))}
    for child, size in enumerate(job.children):
        if size == 1:
            links["top", 10 + child] = ("host", number[child, 0])
            continue
        leaf, name = Engine(library), f"leaf{child}"
        entry = {"level": 0, "group": GROUP, "server": job.server, "idle_us": IDLE_US}
        leaf.insert("job", {"job": job.number}, "aggregate", entry)
        leaf.insert("ipv4_lpm", {"dst": (job.server, 32)}, "forward", {"port": UPLINK, "mac": 1})
        for w in range(size):
            ip = address(job, child, w)
            leaf.insert("ipv4_lpm", {"dst": (ip, 32)}, "forward", {"port": w, "mac": w})
            leaf.insert("replica", {"job": job.number, "egress_rid": w}, "to_host", {"mac": w, "ip": ip})
            links[name, w] = ("host", number[child, w])
        leaf.multicast_group(GROUP, [(w, w) for w in range(size)])
        links[name, UPLINK] = ("top", 10 + child)
        links["top", 10 + child] = (name, UPLINK)
        switches[name] = leaf
    return Net(switches, links, hosts, rng, faults), workers, server


@pytest.mark.parametrize("faults", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("children", [(3, 2), (2, 1, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_two_levels(atp: Path, seed: int, children: tuple[int, ...], faults: float) -> None:
    net, workers, server = two_racks(atp, Job(1, children, SERVER, 12), seed, faults)
    timeouts = net.run()
    check(workers)
    if faults:
        assert timeouts > 0
    else:
        assert timeouts == 0
        top = events(net.switches["top"])
        assert server.whole == top[SENT] > 0
        for switch in net.switches.values():
            assert not switch.register_array("owner").any()
    net.close()


# ---- single steps


@pytest.fixture
def switch(atp: Path) -> Iterator[Engine]:
    """Two workers on ports 10 and 11, the server on 12."""
    made = make_switch(atp, [Job(1, (1, 1), SERVER, 1)])
    yield made
    made.close()


def upload(worker: int, value: int = 1, sequence: int = 5, **fields: int) -> Frame:
    return Frame(sequence, bitmap1=1 << worker, values=[value] * 30, **fields)  # type: ignore[arg-type]


def send(switch: Engine, frame: Frame) -> list[tuple[int, Frame]]:
    switch.send(1, frame.encode())
    return [(p.port, Frame.decode(p.data)) for p in switch.receive()]


def busy(switch: Engine) -> int:
    return int((switch.register_array("owner") != 0).sum())


def test_an_acknowledgment_frees_the_aggregator_and_goes_to_all(switch: Engine) -> None:
    assert send(switch, upload(0, 3)) == []
    [(port, total)] = send(switch, upload(1, 4))
    assert (port, total.bitmap1, total.values, total.ack) == (12, 3, [7] * 30, 0)
    assert busy(switch) == 1  # until the server has it
    assert send(switch, upload(1, 4)) == []
    got = send(switch, Frame(5, ack=1, values=[7] * 30, src=SERVER))
    assert [(p, f.ack, f.values, f.dst) for p, f in got] == [
        (10, 1, [7] * 30, 0x0A010000), (11, 1, [7] * 30, 0x0A010100),
    ]  # fmt: skip
    assert busy(switch) == 0
    assert events(switch)[FREED] == 1


def test_a_resend_takes_the_sum_along_and_frees_the_aggregator(switch: Engine) -> None:
    send(switch, upload(0, 3))
    [(_, handed)] = send(switch, upload(0, 3, resend=1))  # its own values are in already
    assert (handed.bitmap1, handed.values) == (1, [3] * 30)
    assert busy(switch) == 0
    [(_, alone)] = send(switch, upload(0, 3, resend=1))  # nothing is there any more
    assert (alone.bitmap1, alone.values) == (1, [3] * 30)
    send(switch, upload(0, 3))
    [(_, both)] = send(switch, upload(1, 4, resend=1))  # its own are not in yet
    assert (both.bitmap1, both.values) == (3, [7] * 30)
    assert busy(switch) == 0


def test_congestion_is_or_ed_into_the_sum(switch: Engine) -> None:
    for first, second, marked in [(3, 2, 1), (2, 3, 1), (2, 2, 0), (0, 0, 0)]:
        send(switch, replace(upload(0), ip_ecn=first))
        [(_, total)] = send(switch, replace(upload(1), ip_ecn=second))
        assert total.ecn == marked
        send(switch, Frame(5, ack=1, src=SERVER))


def test_saturation_is_flagged_and_clamped(switch: Engine) -> None:
    extremes = [MAX, MIN, -7, MAX] + [0] * 26
    send(switch, replace(upload(0), values=extremes))
    [(_, total)] = send(switch, replace(upload(1), values=[1, -1, -7, 0] + [0] * 26))
    assert total.values[:4] == [MAX, MIN, -14, MAX]
    assert total.saturated == 1
    assert events(switch)[SATURATED] == 1
    send(switch, Frame(5, ack=1, src=SERVER))
    send(switch, upload(0))
    [(_, total)] = send(switch, upload(1))
    assert total.saturated == 0  # the aggregator remembers nothing


def test_an_idle_aggregator_is_given_away(switch: Engine, atp: Path) -> None:
    """A late copy that nobody will acknowledge keeps its aggregator no longer than the idle time."""
    send(switch, upload(0, sequence=5))
    other = colliding(atp, 5)
    [(port, bypassed)] = send(switch, upload(0, 9, sequence=other))
    assert (port, bypassed.collision, bypassed.values) == (12, 1, [9] * 30)
    switch.now_us = IDLE_US + 1
    assert send(switch, upload(0, 9, sequence=other)) == []
    [(_, total)] = send(switch, upload(1, 1, sequence=other))
    assert (total.sequence, total.bitmap1, total.values) == (other, 3, [10] * 30)
    assert events(switch)[EVICTED] == 1


def colliding(library: Path, sequence: int) -> int:
    """Another sequence number of job 1 that hashes to the same aggregator."""

    def place(number: int) -> int:
        with make_switch(library, [Job(1, (1, 1), SERVER, 1)]) as switch:
            send(switch, upload(0, sequence=number))
            return int(switch.register_array("owner").nonzero()[0][0])

    return next(n for n in range(sequence + 1, sequence + 1000) if place(n) == place(sequence))


@pytest.mark.parametrize(
    "fields",
    [
        {"bitmap1": 0},
        {"bitmap1": 3},
        {"bitmap1": 4},
        {"bitmap1": 2**31},
        {"fan_in1": 0},
        {"fan_in1": 33},
        {"fan_in1": 255},
        {"fan_in0": 2},
        {"fan_in0": 33},
        {"bitmap0": 3},
        {"dst": 0x0A0000FD},
        {"ack": 1},
        {"ack": 1, "src": 0x0A010000},
    ],
)
def test_a_forged_packet_is_dropped_and_counted(switch: Engine, fields: dict[str, int]) -> None:
    send(switch, upload(0, 3))
    before = {r.name: switch.register_array(r.name).copy() for r in switch.schema.registers}
    assert send(switch, replace(upload(1), **fields)) == []  # type: ignore[arg-type]
    assert events(switch)[REFUSED] == 1
    assert all((switch.register_array(name) == array).all() for name, array in before.items())


def test_what_is_not_this_switch_s_is_forwarded(switch: Engine) -> None:
    for frame in (
        upload(0, job=9),  # a job without an entry
        upload(0, collision=1),
        upload(0, level=0),  # a part of a rack's sum that its switch handed over
    ):
        [(port, got)] = send(switch, frame)
        assert (port, got) == (12, frame)
    assert busy(switch) == 0


def test_short_and_random_packets_touch_nothing(switch: Engine) -> None:
    whole = upload(0, job=9).encode()

    @given(st.integers(0, len(whole) - 1), st.binary(max_size=30), st.integers(0, 180))
    @settings(max_examples=150, deadline=None)
    def survives(cut: int, noise: bytes, at: int) -> None:
        data = bytearray(whole[:cut])
        data[at : at + len(noise)] = noise
        switch.send(1, bytes(data[: len(whole) - 1]))
        switch.receive()

    survives()
    assert busy(switch) == 0
