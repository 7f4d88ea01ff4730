"""The work of one worker's epoch as timed steps: the same phases as `workloads/compute.py`, run instead of
modelled.

A phase's "pre" is what precedes its propagation, its "post" what follows (workloads/compute_table.py). Who
adds up cross edges ("receiver", "switch" or "sender": workloads/systems/system.py) changes what a propagation
leaves to the worker. Host-based sending has the phases "quantise" and "dequantise" besides: what SYLVIE adds,
all of a layer's messages to all peers. Values are random float32: how long it takes depends on the shapes,
not on the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from workloads.training.local_graph import LocalGraph
from workloads.training.message import decode, encode

Step = Callable[[], object]
MODELS = ("gcn", "sage")
QUANTISE_BITS = 2  # between SYLVIE's lowest widths; the native quantiser's speed hardly depends on it


@dataclass(frozen=True)
class TraceModel:
    """The traced network, as `workloads.compute.ModelShape` wants it. name: "gcn" or "sage"."""

    name: str
    layers: int
    hidden: int
    use_pp: bool


@dataclass(frozen=True)
class Timed:
    """One entry of the table: the work to time, or none where the phase has none."""

    layer: int
    direction: str
    phase: str
    step: Step | None


class _Sum:
    """Weighted sums over chosen edges: rows by columns, in CSR."""

    def __init__(self, row: np.ndarray, column: np.ndarray, rows: int, device: torch.device) -> None:
        order = np.argsort(row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
        self._rows = rows
        self._columns = torch.from_numpy(column[order].astype(np.int32)).to(device)
        self._starts = torch.from_numpy(starts.astype(np.int32)).to(device)
        self._weights = torch.rand(len(row), device=device)

    def __call__(self, values: Tensor) -> Tensor:
        if not len(self._columns):  # embedding_bag refuses a table without rows
            return values.new_zeros(self._rows, values.shape[1])
        return embedding_bag(
            self._columns,
            values,
            self._starts,
            mode="sum",
            per_sample_weights=self._weights,
            include_last_offset=True,
        )


class WorkerSteps:
    """The steps of one worker, for one way of adding up cross edges."""

    def __init__(self, local: LocalGraph, cross_sum: str, device: torch.device | None = None) -> None:
        self._device = device or torch.device("cpu")
        self._sent = sum(len(rows) for rows in local.send)
        self._cross_sum, self._inner, self._halo = cross_sum, len(local.inner), len(local.halo)
        row = np.repeat(np.arange(self._inner), np.diff(local.indptr))
        inside = local.indices < self._inner
        self._all = _Sum(row, local.indices, self._inner, self._device)
        self._local = _Sum(row[inside], local.indices[inside], self._inner, self._device)
        self._outward = _Sum(local.indices[~inside] - self._inner, row[~inside], self._halo, self._device)
        self._boundary = torch.from_numpy(np.unique(row[~inside])).to(self._device)

    def steps(self, model: TraceModel, widths: list[int]) -> list[Timed]:
        """Every (layer, direction, phase) of an epoch. widths: d_0..d_L (`compute.layer_widths`)."""
        timed = []
        for layer in range(1, model.layers + 1):
            into, out = widths[layer - 1], widths[layer]
            forward, backward = self._dense(model, into, out, with_inputs=layer > 1)
            if layer == 1 and model.use_pp:
                timed += [Timed(layer, "forward", "pre", None), Timed(layer, "forward", "post", forward)]
            else:
                before, after = self._propagation(into)
                timed.append(Timed(layer, "forward", "pre", before))
                timed.append(Timed(layer, "forward", "post", _both(after, forward)))
            if layer == 1:
                timed += [Timed(layer, "backward", "pre", backward), Timed(layer, "backward", "post", None)]
            else:
                before, after = self._propagation(into)
                timed.append(Timed(layer, "backward", "pre", _both(backward, before)))
                timed.append(Timed(layer, "backward", "post", after))
        return timed

    def quantising(self, model: TraceModel, widths: list[int]) -> list[Timed]:
        """What quantised messages add to an epoch: encoding what is sent and decoding what arrives."""
        timed = []
        for layer in range(1, model.layers + 1):
            width = widths[layer - 1]
            for direction, out, arriving in (
                ("forward", self._sent, self._halo),
                ("backward", self._halo, self._sent),
            ):
                idle = layer == 1 and (direction == "backward" or model.use_pp)
                first, second = (None, None) if idle else self._quantiser(out, arriving, width)
                timed.append(Timed(layer, direction, "quantise", first))
                timed.append(Timed(layer, direction, "dequantise", second))
        return timed

    def optimiser(self, model: TraceModel, widths: list[int]) -> Timed:
        """Adam's step on all weights, after the gradients have been added up over the workers."""
        products = 2 if model.name == "sage" else 1
        weights = [
            torch.rand(size, device=self._device)
            for a, b in pairwise(widths)
            for size in (*[(a, b)] * products, (b,))
        ]
        for weight in weights:
            weight.grad = torch.rand_like(weight)
        return Timed(0, "backward", "post", torch.optim.Adam(weights).step)

    def _quantiser(self, out: int, arriving: int, width: int) -> tuple[Step, Step]:
        rows = torch.rand(out, width, device=self._device)
        sent, coming = (torch.full((n,), QUANTISE_BITS, dtype=torch.uint8) for n in (out, arriving))
        message = encode(torch.rand(arriving, width, device=self._device), coming, 1)
        return (lambda: encode(rows, sent, 1, [])), (
            lambda: decode(message, arriving, width, coming, torch.float32)
        )

    def _propagation(self, width: int) -> tuple[Step, Step]:
        """(before, after) the exchange of vectors of this width."""
        inner, boundary = torch.rand(self._inner, width, device=self._device), self._boundary
        if self._cross_sum == "receiver":
            rows = torch.rand(self._inner + self._halo, width, device=self._device)
            return (lambda: inner[boundary]), (lambda: self._all(rows))
        arrived = torch.rand(len(boundary), width, device=self._device)

        def after() -> Tensor:
            return self._local(inner).index_add_(0, boundary, arrived)

        if self._cross_sum == "sender":
            return (lambda: self._outward(inner)), after
        return (lambda: inner[boundary]), after

    def _dense(self, model: TraceModel, into: int, out: int, *, with_inputs: bool) -> tuple[Step, Step]:
        """(forward, backward): products and activation; the first layer needs no gradient of its inputs."""
        products = 2 if model.name == "sage" else 1  # GraphSAGE multiplies the vertex itself as well
        place: dict[str, Any] = {"device": self._device}
        inputs = [torch.rand(self._inner, into, **place) for _ in range(products)]
        weights = [torch.rand(into, out, **place) for _ in range(products)]
        scores, grad = torch.rand(self._inner, out, **place), torch.rand(self._inner, out, **place)

        def forward() -> Tensor:
            total = inputs[0] @ weights[0]
            for values, weight in zip(inputs[1:], weights[1:], strict=True):
                total.addmm_(values, weight)
            return total.relu_()

        def backward() -> list[Tensor]:
            through = grad * (scores > 0)
            results = [values.T @ through for values in inputs]
            return results + [through @ weight.T for weight in weights] if with_inputs else results

        return forward, backward


def _both(first: Step, second: Step) -> Step:
    def step() -> None:
        first()
        second()

    return step
