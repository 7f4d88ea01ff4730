"""switchml.p4: every worker receives the sum, with slots reused, losses, copies, stragglers and two jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine
from tests.p4.programs.frames import MAX, MIN, Protocol
from tests.p4.programs.net import Net

WIRE = Protocol("switchml.p4", "switchml_t", 9002)
ADDED, RESULTS, DUPLICATES, STALE, SATURATED, ANSWERED, REFUSED = range(7)
Values = list[int]


@dataclass
class Frame:
    worker: int = 0
    slot: int = 0
    chunk: int = 0
    version: int = 0
    job: int = 1
    result: int = 0
    saturated: int = 0
    values: Values = field(default_factory=lambda: [0] * 30)
    dst: int = 0x0A0000FE

    def encode(self) -> bytes:
        fields = {name: vars(self)[name] for name, _ in WIRE.layout if name != "reserved"}
        return WIRE.frame(fields, self.values, src=0x0A000001, dst=self.dst)

    @staticmethod
    def decode(data: bytes) -> Frame:
        got, values = WIRE.parse(data)
        own = {name: got[name] for name, _ in WIRE.layout if name != "reserved"}
        return Frame(**own, values=values, dst=got["ip_dst"])


@dataclass
class Worker:
    """Chunk c goes to slot c % slots; a slot's next chunk is sent once its last result is here."""

    job: int
    number: int
    slots: int
    values: list[Values]
    received: dict[int, Values] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)

    @property
    def finished(self) -> bool:
        return len(self.received) == len(self.values)

    def packet(self, chunk: int) -> bytes:
        slot, version = chunk % self.slots, chunk // self.slots % 2
        return Frame(self.number, slot, chunk, version, self.job, values=self.values[chunk]).encode()

    def start(self) -> list[bytes]:
        self.waiting = set(range(min(self.slots, len(self.values))))
        return self.timeout()

    def timeout(self) -> list[bytes]:
        return [self.packet(c) for c in sorted(self.waiting)]

    def receive(self, data: bytes) -> list[bytes]:
        frame = Frame.decode(data)
        assert (frame.result, frame.job) == (1, self.job)
        assert frame.dst == address(self.job, self.number)
        if frame.chunk not in self.waiting:
            assert self.received[frame.chunk] == frame.values  # a copy
            return []
        self.waiting.remove(frame.chunk)
        self.received[frame.chunk] = frame.values
        following = frame.chunk + self.slots
        if following >= len(self.values):
            return []
        self.waiting.add(following)
        return [self.packet(following)]


def address(job: int, worker: int) -> int:
    return 0x0A000000 | job << 8 | worker


def add_job(
    switch: Engine, job: int, first_slot: int, slots: int, workers: int, *, first_port: int = 10
) -> None:
    entry = {"first_slot": first_slot, "slots": slots, "workers": workers, "group": job}
    switch.insert("job", {"job": job}, "set_job", entry)
    for w in range(workers):
        where = {"mac": w, "ip": address(job, w)}
        switch.insert("worker", {"job": job, "worker": w}, "to_worker", {"port": first_port + w, **where})
        switch.insert("replica", {"job": job, "egress_rid": w}, "to_host", where)
        route = {"port": first_port + w, "mac": w}
        switch.insert("ipv4_lpm", {"dst": (address(job, w), 32)}, "forward", route)
    switch.multicast_group(job, [(first_port + w, w) for w in range(workers)])


def make_net(
    library: Path, jobs: list[tuple[int, int, int]], seed: int, faults: float
) -> tuple[Net, list[Worker]]:
    """`jobs`: (workers, slots, chunks) of each."""
    rng = random.Random(seed)
    switch, hosts, first_slot = Engine(library), list[Worker](), 0
    for job, (workers, slots, chunks) in enumerate(jobs, 1):
        add_job(switch, job, first_slot, slots, workers, first_port=10 + len(hosts))
        first_slot += slots
        for w in range(workers):
            values = [[rng.randint(-(10**6), 10**6) for _ in range(30)] for _ in range(chunks)]
            hosts.append(Worker(job, w, slots, values))
    links = {("star", 10 + n): ("host", n) for n in range(len(hosts))}
    return Net({"star": switch}, links, hosts, rng, faults), hosts


