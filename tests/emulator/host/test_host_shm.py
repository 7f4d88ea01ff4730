"""net_shm: links between processes, by fork and by name; sleeping and waking; peers that die or misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from emulator.host import Lcore, LcoreError, Mempool, ShmEthDev, ShmLink, ShmSocketDev, wait
from emulator.host.ethdev import EthDev
from emulator.wire import FRAME, blank, seal, valid
from workloads.errors import InputError


def opened(port: EthDev, pool: Mempool) -> EthDev:
    port.configure(pool)
    port.start()
    return port


def numbered(pool: Mempool, numbers: np.ndarray) -> np.ndarray:
    """Frames whose vertices are `numbers`, in new mbufs."""
    frames = blank(len(numbers))
    frames["agg"]["vertex"] = numbers
    seal(frames)
    mbufs = pool.alloc(len(numbers))
    pool.write(mbufs, frames)
    return mbufs


def taken(pool: Mempool, port: EthDev, count: int = 32) -> list[int]:
    mbufs = port.rx_burst(count)
    frames = pool.read(mbufs, FRAME)
    assert valid(frames, pool.lengths(mbufs)).all()
    pool.free(mbufs)
    return frames["agg"]["vertex"].tolist()


@pytest.fixture
def pair():
    pool = Mempool(512)
    link = ShmLink(slots=64)
    a, b = (opened(ShmEthDev(f"net_shm{i}", end), pool) for i, end in enumerate(link.ends))
    yield pool, a, b
    a.close()
    b.close()
    assert pool.in_use == 0


def test_both_ways_in_order_with_counters(pair):
    pool, a, b = pair
    for at in range(0, 3000, 30):
        assert a.tx_burst(numbered(pool, np.arange(at, at + 30))) == 30
        assert b.tx_burst(numbered(pool, np.arange(at, at + 30) + 10**6)) == 30
        assert taken(pool, b) == list(range(at, at + 30))
        assert taken(pool, a) == list(range(10**6 + at, 10**6 + at + 30))
    for port in (a, b):
        stats = port.stats()
        assert (stats["ipackets"], stats["opackets"]) == (3000, 3000)
        assert (stats["ibytes"], stats["obytes"]) == (3000 * 182, 3000 * 182)
    assert list(a.stats()) == [
        "ipackets",
        "opackets",
        "ibytes",
        "obytes",
        "imissed",
        "ierrors",
        "oerrors",
        "rx_nombuf",
    ]
    a.reset_stats()
    assert set(a.xstats().values()) == {0}


def test_a_full_ring_hands_the_rest_back(pair):
    pool, a, b = pair
    mbufs = numbered(pool, np.arange(100))
    assert a.tx_burst(mbufs) == 64
    assert a.tx_burst(mbufs[64:]) == 0
    assert pool.leaked().tolist() == sorted(mbufs[64:].tolist())
    assert taken(pool, b, 10) == list(range(10))
    assert a.tx_burst(mbufs[64:]) == 10
    pool.free(mbufs[74:])
    assert taken(pool, b, 100) == list(range(10, 74))
    assert a.xstats()["tx_full"] == 36 + 36 + 26


def test_without_mbufs_packets_stay_in_the_link(pair):
    pool, a, b = pair
    a.tx_burst(numbered(pool, np.arange(5)))
    held = pool.alloc(pool.available)
    assert len(b.rx_burst()) == 0
    assert b.stats()["rx_nombuf"] == 1
    pool.free(held)
    assert taken(pool, b) == list(range(5))


def test_sizes_that_do_not_fit(pair):
    pool, a, b = pair
    mbufs = pool.alloc(4)
    pool.write(mbufs[:1], np.zeros((1, 1514), np.uint8))
    pool.write(mbufs[1:2], np.zeros((1, 1515), np.uint8))
    pool.write(mbufs[2:3], np.zeros((1, 13), np.uint8))
    pool.write(mbufs[3:], np.zeros((1, 14), np.uint8))
    assert a.tx_burst(mbufs) == 4
    got = b.rx_burst()
    assert pool.lengths(got).tolist() == [1514, 14]
    pool.free(got)
    assert (a.stats()["oerrors"], a.stats()["opackets"]) == (2, 2)


def test_mtu():
    pool = Mempool(16, data_room=9000)
    link = ShmLink(slots=4, mtu=8000)
    a, b = ShmEthDev("a", link.ends[0]), ShmEthDev("b", link.ends[1])
    a.mtu = 5000
    opened(a, pool), opened(b, pool)
    with pytest.raises(RuntimeError, match="stop it"):
        a.mtu = 100
    for wrong in (67, 65522):
        with pytest.raises(InputError, match="allowed 68 to 65521"):
            a.mtu = wrong if not a.stop() else 0
    a.start()
    mbufs = pool.alloc(2)
    for i, size in enumerate((5014, 5015)):
        pool.write(mbufs[i : i + 1], np.zeros((1, size), np.uint8))
    a.tx_burst(mbufs)
    got = b.rx_burst()
    assert pool.lengths(got).tolist() == [5014]
    pool.free(got)
    small = Mempool(16, data_room=100)
    b.stop()
    opened(b, small)
    mbufs = numbered(pool, np.arange(2))
    a.tx_burst(mbufs)
    assert len(b.rx_burst()) == 0 and b.stats()["ierrors"] == 2 and small.in_use == 0
    link.close()


def test_addresses_are_filtered_unless_promiscuous(pair):
    pool, a, b = pair
    b.stop()
    b.mac = bytes.fromhex("020000000001")
    b.promiscuous = False
    b.start()
    mbufs = numbered(pool, np.arange(4))
    dst = pool.view(FRAME)["ethernet"]["dst"]
    dst[mbufs] = [
        list(bytes.fromhex(m)) for m in ("020000000001", "020000000002", "ffffffffffff", "01005e000001")
    ]
    a.tx_burst(mbufs)
    assert taken(pool, b) == [0, 2, 3]
    assert (b.promiscuous, b.xstats()["rx_filtered"]) == (False, 1)
    b.promiscuous = True
    mbufs = numbered(pool, np.arange(1))
    a.tx_burst(mbufs)
    assert taken(pool, b) == [0]


def test_mbufs_know_their_port_and_time(pair):
    pool, a, b = pair
    b.stop()
    b.port_id = 7
    b.start()
    before = time.monotonic_ns()
    a.tx_burst(numbered(pool, np.arange(2)))
    got = b.rx_burst()
    assert set(pool.meta["port"][got]) == {7}
    assert all(before <= t <= time.monotonic_ns() for t in pool.meta["timestamp_ns"][got].tolist())
    pool.free(got)


def test_a_stopped_port_neither_sends_nor_receives(pair):
    pool, a, _ = pair
    a.stop()
    mbufs = numbered(pool, np.arange(1))
    assert (a.tx_burst(mbufs), len(a.rx_burst()), a.link().up) == (0, 0, False)
    pool.free(mbufs)
    with pytest.raises(RuntimeError, match="configure it first"):
        ShmEthDev("x", ShmLink().ends[0]).start()


def test_sending_what_is_not_ours_is_refused(pair):
    pool, a, _ = pair
    mbufs = numbered(pool, np.arange(2))
    pool.free(mbufs)
    with pytest.raises(ValueError, match="free or not of this pool"):
        a.tx_burst(mbufs)


def echo(port: EthDev, pool: Mempool, rounds: int) -> None:
    """Send back what comes, asleep in between."""
    opened(port, pool)
    for _ in range(rounds):
        while not len(mbufs := port.rx_burst()):
            if not wait([port], 20):
                raise TimeoutError("not woken")
        while len(mbufs):
            mbufs = mbufs[port.tx_burst(mbufs) :]


def test_wake_up_across_processes_loses_no_packet():
    """Ping-pong with both sides asleep most of the time: one wake-up lost and nobody moves again."""
    link = ShmLink(slots=8)
    pool = Mempool(64)
    lcore = Lcore(echo, ShmEthDev("far", link.ends[1]), Mempool(64), 20000, keep=[link.ends[1]])
    port = opened(ShmEthDev("near", link.ends[0]), pool)
    for n in range(20000):
        port.tx_burst(numbered(pool, np.array([n])))
        while not (got := taken(pool, port)):
            assert wait([port], 20)
        assert got == [n]
    lcore.join(10)
    assert port.xstats()["sleeps"] > 0
    link.close()


def stream(port: EthDev, count: int) -> None:
    pool = Mempool(256)
    opened(port, pool)
    rng = np.random.default_rng(1)
    at = 0
    while at < count:
        mbufs = numbered(pool, np.arange(at, min(count, at + int(rng.integers(1, 64)))))
        at += len(mbufs)
        while len(mbufs):
            mbufs = mbufs[port.tx_burst(mbufs) :]
            if len(mbufs):
                wait([port], 1e-4)


def test_two_streams_at_once():
    links = [ShmLink(slots=32) for _ in range(2)]
    pool = Mempool(1024)
    count = 60_000
    lcores = [
        Lcore(stream, ShmEthDev("far", link.ends[1]), count, keep=[link.ends[1]], cpu=i)
        for i, link in enumerate(links)
    ]
    ports = [opened(ShmEthDev(f"near{i}", link.ends[0]), pool) for i, link in enumerate(links)]
    for link in links:
        link.ends[1].close()
    expected = [0, 0]
    while min(expected) < count:
        for i, port in enumerate(ports):
            got = taken(pool, port)
            assert got == list(range(expected[i], expected[i] + len(got)))
            expected[i] += len(got)
        if not wait(ports, 20):
            pytest.fail("nothing came for 20 s")
    for lcore in lcores:
        lcore.join(10)
    for port in ports:
        port.close()


def test_waiting_without_packets_takes_the_time_it_should(pair):
    _, a, b = pair
    start = time.process_time()
    assert wait([a, b], 0.2) is False
    assert time.process_time() - start < 0.1


def test_wait_takes_descriptors_too(pair):
    _, a, _ = pair
    r, w = os.pipe()
    try:
        assert wait([a], 0, descriptors=[r]) is False
        os.write(w, b"x")
        assert wait([a], 30, descriptors=[r]) is True
    finally:
        os.close(r)
        os.close(w)


def test_a_peer_that_dies_takes_the_link_down():
    link = ShmLink()
    lcore = Lcore(signal.pause, keep=[link.ends[1]])
    link.ends[1].close()
    pool = Mempool(16)
    port = opened(ShmEthDev("net_shm0", link.ends[0]), pool)
    assert port.link().up
    lcore.kill()
    assert wait([port], 30)  # told, not timed out
    assert not port.link().up
    start = time.process_time()
    assert wait([port], 0.2) is False  # and then it costs nothing
    assert time.process_time() - start < 0.1
    port.close()


def test_a_peer_that_breaks_the_ring_is_an_error_not_a_crash():
    link = ShmLink(slots=4)
    pool = Mempool(16)
    port = opened(ShmEthDev("net_shm0", link.ends[0]), pool)
    region = link.ends[1].region
    with open(f"/proc/self/fd/{region.fd}", "r+b") as memory:
        whole = bytearray(memory.read())
        # Every word of the header's two rings set to nonsense, one after the other.
        for at in range(64, 64 + 2 * 192, 4):
            changed = whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :]
            memory.seek(0)
            memory.write(changed)
            memory.flush()
            mbufs = pool.alloc(1)
            pool.write(mbufs, np.zeros((1, 60), np.uint8))
            try:
                pool.free(port.rx_burst())
                mbufs = mbufs[port.tx_burst(mbufs) :]
            except RuntimeError as error:
                assert "broke the ring" in str(error)
            pool.free(mbufs)
    assert pool.in_use == 0
    link.close()


def test_an_oversized_slot_is_dropped():
    link = ShmLink(slots=4)
    pool = Mempool(16)
    a, b = (opened(ShmEthDev(f"{i}", end), pool) for i, end in enumerate(link.ends))
    a.tx_burst(numbered(pool, np.arange(2)))
    with open(f"/proc/self/fd/{link.ends[0].region.fd}", "r+b") as memory:
        whole = memory.read()
        at = whole.index((182).to_bytes(4, "little"))
        memory.seek(at)
        memory.write((2**31).to_bytes(4, "little"))
    assert taken(pool, b) == [1]
    assert b.stats()["ierrors"] == 1 and pool.in_use == 0
    link.close()


@pytest.mark.parametrize("slots", [0, 3, 2**21])
def test_impossible_links(slots):
    with pytest.raises(ValueError, match="slots must be a power of two"):
        ShmLink(slots=slots)


def test_descriptors_come_back():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        link = ShmLink()
        pool = Mempool(16)
        for i, end in enumerate(link.ends):
            port = opened(ShmEthDev(f"{i}", end), pool)
            port.stop()
            port.start()
            port.close()
        link.close()
        with pytest.raises(RuntimeError, match="closed"):
            link.ends[0].open()
        del pool, port
    assert len(os.listdir("/proc/self/fd")) == before


# ---- by name


def server_of(name: str) -> ShmSocketDev:
    return ShmSocketDev("net_shm0", name, server=True, slots=64)


CLIENT = """
import sys
import numpy as np
from emulator.host import Mempool, ShmSocketDev, wait
pool = Mempool(64)
port = ShmSocketDev("net_shm0", sys.argv[1], server=False)
port.configure(pool)
port.start()
print("up", flush=True)
while not len(mbufs := port.rx_burst()):
    wait([port], 5)
