"""Sequence and head parallelism: who holds which tokens and heads, and the exchanges around attention.

Every worker holds a run of tokens with all heads. `all-to-all` (TorchGT, III-C) gives each worker all tokens
of its heads before attention, and its tokens of all heads after it: 4 S d / P values per worker and layer, of
which (P-1)/P leave it. `all-gather` copies every worker's keys and values to all others: 2 S d (P-1)/P sent
per worker. The structural encoding does not travel: every worker has the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.wire import Wire


def even_bounds(count: int, parts: int) -> list[int]:
    """parts+1 bounds of runs whose lengths differ by at most one."""
    return [count * part // parts for part in range(parts + 1)]


@dataclass
class Ring:
    """One worker's exchanges. heads: bounds of the workers' heads; tokens: bounds of their tokens in the
    present sequence. counted: a row per exchange: layer, direction, values handed to it, values and bytes
    sent.
    """

    wire: Wire
    heads: list[int]
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    counted: list[dict[str, Any]] = field(default_factory=list)
    layer: int = 0
    epoch: int = 0
    counting: bool = True

    @property
    def own_heads(self) -> slice:
        """The heads whose attention this worker computes."""
        return slice(self.heads[self.wire.rank], self.heads[self.wire.rank + 1])

    def _swapped(
        self, outgoing: list[Tensor], shapes: Sequence[Sequence[int]], note: dict[str, Any]
    ) -> list[Tensor]:
        """Send outgoing[q] to each worker q, receive tensors of these shapes; its own part stays."""
        rank, like = self.wire.rank, outgoing[0]
        size = like.element_size()
        messages = [part.contiguous().reshape(-1).view(torch.uint8) for part in outgoing]
        sizes = [int(np.prod(shape)) * size for shape in shapes]
        arrived = self.wire.all_to_all(messages, sizes)
        sent = sum(message.numel() for q, message in enumerate(messages) if q != rank)
        if self.counting:
            handed = sum(part.numel() for part in outgoing)
            common = {"epoch": self.epoch, "worker": rank, "layer": self.layer}
            counts = {"handed_values": handed, "sent_values": sent // size, "sent_bytes": sent}
            self.counted.append({**common, **note, **counts})
        arrived[rank] = messages[rank]
        return [part.view(like.dtype).view(*shape) for part, shape in zip(arrived, shapes, strict=True)]

    def to_heads(self, mine: Tensor, direction: str) -> Tensor:
        """[c, H, own tokens, w] -> [c, own heads, all tokens, w]."""
        c, _, _, w = mine.shape
        outgoing = [mine[:, self.heads[q] : self.heads[q + 1]] for q in range(self.wire.workers)]
        own = self.own_heads.stop - self.own_heads.start
        lengths = [self.tokens[q + 1] - self.tokens[q] for q in range(self.wire.workers)]
        shapes = [(c, own, length, w) for length in lengths]
        parts = self._swapped(outgoing, shapes, {"direction": direction, "kind": "sequence to heads"})
        return torch.cat(parts, dim=2)

    def to_tokens(self, heads: Tensor, direction: str) -> Tensor:
        """[c, own heads, all tokens, w] -> [c, H, own tokens, w]: the inverse of `to_heads`, its gradient."""
        c, _, _, w = heads.shape
        rank = self.wire.rank
        outgoing = [heads[:, :, self.tokens[q] : self.tokens[q + 1]] for q in range(self.wire.workers)]
        length = self.tokens[rank + 1] - self.tokens[rank]
        shapes = [(c, self.heads[q + 1] - self.heads[q], length, w) for q in range(self.wire.workers)]
        parts = self._swapped(outgoing, shapes, {"direction": direction, "kind": "heads to sequence"})
        return torch.cat(parts, dim=1)

    def gathered(self, mine: Tensor) -> Tensor:
        """[c, H, own tokens, w] -> [c, H, all tokens, w]."""
        c, h, _, w = mine.shape
        lengths = [self.tokens[q + 1] - self.tokens[q] for q in range(self.wire.workers)]
        shapes = [(c, h, length, w) for length in lengths]
        note = {"direction": "forward", "kind": "all-gather"}
        return torch.cat(self._swapped([mine] * self.wire.workers, shapes, note), dim=2)

    def scattered_sum(self, every: Tensor) -> Tensor:
        """[c, H, all tokens, w] of each worker -> their sum at [c, H, own tokens, w]: the gradient of it."""
        outgoing = [every[:, :, self.tokens[q] : self.tokens[q + 1]] for q in range(self.wire.workers)]
        own = outgoing[self.wire.rank]
        note = {"direction": "backward", "kind": "reduce-scatter"}
        parts = self._swapped(outgoing, [tuple(own.shape)] * self.wire.workers, note)
        return torch.stack(parts).sum(0)


class ToHeads(torch.autograd.Function):
    """`Ring.to_heads`, with its gradient."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, ring: Ring) -> Tensor:
        ctx.ring, ctx.layer = ring, ring.layer
        return ring.to_heads(mine, "forward")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.ring.layer = ctx.layer
        return ctx.ring.to_tokens(grads[0], "backward"), None


class ToTokens(torch.autograd.Function):
    """`Ring.to_tokens`, with its gradient."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, ring: Ring) -> Tensor:
        ctx.ring, ctx.layer = ring, ring.layer
        return ring.to_tokens(heads, "forward")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.ring.layer = ctx.layer
        return ctx.ring.to_heads(grads[0], "backward"), None


class Gather(torch.autograd.Function):
    """`Ring.gathered`, with its gradient."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, ring: Ring) -> Tensor:
        ctx.ring, ctx.layer = ring, ring.layer
        return ring.gathered(mine)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.ring.layer = ctx.layer
        return ctx.ring.scattered_sum(grads[0]), None
