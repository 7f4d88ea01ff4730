"""Many packets as a few numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from p4.targets.target import Packet


class Batch(NamedTuple):
    """Packets as arrays: packet i is data[ends[i-1]:ends[i]] on ports[i], made by input packet sources[i]."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.uint64]
    ports: npt.NDArray[np.uint32]
    sources: npt.NDArray[np.uint32]


def pack(packets: Sequence[Packet]) -> Batch:
    """Packets as one batch."""
    ends = np.cumsum([len(p.data) for p in packets], dtype=np.uint64)
    ports = np.array([p.port for p in packets], dtype=np.uint32)
    data = np.frombuffer(b"".join(p.data for p in packets), dtype=np.uint8)
    return Batch(data, ends, ports, np.arange(len(packets), dtype=np.uint32))


def unpack(batch: Batch) -> list[Packet]:
    """A batch as packets."""
    raw = batch.data.tobytes()
    starts = [0, *batch.ends.tolist()]
    return [Packet(p, raw[starts[i] : starts[i + 1]]) for i, p in enumerate(batch.ports.tolist())]
