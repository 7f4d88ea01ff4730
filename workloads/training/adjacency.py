"""Local aggregation in torch: weighted sums over neighbours, and the gradient by the transposed graph.

The sums run on `embedding_bag` (FBGEMM inside torch on a CPU, a kernel of torch's own on CUDA), the fastest
of what torch has; `tests/benchmarks/bench_train.py` measures them side by side.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from workloads.training.local_graph import LocalGraph

_CHUNK_VALUES = 1 << 22


class Block:
    """Edges from rows (inner vertices) to columns, as tensors, with the weights of the models' aggregators.

    row, col: int32[m], ascending by row. weights: "gcn", float[m], 1/sqrt((d_v+1)(d_u+1)) (Kipf and Welling's
    renormalisation: d counts the self loop too), and "mean", 1/d_v.
    """

    def __init__(
        self,
        ends: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
        shape: tuple[int, int],
        weights: dict[str, npt.NDArray[np.float64]],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        row, col = ends
        order = np.argsort(col, kind="stable")

        def put(values: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        self._shape = shape
        self.row, self.col = put(row), put(col)
        self._offsets = put(_starts(row, shape[0]))
        self._transposed = put(row[order])
        self._transposed_offsets = put(_starts(col, shape[1]))
        self._order = put(order)
        self.weights = {name: put(values).to(dtype) for name, values in weights.items()}

    def sum_rows(self, values: Tensor, weights: Tensor) -> Tensor:
        """float[rows, w]: the weighted sums of values, float[columns, w], outside autograd."""
        if not len(self.col):  # embedding_bag refuses a table without rows
            return values.new_zeros(self._shape[0], values.shape[1])
        return embedding_bag(
            self.col, values, self._offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )

    def sum_columns(self, grad: Tensor, weights: Tensor) -> Tensor:
        """The transposed sum: float[columns, w] from float[rows, w]."""
        if not len(self.col):
            return grad.new_zeros(self._shape[1], grad.shape[1])
        return embedding_bag(
            self._transposed,
            grad,
            self._transposed_offsets,
            mode="sum",
            per_sample_weights=weights[self._order],
            include_last_offset=True,
        )

    def edge_products(self, grad: Tensor, values: Tensor) -> Tensor:
        """float[m]: per edge the inner product of its row of grad and its column's row of values."""
        step = max(1, _CHUNK_VALUES // max(1, grad.shape[1]))
        parts = [
            (grad[self.row[at : at + step]] * values[self.col[at : at + step]]).sum(1)
            for at in range(0, len(self.row), step)
        ]
        return torch.cat(parts) if parts else grad.new_zeros(0)


class Adjacency(Block):
    """All of a worker's edges, from inner vertices to inner and halo vertices.

    self_gcn: float[ni, 1], 1/(d_v+1), the weight of the self loop.
    """

    def __init__(self, local: LocalGraph, dtype: torch.dtype, device: torch.device | None = None) -> None:
        inner, total = len(local.inner), len(local.degrees)
        self.num_inner, self._local = inner, local
        self._dtype, self._device = dtype, device or torch.device("cpu")
        self._row = np.repeat(np.arange(inner, dtype=np.int32), np.diff(local.indptr))
        degrees = local.degrees.astype(np.float64)
        scale = 1 / np.sqrt(degrees + 1)
        self._weights = {
            "gcn": scale[self._row] * scale[local.indices],
            "mean": 1 / np.maximum(degrees[self._row], 1),
        }
        ends = self._row, local.indices.copy()
        super().__init__(ends, (inner, total), self._weights, self._dtype, self._device)
        self.self_gcn = torch.from_numpy(scale[:inner, None] ** 2).to(dtype).to(self._device)

    @cached_property
    def blocks(self) -> list[Block]:
        """The edges to inner vertices, then those to each worker's part of the halo, columns from 0."""
        local, inner = self._local, self.num_inner
        starts = inner + np.concatenate([[0], np.cumsum(local.receive)])
        ranges = [(0, inner), *((int(starts[q]), int(starts[q + 1])) for q in range(local.workers))]
        result = []
        for first, last in ranges:
            chosen = np.flatnonzero((local.indices >= first) & (local.indices < last))
            ends = self._row[chosen], local.indices[chosen] - np.int32(first)
            weights = {name: values[chosen] for name, values in self._weights.items()}
            result.append(Block(ends, (inner, last - first), weights, self._dtype, self._device))
        return result

    def aggregate(self, values: Tensor, weights: Tensor) -> Tensor:
        """float[ni, w]: each inner vertex's weighted sum over its neighbours' rows of float[ni+nh, w]."""
        result: Tensor = _Aggregate.apply(values, weights, self)
        return result


def _starts(ends: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=count))]).astype(np.int32)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        # The values are only needed for the gradient of the weights.
        ctx.save_for_backward(values if ctx.needs_input_grad[1] else None, weights)
        return adjacency.sum_rows(values, weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        grad = grads[0].contiguous()
        values, weights = ctx.saved_tensors
        adjacency: Adjacency = ctx.adjacency
        to_values = adjacency.sum_columns(grad, weights) if ctx.needs_input_grad[0] else None
        to_weights = adjacency.edge_products(grad, values) if ctx.needs_input_grad[1] else None
        return to_values, to_weights, None
