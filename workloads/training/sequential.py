"""SAR: a layer's neighbourhood sums, one remote partition after the other (Mostafa, "Sequential Aggregation
and Rematerialization", MLSys 2022).

A worker fetches one peer's boundary rows, adds up what they contribute, drops them, and fetches the next, so
it never holds its whole halo, neither while computing nor until the backward pass. A sum's gradient needs no
remote rows: block after block goes home. An attention's does: the rows are fetched once more, and what was
dropped is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from workloads.training.adjacency import Adjacency, Block
from workloads.training.exchange import Exchange
from workloads.training.traffic import FORWARD, REFETCH

SLOPE = 0.2  # of GAT's LeakyReLU


@dataclass(frozen=True)
class Place:
    """Where in the model: the worker's edges, its exchange, and the exchange's number (layer)."""

    adjacency: Adjacency
    exchange: Exchange
    layer: int


def sequential_sum(inner: Tensor, kind: str, place: Place) -> Tensor:
    """float[ni, w]: `Adjacency.aggregate` over inner and halo rows, with weights "gcn" or "mean"."""
    result: Tensor = _Sum.apply(inner, kind, place)
    return result


def sequential_attention(inner: Tensor, to: Tensor, source: Tensor, place: Place) -> Tensor:
    """float[ni, w]: each vertex's softmax-weighted sum over its neighbours and itself.

    inner: float[ni, w]; to: float[ni], each vertex's part of its edges' logits; source: float[w], whose
    product with a neighbour's row is the other part.
    """
    result: Tensor = _Attention.apply(inner, to, source, place)
    return result


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: Tensor, kind: str, place: Place) -> Tensor:
        ctx.kind, ctx.place = kind, place
        own, *remote = place.adjacency.blocks
        total = own.sum_rows(inner, own.weights[kind])
        for peer, rows in place.exchange.blocks(inner, place.layer, FORWARD):
            block = remote[peer]
            total += block.sum_rows(rows, block.weights[kind])
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        place, kind = ctx.place, ctx.kind
        grad = grads[0].contiguous()
        own, *remote = place.adjacency.blocks
        total = own.sum_columns(grad, own.weights[kind])
        record = place.exchange.begin_return(place.layer)
        for step, peer in place.exchange.peers():
            block = remote[peer]
            place.exchange.return_block(record, step, block.sum_columns(grad, block.weights[kind]), total)
        return total, None, None


class _Attention(torch.autograd.Function):
    """Softmax over blocks with a running maximum, as FlashAttention has it (Dao et al., NeurIPS 2022)."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor, to: Tensor, source: Tensor, place: Place) -> Tensor:
        top = leaky_relu(to + inner @ source, SLOPE)  # the vertex itself
        total, result = torch.ones_like(top), inner.clone()

        def take(block: Block, rows: Tensor) -> None:
            nonlocal top, total, result
            logits = leaky_relu(to[block.row] + (rows @ source)[block.col], SLOPE)
            higher = top.scatter_reduce(0, block.row.long(), logits, "amax")
            shrink = torch.exp(top - higher)
            weights = torch.exp(logits - higher[block.row])
            top, total = higher, (total * shrink).index_add_(0, block.row, weights)
            result = result * shrink[:, None] + block.sum_rows(rows, weights)

        own, *remote = place.adjacency.blocks
        take(own, inner)
        for peer, rows in place.exchange.blocks(inner, place.layer, FORWARD):
            take(remote[peer], rows)
        result = result / total[:, None]
        ctx.place = place
        ctx.save_for_backward(inner, to, source, top, total, result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        place: Place = ctx.place
        inner, to, source, top, total, result = ctx.saved_tensors
        grad = grads[0].contiguous()
        mean = (grad * result).sum(1)
        # The vertex itself.
        before = to + inner @ source
        weight = torch.exp(leaky_relu(before, SLOPE) - top) / total
        itself = weight * ((grad * inner).sum(1) - mean) * _slope(before)
        to_inner = weight[:, None] * grad + itself[:, None] * source
        to_target, to_source = itself.clone(), itself @ inner

        def part(block: Block, rows: Tensor) -> Tensor:
            nonlocal to_source
            before = to[block.row] + (rows @ source)[block.col]
            weights = torch.exp(leaky_relu(before, SLOPE) - top[block.row]) / total[block.row]
            towards = weights * (block.edge_products(grad, rows) - mean[block.row]) * _slope(before)
            to_target.index_add_(0, block.row, towards)
            per_row = rows.new_zeros(len(rows)).index_add_(0, block.col, towards)
            to_source = to_source + per_row @ rows
            return block.sum_columns(grad, weights) + per_row[:, None] * source

        own, *remote = place.adjacency.blocks
        to_inner += part(own, inner)
        record = place.exchange.begin_return(place.layer)
        for step, (peer, rows) in enumerate(place.exchange.blocks(inner, place.layer, REFETCH), 1):
            place.exchange.return_block(record, step, part(remote[peer], rows), to_inner)
        return to_inner, to_target, to_source, None


def _slope(before: Tensor) -> Tensor:
    return torch.where(before > 0, 1.0, SLOPE).to(before.dtype)
