"""The boundary exchange, the one place where embeddings and their gradients travel between workers.

Forward, per layer: every worker sends its boundary rows to the workers that have them in their halo.
Backward: the gradients of halo rows travel home along the same pairs and are added up there. `EpochPlan` says
how an epoch does it: exact or quantised, current or one epoch stale, all of the halo or a random share, all
peers at once or one after the other (SAR: workloads/training/sequential.py).

All transfers of a worker run in one lane (workloads/training/lanes.py), in order: encoding, sending, decoding
into a buffer. A stale epoch hands over its own messages and takes those of the epoch before, so that the lane
works while the model computes. Each layer and direction then has two buffers, written in turn: the one that
this epoch writes is not the one it reads. `Traffic.message_epoch` tells which epoch's messages each exchange
used; the buffer itself carries it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.lanes import Ticket, make_lane
from workloads.training.local_graph import LocalGraph
from workloads.training.message import check, decode, encode, message_size
from workloads.training.quantise import NotFiniteError
from workloads.training.rounds import Round, mixed, sampled
from workloads.training.traffic import BACKWARD, FORWARD, EpochPlan, Traffic
from workloads.training.wire import Wire


@dataclass
class _Buffer:
    """What a transfer writes: rows, and the epoch they are of."""

    rows: Tensor
    epoch: int = -1
    ticket: Ticket | None = None


class Exchange:
    """One worker's boundary exchange: `begin` at each epoch's start, `settle` at its end, `close` at last."""

    def __init__(self, local: LocalGraph, wire: Wire, seed: int, device: torch.device | None = None) -> None:
        self.local, self._wire, self._seed = local, wire, seed
        self._device = device or torch.device("cpu")
        starts = np.concatenate([[0], np.cumsum(local.receive)])
        self._send = [torch.from_numpy(rows) for rows in local.send]
        self._receive = [torch.arange(starts[q], starts[q + 1]) for q in range(local.workers)]
        self.lane = make_lane(self._device)
        self._buffers: dict[tuple[int, str], list[_Buffer]] = {}
        self._plan, self._whole = EpochPlan(-1), Round(self._send, self._receive)
        self._round = self._whole
        self._timing: list[tuple[Traffic, Ticket]] = []
        self._unchecked: list[Tensor] = []
        self._places: dict[int, Tensor] = {}
        self.traffic: list[Traffic] = []
        self.held_bytes = 0  # the most bytes of remote rows that one exchange handed out at a time

    def begin(self, plan: EpochPlan) -> None:
        """Exchange by this plan from now on."""
        self._plan = plan
        if plan.share >= 1:
            self._round = self._whole
        else:
            where = (self._seed, plan.epoch)
            self._round, self._places = sampled(self._whole, self.local.rank, plan.share, where), {}

    @property
    def sequential(self) -> bool:
        """Whether this epoch's halo comes block by block (`blocks`), never as a whole."""
        return self._plan.sequential

    def settle(self) -> None:
        """The epoch is over: fill in how long its transfers took, except those still under way.

        Raises NotFiniteError when quantised rows on an accelerator were not finite.
        """
        newest = [pair[-1].ticket for pair in self._buffers.values() if self._plan.keep]
        under_way = {id(ticket) for ticket in newest}
        waiting = []
        for record, ticket in self._timing:
            if id(ticket) in under_way:
                waiting.append((record, ticket))
            else:
                record.transfer_ns = ticket.elapsed_ns()
        self._timing = waiting
        flags, self._unchecked = self._unchecked, []
        try:
            check(flags)
        except NotFiniteError:
            raise NotFiniteError(f"the messages of epoch {self._plan.epoch}; lower --lr") from None

    def drain(self) -> None:
        """Wait until every transfer is done."""
        for record, ticket in self._timing:
            ticket.wait()
            record.transfer_ns = ticket.elapsed_ns()
        self._timing = []

    def halo(self, inner: Tensor, layer: int) -> Tensor:
        """float[nh, w]: the halo's rows of what the workers hold as inner: float[ni, w]. Differentiable."""
        rows: Tensor = _Halo.apply(inner, self, layer)
        return rows

    def close(self) -> None:
        """Wait for what is under way and end the lane."""
        self.lane.close()

    def state(self) -> dict[str, Any]:
        """What the next epoch needs of this one: buffers and their epochs. Drains the lane."""
        self.drain()
        return {
            f"{layer} {direction} {turn}": (buffer.rows.cpu(), buffer.epoch)
            for (layer, direction), pair in self._buffers.items()
            for turn, buffer in enumerate(pair)
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        for key in sorted(state):
            layer, direction, _ = key.split()
            rows, epoch = state[key]
            buffer = _Buffer(rows.to(self._device), epoch)
            self._buffers.setdefault((int(layer), direction), []).append(buffer)

    def send_embeddings(self, inner: Tensor, layer: int) -> Tensor:
        """The forward exchange, outside autograd."""
        share = self._plan.share
        result = self._swap(inner, self._round, layer, FORWARD, len(self.local.halo))
        return result if share >= 1 else result / share

    def send_gradients(self, halo: Tensor, layer: int) -> Tensor:
        """The backward exchange: float[ni, w], what the other workers' halo gradients add to inner rows."""
        if self._plan.share < 1:
            halo = halo / self._plan.share
        return self._swap(halo, self._round.reversed(), layer, BACKWARD, len(self.local.inner))

    def blocks(self, inner: Tensor, layer: int, direction: str) -> Iterator[tuple[int, Tensor]]:
        """(peer, its rows of the halo), one peer after the other; each may be dropped before the next comes.

        inner: float[ni, w]. The exchange is exact and current, as SAR's is.
        """
        record = self._record(layer, direction)
        for step, source in self.peers():
            to, _ = self._wire.neighbours(step)
            outgoing = inner[self._at(self._send[to])]
            rows = inner.new_empty(self.local.receive[source], inner.shape[1])
            self._step(record, outgoing, to, rows, source)
            self.held_bytes = max(self.held_bytes, rows.nbytes)
            yield source, rows

    def peers(self) -> Iterator[tuple[int, int]]:
        """(step, peer) in the order in which `blocks` yields."""
        for step in range(1, self.local.workers):
            yield step, self._wire.neighbours(step)[1]

    def return_block(self, record: Traffic, step: int, grad: Tensor, total: Tensor) -> None:
        """Send the gradient of the block that `step` of `blocks` yielded home; add to `total`, float[ni, w],
        what the peer on the other side sends.
        """
        source, to = self._wire.neighbours(step)
        rows = self._at(self._send[source])
        arriving = grad.new_empty(len(rows), grad.shape[1])
        self._step(record, grad, to, arriving, source)
        total.index_add_(0, rows, arriving)

    def begin_return(self, layer: int) -> Traffic:
        """The record of a backward exchange, for `return_block`."""
        return self._record(layer, BACKWARD)

    def _record(self, layer: int, direction: str) -> Traffic:
        record = Traffic(self._plan.epoch, layer, direction, self._plan.stale, self._plan.epoch)
        self.traffic.append(record)
        return record

    def _step(self, record: Traffic, outgoing: Tensor, to: int, arriving: Tensor, source: int) -> None:
        """One swap of exact rows, waited for."""
        record.values += outgoing.numel()
        record.main_bytes += outgoing.nbytes
        ticket = self.lane.submit(lambda: self._wire.swap(outgoing, to, arriving, source))
        start = time.perf_counter_ns()
        ticket.wait()
        record.wait_ns += time.perf_counter_ns() - start
        record.transfer_ns = record.wait_ns

    def _swap(self, rows: Tensor, round_: Round, layer: int, direction: str, count: int) -> Tensor:
        """Hand one exchange to the lane; returns the rows to use now, float[count, w]."""
        plan, ni, width, dtype = self._plan, len(self.local.inner), rows.shape[1], rows.dtype
        sending, coming = (0, ni) if direction == FORWARD else (ni, 0)
        record = self._record(layer, direction)
        outgoing, messages_in = [], []
        for peer, at in enumerate(round_.send):
            values, bits = rows[self._at(at)], self._bits(at, sending)
            self.lane.lend(values)
            size = message_size(len(values), width, bits, dtype)
            record.values += values.numel()
            record.main_bytes += size.main_bytes
            record.scale_bytes += size.scale_bytes
            # The rounding follows from where and when, not from what was rounded before.
            rank = self.local.rank
            seed = mixed(self._seed, plan.epoch + 1, layer, direction == BACKWARD, rank, peer)
            outgoing.append((values, bits, seed))
        for at in round_.receive:
            messages_in.append((at, self._bits(at, coming)))
        buffer, previous = self._next_buffer(layer, direction, rows.new_empty(0, width), count)

        def transfer() -> None:
            start = time.perf_counter_ns()
            try:
                messages = [encode(*message, self._unchecked) for message in outgoing]
            except NotFiniteError:
                what = "embeddings" if direction == FORWARD else "gradients"
                raise NotFiniteError(f"the {what} of layer {layer}, epoch {plan.epoch}; lower --lr") from None
            record.encode_ns = time.perf_counter_ns() - start
            sizes = [message_size(len(at), width, bits, dtype).total for at, bits in messages_in]
            received = self._wire.all_to_all(messages, sizes)
            start = time.perf_counter_ns()
            if direction == BACKWARD or plan.share < 1:
                buffer.rows.zero_()
            for (at, bits), message in zip(messages_in, received, strict=True):
                values = decode(message, len(at), width, bits, dtype)
                if direction == BACKWARD:
                    buffer.rows.index_add_(0, self._at(at), values)
                else:
                    buffer.rows[self._at(at)] = values
            buffer.epoch = plan.epoch
            record.decode_ns = time.perf_counter_ns() - start

        buffer.ticket = self.lane.submit(transfer)
        self._timing.append((record, buffer.ticket))
        return self._arrived(buffer if previous is None else previous, record)

    def _next_buffer(
        self, layer: int, direction: str, like: Tensor, count: int
    ) -> tuple[_Buffer, _Buffer | None]:
        """(the buffer that this exchange writes, what a stale epoch reads instead). like: float[0, w]."""
        plan = self._plan
        pair = self._buffers.setdefault((layer, direction), []) if plan.keep or plan.stale else []
        if plan.stale and not pair:
            raise RuntimeError(f"layer {layer} {direction}: a stale epoch has no epoch before it")
        previous = pair[-1] if plan.stale else None
        buffer = pair.pop(0) if len(pair) == 2 else _Buffer(like.new_empty(count, like.shape[1]))
        pair.append(buffer)
        return buffer, previous

    def _arrived(self, wanted: _Buffer, record: Traffic) -> Tensor:
        """The buffer's rows, once its transfer is done."""
        start = time.perf_counter_ns()
        if wanted.ticket is not None:  # none: it comes from a checkpoint
            wanted.ticket.wait()
        record.wait_ns = time.perf_counter_ns() - start
        record.message_epoch = wanted.epoch
        forward = record.direction == FORWARD
        self.held_bytes = max(self.held_bytes, wanted.rows.nbytes if forward else 0)
        return wanted.rows.detach()

    def _bits(self, at: Tensor, first: int) -> Tensor | None:
        """The widths of rows `at`, counted from local vertex `first`."""
        return None if self._plan.bits is None else self._plan.bits[first + at]

    def _at(self, rows: Tensor) -> Tensor:
        """Row numbers on the device; the copies are kept, because most epochs use the same."""
        if self._device.type == "cpu":
            return rows
        place = self._places.get(id(rows))
        if place is None:
            place = self._places[id(rows)] = rows.to(self._device)
        return place


class _Halo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: Tensor, exchange: Exchange, layer: int) -> Tensor:
        ctx.exchange, ctx.layer = exchange, layer
        return exchange.send_embeddings(inner, layer)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        exchange: Exchange = ctx.exchange
        return exchange.send_gradients(grads[0], ctx.layer), None, None
