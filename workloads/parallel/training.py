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
from workloads.parallel.pieces import Balance, Piece, network_pieces, sequence_tokens
from workloads.parallel.scheme import AXES, Scheme
from workloads.parallel.state import gather_state, load_state
from workloads.parallel.task import CHECKPOINTED, Task
from workloads.parallel.transformer import Placed, Transformer, place
from workloads.training.adjacency import Adjacency
from workloads.training.data import TRAIN
from workloads.training.exchange import EpochPlan, Exchange
from workloads.training.gradients import reduce_gradients
from workloads.training.memory import kept_for_backward
from workloads.training.transformer.tokens import Tokens
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
            self._make_transformer(sequence_tokens(task, scheme, rank, balance or Balance()))
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
        if self.reducing.workers > 1:
            reduce_gradients(self.model, self.reducing)
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
        loss_of = self._loss_of(piece)
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
            return loss_of(scores)

        return compute

    def _loss_of(self, piece: Piece) -> Callable[[Tensor], Tensor]:
        """From the scores of a piece's vertices to its part of the loss."""
        labels, targets = self.task.data.labels, torch.from_numpy(piece.targets)
        if piece.groups is None or piece.members is None:
            wanted = torch.from_numpy(labels[piece.vertices[piece.targets]])
            return lambda scores: self._loss(scores[targets], wanted)
        wanted, groups = torch.from_numpy(labels[piece.members]), torch.from_numpy(piece.groups)
        sizes = torch.bincount(groups, minlength=len(wanted)).to(self.dtype)[:, None]

        def pooled(scores: Tensor) -> Tensor:
            sums = scores.new_zeros(len(wanted), scores.shape[1]).index_add(0, groups, scores)
            return self._loss(sums / sizes, wanted)

        return pooled

    def _make_transformer(self, turns: list[list[Tokens]]) -> None:
        data = self.task.data
        widths = data.features.shape[1], data.num_classes
        model = Transformer(self.task.model, widths, self.grid, self.task.seed)
        self.model = model.to(self.dtype)
        self.first_vertices = turns[0][0].ids.astype(np.int64)
        self.turns = [[self._sequence_loss(model, tokens) for tokens in turn] for turn in turns]

    def _sequence_loss(self, model: Transformer, tokens: Tokens) -> Callable[[], Tensor]:
        placed: Placed = place(tokens, self.grid, self.task.model, self.dtype)
        targets = torch.from_numpy(np.flatnonzero(tokens.split == TRAIN))
        labels = torch.from_numpy(tokens.labels)[targets]
        self._resident += [placed.inputs.features, placed.inputs.places]
        return lambda: self._loss(model.scores(placed)[targets], labels)

    def _loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        # Also without targets: every worker's backward pass must take part in the transfers.
        return cross_entropy(scores, labels, reduction="sum") / self.task.train_total


def check_scheme(task: Task, scheme: Scheme) -> None:
    """Raises InputError where a model cannot be divided or computed like this, whatever the sizes."""
    model = task.model
    for axis, size in zip(AXES, scheme.grid, strict=True):
        if size > 1 and axis not in model.axes:
            raise InputError(f"{axis} parallelism: not for {model.name}; allowed: {', '.join(model.axes)}")
    if scheme.checkpoint and model.name not in CHECKPOINTED:
        raise InputError(f"checkpoints: not for {model.name}; allowed: {', '.join(CHECKPOINTED)}")
    if task.graphs is not None and scheme.partition > 1:
        raise InputError("partition parallelism: not for a set of graphs, which data divides without a cut")
    if task.graphs is not None and model.attention == "flash":
        raise InputError("attention: flash attends across the graphs of a set; allowed: sparse, topk, dense")
    if model.transformer and scheme.tensor > model.heads:
        raise InputError(f"tensor parallelism: {scheme.tensor} workers for {model.heads} heads")
    if model.transformer and scheme.sequence > model.heads // scheme.tensor:
        raise InputError(
            f"sequence parallelism: {scheme.sequence} workers share {model.heads // scheme.tensor} heads; "
            "at least one each"
        )
