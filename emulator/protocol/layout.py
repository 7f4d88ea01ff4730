"""What a plan's blocks mean to one worker: its slots, its remote neighbours, and where their values go.

A propagation is a list of exchanges: the plan's blocks, then, where the plan leaves cross edges host-based,
the residual as one more. In the residual a "slot" is a boundary index, and every vertex is bypassed from the
start: values go from worker to worker and no switch adds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workloads.plan import Plan

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Exchange:
    """One block (or the residual) as worker `worker` sees it. `own` below numbers its slots here: 0..k-1.

    slots: int64[k] its slots in upload order; rows: int64[k] the row of each in the worker's arrays;
    own_of: int64[n], slot -> own or -1; ptr, neighbour: for each own, its remote neighbours as positions in
    `remote`; remote: int64[m] distinct remote slots; remote_of: int64[n], slot -> position in remote or -1;
    fan_ptr, fan: for each remote, the owns it contributes to; sends_to: int64[s, 2], (own, worker), whom a
    host-based exchange sends what.
    """

    number: int
    in_network: bool
    chunks: int
    owner: Ints
    slots: Ints
    rows: Ints
    own_of: Ints
    ptr: Ints
    neighbour: Ints
    remote: Ints
    remote_of: Ints
    sends_to: Ints

    @property
    def num_slots(self) -> int:
        """Slots of the whole block."""
        return len(self.owner)

    @cached_property
    def expected(self) -> Ints:
        """int64[k]: contributions that make each own slot complete."""
        return np.diff(self.ptr)

    @cached_property
    def remote_owner(self) -> Ints:
        """int64[m]: who has each remote slot's values."""
        return self.owner[self.remote]

    @cached_property
    def _transposed(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.neighbour, kind="stable")
        own = np.repeat(np.arange(len(self.slots)), self.expected)[order]
        counts = np.bincount(self.neighbour, minlength=len(self.remote))
        return np.concatenate([[0], np.cumsum(counts)]), own

    @property
    def fan_ptr(self) -> Ints:
        """int64[m+1]: where each remote's owns begin in `fan`."""
        return self._transposed[0]

    @property
    def fan(self) -> Ints:
        """int64[edges]: owns by remote."""
        return self._transposed[1]

    @property
    def uploads(self) -> int:
        """Frames this worker sends of its own accord."""
        return (len(self.slots) if self.in_network else len(self.sends_to)) * self.chunks


class Share:
    """A plan as one worker sees it. `own`: boundary indices of its vertices, in the order of its rows."""

    def __init__(self, plan: Plan, worker: int) -> None:
        self.plan, self.worker = plan, worker
        self.chunks, self.width = plan.chunks, plan.width
        self.own = np.flatnonzero(plan.owner == worker).astype(np.int64)
        self.row_of = np.full(plan.num_boundary, -1, np.int64)
        self.row_of[self.own] = np.arange(len(self.own))
        self.residual = len(plan.residual_adj) > 0
        self._made: dict[int, Exchange] = {}

    @property
    def exchanges(self) -> int:
        """Blocks, and the residual if there is one."""
        return self.plan.num_blocks + self.residual

    def exchange(self, number: int) -> Exchange:
        """Exchange `number`, made when first needed."""
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def _make(self, number: int) -> Exchange:
        plan = self.plan
        if number < plan.num_blocks:
            first, last = (int(plan.block_ptr[number + i]) for i in (0, 1))
            vertices = np.asarray(plan.block_vertices[first:last], np.int64)
            ptr = np.asarray(plan.adj_ptr[first : last + 1], np.int64)
            adj = np.asarray(plan.adj[ptr[0] : ptr[-1]], np.int64)
            ptr = ptr - ptr[0]
        else:
            vertices = np.arange(plan.num_boundary)
            ptr, adj = np.asarray(plan.residual_ptr, np.int64), np.asarray(plan.residual_adj, np.int64)
        owner = np.asarray(plan.owner, np.int64)[vertices]
        degrees = np.diff(ptr)
        slots = np.flatnonzero((owner == self.worker) & (degrees > 0))
        starts, counts = ptr[slots], degrees[slots]
        own_ptr = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(own_ptr[-1]) + np.repeat(starts - own_ptr[:-1], counts)
        near = adj[places]
        remote, neighbour = np.unique(near, return_inverse=True)
        own_of = np.full(len(vertices), -1, np.int64)
        own_of[slots] = np.arange(len(slots))
        remote_of = np.full(len(vertices), -1, np.int64)
        remote_of[remote] = np.arange(len(remote))
        in_network = number < plan.num_blocks
        sends_to = np.zeros((0, 2), np.int64)
        if not in_network:
            pairs = np.stack([np.repeat(np.arange(len(slots)), counts), owner[near]], axis=1)
            sends_to = np.unique(pairs, axis=0)
        return Exchange(
            number, in_network, self.chunks, owner, slots, self.row_of[vertices[slots]], own_of, own_ptr,
            neighbour.astype(np.int64), remote, remote_of, sends_to,
        )  # fmt: skip

    def padded(self, values: npt.NDArray[np.int32], per_packet: int) -> npt.NDArray[np.int32]:
        """int32[own, width] as int32[own, chunks, per_packet], the last chunk filled up with zeros."""
        out = np.zeros((len(self.own), self.chunks * per_packet), np.int32)
        out[:, : self.width] = values
        return out.reshape(len(self.own), self.chunks, per_packet)
