"""One worker's training loop of a graph transformer: the exchanges and every byte of them counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from workloads.errors import InputError
from workloads.training.checkpoint import Checkpoints
from workloads.training.coordinator import Report, coordinate
from workloads.training.device import join_group
from workloads.training.failure import out_of_memory
from workloads.training.gradients import reduce_gradients
from workloads.training.job import Trained
from workloads.training.memory import kept_for_backward, peak_bytes
from workloads.training.score import loss_sum, ratio, score_parts
from workloads.training.transformer.fits import less_memory
from workloads.training.transformer.model import GraphTransformer, Inputs
from workloads.training.transformer.parallel import Gather, Ring, ToHeads, ToTokens, even_bounds
from workloads.training.transformer.patterns import Patterns, layout_row
from workloads.training.transformer.prepare import TransformerJob
from workloads.training.transformer.tokens import Tokens
from workloads.training.transformer.tuner import Tuner
from workloads.training.wire import Wire
from workloads.training.worker import LossError

PAIR_NS = 1.0
"""The counted clock's time of a pair; only ratios matter."""


def train_transformer(
    job: TransformerJob,
    store: dist.Store,
    report: Callable[[dict[str, Any]], None],
    *,
    device: torch.device,
    stop: Callable[[], bool] = lambda: False,
) -> Trained | None:
    """Join the group that meets at `store`, and train, as `worker.train_worker` does."""
    local = job.local
    threads, patience_s = job.options.threads, job.options.timeout_s
    join_group(device, store, local.rank, local.workers, threads=threads, patience_s=patience_s)
    group = dist.new_group(timeout=timedelta(seconds=patience_s))
    try:
        training = TransformerTraining(job, device, Wire(local.rank, local.workers, group, device))
        training.run(report, stop)
        result = training.gathered()
    except Exception as error:
        if out_of_memory(error):
            raise InputError(f"out of memory; {less_memory(job.options)}") from error
        raise
    dist.destroy_process_group()
    return result


