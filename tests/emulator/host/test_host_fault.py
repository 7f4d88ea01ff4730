"""Link faults: each does what it says, is counted, and repeats with its seed, however packets are burst."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator.host import FaultEthDev, Faults, Mempool, ShmEthDev, ShmLink, wait
from emulator.wire import FRAME, blank, seal, valid
from workloads.errors import InputError


class Clock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.ns = 10**9

    def __call__(self) -> int:
        return self.ns


class Net:
    """near, behind faults, and far, plain: in one process, by a clock of our own."""

    def __init__(
        self, *, tx: Faults | None = None, rx: Faults | None = None, seed: int = 1, count: int = 8192
    ) -> None:
        self.clock = Clock()
        self.pool = Mempool(count, data_room=256)
        self.link = ShmLink(slots=4096, mtu=200)
        inner = ShmEthDev("near", self.link.ends[0])
        self.near = FaultEthDev("net_fault0", inner, tx=tx, rx=rx, seed=seed, clock=self.clock)
        self.far = ShmEthDev("far", self.link.ends[1])
        for port in (self.near, self.far):
            port.configure(self.pool)
            port.start()

    def send(self, port, numbers) -> None:
        frames = blank(len(numbers))
        frames["agg"]["vertex"] = numbers
        seal(frames)
        mbufs = self.pool.alloc(len(numbers))
        self.pool.write(mbufs, frames)
        assert port.tx_burst(mbufs) == len(numbers)

    def take(self, port, count: int = 8192) -> list[int]:
        mbufs = port.rx_burst(count)
        frames = self.pool.read(mbufs, FRAME)
        self.pool.free(mbufs)
        return frames["agg"]["vertex"].tolist()

    def close(self) -> None:
        self.near.close()
        self.far.close()
        assert self.pool.in_use == 0  # faults leak nothing


@pytest.fixture
def net():
    made = []

    def make(**more) -> Net:
        made.append(Net(**more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_no_faults_change_nothing(net):
    n = net()
    for at in range(0, 300, 30):
        n.send(n.near, range(at, at + 30))
        n.send(n.far, range(at, at + 30))
        assert n.take(n.far) == n.take(n.near) == list(range(at, at + 30))
    assert n.near.stats() == {**n.far.stats()}
    assert {v for k, v in n.near.xstats().items() if "fault" in k} == {0}


@pytest.mark.parametrize("way", ["tx", "rx"])
def test_loss(net, way):
    n = net(**{way: Faults(loss=0.1)})
    sender, receiver = (n.near, n.far) if way == "tx" else (n.far, n.near)
    n.send(sender, range(4000))
    got = n.take(receiver)
    assert got == sorted(got) and 0.87 < len(got) / 4000 < 0.93
    assert n.near.xstats()[f"{way}_fault_lost"] == 4000 - len(got)
    n.send(receiver, range(100))  # the other direction is whole
    assert n.take(sender) == list(range(100))


def test_burst_loss_has_the_lengths_asked_for(net):
    n = net(tx=Faults(burst_start=0.01, burst_end=0.1))
    n.send(n.near, range(4000))
    got = n.take(n.far)
    lost = np.diff([-1, *got, 4000]) - 1
    lengths = lost[lost > 0]
    assert n.near.xstats()["tx_fault_burst_lost"] == lengths.sum() == 4000 - len(got)
    assert 6 < lengths.mean() < 15 and 20 < len(lengths) < 60  # 1/0.1 long, 0.01 * 4000 * 10/11 of them


def test_duplicates_are_packets_of_their_own(net):
    n = net(rx=Faults(duplicate=1.0))
    n.send(n.far, [1, 2])
    mbufs = n.near.rx_burst()
    view = n.pool.view(FRAME)
    assert view["agg"]["vertex"][mbufs].tolist() == [1, 1, 2, 2]
    assert len(set(mbufs.tolist())) == 4
    view["agg"]["vertex"][mbufs[0]] = 99
    assert view["agg"]["vertex"][mbufs[1]] == 1
    n.pool.free(mbufs)
    assert n.near.xstats()["rx_fault_duplicated"] == 2


def test_more_than_asked_for_comes_later(net):
    n = net(rx=Faults(duplicate=1.0))
    n.send(n.far, range(10))
    assert n.take(n.near, 10) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert wait([n.near], 30)  # at once: there is more
    assert n.take(n.near, 10) == [5, 5, 6, 6, 7, 7, 8, 8, 9, 9]


def test_reordered_packets_come_behind_at_most_so_many(net):
    n = net(tx=Faults(reorder=0.2, reorder_depth=3))
    n.send(n.near, range(1000))
    n.clock.ns += 10**6  # those at the end have nobody to wait for
    n.near.rx_burst()  # whatever calls the port lets them go
    got = n.take(n.far)
    assert sorted(got) == list(range(1000)) and got != sorted(got)
    moved = [n - got.index(n) for n in range(1000)]
    assert max(abs(m) for m in moved) <= 3 + 3
    behind = sum(any(later > n for later in got[: got.index(n)]) for n in range(1000))
    assert behind == pytest.approx(n.near.xstats()["tx_fault_reordered"], abs=40)


def test_a_reordered_packet_with_none_behind_it_waits_no_longer_than_told(net):
    n = net(tx=Faults(reorder=1.0, reorder_wait_ns=5000))
    n.send(n.near, [1])
    assert n.take(n.far) == []
    assert n.near.waited_for()[2] == n.clock.ns + 5000
    n.clock.ns += 5000
    n.near.rx_burst()
    assert n.take(n.far) == [1]


def test_corruption_is_noticed_by_the_frame_check(net):
    n = net(tx=Faults(corrupt=0.5))
    n.send(n.near, range(1000))
    mbufs = n.far.rx_burst(1000)
    assert valid(n.pool.read(mbufs, FRAME), 182).all()
    stats = n.near.xstats()
    assert stats["tx_fault_corrupted"] == stats["tx_fault_crc_errors"] == 1000 - len(mbufs) > 400
    n.pool.free(mbufs)


def test_corruption_inside_a_switch_arrives(net):
    n = net(rx=Faults(corrupt=1.0, frame_check=False))
    n.send(n.far, [0] * 500)
    original = blank(1)
    seal(original)
    mbufs = n.near.rx_burst(500)
    frames = n.pool.read(mbufs, FRAME)
    flipped = np.unpackbits(frames.view(np.uint8).reshape(500, -1) ^ original.view(np.uint8), axis=1).sum(
        axis=1
    )
    assert set(flipped.tolist()) == {1, 2, 3}
    assert 0 < valid(frames, 182).sum() < 500  # a bit of the IPv4 header is noticed, one of the values is not
    n.pool.free(mbufs)
    assert n.near.xstats()["rx_fault_crc_errors"] == 0


def test_delay(net):
    n = net(rx=Faults(delay_ns=1000))
    n.send(n.far, [1, 2])
    assert n.take(n.near) == []
    n.clock.ns += 600
    n.send(n.far, [3])
    assert n.take(n.near) == []
    assert n.near.waited_for()[2] == n.clock.ns + 400
    n.clock.ns += 400
    assert n.take(n.near) == [1, 2]
    n.clock.ns += 600
    assert n.take(n.near) == [3]


def test_a_link_that_is_down_for_a_while(net):
    n = net(tx=Faults(down=((100, 200),)))
    n.send(n.near, [1])
    n.clock.ns += 100
    n.send(n.near, [2])
    assert not n.near.link().up
    n.clock.ns += 100
    n.send(n.near, [3])
    assert n.near.link().up
    assert n.take(n.far) == [1, 3]
    n.near.set_down(True)
    n.send(n.near, [4])
    n.send(n.far, [5])
    assert n.take(n.near) == []
    n.near.set_down(False)
    n.send(n.near, [6])
    assert n.take(n.far) == [6]
    assert (n.near.xstats()["tx_fault_down_lost"], n.near.xstats()["rx_fault_down_lost"]) == (2, 1)


def test_a_full_link_tells_the_sender(net):
    n = net(tx=Faults(delay_ns=10**6))
    sent = 0
    for _ in range(6):
        mbufs = n.pool.alloc(1000)
        n.pool.write(mbufs, np.zeros((1000, 60), np.uint8))
        taken = n.near.tx_burst(mbufs)
        n.pool.free(mbufs[taken:])
        sent += taken
    assert sent == 4096
    n.clock.ns += 10**6
    n.near.rx_burst()
    got = n.far.rx_burst(8192)
    assert len(got) == 4096
    n.pool.free(got)


EVERY = Faults(
    loss=0.1,
    burst_start=0.02,
    burst_end=0.3,
    duplicate=0.1,
    reorder=0.2,
    corrupt=0.1,
    frame_check=False,
    delay_ns=50,
)


def outcome(bursts: list[int], seed: int) -> tuple[list[int], dict[str, int]]:
    n = Net(tx=EVERY, seed=seed, count=2048)
    at = 0
    for size in bursts:
        n.send(n.near, range(at, at + size))
        at += size
    n.clock.ns += 10**9
    n.near.rx_burst()
    mbufs = n.far.rx_burst(4096)
    whole = [bytes(row) for row in n.pool.read(mbufs, FRAME)]
    n.pool.free(mbufs)
    counts = {k: v for k, v in n.near.xstats().items() if "fault" in k}
    n.close()
    return [hash(row) for row in whole], counts


@settings(max_examples=25, deadline=None)
@example([50], 1381)  # a second copy and a late packet at the same place in line
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_faults_however_packets_are_burst(bursts, seed):
    assert outcome(bursts, seed) == outcome([sum(bursts)], seed) == outcome([1] * sum(bursts), seed)


def test_another_seed_gives_others():
    assert outcome([500], 1) != outcome([500], 2)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"loss": "1.5"}, "fault loss: 1.5, allowed 0 to 1"),
        ({"loss": "nan"}, "fault loss: nan, allowed 0 to 1"),
        ({"los": "0.5"}, "fault los: unknown, allowed loss, "),
        ({"loss": "much"}, "fault loss: 'much', allowed a number"),
        ({"burst_start": "0.1", "burst_end": "0"}, "fault burst_end: 0"),
        ({"reorder_depth": "0"}, "fault reorder_depth: 0, allowed 1 or more"),
        ({"delay_ns": "-1"}, "fault delay_ns: -1, allowed 0 or more"),
        ({"down": "5"}, "fault down: '5', allowed FROM-UNTIL in ns"),
        ({"down": "5-5"}, "fault down: 5 to 5 ns"),
        ({"frame_check": "2"}, "fault frame_check: '2', allowed 0 or 1"),
    ],
)
def test_faults_that_make_no_sense(given_, said):
    with pytest.raises(InputError) as error:
        Faults.parse(given_)
    assert str(error.value).startswith(said)


def test_faults_from_text():
    assert Faults.parse({"loss": "0.5", "frame_check": "0", "down": "5-7", "delay_ns": "3"}) == Faults(
        loss=0.5, frame_check=False, down=((5, 7),), delay_ns=3
    )
