"""The boundary exchange, the one place where embeddings and their gradients travel between workers.

Forward, per layer: every worker sends its boundary rows to the workers that have them in their halo.
Backward: the gradients of halo rows travel home along the same pairs and are added up there. `EpochPlan` says
how an epoch does it: exact or quantised, current or one epoch stale, all of the halo or a random share.

All transfers of a worker run in one thread, in order; what it hands over is a tensor nobody writes any more.
A stale epoch hands over its own messages and takes those of the epoch before, so encoding, sending and
decoding overlap with computing. `Traffic.message_epoch` tells which epoch's messages each exchange used.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.local_graph import LocalGraph
from workloads.training.message import decode, encode, message_size
from workloads.training.quantise import NotFiniteError
from workloads.training.wire import Wire

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class EpochPlan:
    """How one epoch exchanges.

    epoch: 0-based. stale: use the previous epoch's messages (its first epoch must not be). bits:
    uint8[ni+nh], the bit width of each local vertex's messages, or None for exact values. share: probability
    that a halo vertex takes part this epoch, its embedding scaled by 1/share (BNS-GCN).
    """

    epoch: int
    stale: bool = False
    bits: Tensor | None = None
    share: float = 1.0


@dataclass
class Traffic:
    """What one worker sent in one exchange, and how long it took: wall times of the transfer (encoding and
    decoding included) and of waiting for it. message_epoch: the epoch whose messages were used.
    """

    epoch: int
    layer: int
    direction: str
    stale: bool
    message_epoch: int = -1
    main_bytes: int = 0
    scale_bytes: int = 0
    transfer_ns: int = 0
    wait_ns: int = 0


@dataclass
class _Round:
    """The peers' rows of one exchange, as the plan of its epoch has them."""

    send: list[Tensor] = field(default_factory=list)
    receive: list[Tensor] = field(default_factory=list)


