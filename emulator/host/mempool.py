"""Packet buffers (mbufs) in shared memory, known by their numbers.

    pool = Mempool(4096)
    mbufs = pool.alloc(32)                      # uint32[32], or uint32[0] if there are not that many
    pool.write(mbufs, frames)                   # FRAME[32] or uint8[32, n]
    pool.view(FRAME)["agg"]["count"][mbufs]     # a field of frames in place: no frame is copied
    pool.free(mbufs)

The memory has no name: it goes to other processes by fork (or its descriptor, `fd`), and with its last user.
Taking and giving back is lock-free, so a process that is killed can lose its own buffers and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from emulator._host import Pool

Mbufs = npt.NDArray[np.uint32]

HEADROOM_BYTES = Pool.headroom  # before a frame, as RTE_PKTMBUF_HEADROOM
DATA_ROOM_BYTES = 2048  # as RTE_MBUF_DEFAULT_DATAROOM
# Of each mbuf, beside its bytes. refcnt is for reading: alloc, free and share change it.
META = np.dtype(
    {
        "names": ["refcnt", "data_off", "data_len", "port", "timestamp_ns"],
        "formats": ["u4", "u2", "u2", "u2", "i8"],
        "offsets": [0, 8, 10, 12, 16],
        "itemsize": 24,
    }
)
NONE: Mbufs = np.empty(0, np.uint32)


class Mempool:
    """``count`` buffers of ``data_room`` bytes and 128 of headroom. ``meta``: META[count], in place."""

    def __init__(
        self,
        count: int = 4096,
        *,
        data_room: int = DATA_ROOM_BYTES,
        name: str = "netfold-pool",
        huge: bool = False,
    ) -> None:
        self._open(Pool.create(count, data_room, name, huge))

    def _open(self, native: Pool) -> None:
        self.native = native
        self._memory = native.memory()
        at, size = native.mbufs_at, native.count * META.itemsize
        self.meta = self._memory[at : at + size].view(META)

    @classmethod
    def attach(cls, fd: int) -> Mempool:
        """The pool whose memory `fd` is; the descriptor stays the caller's. Raises ValueError, OSError."""
        pool = cls.__new__(cls)
        pool._open(Pool.attach(fd))
        return pool

    @property
    def fd(self) -> int:
        """The memory's descriptor, to pass on."""
        return self.native.fd

    @property
    def count(self) -> int:
        return self.native.count

    @property
    def data_room(self) -> int:
        return self.native.data_room

    @property
    def in_use(self) -> int:
        """Buffers taken and not given back, by any process."""
        return self.native.in_use

    @property
    def available(self) -> int:
        return self.native.count - self.native.in_use

    def alloc(self, count: int) -> Mbufs:
        """uint32[count] empty buffers with one reference, or uint32[0] if there are not that many."""
        out = np.empty(count, np.uint32)
        return out if self.native.alloc(out) else NONE

    def free(self, mbufs: Mbufs) -> None:
        """One reference less; the last one gives the buffer back. ValueError for a buffer that is free."""
        self.native.free(mbufs)

    def share(self, mbufs: Mbufs) -> None:
        """One reference more to each."""
        self.native.share(mbufs)

    def leaked(self) -> Mbufs:
        """The buffers in use, for the check at the end that there are none."""
        return np.flatnonzero(self.meta["refcnt"]).astype(np.uint32)

    def lengths(self, mbufs: Mbufs) -> npt.NDArray[np.uint16]:
        """Bytes of each frame."""
        return np.asarray(self.meta["data_len"][mbufs])

    def write(self, mbufs: Mbufs, frames: npt.NDArray[Any]) -> None:
        """A frame into each: uint8[n, bytes] or a structured array of n."""
        self.native.write(mbufs, _rows(frames))

    def read(self, mbufs: Mbufs, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Copies of the frames' first bytes as `dtype`[n]; zero behind the end of a shorter frame."""
        out = np.empty(len(mbufs), dtype)
        self.native.read(mbufs, _rows(out))
        return out

    def take(self, mbufs: Mbufs, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """uint8[n, size], copies of the frames' first bytes, and all bytes of each; frees the buffers."""
        rows, lengths = np.empty((len(mbufs), size), np.uint8), np.empty(len(mbufs), np.int64)
        self.native.take(mbufs, rows, lengths)
        return rows, lengths

    def pack(self, mbufs: Mbufs) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """The frames' bytes one after the other, and where each ends."""
        data = np.empty(int(self.lengths(mbufs).sum(dtype=np.int64)), np.uint8)
        ends = np.empty(len(mbufs), np.uint64)
        self.native.pack(mbufs, data, ends)
        return data, ends

    def unpack(self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.uint64]) -> Mbufs:
        """New buffers with the frames that `pack` would give so; uint32[0] if there are not that many."""
        mbufs = self.alloc(len(ends))
        try:
            self.native.unpack(mbufs, data, ends[: len(mbufs)])
        except ValueError:
            self.free(mbufs)
            raise
        return mbufs

    def view(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """All buffers as `dtype`[count] in place, at the frame's start as `alloc` and drivers set it."""
        native = self.native
        return np.ndarray(
            native.count, dtype, self._memory, native.buffers_at + HEADROOM_BYTES, (native.stride,)
        )

    def prepend(self, mbufs: Mbufs, size: int) -> None:
        """`size` bytes more before each frame (negative: fewer). ValueError if they do not fit."""
        self.native.check(mbufs)
        offsets, lengths = (
            self.meta["data_off"][mbufs].astype(int) - size,
            self.lengths(mbufs).astype(int) + size,
        )
        if len(mbufs) and (offsets.min() < 0 or lengths.min() < 0):
            raise ValueError(f"prepend: {size} bytes do not fit")
        self.meta["data_off"][mbufs], self.meta["data_len"][mbufs] = offsets, lengths


def _rows(frames: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of each frame, uint8[n, bytes], without copying where they lie together already."""
    if frames.dtype == np.uint8 and frames.ndim == 2:
        return np.ascontiguousarray(frames)
    together = np.ascontiguousarray(frames)
    return together.view(np.uint8).reshape(len(together), together.dtype.itemsize)
