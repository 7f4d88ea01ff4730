"""Cache sharing: remote rows of earlier windows, kept by position in the window, for the windows that follow.

A window has Ns positions; what a layer exchanges at position i has been through i steps of the recurrent
part, in every window, so the rows of position i of the window before stand in for those of this one. The
cache holds sets of Ns matrices. An epoch's windows are divided into as many runs as there are sets, and a
window that communicates writes into the set of its run. A window reads, row by row, the newest set at or
before its own run whose row is not of a later window: a set still holds the epoch before's rows of later
windows until they are written again.

Every row carries tags: the position and window it was sent in, and the time, in windows trained since the
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workloads.plan.dynamic import run_of_window

TAG_BYTES = 16  # window and position int32, time int64


class CacheError(RuntimeError):
    """A row of another position, or of a newer window, was about to be served."""


@dataclass(frozen=True)
class Served:
    """values: float[m, w], zero where nothing is known; window: int32[m] and time: int64[m] of when they were
    sent, -1 where nothing is known.
    """

    values: Tensor
    window: Tensor
    time: Tensor


@dataclass
class _Site:
    values: Tensor
    window: Tensor
    position: Tensor
    time: Tensor


class PositionCache:
    """sets: windows whose rows are kept at the same time; windows: of an epoch; positions: Ns; rows: of a
    matrix.
    """

    def __init__(self, sets: int, windows: int, positions: int, rows: int, device: torch.device) -> None:
        self.sets, self.positions, self._windows = min(sets, windows), positions, windows
        self._shape = (self.sets, positions, rows)
        self._device = device
        self._sites: dict[str, _Site] = {}

    def set_of(self, window: int) -> int:
        """The set of a window's run."""
        return run_of_window(window, self._windows, self.sets)

    def store(
        self, site: str, at: Tensor, numbers: Tensor, values: Tensor, *, window: int, time: int
    ) -> None:
        """Keep rows that came in this window. at: int64[m], positions; numbers: int64[m], rows of the
        matrices.
        """
        if not self.sets:
            return
        kept = self._sites.get(site)
        if kept is None:
            kept = self._sites[site] = self._empty(values)
        which = self.set_of(window)
        kept.values[which, at, numbers] = values
        kept.window[which, at, numbers] = window
        kept.position[which, at, numbers] = at.int()
        kept.time[which, at, numbers] = time

    def serve(self, site: str, at: Tensor, numbers: Tensor, like: Tensor, *, window: int) -> Served:
        """Rows for a window. like: float[., w], for their type and width. Raises CacheError when a tag is not
        what it must be.
        """
        values = like.new_zeros(len(at), like.shape[1])
        tag = torch.full((len(at),), -1, dtype=torch.int32, device=self._device)
        time = torch.full((len(at),), -1, dtype=torch.int64, device=self._device)
        kept = self._sites.get(site)
        if kept is None or not self.sets:
            return Served(values, tag, time)
        for which in range(self.set_of(window), -1, -1):
            open_rows = torch.nonzero(tag < 0).flatten()
            if not len(open_rows):
                break
            place = (which, at[open_rows], numbers[open_rows])
            found = kept.window[place]
            good = (found >= 0) & (found <= window)
            rows, place = open_rows[good], (which, at[open_rows[good]], numbers[open_rows[good]])
            values[rows] = kept.values[place]
            tag[rows], time[rows] = kept.window[place], kept.time[place]
            if not torch.equal(kept.position[place].long(), at[rows]):
                raise CacheError(f"{site}: the cache of window {window} holds rows of another position")
        if bool((tag > window).any()):
            raise CacheError(f"{site}: window {window} was about to use a newer one's rows")
        return Served(values, tag, time)

    @property
    def held_bytes(self) -> int:
        """What it takes now, tags included."""
        return sum(
            part.nbytes for s in self._sites.values() for part in (s.values, s.window, s.position, s.time)
        )

    def bound_bytes(self, widths: list[int], itemsize: int) -> int:
        """The most it ever takes, for sites of these widths."""
        sets, positions, rows = self._shape
        return sets * positions * rows * sum(width * itemsize + TAG_BYTES for width in widths)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            name: [part.cpu() for part in (s.values, s.window, s.position, s.time)]
            for name, s in self._sites.items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        self._sites = {
            name: _Site(*(part.to(self._device) for part in parts)) for name, parts in state.items()
        }

    def _empty(self, values: Tensor) -> _Site:
        def tags(dtype: torch.dtype) -> Tensor:
            return torch.full(self._shape, -1, dtype=dtype, device=self._device)

        rows = values.new_zeros(*self._shape, values.shape[1])
        return _Site(rows, tags(torch.int32), tags(torch.int32), tags(torch.int64))
