"""Transfers inside a differentiable computation: each op's backward pass is the transposed transfer.

Activations are *whole* on all members, and so are their gradients: `split_columns` takes this member's part
and returns whole gradients; `gather_columns` does the reverse; `copied` and `summed` are Megatron-LM's f and
g (Shoeybi et al., 2019).
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
