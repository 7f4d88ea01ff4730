"""A plan's adjacency as the words that `load` packets bring to a switch (see include/adjacency.p4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# A block is two numbers on the wire: the odd one is the block itself, in which its uploads are made and whose
# barrier says that all have left; the even one after it is the barrier that all results are in. Number 0 is
# the barrier before a job's first propagation. So barriers pass in ascending order of (round, number).
READY = 0


def sending(block: int) -> int:
    """The number of plan block `block`, and of the barrier after its uploads."""
    return 2 * block + 1


def finishing(block: int) -> int:
    """The number of the barrier after the block's results."""
    return 2 * block + 2


MOST_BLOCKS = (2**16 - 2) // 2


class Plan(Protocol):
    """What of workloads.plan.Plan is loaded."""

    @property
    def chunks(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def num_uploads(self) -> int: ...
    @property
    def owner(self) -> npt.NDArray[Any]: ...
    @property
    def block_ptr(self) -> npt.NDArray[Any]: ...
    @property
    def block_vertices(self) -> npt.NDArray[Any]: ...
    @property
    def adj_ptr(self) -> npt.NDArray[Any]: ...
    @property
    def adj(self) -> npt.NDArray[Any]: ...
    @property
    def residual_adj(self) -> npt.NDArray[Any]: ...


class Array(IntEnum):
    """The arrays by their number in the chunk field, as in p4/programs/include/adjacency.p4."""

    BLOCK_FIRST = 0
    ENTRY_EDGE = 1
    ENTRY_DEGREE = 2
    ENTRY_EXPECTED = 3
    ENTRY_OWNER = 4
    EDGE_SLOT = 5
    BLOCK_SIZE = 6
    TAG = 7
    SEEN = 8
    DONE = 9


@dataclass(frozen=True)
class Needs:
    """Elements of each array that a job needs."""

    blocks: int
    entries: int
    edges: int
    aggregators: int


def needs(plan: Plan) -> Needs:
    """What `plan` needs of a switch. Blocks count twice, and one more for the first barrier (frames.py)."""
    sizes = np.diff(plan.block_ptr)
    exchanges = plan.num_blocks + (len(plan.residual_adj) > 0)
    largest = int(sizes.max(initial=0)) * plan.chunks
    return Needs(finishing(exchanges), max(1, plan.num_uploads), max(1, len(plan.adj)), max(1, largest))


def words(plan: Plan, rack: npt.NDArray[np.bool_] | None = None) -> list[tuple[Array, Ints]]:
    """The arrays of `plan` in the order in which they must be loaded.

    rack: bool[workers], of a leaf: its own workers. A leaf sums only its rack's contributions to the vertices
    of other racks.
    """
    degrees = np.diff(plan.adj_ptr)
    owner = np.asarray(plan.owner, np.int64)[plan.block_vertices]
    expected = degrees
    if rack is not None and len(degrees):
        block = np.repeat(np.arange(plan.num_blocks), np.diff(plan.block_ptr))
        start = np.asarray(plan.block_ptr)[block]  # entry of slot 0 of each entry's block
        row = np.repeat(np.arange(len(degrees)), degrees)
        inside = rack[owner[start[row] + plan.adj]]
        near = np.bincount(row[inside], minlength=len(degrees))
        expected = np.where(rack[owner], degrees, near)
    size = needs(plan)
    first, count = np.zeros(size.blocks, np.int64), np.zeros(size.blocks, np.int64)
    numbers = [sending(block) for block in range(plan.num_blocks)]
    first[numbers] = plan.block_ptr[:-1]
    count[numbers] = np.diff(plan.block_ptr)
    return [
        (Array.EDGE_SLOT, np.asarray(plan.adj, np.int64)),
        (Array.ENTRY_EDGE, np.asarray(plan.adj_ptr[:-1], np.int64)),
        (Array.ENTRY_DEGREE, degrees),
        (Array.ENTRY_EXPECTED, np.asarray(expected, np.int64)),
        (Array.ENTRY_OWNER, owner),
        (Array.BLOCK_FIRST, first),
        (Array.BLOCK_SIZE, count),
    ]
