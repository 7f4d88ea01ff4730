"""A wire that counts what it sends, by kind: the bytes of every message that is handed to the network."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from workloads.training.message import as_bytes
from workloads.training.wire import Wire

KINDS = ("features", "embeddings", "gradients", "states", "topk", "weights", "control")


class CountedWire(Wire):
    """Sends over `inner`; kind: what the messages are until it is changed; sent: bytes so far; wait_ns: spent
    on sending and receiving, waiting for peers included.
    """

    def __init__(self, inner: Wire, device: torch.device) -> None:
        super().__init__(inner.rank, inner.workers, None, device)
        self._inner = inner
        self.kind = "control"
        self.sent = dict.fromkeys(KINDS, 0)
        self.wait_ns = self.messages = 0

    def swap(self, message: Tensor, to: int, arriving: Tensor, source: int) -> None:
        """Count the message and pass it on."""
        self.sent[self.kind] += message.nbytes
        self.messages += message.numel() > 0
        start = time.perf_counter_ns()
        self._inner.swap(message, to, arriving, source)
        self.wait_ns += time.perf_counter_ns() - start

    def all_reduce(self, values: Tensor) -> int:
        """Sum over the workers; NCCL's own on CUDA, whose bytes are those of a ring."""
        if not values.is_cuda:
            return super().all_reduce(values)
        sent = self._inner.all_reduce(values)
        self.sent[self.kind] += sent
        return sent

    def exchange(
        self, outgoing: list[Tensor], counts: list[int], width: int, dtype: torch.dtype
    ) -> list[Tensor]:
        """Rows to every worker; what each sent here, float[counts[q], width]."""
        sizes = [count * width * dtype.itemsize for count in counts]
        received = self.all_to_all([as_bytes(rows.contiguous()) for rows in outgoing], sizes)
        return [part.view(dtype).reshape(count, width) for part, count in zip(received, counts, strict=True)]

    def gather_values(self, values: Tensor) -> list[Tensor]:
        """Every worker's float64[], whose lengths may differ."""
        lengths = torch.zeros(self.workers, dtype=torch.float64)
        lengths[self.rank] = len(values)
        self.all_reduce(lengths)
        counts = [int(length) for length in lengths]
        parts = self.exchange([values] * self.workers, counts, 1, torch.float64)
        return [values if q == self.rank else part.flatten() for q, part in enumerate(parts)]
