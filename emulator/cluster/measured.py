"""What a cluster counted while it ran."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from emulator.wire import PacketType

KINDS = {int(kind): kind.name.lower() for kind in PacketType}


@dataclass
class Measured:
    """workers: counters by worker; switches: the programs' events; traffic: (from, to) -> frames by kind.

    virtual: durations are virtual time of the in-process cluster, not this machine's.
    """

    virtual: bool
    workers: list[dict[str, int]] = field(default_factory=list)
    switches: dict[str, int] = field(default_factory=dict)
    traffic: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    durations_ns: list[int] = field(default_factory=list)
    equal: list[bool] = field(default_factory=list)
    loading_ns: int = 0
    wall_s: float = 0.0


def named_kinds(counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """Frames by packet type, as names; what is no packet of ours is `other`."""
    named = {name: int(counts[number]) for number, name in KINDS.items() if counts[number]}
    other = int(counts.sum()) - sum(named.values())
    return named | ({"other": other} if other else {})
