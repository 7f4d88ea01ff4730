"""Who talks to whom: a worker's channels along the axes of its scheme, every byte and second counted."""

from __future__ import annotations

import time
from itertools import combinations

import torch.distributed as dist
from torch import Tensor

from workloads.parallel.scheme import AXES, Scheme
from workloads.training.wire import Wire


class Channel(Wire):
    """Collectives among a few of the workers; ranks inside are places in `members`, ascending."""

    def __init__(self, members: tuple[int, ...], rank: int, group: dist.ProcessGroup | None) -> None:
        super().__init__(members.index(rank), len(members), group)
        self.members = members
        self.sent_bytes, self.busy_ns = 0, 0

    def swap(self, message: Tensor, to: int, arriving: Tensor, source: int) -> None:
        """As `Wire.swap`, between members."""
        start = time.perf_counter_ns()
        self.sent_bytes += message.numel() * message.element_size()
        super().swap(message, self.members[to], arriving, self.members[source])
        self.busy_ns += time.perf_counter_ns() - start

    def exchange(self, outgoing: list[Tensor], shapes: list[tuple[int, ...]]) -> list[Tensor]:
        """Send outgoing[q] to each member q; what each sent here, of the shapes given. One dtype; what a
        member sends itself is handed over as it is.
        """
        dtype = outgoing[self.rank].dtype
        received = [outgoing[self.rank].new_empty(shape, dtype=dtype) for shape in shapes]
        received[self.rank] = outgoing[self.rank]
        for step in range(1, self.workers):
            to, source = self.neighbours(step)
            self.swap(outgoing[to].contiguous(), to, received[source], source)
        return received

    def gather_all(self, mine: Tensor, shapes: list[tuple[int, ...]]) -> list[Tensor]:
        """Every member's tensor, of these shapes."""
        return self.exchange([mine.contiguous()] * self.workers, shapes)

    def add_up(self, values: Tensor) -> Tensor:
        """The sum over the members, the same bits at each."""
        if self.workers == 1:
            return values
        flat = values.detach().clone().reshape(-1)
        self.all_reduce(flat)
        return flat.view_as(values)


class Grid:
    """A worker's channels: `channel("tensor")`, `channel("data", "partition", "sequence")`, ..."""

    def __init__(self, scheme: Scheme, rank: int) -> None:
        """All workers make theirs at the same time, over the default process group's."""
        self.scheme, self.rank = scheme, rank
        self.place = scheme.coordinates(rank)
        self._channels: dict[tuple[str, ...], Channel] = {}
        wide = [axis for axis, size in zip(AXES, scheme.grid, strict=True) if size > 1]
        for count in range(1, len(wide) + 1):
            for axes in combinations(wide, count):
                self._channels[axes] = self._make(axes)

    def _make(self, axes: tuple[str, ...]) -> Channel:
        mine: Channel | None = None
        for group in self.scheme.groups(axes):  # every process takes part in making every group
            made = dist.new_group(list(group))
            if self.rank in group:
                mine = Channel(group, self.rank, made)
        assert mine is not None
        return mine

    def channel(self, *axes: str) -> Channel:
        """The channel along the axes given; a worker alone on them talks to nobody."""
        wide = tuple(axis for axis in AXES if axis in axes and getattr(self.scheme, axis) > 1)
        if wide not in self._channels:
            self._channels[wide] = Channel((self.rank,), self.rank, None)
        return self._channels[wide]

    @property
    def sent_bytes(self) -> int:
        """What this worker has sent so far."""
        return sum(channel.sent_bytes for channel in self._channels.values())

    @property
    def busy_ns(self) -> int:
        """How long it has waited for its transfers so far."""
        return sum(channel.busy_ns for channel in self._channels.values())

    def close(self) -> None:
        """Give the groups back."""
        for channel in self._channels.values():
            if channel.workers > 1 and channel._group is not None:
                dist.destroy_process_group(channel._group)
        self._channels.clear()


def splits(total: int, parts: int) -> list[int]:
    """Sizes of `total` things in `parts` runs, the longer ones first, as torch.tensor_split has them."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def run_of(total: int, parts: int, part: int) -> slice:
    """The run of part `part`."""
    sizes = splits(total, parts)
    first = sum(sizes[:part])
    return slice(first, first + sizes[part])
