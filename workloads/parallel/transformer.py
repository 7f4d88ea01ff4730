"""A graph transformer, divided along sequence and tensor axes: the plain pre-norm layer of Graphormer and GT.

Tensor members share heads and the feed-forward network's inner width (Megatron-LM: a map by its outputs, then
one by its inputs, one all-reduce each way); sequence members hold runs of rows and swap rows for heads around
attention (TorchGT). Structural biases are a learned number per class of pair and head; the class bytes travel
with the sparse layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear
from torch.utils.checkpoint import checkpoint

from workloads.errors import InputError
from workloads.parallel.gnn import mark_divided
from workloads.parallel.grid import Grid, run_of
from workloads.parallel.ops import copied, heads_to_rows, rows_to_heads, summed
from workloads.parallel.pieces import SequencePiece
from workloads.parallel.task import ModelSpec
from workloads.parallel.topk import EllLayout, ell_layout, topk_attention
from workloads.training.transformer import attention
from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.structure import CLASSES

DEGREES = 32  # embeddings for the logarithm of the degree


@dataclass(frozen=True, eq=False)
class Placed:
    """A sequence as this worker sees it: total rows, its own run of them, and the pattern of attention.
    degrees: int64[S/P] of its rows.
    """

    total: int
    rows: slice
    layout: PairLayout
    ell: EllLayout | None
    degrees: Tensor


def place(piece: SequencePiece, grid: Grid, model: ModelSpec) -> Placed:
    """The worker's run of a sequence."""
    channel = grid.channel("sequence")
    total = len(piece.vertices)
    if total < channel.workers:
        raise InputError(f"sequence parallelism: {total} vertices for {channel.workers} workers")
    rows = run_of(total, channel.workers, channel.rank)
    counts = torch.from_numpy(piece.layout.indptr).diff()[rows].double()
    degrees = torch.log2(counts).clamp(0, DEGREES - 1).long()
    ell = ell_layout(piece.layout) if model.attention == "topk" else None
    return Placed(total, rows, piece.layout, ell, degrees)


class Layer(nn.Module):
    """Attention and feed-forward network, each with its residual."""

    def __init__(self, model: ModelSpec, grid: Grid) -> None:
        super().__init__()
        self.model, self.tensor, self.sequence = model, grid.channel("tensor"), grid.channel("sequence")
        d, f, width = model.hidden, model.ffn, model.hidden // model.heads
        self.heads = run_of(model.heads, self.tensor.workers, self.tensor.rank)
        self.count = self.heads.stop - self.heads.start
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v = (self._outputs(d, d, width) for _ in range(3))
        self.table = self._whole(torch.zeros(model.heads, CLASSES), 0, 1)
        self.o, self.o_bias = self._inputs(d, d, width)
        self.up = self._outputs(d, f, 1)
        self.down, self.down_bias = self._inputs(f, d, 1)

    def forward(self, values: Tensor, placed: Placed) -> Tensor:
        """float[S/P, d] -> float[S/P, d]."""
        inner = copied(self.norm1(values), self.tensor)
        q, k, v = (linear(inner, *pair) for pair in (self.q, self.k, self.v))
        attended = self._attend(q, k, v, placed)
        values = values + summed(linear(attended, self.o), self.tensor) + self.o_bias
        inner = copied(self.norm2(values), self.tensor)
        wide = gelu(linear(inner, *self.up))
        return values + summed(linear(wide, self.down), self.tensor) + self.down_bias

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, placed: Placed) -> Tensor:
        rows, width = q.shape[0], self.model.hidden // self.model.heads
        parts = [part.reshape(rows, self.count, width) for part in (q, k, v)]
        together = rows_to_heads(torch.cat(parts, dim=2), self.sequence, placed.total)
        q, k, v = (part.contiguous() for part in together.transpose(0, 1).split(width, dim=2))
        mine = run_of(self.count, self.sequence.workers, self.sequence.rank)
        result = self._kind(q, k, v, self.table[mine], placed)
        back = heads_to_rows(result.transpose(0, 1).contiguous(), self.sequence, self.count)
        return back.reshape(rows, self.count * width)

    def _kind(self, q: Tensor, k: Tensor, v: Tensor, table: Tensor, placed: Placed) -> Tensor:
        kind = self.model.attention
        if kind == "sparse":
            return attention.sparse(q, k, v, placed.layout, table)
        if kind == "topk":
            assert placed.ell is not None
            return topk_attention(q, k, v, placed.ell, most=self.model.topk, table=table)
        return attention.flash(q, k, v) if kind == "flash" else attention.dense(q, k, v)

    def _outputs(self, inputs: int, outputs: int, unit: int) -> nn.ParameterList:
        """This member's outputs of a linear map, in runs of `unit`; weight and bias."""
        whole = nn.Linear(inputs, outputs)
        return nn.ParameterList([self._whole(part.detach(), 0, unit) for part in (whole.weight, whole.bias)])

    def _inputs(self, inputs: int, outputs: int, unit: int) -> tuple[nn.Parameter, nn.Parameter]:
        """This member's inputs of a linear map, and the bias, which is added once."""
        whole = nn.Linear(inputs, outputs)
        return self._whole(whole.weight.detach(), 1, unit), nn.Parameter(whole.bias.detach().clone())

    def _whole(self, values: Tensor, dim: int, unit: int) -> nn.Parameter:
        total = values.shape[dim]
        part = run_of(total // unit, self.tensor.workers, self.tensor.rank)
        own = values.narrow(dim, part.start * unit, (part.stop - part.start) * unit).clone()
        parameter = nn.Parameter(own)
        if self.tensor.workers > 1:
            mark_divided(parameter, dim, total, unit)
        return parameter


class Transformer(nn.Module):
    """Features and degree in, class scores out, for a worker's rows."""

    def __init__(self, features: int, classes: int, model: ModelSpec, grid: Grid, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(features, model.hidden)
        self.degree = nn.Embedding(DEGREES, model.hidden)
        self.layers = nn.ModuleList(Layer(model, grid) for _ in range(model.layers))
        self.norm = nn.LayerNorm(model.hidden)
        self.last = nn.Linear(model.hidden, classes)

    def forward(self, rows: Tensor, placed: Placed, *, checkpoints: bool) -> Tensor:
        """float[S/P, features] -> float[S/P, classes]."""
        values = self.first(rows) + self.degree(placed.degrees)
        for layer in self.layers:
            if checkpoints:
                values = checkpoint(layer, values, placed, use_reentrant=False)
            else:
                values = layer(values, placed)
        return self.last(self.norm(values))
