"""Packet buffers: taken once, given back once, whole frames in and out, no leak unnoticed."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.host import HEADROOM_BYTES, Lcore, Mempool
from emulator.wire import FRAME, blank


def test_alloc_is_all_or_nothing_and_fresh():
    pool = Mempool(8)
    mbufs = pool.alloc(5)
    assert sorted(mbufs.tolist()) == sorted(set(mbufs.tolist()))
    assert len(pool.alloc(4)) == 0
    assert (pool.in_use, pool.available, pool.count) == (5, 3, 8)
    meta = pool.meta[mbufs]
    assert (
        set(meta["refcnt"]) == {1}
        and set(meta["data_off"]) == {HEADROOM_BYTES}
        and set(meta["data_len"]) == {0}
    )
    assert set(pool.leaked()) == set(mbufs)
    pool.free(mbufs)
    assert (pool.in_use, len(pool.leaked()), len(pool.alloc(8))) == (0, 0, 8)


def test_references():
    pool = Mempool(4)
    mbufs = pool.alloc(2)
    pool.share(mbufs[:1])
    pool.free(mbufs)
    assert pool.leaked().tolist() == mbufs[:1].tolist()
    pool.free(mbufs[:1])
    assert pool.in_use == 0
    for wrong in (mbufs[:1], np.array([4], np.uint32), np.array([2**32 - 1], np.uint32)):
        with pytest.raises(ValueError, match="free already or is not of this pool"):
            pool.free(wrong)
        with pytest.raises(ValueError, match="free or not of this pool"):
            pool.share(wrong)
    twice = pool.alloc(1).repeat(2)
    with pytest.raises(ValueError, match="free already"):
        pool.free(twice)
    assert pool.in_use == 0 and len(pool.alloc(4)) == 4  # and the list is whole


def test_frames_in_place_and_copied():
    pool = Mempool(64, data_room=256)
    frames = blank(3)
    frames["agg"]["vertex"] = [7, 8, 9]
    mbufs = pool.alloc(3)
    pool.write(mbufs, frames)
    assert pool.lengths(mbufs).tolist() == [182] * 3
    assert (pool.read(mbufs, FRAME) == frames).all()
    view = pool.view(FRAME)
    assert view["agg"]["vertex"][mbufs].tolist() == [7, 8, 9]
    view["agg"]["vertex"][mbufs[1]] = 80
    assert pool.read(mbufs, FRAME)["agg"]["vertex"].tolist() == [7, 80, 9]
    view[mbufs[0] : mbufs[0] + 1].view(np.uint8)[:] = 255
    assert pool.read(mbufs, np.dtype([("all", "u1", 200)]))["all"][0].tolist() == [255] * 182 + [0] * 18


def test_headroom():
    pool = Mempool(2)
    mbufs = pool.alloc(1)
    pool.write(mbufs, np.frombuffer(b"payload", np.uint8)[None])
    pool.prepend(mbufs, 14)
    assert (pool.lengths(mbufs)[0], pool.meta["data_off"][mbufs[0]]) == (21, HEADROOM_BYTES - 14)
    pool.prepend(mbufs, -14)
    data, _ = pool.pack(mbufs)
    assert data.tobytes() == b"payload"
    for size in (HEADROOM_BYTES + 1, -8):
        with pytest.raises(ValueError, match="do not fit"):
            pool.prepend(mbufs, size)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_pack_and_unpack(frames):
    pool = Mempool(20, data_room=300)
    data = np.frombuffer(b"".join(frames), np.uint8)
    ends = np.cumsum([len(f) for f in frames], dtype=np.uint64) if frames else np.empty(0, np.uint64)
    mbufs = pool.unpack(data, ends)
    got, got_ends = pool.pack(mbufs)
    assert got.tobytes() == data.tobytes() and got_ends.tolist() == ends.tolist()
    pool.free(mbufs)
    assert pool.in_use == 0


@pytest.mark.parametrize("ends", [[5, 3], [3, 11], [400, 401]])
def test_unpack_refuses_nonsense_and_keeps_nothing(ends):
    pool = Mempool(4, data_room=256)
    with pytest.raises(ValueError, match="unpack"):
        pool.unpack(np.zeros(10 if ends[0] < 400 else 500, np.uint8), np.array(ends, np.uint64))
    assert pool.in_use == 0


def test_a_frame_longer_than_an_mbuf_is_refused():
    pool = Mempool(4, data_room=256)
    mbufs = pool.alloc(1)
    with pytest.raises(ValueError, match="longer than an mbuf"):
        pool.write(mbufs, np.zeros((1, 257), np.uint8))
    with pytest.raises(ValueError, match="as many frames as mbufs"):
        pool.write(mbufs, np.zeros((2, 60), np.uint8))


@pytest.mark.parametrize(("count", "room"), [(0, 2048), (2**28 + 1, 2048), (8, 63), (8, 65408)])
def test_impossible_pools(count, room):
    with pytest.raises(ValueError, match="mempool"):
        Mempool(count, data_room=room)


def churn(pool: Mempool, seed: int, rounds: int) -> int:
    """Take and give back at random, mark each buffer while it is ours, and see that no one else does."""
    rng = np.random.default_rng(seed)
    mine = pool.view(np.dtype("u4"))
    held = pool.alloc(0)
    for _ in range(rounds):
        new = pool.alloc(int(rng.integers(0, 40)))
        mine[new] = seed
        held = np.concatenate([held, new])
        assert (mine[held] == seed).all()
        rng.shuffle(held)
        cut = int(rng.integers(0, len(held) + 1))
        pool.free(held[:cut])
        held = held[cut:]
    pool.free(held)
    return len(held)


def test_processes_share_a_pool():
    pool = Mempool(128, data_room=64)
    lcores = [Lcore(churn, pool, n + 1, 4000, name=f"churn {n}", cpu=n % 2) for n in range(3)]
    for lcore in lcores:
        lcore.join(60)
    assert pool.in_use == 0 and len(pool.alloc(128)) == 128


def test_a_killed_process_loses_only_its_own():
    pool = Mempool(4096, data_room=64)
    for _ in range(5):
        lcore = Lcore(churn, pool, 1, 10**9)
        while pool.in_use == 0 and lcore.alive:
            pass
        lcore.kill()
    # What can be taken now and what the dead hold, together, is all there is but what was on its way.
    taken = 0
    while len(pool.alloc(1)):
        taken += 1
    assert taken > 0
    assert len(pool.leaked()) >= pool.count - 5 * 40 * 2


def test_the_memory_has_no_name_and_goes_with_the_pool():
    before = set(os.listdir("/proc/self/fd"))
    shared = set(os.listdir("/dev/shm"))
    pool = Mempool(16, name="netfold-test-pool")
    with open("/proc/self/maps") as maps:
        assert "memfd:netfold-test-pool" in maps.read()
    again = Mempool.attach(pool.fd)
    mbufs = again.alloc(3)
    assert pool.in_use == 3
    pool.free(mbufs)
    assert set(os.listdir("/dev/shm")) == shared
    view = pool.view(FRAME)
    del pool, again
    view["agg"]["job"][0] = 1  # a view keeps its memory
    del view, mbufs
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0
    with open("/proc/self/maps") as maps:
        assert "netfold-test-pool" not in maps.read()


def test_huge_pages_are_a_wish():
    pool = Mempool(64, huge=True)
    assert len(pool.alloc(64)) == 64


def test_another_descriptor_is_refused(tmp_path):
    path = tmp_path / "file"
    for content in (bytes(16), bytes(4096), b""):
        path.write_bytes(content)
        with path.open("r+b") as file, pytest.raises((ValueError, OSError)):
            Mempool.attach(file.fileno())
