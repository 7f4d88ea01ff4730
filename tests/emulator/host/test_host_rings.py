"""Rings between processes: nothing lost, nothing twice, each producer's order kept, never more than fits."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.host import Lcore, LcoreError, Ring

MANY = pytest.mark.parametrize("many", [False, True], ids=["one producer", "many producers"])


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


@MANY
def test_bursts_in_and_out(many):
    ring = Ring(8, many_producers=many)
    assert ring.enqueue_burst(np.arange(5, dtype=np.uint32)) == 5
    assert (ring.count, ring.free_count) == (5, 3)
    assert ring.enqueue_bulk(np.arange(4, dtype=np.uint32)) == 0
    assert ring.enqueue_burst(np.arange(10, 14, dtype=np.uint32)) == 3
    assert ring.enqueue_burst(numbers(99)) == 0
    assert ring.dequeue_burst(2).tolist() == [0, 1]
    assert ring.enqueue_bulk(numbers(20, 21)) == 2
    assert ring.dequeue_burst(100).tolist() == [2, 3, 4, 10, 11, 12, 20, 21]
    assert (ring.count, ring.dequeue_burst().tolist()) == (0, [])


@pytest.mark.parametrize("size", [0, 1, 3, 12, 2**30 + 1])
def test_sizes_are_powers_of_two(size):
    with pytest.raises(ValueError, match="power of two"):
        Ring(size)


def test_another_descriptor_is_refused(tmp_path):
    with (tmp_path / "file").open("w+b") as file:
        file.write(bytes(4096))
        file.flush()
        with pytest.raises(ValueError, match="holds none"):
            Ring.attach(file.fileno())
    with pytest.raises(OSError):
        Ring.attach(999999)


@MANY
@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60), st.sampled_from([2, 4, 8]))
def test_like_a_bounded_list(many, steps, size):
    ring = Ring(size, many_producers=many)
    model: list[int] = []
    at = 0
    for put, count in steps:
        if put:
            burst = np.arange(at, at + count, dtype=np.uint32)
            done = ring.enqueue_burst(burst)
            assert done == min(count, size - len(model))
            model += burst[:done].tolist()
            at += done
        else:
            assert ring.dequeue_burst(count).tolist() == model[:count]
            del model[:count]
        assert ring.count == len(model)


def produce(ring: Ring, producer: int, count: int, burst: int) -> None:
    """`count` numbers tagged with the producer, `burst` at a time, as fast as it goes."""
    numbers = np.arange(count, dtype=np.uint32) | np.uint32(producer << 24)
    at = 0
    while at < count:
        done = ring.enqueue_burst(numbers[at : at + burst])
        if not done:
            os.sched_yield()
        at += done


@pytest.mark.parametrize(
    ("producers", "size", "burst", "each"),
    [
        (1, 64, 3, 200_000),
        (1, 8192, 1000, 200_000),
        (4, 64, 3, 200_000),
        (4, 8192, 2, 400_000),
        (3, 512, 200, 300_000),
    ],
)
def test_processes_under_stress(producers, size, burst, each):
    ring = Ring(size, many_producers=producers > 1)
    lcores = [Lcore(produce, ring, n, each, burst, name=f"producer {n}", cpu=n % 2) for n in range(producers)]
    next_of = [0] * producers
    while ring.count < size:  # so that being full is tried in any case
        os.sched_yield()
    while min(next_of) < each:
        got = ring.dequeue_burst(size)
        assert ring.count <= size
        if not len(got):
            if not ring.count and not any(lcore.alive for lcore in lcores):
                break
            os.sched_yield()
        for producer in range(producers):
            mine = got[got >> 24 == producer] & 0xFFFFFF
            assert np.array_equal(mine, np.arange(next_of[producer], next_of[producer] + len(mine)))
            next_of[producer] += len(mine)
    assert next_of == [each] * producers
    for lcore in lcores:
        lcore.join(30)
    assert len(ring.dequeue_burst()) == 0


def test_a_ring_goes_to_another_process_by_its_descriptor():
    ring = Ring(16)
    again = Ring.attach(ring.fd)
    ring.enqueue_burst(numbers(1, 2, 3))
    assert (again.size, again.dequeue_burst().tolist(), ring.count) == (16, [1, 2, 3], 0)


def hammer(ring: Ring) -> None:
    while True:
        ring.enqueue_burst(numbers(1, 2, 3))


def test_a_killed_producer_stops_nobody():
    ring = Ring(64, many_producers=True)
    for _ in range(5):
        lcore = Lcore(hammer, ring)
        while ring.count < 64:
            pass
        lcore.kill()
        with pytest.raises(LcoreError, match="killed by SIGKILL"):
            lcore.join()
        taken = ring.dequeue_burst(64)  # ends early at a position that was handed out and never filled
        assert set(taken.tolist()) <= {1, 2, 3}
        free = ring.free_count
        assert free == len(taken)
        assert ring.enqueue_burst(np.arange(1, 65, dtype=np.uint32)) == free
        if len(taken) < 64:
            assert len(ring.dequeue_burst(64)) == 0
            break
        assert ring.dequeue_burst(64).tolist() == list(range(1, 65))