class TransformerTraining:
    """One worker's state."""

    def __init__(self, job: TransformerJob, device: torch.device, wire: Wire) -> None:
        self.job, self.device, self.wire = job, device, wire
        options = self.options = job.options
        self.dtype = torch.float64 if options.precision == "float64" else torch.float32
        self.ring = Ring(wire, even_bounds(options.shape.heads, wire.workers))
        torch.manual_seed(options.seed)
        width = job.train[0].features.shape[1]
        self.model = GraphTransformer(options.shape, width, job.num_classes, options.dropout)
        self.model.to(device, self.dtype)
        biases = list(self.model.table.parameters())
        others = [p for name, p in self.model.named_parameters() if not name.startswith("table.")]
        groups: list[dict[str, Any]] = [
            {"params": others},
            {"params": biases, "lr": options.lr * options.bias_lr},
        ]
        self.optimiser = torch.optim.Adam(groups, lr=options.lr)
        self.tuner = Tuner(options.beta, options.smoothing, options.gap)
        self._views: dict[int, tuple[Patterns, Inputs]] = {}
        self.checkpoints: Checkpoints | None = None
        if job.keeping is not None:
            self.checkpoints = Checkpoints(job.keeping.folder, wire.rank, job.identity)
        self.rows: list[dict[str, Any]] = []
        self.times: list[dict[str, Any]] = []
        self.saved_bytes = 0
        self.dense_layers = self.layers_run = 0
        self.interrupted = False

    def view(self, tokens: Tokens) -> tuple[Patterns, Inputs]:
        """The layouts and the rows of a sequence, kept."""
        if id(tokens) not in self._views:
            rank = self.wire.rank
            whole = self.options.exchanging == "all-to-all"
            queries = (0, tokens.count) if whole else (tokens.bounds[rank], tokens.bounds[rank + 1])
            patterns = Patterns(tokens, self.options, self.job.tiling, queries)
            self._views[id(tokens)] = patterns, Inputs(tokens, self.dtype, self.device)
        return self._views[id(tokens)]

    def run(self, report: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
        """All epochs, or those up to the one after which some worker was told to stop."""
        keeping, epochs = self.job.keeping, self.options.epochs
        for epoch in range(self._resumed() if keeping is not None and keeping.resume else 0, epochs):
            row, seen, stopping = self.epoch(epoch, stop())
            if self.wire.rank == 0:
                report(row | seen)
            last = epoch + 1 == epochs
            self.interrupted = stopping and not last
            every = keeping.every if keeping is not None else 0
            if self.interrupted or (every and ((epoch + 1) % every == 0 or last)):
                self._save(epoch)
            if stopping:
                break

    def epoch(self, epoch: int, stop: bool) -> tuple[dict[str, Any], dict[str, Any], bool]:
        """Train one epoch; (its row, equal on all workers and in all runs; its wall time; stop or not)."""
        options, start = self.options, time.perf_counter_ns()
        multiple, dense = self.tuner.multiple, self.job.dense and epoch % options.dense_every == 0
        before = len(self.ring.counted)
        loss, weights = 0.0, 0
        for step, tokens in enumerate(self.job.train):
            part, sent = self._step(tokens, epoch, step, multiple, dense)
            loss, weights = loss + part / len(self.job.train), weights + sent
        wall_ns = time.perf_counter_ns() - start
        exchanged = self.ring.counted[before:]
        sent_bytes = [
            sum(row["sent_bytes"] for row in exchanged if row["direction"] == direction)
            for direction in ("forward", "backward")
        ]
        evaluated = (epoch + 1) % options.eval_every == 0 or epoch + 1 == options.epochs
        scores = self._evaluate(multiple) if evaluated else torch.zeros(6, dtype=torch.float64)
        found = coordinate(Report(loss, (*sent_bytes, weights), wall_ns, scores, stop), self.wire)
        if not np.isfinite(found.loss):
            raise LossError(f"the loss is no longer finite in epoch {epoch}; lower --lr")
        patterns = self.view(self.job.train[0])[0]
        work = patterns.work(multiple)
        epoch_s = found.slowest_ns * 1e-9 if options.clock == "measured" else work * PAIR_NS * 1e-9
        ldr = self.tuner.observe(found.loss, max(epoch_s, 1e-9))
        row: dict[str, Any] = {
            "epoch": epoch,
            "loss": found.loss,
            "smoothed_loss": self.tuner.smoothed[-1],
            "ldr": ldr,
            "beta_multiple": multiple if options.attention == "cluster" and options.reform else 0.0,
            "dense_layers": int(dense),
            "attention_work": work,
        }
        if options.attention == "cluster":
            row |= layout_row(patterns.cluster(multiple))
        for part, name in enumerate(("train", "validation", "test")):
            row[f"{name}_score"] = ratio(found.scores[2 * part : 2 * part + 2]) if evaluated else np.nan
        for kind, count in zip(("forward", "backward", "weights", "control"), found.sent, strict=True):
            row[f"{kind}_bytes"] = count
        self.rows.append(row)
        self.times.append({"epoch": epoch, "worker": self.wire.rank, "epoch_ns": wall_ns})
        self.dense_layers += int(dense)
        self.layers_run += options.shape.layers
        return row, {"epoch_s": found.slowest_ns * 1e-9}, found.stop

    def scores(self, tokens: Tokens, multiple: float, dense: bool, key: int) -> Tensor:
        """float[rows, classes] of this worker's tokens."""
        patterns, inputs = self.view(tokens)
        ring, options = self.ring, self.options
        ring.tokens = tokens.bounds
        middle = options.shape.layers // 2
        half = options.precision == "bfloat16"

        def attend(layer: int, states: Tensor, table: Tensor) -> Tensor:
            ring.layer = layer
            kind = "full" if dense and layer == middle else options.attention
            if half:
                states = states.to(torch.bfloat16)
            if options.exchanging == "all-gather":
                keys_and_values = Gather.apply(states[1:], ring)
                k, v = keys_and_values.unbind(0)
                return patterns.attend(kind, multiple, (states[0], k, v), table)
            mine: Tensor = ToHeads.apply(states, ring)
            q, k, v = mine.unbind(0)
            seen = patterns.attend(kind, multiple, (q, k, v), table[ring.own_heads])
            back: Tensor = ToTokens.apply(seen[None], ring)
            return back[0]

        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            return self.model(inputs, attend, key).to(self.dtype)

    def _step(self, tokens: Tokens, epoch: int, step: int, multiple: float, dense: bool) -> tuple[float, int]:
        """Forward, backward, all-reduce, step. (Its part of the mean loss, bytes of weights.)"""
        self.model.train()
        self.ring.epoch = epoch
        _, inputs = self.view(tokens)
        resident = [*self.model.parameters(), inputs.features]
        key = (self.options.seed * 1_000_003 + epoch * 4099 + step) * 64 & 0xFFFFFFFF
        with kept_for_backward(resident, measure=epoch == 0) as kept:
            scores = self.scores(tokens, multiple, dense, key)
            members = inputs.members[0]
            loss = loss_sum(scores[members], inputs.labels[members]) / max(1, tokens.train_total)
        self.saved_bytes = max(self.saved_bytes, kept())
        self.optimiser.zero_grad(set_to_none=False)
        loss.backward()
        sent = reduce_gradients(self.model, self.wire)
        self.optimiser.step()
        return float(loss.detach()), sent

    @torch.no_grad()
    def _evaluate(self, multiple: float) -> Tensor:
        """float64[6]: (a, b) of each part of the split, by a forward pass whose bytes do not count."""
        self.model.eval()
        self.ring.counting = False
        total = torch.zeros(3, 2, dtype=torch.float64)
        for tokens in self.job.score:
            _, inputs = self.view(tokens)
            scores = self.scores(tokens, multiple, self._dense_always, 0)
            for part, members in enumerate(inputs.members):
                total[part] += torch.tensor(score_parts(scores[members], inputs.labels[members]))
        self.ring.counting = True
        return total.reshape(-1)

    @property
    def _dense_always(self) -> bool:
        """Where every epoch has a fully connected layer, evaluation has it too."""
        return self.job.dense and self.options.dense_every == 1

    def _save(self, epoch: int) -> None:
        if self.checkpoints is None:
            return
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "tuner": self.tuner.state(),
            "rows": self.rows,
            "times": self.times,
            "counted": self.ring.counted,
            "dense": [self.dense_layers, self.layers_run],
            "choice": self._choice(),
        }
        self.checkpoints.save(epoch, state, dist.barrier)

    def _choice(self) -> list[int]:
        """What was measured before the run: a run that goes on must not measure again."""
        tiling = self.job.tiling
        return [len(self.job.train[0].starts) - 1, tiling.side, tiling.least]

    def _resumed(self) -> int:
        """Take up the newest checkpoint that every worker has; returns the epoch that comes next."""
        assert self.checkpoints is not None
        every: list[Any] = [None] * self.wire.workers
        dist.all_gather_object(every, self.checkpoints.epochs())
        common = set(every[0]).intersection(*every)
        if not common:
            raise InputError("resume: no checkpoint that all workers have; start again without --resume")
        state = self.checkpoints.load(max(common))
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.tuner.restore(state["tuner"])
        self.rows, self.times, self.ring.counted = state["rows"], state["times"], state["counted"]
        self.dense_layers, self.layers_run = state["dense"]
        return int(state["epoch"]) + 1

    @torch.no_grad()
    def predictions(self) -> np.ndarray:
        """This worker's last class scores, of every sequence that is scored: float[rows, classes]."""
        self.model.eval()
        self.ring.counting = False
        multiple = self.rows[-1]["beta_multiple"] if self.rows else 0.0
        parts = [self.scores(tokens, multiple, self._dense_always, 0) for tokens in self.job.score]
        self.ring.counting = True
        return torch.cat(parts).cpu().numpy()

    def gathered(self) -> Trained | None:
        """All workers' tables, on worker 0; `weights` has their last class scores too, as "predictions"."""
        rank, workers = self.wire.rank, self.wire.workers
        memory = {
            "worker": rank,
            "saved_bytes": self.saved_bytes,
            "peak_bytes": peak_bytes(self.device),
            "dense_layers": self.dense_layers,
            "layers_run": self.layers_run,
            "layouts_ns": sum(patterns.made_ns for patterns, _ in self._views.values()),
        }
        mine = (self.ring.counted, self.times, memory, self.predictions())
        every: list[Any] = [None] * workers
        dist.gather_object(mine, every if rank == 0 else None)
        if rank != 0:
            return None
        exchanges, times = ([row for part in every for row in part[at]] for at in (0, 1))
        weights = {name: value.cpu().numpy() for name, value in self.model.state_dict().items()}
        weights["predictions"] = [part[3] for part in every]
        where = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        memories = [part[2] for part in every]
        return Trained(self.rows, exchanges, times, memories, weights, where, self.interrupted)
