"""Transfers inside a differentiable computation: each op's backward pass is the transposed transfer.

Two conventions. Where activations are *whole* on all members, their gradients are too: `split_columns` takes
this member's part and returns whole gradients; `gather_columns` does the reverse; `copied` and `summed` are
Megatron-LM's f and g (Shoeybi et al., 2019). Where rows are *divided*, `rows_to_heads` and `heads_to_rows`
are the sequence-to-head all-to-all of TorchGT (section III-C) and DeepSpeed-Ulysses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from workloads.parallel.grid import Channel, run_of, splits


def split_columns(whole: Tensor, channel: Channel) -> Tensor:
    """float[n, w] -> float[n, w/P]: this member's columns."""
    return _Columns.apply(whole, channel, True) if channel.workers > 1 else whole


def gather_columns(mine: Tensor, channel: Channel, width: int) -> Tensor:
    """float[n, w/P] -> float[n, w]: all members' columns."""
    if channel.workers == 1:
        return mine
    return _Columns.apply(mine, channel, False, width)


def copied(whole: Tensor, channel: Channel) -> Tensor:
    """The same values; gradients, of which each member has a part, are added up."""
    return _Copied.apply(whole, channel) if channel.workers > 1 else whole


def summed(part: Tensor, channel: Channel) -> Tensor:
    """The sum over members; every member's gradient is the whole."""
    return _Summed.apply(part, channel) if channel.workers > 1 else part


def rows_to_heads(rows: Tensor, channel: Channel, total: int) -> Tensor:
    """float[S/P, h, w], a member's rows of all heads -> float[S, h/P, w], all rows of its heads.

    total: S. Rows and heads need not be divisible by P.
    """
    return _Swapped.apply(rows, channel, total, True) if channel.workers > 1 else rows


def heads_to_rows(heads: Tensor, channel: Channel, total: int) -> Tensor:
    """The way back: float[S, h/P, w] -> float[S/P, h, w]. total: h."""
    return _Swapped.apply(heads, channel, total, False) if channel.workers > 1 else heads


def _own(whole: Tensor, channel: Channel) -> Tensor:
    return whole[:, run_of(whole.shape[1], channel.workers, channel.rank)].contiguous()


def _all(mine: Tensor, channel: Channel, width: int) -> Tensor:
    shapes = [(mine.shape[0], size) for size in splits(width, channel.workers)]
    return torch.cat(channel.gather_all(mine, list(shapes)), dim=1)


class _Columns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, channel: Channel, take: bool, width: int = 0) -> Tensor:
        ctx.channel, ctx.take, ctx.width = channel, take, width or values.shape[1]
        return _own(values, channel) if take else _all(values, channel, width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        grad = _all(grads[0], ctx.channel, ctx.width) if ctx.take else _own(grads[0], ctx.channel)
        return grad, None, None, None


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, channel: Channel) -> Tensor:
        ctx.channel = channel
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.channel.add_up(grads[0]), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, channel: Channel) -> Tensor:
        return channel.add_up(part)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _Swapped(torch.autograd.Function):
    """to_heads: divide dimension 1, join dimension 0; else the reverse."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, channel: Channel, total: int, to_heads: bool) -> Tensor:
        divided = 1 if to_heads else 0
        ctx.channel, ctx.back, ctx.to_heads = channel, values.shape[divided], to_heads
        return _swap(values, channel, total, divided)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        grad = _swap(grads[0], ctx.channel, ctx.back, 0 if ctx.to_heads else 1)
        return grad, None, None, None


def _swap(values: Tensor, channel: Channel, total: int, divided: int) -> Tensor:
    joined, parts = 1 - divided, channel.workers
    outgoing = [part.contiguous() for part in torch.tensor_split(values, parts, dim=divided)]
    shapes = []
    for size in splits(total, parts):
        shape = list(outgoing[channel.rank].shape)
        shape[joined] = size
        shapes.append(tuple(shape))
    return torch.cat(channel.exchange(outgoing, shapes), dim=joined)
