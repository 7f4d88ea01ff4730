"""A bounded queue of mbuf numbers in shared memory, between lcores that have the same pool.

One consumer; one producer, or several. Several producers each take a run of positions with one atomic
exchange and then fill it, so the consumer sees a burst in its order. A producer that is killed in between
leaves a position that never fills: the consumer then finds the ring empty, and enqueueing ends when it is
full; nobody waits here.
"""

from __future__ import annotations

import numpy as np

from emulator import _host
from emulator.host.mempool import Mbufs


class Ring:
    """``size``: a power of two, 2 to 2^30; all of it can be used."""

    def __init__(
        self, size: int, *, many_producers: bool = False, name: str = "netfold-ring", huge: bool = False
    ) -> None:
        self.native = _host.Ring.create(size, many_producers, name, huge)

    @classmethod
    def attach(cls, fd: int) -> Ring:
        """The ring whose memory `fd` is; the descriptor stays the caller's. Raises ValueError, OSError."""
        ring = cls.__new__(cls)
        ring.native = _host.Ring.attach(fd)
        return ring

    @property
    def fd(self) -> int:
        """The memory's descriptor, to pass on."""
        return self.native.fd

    @property
    def size(self) -> int:
        return self.native.size

    @property
    def count(self) -> int:
        """Numbers inside, those whose producer has not finished included."""
        return self.native.count

    @property
    def free_count(self) -> int:
        return self.native.size - self.native.count

    def enqueue_burst(self, mbufs: Mbufs) -> int:
        """As many from the front as there is room for: how many."""
        return self.native.enqueue(mbufs, False)

    def enqueue_bulk(self, mbufs: Mbufs) -> int:
        """All or none: len(mbufs) or 0."""
        return self.native.enqueue(mbufs, True)

    def dequeue_burst(self, count: int = 32) -> Mbufs:
        """uint32[n], n <= count, in the order they came."""
        out = np.empty(count, np.uint32)
        return out[: self.native.dequeue(out)]
