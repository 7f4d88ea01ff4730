"""What the control plane knows of barriers: the last complete one, and whose reports a switch lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from p4.control.adjacency import READY
from p4.control.fabric import Fabric, Switch

Barrier = tuple[int, int]  # (round, number), in ascending order until the 16 bits of round go round
READ_NONE = -1


def serial(barrier: Barrier) -> int:
    """As one number of 32 bits."""
    return barrier[0] << 16 | barrier[1]


def latest(barriers: Iterable[Barrier]) -> Barrier:
    """The last of some that are not far apart."""
    found = (0, READY)
    for barrier in barriers:
        if found == (0, READY) or ((serial(barrier) - serial(found)) & 0xFFFFFFFF) < 2**31:
            found = barrier
    return found


def unreported(
    read: Callable[[Switch, str, int], int], fabric: Fabric, jobs: Sequence[int], job: int, barrier: Barrier
) -> list[str]:
    """Who has not reported a barrier to the switch that counts for them: workers at their leaf or the star's
    switch, then leaves at the spine.

    read: (switch, register, index) -> its value, READ_NONE of a switch that is away; jobs: all job numbers,
    in the order in which they were installed. barrier: (0, 0) if nobody waits for one.
    """
    if barrier == (0, READY):
        return []
    stamp = serial(barrier) + 1
    base = list(jobs).index(job) * fabric.workers
    missing = []
    for switch in fabric.switches:
        if switch.kind == "spine":
            if switch.number != job % fabric.spines:
                continue
            names, numbers = [f"leaf{leaf}" for leaf in range(fabric.racks)], range(fabric.racks)
        else:
            names = [f"worker {worker}" for worker in fabric.rack(switch.number)]
            numbers = range(fabric.per_leaf)
        found = [read(switch, "done_seen", base + number) for number in numbers]
        if READ_NONE in found:
            missing.append(f"{switch.name} is away")
        else:
            missing += [
                f"{name} at {switch.name}" for name, last in zip(names, found, strict=True) if last != stamp
            ]
    return missing


def who_is_missing(
    why: str, passed: Mapping[int, Barrier], silent: Sequence[str], lacks: Mapping[int, Sequence[int]]
) -> str:
    """`why`, with who is behind the others, whose reports no switch has, and whose contributions are lacking.

    passed: worker -> the last barrier it knows complete; lacks: worker -> those it has pulled from in vain.
    """
    first = latest(passed.values())
    ages = {worker: (serial(first) - serial(barrier)) & 0xFFFFFFFF for worker, barrier in passed.items()}
    behind = [f"worker {w}" for w, age in ages.items() if age == max(ages.values())]
    told = []
    if len(behind) < len(passed):
        told.append(f"behind the others: {_some(behind)}")
    if silent:
        told.append(f"no report of: {_some(silent)}")
    wanting = {worker: others for worker, others in lacks.items() if others}
    if wanting:
        others = sorted({other for each in wanting.values() for other in each})
        told.append(
            f"{_some([f'worker {w}' for w in wanting])} without contributions of "
            f"{_some([f'worker {w}' for w in others])}"
        )
    return f"{why} ({'; '.join(told)})" if told else why


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
