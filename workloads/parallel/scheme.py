"""`Scheme`: how a training step is divided over workers, and which schemes there are for a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np

from workloads.errors import InputError

AXES = ("data", "partition", "sequence", "tensor")
GNN_AXES = ("data", "partition", "tensor")
TRANSFORMER_AXES = ("data", "sequence", "tensor")
MOST_WORKERS = 16  # of a local cluster: processes on one machine


@dataclass(frozen=True, order=True)
class Scheme:
    """A grid of workers, its last axis consecutive ones, and how memory is traded for time.

    data: replicas, each with its own share of the targets (or sequences). partition: parts of the graph, with
    a boundary exchange before each propagation. sequence: parts of a transformer's sequence, with all-to-alls
    around attention (TorchGT). tensor: parts of every weight matrix and of the heads. accumulate: turns in
    which a replica takes its share, gradients added up. checkpoint: layers keep only their inputs and are
    computed again in the backward pass.
    """

    data: int = 1
    partition: int = 1
    sequence: int = 1
    tensor: int = 1
    accumulate: int = 1
    checkpoint: bool = False

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Workers along each of `AXES`."""
        return self.data, self.partition, self.sequence, self.tensor

    @property
    def workers(self) -> int:
        """All workers."""
        return self.data * self.partition * self.sequence * self.tensor

    @property
    def name(self) -> str:
        """As shown: "data 2 x tensor 2, 4 turns, checkpoints"."""
        parts = [f"{axis} {size}" for axis, size in zip(AXES, self.grid, strict=True) if size > 1]
        text = " x ".join(parts) or "one worker"
        text += f", {self.accumulate} turns" if self.accumulate > 1 else ""
        return text + (", checkpoints" if self.checkpoint else "")

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where worker `rank` is on each axis."""
        place, at = {}, rank
        for axis, size in reversed(list(zip(AXES, self.grid, strict=True))):
            at, place[axis] = divmod(at, size)
        return place

    def members(self, axes: tuple[str, ...]) -> int:
        """Workers of a group along these axes."""
        return prod(size for axis, size in zip(AXES, self.grid, strict=True) if axis in axes)

    def group(self, rank: int, axes: tuple[str, ...]) -> tuple[int, ...]:
        """The workers that differ from `rank` on these axes only, ascending; `rank` among them."""
        return next(group for group in self.groups(axes) if rank in group)

    def groups(self, axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """All groups along these axes, in the order of their first workers."""
        return _groups(self.grid, axes)


@cache
def _groups(grid: tuple[int, ...], axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    ranks = np.arange(prod(grid)).reshape(grid)
    along = [place for place, axis in enumerate(AXES) if axis in axes]
    last = range(len(AXES) - len(along), len(AXES))
    size = prod(grid[place] for place in along)
    rows = np.moveaxis(ranks, along, last).reshape(-1, size).tolist()
    return tuple(sorted(map(tuple, rows)))


def schemes(
    workers: int, axes: tuple[str, ...], *, turns: tuple[int, ...] = (1, 2, 4), checkpoints: bool = True
) -> list[Scheme]:
    """Every scheme of exactly `workers` workers: all factorisations over the axes, with and without
    checkpoints, with each number of turns.

    Raises InputError for fewer than one worker or more than 1,024.
    """
    if not 1 <= workers <= 1024:
        raise InputError(f"workers: {workers} given; allowed: 1 to 1024")
    found: list[dict[str, int]] = [{}]
    for axis in axes[:-1]:
        found = [{**one, axis: size} for one in found for size in _divisors(workers // _product(one))]
    found = [{**one, axes[-1]: workers // _product(one)} for one in found]
    return [
        replace(Scheme(), **one, accumulate=accumulate, checkpoint=checkpoint)
        for one in found
        for checkpoint in ((False, True) if checkpoints else (False,))
        for accumulate in turns
    ]


def _product(sizes: dict[str, int]) -> int:
    result = 1
    for size in sizes.values():
        result *= size
    return result


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
