"""One worker's full-batch training step under any scheme, with its time, traffic and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from workloads.errors import InputError
from workloads.parallel.gnn import ColumnView, forward, make_network
from workloads.parallel.grid import Channel, Grid
from workloads.parallel.pieces import Balance, Piece, SequencePiece, network_pieces, sequence_pieces
from workloads.parallel.scheme import AXES, Scheme
from workloads.parallel.state import gather_state, load_state
from workloads.parallel.task import CHECKPOINTED, Task
from workloads.parallel.transformer import Placed, Transformer, place
from workloads.training.adjacency import Adjacency
from workloads.training.exchange import EpochPlan, Exchange
from workloads.training.memory import kept_for_backward
from workloads.training.view import View

ROWS = ("data", "partition", "sequence")  # the axes over which gradients are added up


@dataclass(frozen=True)
class Step:
    """One step on one worker. loss: this worker's part of the mean; wall_ns: all of it; waiting_ns: in
    transfers, waiting for slower workers included; kept_bytes: what forward passes kept, at most at a time.
    """

    loss: float
    wall_ns: int
    waiting_ns: int
    sent_bytes: int
    kept_bytes: int


class Training:
    """A worker's model, optimiser and pieces. All workers make theirs at the same time."""

    def __init__(self, task: Task, scheme: Scheme, rank: int, balance: Balance | None = None) -> None:
        self.task, self.scheme, self.grid = task, scheme, Grid(scheme, rank)
        check_scheme(task, scheme)
        self.dtype = torch.float64 if task.precision == "float64" else torch.float32
        self.reducing = self.grid.channel(*ROWS)
        self._closers: list[Callable[[], None]] = [self.grid.close]
        self._resident: list[Tensor] = []
        self.first_vertices = np.zeros(0, dtype=np.int64)  # of its first turn
        self.turns: list[list[Callable[[], Tensor]]]
        self.model: nn.Module
        if task.model.transformer:
            self._make_transformer(sequence_pieces(task, scheme, rank))
        else:
            self._make_network(network_pieces(task, scheme, rank, balance or Balance()))
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=task.lr)
        self._resident += list(self.model.parameters())
        self._step = 0
        self.slow_factor = 1.0  # above 1: a worker made slower, to test what follows from it

    def step(self, *, measure: bool = False) -> Step:
        """Forward, backward, gradients added up, one step of Adam. measure: what is kept is counted too."""
        start, sent, busy = time.perf_counter_ns(), self.grid.sent_bytes, self.grid.busy_ns
        self.optimiser.zero_grad(set_to_none=True)
        total, most = 0.0, 0
        self.model.train()
        for turn in self.turns:
            with kept_for_backward(self._resident, measure=measure) as kept:
                losses = [compute() for compute in turn]
            most = max(most, kept())
            for loss in losses:
                if loss.requires_grad:
                    loss.backward()
                total += float(loss.detach())
        if self.slow_factor > 1:
            computed = time.perf_counter_ns() - start - (self.grid.busy_ns - busy)
            time.sleep((self.slow_factor - 1) * computed * 1e-9)
        self._reduce_gradients()
        self.optimiser.step()
        self._step += 1
        return Step(
            total,
            time.perf_counter_ns() - start,
            self.grid.busy_ns - busy,
            self.grid.sent_bytes - sent,
            most,
        )

    def whole_loss(self, step: Step) -> float:
        """The mean loss over all training vertices."""
        return float(self.reducing.add_up(torch.tensor([step.loss], dtype=torch.float64)))

    def state(self) -> dict[str, list[Tensor]]:
        """Whole parameters with Adam's two moments, by name, the same on every worker."""
        return gather_state(self.model, self.optimiser, self.grid.channel("tensor"))

    def restore(self, state: dict[str, list[Tensor]], steps: int) -> None:
        """Take up what another scheme's `state` gave, after so many steps."""
        load_state(self.model, self.optimiser, self.grid.channel("tensor"), state, steps)
        self._step = steps

    @property
    def steps(self) -> int:
        """Steps made so far, those of schemes before this one included."""
        return self._step

    def close(self) -> None:
        """End lanes and groups."""
        for close in reversed(self._closers):
            close()

    def _make_network(self, pieces: list[Piece]) -> None:
        task, data = self.task, self.task.data
        tensor = self.grid.channel("tensor")
        widths = (data.features.shape[1], task.model.hidden, data.num_classes)
        model = make_network(task.model.name, widths, task.model.layers, task.seed, tensor).to(self.dtype)
        self.model = model
        self.first_vertices = pieces[0].vertices
        self.turns = [[self._network_loss(model, piece, tensor)] for piece in pieces]

    def _network_loss(self, model: Any, piece: Piece, tensor: Channel) -> Callable[[], Tensor]:
        data = self.task.data
        exchange = Exchange(piece.local, self.grid.channel("partition"), self.task.seed)
        self._closers.append(exchange.close)
        adjacency = Adjacency(piece.local, self.dtype)
        features = torch.tensor(data.features[piece.vertices], dtype=self.dtype)
        labels, targets = self._targets(piece.vertices, piece.targets)
        graph = [value for value in vars(adjacency).values() if isinstance(value, Tensor)]
        self._resident += [features, *adjacency.weights.values(), *graph]
        ids = torch.from_numpy(piece.vertices.astype(np.int32))

        def compute() -> Tensor:
            exchange.begin(EpochPlan(self._step))
            if tensor.workers > 1:
                view: View = ColumnView(
                    adjacency, exchange, ids, channel=tensor, seed=self.task.seed, epoch=self._step
                )
            else:
                view = View(adjacency, exchange, ids, seed=self.task.seed, epoch=self._step)
            scores = forward(model, view, features, checkpoints=self.scheme.checkpoint)
            exchange.traffic.clear()
            return self._loss(scores, labels, targets)

        return compute

    def _make_transformer(self, turns: list[list[SequencePiece]]) -> None:
        task, data = self.task, self.task.data
        model = Transformer(data.features.shape[1], data.num_classes, task.model, self.grid, task.seed)
        self.model = model.to(self.dtype)
        self.first_vertices = turns[0][0].vertices
        self.turns = [[self._sequence_loss(model, piece) for piece in turn] for turn in turns]

    def _sequence_loss(self, model: Transformer, piece: SequencePiece) -> Callable[[], Tensor]:
        placed: Placed = place(piece, self.grid, self.task.model)
        mine = piece.vertices[placed.rows]
        features = torch.tensor(self.task.data.features[mine], dtype=self.dtype)
        inside = (piece.targets >= placed.rows.start) & (piece.targets < placed.rows.stop)
        labels, targets = self._targets(mine, piece.targets[inside] - placed.rows.start)
        self._resident.append(features)

        def compute() -> Tensor:
            scores = model(features, placed, checkpoints=self.scheme.checkpoint)
            return self._loss(scores, labels, targets)

        return compute

    def _targets(self, vertices: np.ndarray, targets: np.ndarray) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.task.data.labels[vertices[targets]]), torch.from_numpy(targets)

    def _loss(self, scores: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        # Also without targets: every worker's backward pass must take part in the transfers.
        return cross_entropy(scores[targets], labels, reduction="sum") / self.task.train_total

    def _reduce_gradients(self) -> None:
        parameters = list(self.model.parameters())
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        if self.reducing.workers == 1:
            return
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        self.reducing.all_reduce(flat)
        for parameter, grad in zip(parameters, flat.split([g.numel() for g in grads]), strict=True):
            parameter.grad = grad.view_as(parameter).clone()


def check_scheme(task: Task, scheme: Scheme) -> None:
    """Raises InputError where a model cannot be divided or computed like this, whatever the sizes."""
    model = task.model
    for axis, size in zip(AXES, scheme.grid, strict=True):
        if size > 1 and axis not in model.axes:
            raise InputError(f"{axis} parallelism: not for {model.name}; allowed: {', '.join(model.axes)}")
    if scheme.checkpoint and model.name not in CHECKPOINTED:
        raise InputError(f"checkpoints: not for {model.name}; allowed: {', '.join(CHECKPOINTED)}")
    if model.name == "gat" and scheme.tensor > 1:
        raise InputError("tensor parallelism: gat's softmax needs whole rows; allowed: data, partition")
    if model.transformer and scheme.tensor > model.heads:
        raise InputError(f"tensor parallelism: {scheme.tensor} workers for {model.heads} heads")
    if model.transformer and scheme.sequence > model.heads // scheme.tensor:
        raise InputError(
            f"sequence parallelism: {scheme.sequence} workers share {model.heads // scheme.tensor} heads; "
            "at least one each"
        )
