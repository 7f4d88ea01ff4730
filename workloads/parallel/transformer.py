"""TorchGT's model (`workloads/training/transformer`), divided along sequence and tensor axes.

Tensor members share heads and the feed-forward network's inner width (Megatron-LM: a map by its outputs, then
one by its inputs, one all-reduce each way); sequence members hold runs of rows and swap rows for heads around
attention (TorchGT). Weights have the same names and shapes under every scheme, so that one can take over from
another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from workloads.errors import InputError
from workloads.parallel.gnn import mark_divided
from workloads.parallel.grid import Channel, Grid, run_of
from workloads.parallel.ops import copied, summed
from workloads.parallel.task import ModelSpec
from workloads.parallel.topk import EllLayout, ell_layout, topk_attention
from workloads.training.transformer import attention
from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.model import GraphTransformer, Inputs, Layer
from workloads.training.transformer.parallel import Ring, ToHeads, ToTokens, even_bounds
from workloads.training.transformer.shapes import SHAPES, Shape
from workloads.training.transformer.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Placed:
    """A sequence as this worker sees it: its own rows, their exchange, and the pattern of attention. layout:
    None where all attend to all.
    """

    inputs: Inputs
    ring: Ring
    layout: PairLayout | None
    ell: EllLayout | None


def place(tokens: Tokens, grid: Grid, spec: ModelSpec, dtype: torch.dtype) -> Placed:
    """The worker's run of a sequence."""
    channel = grid.channel("sequence")
    if tokens.count < channel.workers:
        raise InputError(f"sequence parallelism: {tokens.count} vertices for {channel.workers} workers")
    own = run_of(spec.heads, grid.scheme.tensor, grid.place["tensor"])
    ring = Ring(channel, even_bounds(own.stop - own.start, channel.workers), tokens.bounds, counting=False)
    layout: PairLayout | None = tokens.topology
    if spec.attention in ("dense", "flash"):
        layout = tokens.every
    ell = ell_layout(tokens.topology) if spec.attention == "topk" else None
    return Placed(Inputs(tokens, dtype, torch.device("cpu")), ring, layout, ell)


class Transformer(GraphTransformer):
    """This member's part of the model."""

    def __init__(self, spec: ModelSpec, widths: tuple[int, int], grid: Grid, seed: int) -> None:
        """widths: features, classes. All members draw the same whole weights and keep their runs."""
        torch.manual_seed(seed)
        style = SHAPES[spec.name].style
        super().__init__(Shape("", spec.layers, spec.hidden, spec.heads, spec.ffn, style), *widths, 0.0)
        self.attention, self.most = spec.attention, spec.topk
        tensor = grid.channel("tensor")
        heads, inner = (run_of(size, tensor.workers, tensor.rank) for size in (spec.heads, spec.ffn))
        for layer in self.layers:
            assert isinstance(layer, Layer)
            divide_layer(layer, heads, inner, tensor)
            if grid.scheme.checkpoint:
                layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)  # type: ignore[method-assign]
        for name, values in self.table.named_parameters():
            setattr(self.table, name, _own(values, 1, heads))

    def scores(self, placed: Placed) -> Tensor:
        """float[own rows, classes]."""
        return self(placed.inputs, partial(self._attend, placed), 0)

    def _attend(self, placed: Placed, number: int, states: Tensor, table: Tensor) -> Tensor:
        ring = placed.ring
        if ring.wire.workers == 1:
            return self._kind(placed, states.contiguous(), table)
        seen = self._kind(placed, ToHeads.apply(states, ring), table[ring.own_heads])
        back: Tensor = ToTokens.apply(seen[None], ring)
        return back[0]

    def _kind(self, placed: Placed, states: Tensor, table: Tensor) -> Tensor:
        q, k, v = states.unbind(0)
        if placed.ell is not None:
            return topk_attention(q, k, v, placed.ell, most=self.most, table=table)
        if placed.layout is not None:
            return attention.sparse(q, k, v, placed.layout, table)
        return attention.flash(q, k, v) if self.attention == "flash" else attention.dense(q, k, v)


def divide_layer(layer: Layer, heads: slice, inner: slice, tensor: Channel) -> None:
    """Leave a layer these heads and this run of its feed-forward network's width."""
    shape = layer.shape
    parts = (3, shape.heads, shape.head_width)
    layer.qkv = _Outputs(layer.qkv, parts, 1, heads, tensor)  # type: ignore[assignment]
    layer.out = _Inputs(layer.out, parts[1:], heads, tensor)  # type: ignore[assignment]
    layer.wide = _Outputs(layer.wide, (shape.ffn,), 0, inner, tensor)  # type: ignore[assignment]
    layer.narrow = _Inputs(layer.narrow, (shape.ffn,), inner, tensor)  # type: ignore[assignment]
    count = heads.stop - heads.start
    layer.shape = replace(shape, heads=count, hidden=count * shape.head_width)


def forward_of_layer(
    d: int, heads: int, width: int, inner: int, style: str
) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    """(a layer of so many heads, whose attention hands on its values; its weights): what there is to time of
    it besides attention.
    """
    layer = Layer(Shape("", 1, d, d // width, inner, style))
    divide_layer(layer, slice(0, heads), slice(0, inner), Channel((0,), 0, None))

    def forward(values: Tensor) -> Tensor:
        result: Tensor = layer(values, lambda states: states[2].contiguous(), lambda seen: seen)
        return result

    return forward, list(layer.parameters())


class _Outputs(nn.Module):
    """One member's outputs of a linear map, a run along one of the dimensions that they make up."""

    def __init__(
        self, whole: nn.Linear, shape: tuple[int, ...], dim: int, own: slice, tensor: Channel
    ) -> None:
        super().__init__()
        self.tensor = tensor
        self.weight = _own(whole.weight.view(*shape, whole.in_features), dim, own)
        self.bias = _own(whole.bias.view(*shape), dim, own)

    def forward(self, values: Tensor) -> Tensor:
        """float[n, inputs], whole -> float[n, own outputs]."""
        return linear(copied(values, self.tensor), self.weight.flatten(0, -2), self.bias.flatten())


class _Inputs(nn.Module):
    """One member's inputs of a linear map, results added up; the bias is added once."""

    def __init__(self, whole: nn.Linear, shape: tuple[int, ...], own: slice, tensor: Channel) -> None:
        super().__init__()
        self.tensor = tensor
        self.weight = _own(whole.weight.view(whole.out_features, *shape), 1, own)
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, values: Tensor) -> Tensor:
        """float[n, own inputs] -> float[n, outputs], whole."""
        return summed(linear(values, self.weight.flatten(1)), self.tensor) + self.bias


def _own(whole: Tensor, dim: int, own: slice) -> nn.Parameter:
    part = whole.detach().narrow(dim, own.start, own.stop - own.start).clone()
    parameter = nn.Parameter(part)
    if part.shape != whole.shape:
        mark_divided(parameter, dim, whole.shape[dim])
    return parameter