def check(workers: list[Worker]) -> None:
    for w in workers:
        mine = [o.values for o in workers if o.job == w.job]
        for chunk in range(len(w.values)):
            want = [sum(column) for column in zip(*(values[chunk] for values in mine), strict=True)]
            assert w.received[chunk] == want


def events(switch: Engine) -> list[int]:
    return [switch.counter_read("events", n)[0] for n in range(7)]


def test_every_worker_receives_the_sum(switchml: Path) -> None:
    @given(
        st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 5), st.integers(1, 30),
        st.sampled_from([0.0, 0.1, 0.3]),
    )  # fmt: skip
    @settings(max_examples=30, deadline=None)
    def adds_up(seed: int, workers: int, slots: int, chunks: int, faults: float) -> None:
        net, hosts = make_net(switchml, [(workers, slots, chunks)], seed, faults)
        timeouts = net.run()
        check(hosts)
        counted = events(net.switches["star"])
        assert (counted[ADDED], counted[RESULTS], counted[REFUSED]) == (workers * chunks, chunks, 0)
        if not faults:
            assert (timeouts, counted[DUPLICATES], counted[STALE]) == (0, 0, 0)
        net.close()

    adds_up()


@pytest.mark.parametrize("faults", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_two_jobs_at_once(switchml: Path, seed: int, faults: float) -> None:
    net, hosts = make_net(switchml, [(3, 2, 20), (2, 5, 20)], seed, faults)
    net.run()
    check(hosts)
    net.close()


# ---- single steps


@pytest.fixture
def switch(switchml: Path) -> Iterator[Engine]:
    """Job 1: slots 0 to 3, three workers on ports 10 to 12. Job 2: slots 4 to 7."""
    made = Engine(switchml)
    add_job(made, 1, 0, 4, 3)
    add_job(made, 2, 4, 4, 2, first_port=20)
    yield made
    made.close()


def send(switch: Engine, frame: Frame) -> list[tuple[int, Frame]]:
    switch.send(1, frame.encode())
    return [(p.port, Frame.decode(p.data)) for p in switch.receive()]


def fill(switch: Engine, chunk: int, version: int, value: int = 1) -> None:
    for w in range(3):
        got = send(switch, Frame(w, 0, chunk, version, values=[value] * 30))
        assert len(got) == (3 if w == 2 else 0)


def test_the_last_worker_s_packet_becomes_the_result_for_all(switch: Engine) -> None:
    assert send(switch, Frame(2, values=[1] * 30)) == []
    assert send(switch, Frame(0, values=[10] * 30)) == []
    got = send(switch, Frame(1, values=[100] * 30))
    assert [(p, f.result, f.values, f.dst) for p, f in got] == [
        (10 + w, 1, [111] * 30, address(1, w)) for w in range(3)
    ]


def test_a_lost_result_is_answered_from_the_shadow_copy(switch: Engine) -> None:
    """Even while the slot's other version is filled already."""
    fill(switch, 0, 0, value=5)
    assert send(switch, Frame(0, 0, 4, 1, values=[7] * 30)) == []
    [(port, answer)] = send(switch, Frame(1, 0, 0, 0, values=[5] * 30))
    assert (port, answer.chunk, answer.values, answer.result) == (11, 0, [15] * 30, 1)
    assert send(switch, Frame(1, 0, 4, 1, values=[7] * 30)) == []
    assert len(send(switch, Frame(2, 0, 4, 1, values=[7] * 30))) == 3
    assert events(switch)[ANSWERED] == 1


def test_what_a_worker_sends_again_is_added_once(switch: Engine) -> None:
    for _ in range(3):
        assert send(switch, Frame(0, values=[10] * 30)) == []
    assert send(switch, Frame(1, values=[1] * 30)) == []
    assert send(switch, Frame(1, values=[1] * 30)) == []
    assert send(switch, Frame(2, values=[1] * 30))[0][1].values == [12] * 30
    assert events(switch)[DUPLICATES] == 3


def test_a_copy_of_a_chunk_that_is_over_changes_nothing(switch: Engine) -> None:
    fill(switch, 0, 0)
    fill(switch, 4, 1)
    send(switch, Frame(0, 0, 8, 0, values=[9] * 30))
    before = {r.name: switch.register_array(r.name).copy() for r in switch.schema.registers}
    assert send(switch, Frame(1, 0, 0, 0, values=[1] * 30)) == []  # version 0 is chunk 8's now
    assert events(switch)[STALE] == 1
    assert all((switch.register_array(name) == array).all() for name, array in before.items())


def test_nobody_can_run_ahead(switch: Engine) -> None:
    """A chunk that is not the slot's next would make all that follow stale."""
    fill(switch, 0, 0)
    for chunk in (8, 5, 1000, 2**31 - 2):
        assert send(switch, Frame(0, 0, chunk, 1)) == []
    assert events(switch)[REFUSED] == 4
    fill(switch, 4, 1)
    assert send(switch, Frame(0, 0, 12, 0)) == []
    fill(switch, 8, 0)


def test_the_chunk_number_may_wrap(switch: Engine) -> None:
    for n, chunk in enumerate((2**32 - 8, 2**32 - 4, 0, 4)):
        fill(switch, chunk, n % 2, value=chunk % 7)


def test_saturation_is_flagged_and_clamped(switch: Engine) -> None:
    send(switch, Frame(0, values=[MAX, MIN, 5] + [0] * 27))
    send(switch, Frame(1, values=[MAX, MIN, 5] + [0] * 27))
    got = send(switch, Frame(2, values=[0, 0, 5] + [0] * 27))
    assert got[0][1].values[:3] == [MAX, MIN, 15]
    assert all(f.saturated == 1 for _, f in got)
    assert send(switch, Frame(1))[0][1].saturated == 1  # the answer says so too
    assert events(switch)[SATURATED] == 1
    fill(switch, 4, 1)
    fill(switch, 8, 0)
    assert send(switch, Frame(1, 0, 8))[0][1].saturated == 0


@pytest.mark.parametrize(
    "frame",
    [
        Frame(worker=3),
        Frame(worker=255),
        Frame(worker=1, slot=4),
        Frame(worker=1, slot=2**16 - 1),
        Frame(worker=1, job=3),
        Frame(worker=1, job=2, slot=4),
        Frame(worker=1, chunk=2**32 - 1),
        Frame(worker=1, chunk=4, version=1),  # before the chunk in the other version is complete
        Frame(worker=1, chunk=8),  # the version's next, before the other had its turn
    ],
)
def test_a_forged_packet_is_dropped_and_counted(switch: Engine, frame: Frame) -> None:
    send(switch, Frame(0, values=[1] * 30))
    before = {r.name: switch.register_array(r.name).copy() for r in switch.schema.registers}
    assert send(switch, replace(frame, values=[1] * 30)) == []
    assert events(switch)[REFUSED] == 1
    assert all((switch.register_array(name) == array).all() for name, array in before.items())


def test_results_and_other_traffic_are_forwarded(switch: Engine) -> None:
    [(port, got)] = send(switch, Frame(result=1, dst=address(2, 1), values=[4] * 30))
    assert (port, got.values) == (21, [4] * 30)


def test_short_packets_touch_nothing(switch: Engine) -> None:
    whole = Frame(1, values=[1] * 30).encode()
    for cut in (20, 33, 41, 45, 51, 52, 90, len(whole) - 1):
        switch.send(1, whole[:cut])
    assert switch.receive() == []
    assert not switch.register_array("chunk").any()
