"""The collectives, as rings of point-to-point sends over torch.distributed: every byte passes here."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


class Wire:
    """One worker's end of a process group. Rings send in a fixed order, so sums are reproducible."""

    def __init__(self, rank: int, workers: int, group: dist.ProcessGroup | None = None) -> None:
        self.rank, self.workers, self._group = rank, workers, group

    def all_to_all(self, outgoing: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """Send outgoing[q] (uint8) to each worker q; returns what each sent here, uint8[sizes[q]].

        In step s worker r sends to r+s and receives from r-s, so no link carries two messages at once. Empty
        messages are not sent.
        """
        received = [torch.empty(size, dtype=torch.uint8) for size in sizes]
        for step in range(1, self.workers):
            to, source = (self.rank + step) % self.workers, (self.rank - step) % self.workers
            self._swap(outgoing[to], to, received[source], source)
        return received

    def all_reduce(self, values: Tensor) -> int:
        """Sum `values` (one-dimensional) over the workers, in place; returns the bytes this worker sent.

        Reduce-scatter, then all-gather, in 2 (P-1) steps of about 1/P of the values (Patarasuk and Yuan, JPDC
        2009). All workers end with the same bits.
        """
        chunks = list(torch.tensor_split(values, self.workers))
        to, source = (self.rank + 1) % self.workers, (self.rank - 1) % self.workers
        sent = 0
        for step in range(2 * (self.workers - 1)):
            gathering = step >= self.workers - 1
            send, receive = (self.rank - step) % self.workers, (self.rank - step - 1) % self.workers
            arriving = torch.empty_like(chunks[receive])
            self._swap(chunks[send], to, arriving, source)
            sent += chunks[send].numel() * values.element_size()
            if gathering:
                chunks[receive].copy_(arriving)
            else:
                chunks[receive] += arriving
        return sent

    def _swap(self, message: Tensor, to: int, arriving: Tensor, source: int) -> None:
        works = []
        if arriving.numel():
            works.append(dist.irecv(arriving, source, group=self._group))
        if message.numel():
            works.append(dist.isend(message, to, group=self._group))
        for work in works:
            if work is not None:
                work.wait()