class Exchange:
    """One worker's boundary exchange. Call `begin` at each epoch's start and `close` at the end."""

    def __init__(self, local: LocalGraph, wire: Wire, seed: int) -> None:
        self.local, self._wire, self._seed = local, wire, seed
        starts = np.concatenate([[0], np.cumsum(local.receive)])
        self._send = [torch.from_numpy(rows) for rows in local.send]
        self._receive = [torch.arange(starts[q], starts[q + 1]) for q in range(local.workers)]
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._pending: dict[tuple[int, str], Future[tuple[int, list[Tensor], _Round]]] = {}
        self._plan, self._round = EpochPlan(-1), _Round(self._send, self._receive)
        self.traffic: list[Traffic] = []

    def begin(self, plan: EpochPlan) -> None:
        """Exchange by this plan from now on."""
        self._plan = plan
        self._round = _Round(self._send, self._receive) if plan.share >= 1 else self._sampled(plan)

    def halo(self, inner: Tensor, layer: int) -> Tensor:
        """float[nh, w]: the halo's rows of what the workers hold as inner: float[ni, w]. Differentiable."""
        rows: Tensor = _Halo.apply(inner, self, layer)
        return rows

    def close(self) -> None:
        """Wait for what is under way and end the thread."""
        self._thread.shutdown(wait=True)

    def send_embeddings(self, inner: Tensor, layer: int) -> Tensor:
        """The forward exchange, outside autograd."""
        current = self._round
        outgoing = [inner[rows] for rows in current.send]
        bits = self._plan.bits
        widths = None if bits is None else (bits, bits[len(self.local.inner) :])
        arrived, used = self._swap(outgoing, current, layer, FORWARD, widths=widths)
        result = inner.new_zeros(len(self.local.halo), inner.shape[1])
        for rows, values in zip(used.receive, arrived, strict=True):
            result[rows] = values
        return result if self._plan.share >= 1 else result / self._plan.share

    def send_gradients(self, halo: Tensor, layer: int) -> Tensor:
        """The backward exchange: float[ni, w], what the other workers' halo gradients add to inner rows."""
        if self._plan.share < 1:
            halo = halo / self._plan.share
        home = _Round(self._round.receive, self._round.send)
        outgoing = [halo[rows] for rows in home.send]
        bits = self._plan.bits
        widths = None if bits is None else (bits[len(self.local.inner) :], bits)
        arrived, used = self._swap(outgoing, home, layer, BACKWARD, widths=widths)
        result = halo.new_zeros(len(self.local.inner), halo.shape[1])
        for rows, values in zip(used.receive, arrived, strict=True):
            result.index_add_(0, rows, values)
        return result

    def _swap(
        self,
        outgoing: list[Tensor],
        rounds: _Round,
        layer: int,
        direction: str,
        *,
        widths: tuple[Tensor, Tensor] | None,
    ) -> tuple[list[Tensor], _Round]:
        """Hand one exchange to the thread; returns the rows to use now, with where they belong.

        widths: the bits of the rows that rounds.send and rounds.receive number.
        """
        plan = self._plan
        sent = [None if widths is None else widths[0][rows] for rows in rounds.send]
        coming = [None if widths is None else widths[1][rows] for rows in rounds.receive]
        record = Traffic(plan.epoch, layer, direction, plan.stale)
        width, dtype = outgoing[0].shape[1], outgoing[0].dtype
        for values, bits in zip(outgoing, sent, strict=True):
            size = message_size(len(values), width, bits, dtype)
            record.main_bytes += size.main_bytes
            record.scale_bytes += size.scale_bytes
        self.traffic.append(record)

        def transfer() -> tuple[int, list[Tensor], _Round]:
            start = time.perf_counter_ns()
            with torch.no_grad():
                generator = self._generator(plan.epoch, layer, direction)
                try:
                    messages = [encode(v, b, generator) for v, b in zip(outgoing, sent, strict=True)]
                except NotFiniteError:
                    what = "embeddings" if direction == FORWARD else "gradients"
                    raise NotFiniteError(
                        f"NaN or infinity in the {what} of layer {layer}, epoch {plan.epoch}; lower --lr"
                    ) from None
                counts = [len(rows) for rows in rounds.receive]
                sizes = [message_size(n, width, b, dtype).total for n, b in zip(counts, coming, strict=True)]
                received = self._wire.all_to_all(messages, sizes)
                rows = [
                    decode(message, n, width, b, dtype)
                    for message, n, b in zip(received, counts, coming, strict=True)
                ]
            record.transfer_ns = time.perf_counter_ns() - start
            return plan.epoch, rows, rounds

        key = (layer, direction)
        future, previous = self._thread.submit(transfer), self._pending.get(key)
        self._pending[key] = future
        if plan.stale and previous is None:
            raise RuntimeError(f"layer {layer} {direction}: a stale epoch has no epoch before it")
        wanted = previous if plan.stale and previous is not None else future
        start = time.perf_counter_ns()
        record.message_epoch, arrived, used = wanted.result()
        record.wait_ns = time.perf_counter_ns() - start
        return arrived, used

    def _generator(self, epoch: int, layer: int, direction: str) -> torch.Generator:
        where = [self._seed, epoch + 1, layer, direction == BACKWARD, self.local.rank]
        return torch.Generator().manual_seed(_mixed(where))

    def _sampled(self, plan: EpochPlan) -> _Round:
        """Each pair draws its halo vertices from a seed both know: the choice itself costs no bytes."""
        rank, chosen = self.local.rank, _Round()
        for peer in range(self.local.workers):
            for rows, where, receiver, owner in (
                (self._send[peer], chosen.send, peer, rank),
                (self._receive[peer], chosen.receive, rank, peer),
            ):
                seed = _mixed([self._seed, plan.epoch, receiver, owner, 7])
                draws = torch.rand(len(rows), generator=torch.Generator().manual_seed(seed))
                where.append(rows[draws < plan.share])
        return chosen


def _mixed(parts: list[Any]) -> int:
    words = np.random.SeedSequence([int(part) for part in parts]).generate_state(2, np.uint32)
    return int(words[0]) << 31 ^ int(words[1])


class _Halo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: Tensor, exchange: Exchange, layer: int) -> Tensor:
        ctx.exchange, ctx.layer = exchange, layer
        return exchange.send_embeddings(inner, layer)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        exchange: Exchange = ctx.exchange
        return exchange.send_gradients(grads[0], ctx.layer), None, None
