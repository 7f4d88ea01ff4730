"""The collectives, as rings of point-to-point sends over torch.distributed: every byte passes here.

gloo carries what lies on a CPU, NCCL what lies on a CUDA device; the process group has both where there are
devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class LostWorkerError(RuntimeError):
    """Another worker died, or does not answer."""


class Wire:
    """One worker's end of a process group. Rings send in a fixed order, so sums are reproducible.

    device: where messages lie.
    """

    def __init__(
        self,
        rank: int,
        workers: int,
        group: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.rank, self.workers, self._group = rank, workers, group
        self._device = device or torch.device("cpu")

    def neighbours(self, step: int) -> tuple[int, int]:
        """(to, source) of this worker in a ring's step 1 .. workers - 1."""
        return (self.rank + step) % self.workers, (self.rank - step) % self.workers

    def all_to_all(self, outgoing: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """Send outgoing[q] (uint8) to each worker q; returns what each sent here, uint8[sizes[q]].

        In step s worker r sends to r+s and receives from r-s, so no link carries two messages at once. Empty
        messages are not sent.
        """
        received = [torch.empty(size, dtype=torch.uint8, device=self._device) for size in sizes]
        for step in range(1, self.workers):
            to, source = self.neighbours(step)
            self.swap(outgoing[to], to, received[source], source)
        return received

    def all_reduce(self, values: Tensor) -> int:
        """Sum `values` (one-dimensional) over the workers, in place; returns the bytes this worker sent.

        Reduce-scatter, then all-gather, in 2 (P-1) steps of about 1/P of the values (Patarasuk and Yuan, JPDC
        2009). All workers end with the same bits. On CUDA NCCL does the same, and its bytes are those of a
        ring.
        """
        chunks = list(torch.tensor_split(values, self.workers))
        to, source = self.neighbours(1)
        sent = 0
        for step in range(2 * (self.workers - 1)):
            send, receive = (self.rank - step) % self.workers, (self.rank - step - 1) % self.workers
            sent += chunks[send].numel() * values.element_size()
            if values.is_cuda:
                continue
            arriving = torch.empty_like(chunks[receive])
            self.swap(chunks[send], to, arriving, source)
            if step >= self.workers - 1:
                chunks[receive].copy_(arriving)
            else:
                chunks[receive] += arriving
        if values.is_cuda and self.workers > 1:
            dist.all_reduce(values, group=self._group)
        return sent

    def barrier(self) -> None:
        """Return when all workers have called it, however long they take: writing to a slow disk is no
        failure, and whoever started the workers ends this one when another is lost.
        """
        with _told_as_lost():
            dist.barrier()

    def gather(self, value: Any, *, everywhere: bool = True) -> list[Any]:
        """What each worker has, by rank, on all of them or on worker 0 alone (Nones elsewhere). Patient, as
        `barrier`.
        """
        every: list[Any] = [None] * self.workers
        with _told_as_lost():
            if everywhere:
                dist.all_gather_object(every, value)
            else:
                dist.gather_object(value, every if self.rank == 0 else None)
        return every

    def swap(self, message: Tensor, to: int, arriving: Tensor, source: int) -> None:
        """Send one message and receive another; empty ones are not sent."""
        sends: list[Any] = []
        if arriving.numel():
            sends.append(dist.P2POp(dist.irecv, arriving, source, group=self._group))
        if message.numel():
            sends.append(dist.P2POp(dist.isend, message.contiguous(), to, group=self._group))
        if arriving.is_cuda or message.is_cuda:  # NCCL needs both in one call, or the ring waits for itself
            works = dist.batch_isend_irecv(sends) if sends else []
        else:
            works = [send.op(send.tensor, send.peer, group=self._group) for send in sends]
        for peer, work in zip([send.peer for send in sends], works, strict=False):
            if work is not None:
                try:
                    work.wait()
                except RuntimeError as error:
                    raise LostWorkerError(_told(peer, str(error))) from error


@contextmanager
def _told_as_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostWorkerError(f"a worker is gone ({_plain(str(error))})") from error


def _told(peer: int, reason: str) -> str:
    if "imed out" in reason:
        return f"worker {peer} did not answer in time; it hangs, or an epoch needs a longer --timeout"
    return f"worker {peer} is gone ({_plain(reason)})"


def _plain(reason: str) -> str:
    plain = reason.partition("] ")[2].partition(" [")[0] or reason  # gloo begins with a place of its own
    return plain.splitlines()[0][:80]