port.tx_burst(mbufs)
sys.stdin.read()
"""


def test_unrelated_processes_meet_by_name_again_and_again():
    name = f"netfold-test-{os.getpid()}"
    pool = Mempool(64)
    port = opened(server_of(name), pool)
    assert not port.link().up
    before = len(os.listdir("/proc/self/fd"))
    for n in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as client:
            assert wait([port], 30)  # a client knocks
            assert port.link().up
            assert client.stdout is not None and client.stdout.readline() == "up\n"
            port.tx_burst(numbered(pool, np.array([n])))
            while not (got := taken(pool, port)):
                assert wait([port], 30)
            assert got == [n]
            client.kill()
        while port.link().up:
            wait([port], 1)
    port.stop()
    assert pool.in_use == 0
    assert port.stats()["ipackets"] == 2  # of both
    assert len(os.listdir("/proc/self/fd")) < before
    port.start()  # the name is free again
    port.close()


def test_errors_of_meeting_by_name():
    name = f"netfold-test-{os.getpid()}-b"
    pool = Mempool(16)
    client = ShmSocketDev("net_shm1", name, server=False)
    client.configure(pool)
    with pytest.raises(InputError, match="no server there; start the side with role=server first"):
        client.start()
    server = opened(server_of(name), pool)
    with pytest.raises(InputError, match="another server has this name"):
        opened(server_of(name), pool)
    server.close()


# ---- lcores


def test_lcores_return_raise_and_are_pinned():
    cpu = min(os.sched_getaffinity(0))
    assert Lcore(os.sched_getaffinity, 0, cpu=cpu).join(30) == {cpu}
    assert Lcore(os.sched_getaffinity, 0, cpu=100_000).join(30) == os.sched_getaffinity(0)
    with pytest.raises(LcoreError, match=r"lcore 4: ZeroDivisionError: "):
        Lcore(divmod, 1, 0, name="lcore 4").join(30)
    with pytest.raises(LcoreError, match="exit status 3"):
        Lcore(os._exit, 3).join(30)
    lcore = Lcore(signal.pause)
    with pytest.raises(LcoreError, match=r"still running after 0.01 s"):
        lcore.join(0.01)
    assert lcore.alive
    lcore.kill()
    assert not lcore.alive


def test_an_lcore_dies_with_its_parent():
    code = "import signal; from emulator.host import Lcore; print(Lcore(signal.pause).pid, flush=True)"
    code += "; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    end = time.monotonic() + 30
    while time.monotonic() < end and (stat := Path(f"/proc/{pid}/stat")).exists():
        if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.02)
    else:
        assert not Path(f"/proc/{pid}").exists()
