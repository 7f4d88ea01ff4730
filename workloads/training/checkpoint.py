"""Checkpoints: each worker's state at the end of an epoch, a file per worker and epoch, there whole or not at
all.

A worker deletes its older files only when every worker has written the new ones, so there is always an epoch
that all of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from workloads.errors import InputError
from workloads.files import write_whole


def common_epoch(every: Iterable[Iterable[int]]) -> int:
    """The newest epoch that all workers have a file of; every: by worker, the epochs that it has files of.

    Raises InputError when there is none.
    """
    common = set.intersection(*map(set, every))
    if not common:
        raise InputError("resume: no checkpoint that all workers have; start again without --resume")
    return max(common)


def refuse_other_run(folder: Path, workers: int, identity: str) -> None:
    """Raises InputError where the run of this identity cannot go on from the folder, before it starts workers
    that would find out.
    """
    every = [Checkpoints(folder, rank, identity) for rank in range(workers)]
    epoch = common_epoch(each.epochs() for each in every)
    for each in every:
        each.load(epoch, mapped=True)


class Checkpoints:
    """One worker's files in a folder, which workers may share. identity: what a run must have in common with
    one that continues it.
    """

    def __init__(self, folder: Path, rank: int, identity: str) -> None:
        self._folder, self._rank, self._identity = folder, rank, identity

    def epochs(self) -> list[int]:
        """The epochs that there are files of, ascending."""
        found = (path.stem.split("-") for path in self._folder.glob(f"worker-{self._rank}-*.pt"))
        return sorted(int(parts[2]) for parts in found if parts[2].isdigit())

    def save(self, epoch: int, state: dict[str, Any], everyone: Callable[[], None]) -> None:
        """Write the state after `epoch`; `everyone` returns when all workers have called it.

        Raises InputError where the folder cannot be written.
        """
        place = self._place(epoch)
        content = {"identity": self._identity, "epoch": epoch, **state}
        try:
            write_whole(place, lambda temporary: torch.save(content, temporary), what="checkpoint")
        except RuntimeError as error:  # of torch's zip writer, on a full disk
            told = str(error).partition("\n")[0][:80]
            raise InputError(f"checkpoint: {place} cannot be written: {told}") from error
        everyone()
        for older in self.epochs():
            if older < epoch:
                self._place(older).unlink(missing_ok=True)

    def load(self, epoch: int, *, mapped: bool = False) -> dict[str, Any]:
        """The state after `epoch`. Raises InputError for a damaged file or another run's.

        mapped: leave the tensors in the file, for who only wants to know whether it could go on.
        """
        place = self._place(epoch)
        try:
            state: dict[str, Any] = torch.load(place, weights_only=True, mmap=mapped)
            identity = state["identity"]
        except Exception as error:  # a damaged file may raise anything
            told = str(error).partition("\n")[0][:80]
            raise InputError(f"resume: {place} is not a readable checkpoint ({told})") from None
        if identity != self._identity:
            raise InputError(
                f"resume: {place} is of another run; graph, partition and settings must be the same, "
                "except --epochs"
            )
        return state

    def _place(self, epoch: int) -> Path:
        return self._folder / f"worker-{self._rank}-{epoch}.pt"
