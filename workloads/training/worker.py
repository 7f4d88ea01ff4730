"""One worker's training loop: epochs of forward, backward, all-reduce and step, with every byte counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from workloads.errors import InputError
from workloads.training.adjacency import Adjacency
from workloads.training.checkpoint import Checkpoints, common_epoch
from workloads.training.coordinator import KINDS, Epoch, Report, coordinate
from workloads.training.device import join_group
from workloads.training.exchange import Exchange
from workloads.training.extractor import LEVELS, node_bits
from workloads.training.gradients import reduce_gradients
from workloads.training.job import Job, Trained
from workloads.training.memory import kept_for_backward, peak_bytes
from workloads.training.models import MODELS, Model
from workloads.training.score import loss_sum, ratio, score_parts
from workloads.training.systems import System, make_system
from workloads.training.traffic import BACKWARD, EpochPlan, Traffic
from workloads.training.view import View
from workloads.training.wire import Wire

WALLS = ("transfer_ns", "encode_ns", "decode_ns", "wait_ns")


class LossError(InputError):
    """The loss is no longer finite."""


def train_worker(
    job: Job,
    store: dist.Store,
    report: Callable[[dict[str, Any]], None],
    *,
    device: torch.device,
    stop: Callable[[], bool] = lambda: False,
) -> Trained | None:
    """Join the group that meets at `store`, and train. Worker 0 reports each epoch's row and returns the
    whole run's tables.

    When `stop` is true of any worker, all of them end after the same epoch, with a checkpoint where the job
    has a folder for it.
    """
    local = job.local
    threads, patience_s = job.options.threads, job.options.timeout_s
    join_group(device, store, local.rank, local.workers, threads=threads, patience_s=patience_s)
    patience = timedelta(seconds=patience_s)
    # Transfers run beside the all-reduce and beside evaluation, so each has a group of its own.
    wires = [Wire(local.rank, local.workers, dist.new_group(timeout=patience), device) for _ in range(3)]
    training = Training(job, device, wires)
    training.run(report, stop)
    result = training.gathered()
    # Not so when something fails: a lane may wait for a peer then, and the caller ends the process.
    training.exchange.close()
    training.evaluation.close()
    dist.destroy_process_group()
    return result


class Training:
    """One worker's state. wires: for transfers, evaluation and everything else; their three groups must be
    distinct.
    """

    def __init__(self, job: Job, device: torch.device, wires: list[Wire]) -> None:
        self.job, options, local = job, job.options, job.local
        self.exchange = Exchange(local, wires[0], options.seed, device)
        self.evaluation = Exchange(local, wires[1], options.seed, device)
        self.wire, self.device = wires[2], device
        dtype = torch.float64 if options.precision == "float64" else torch.float32
        torch.manual_seed(options.seed)
        width = job.features.shape[1]
        make = MODELS[options.model]
        self.model: Model = make(width, options.hidden, job.num_classes, options.layers, options.dropout)
        self.model.to(device, dtype)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=options.lr)
        self.adjacency = Adjacency(local, dtype, device)
        self.vertices = torch.from_numpy(local.inner.astype(np.int32)).to(device)
        self.features = torch.tensor(job.features, dtype=dtype, device=device)
        labels = torch.tensor(job.labels)
        self.labels = (labels.to(dtype) if labels.dim() == 2 else labels).to(device)
        self.members = [torch.from_numpy(np.flatnonzero(job.split == part)).to(device) for part in range(3)]
        self.system: System = make_system(options, job.levels)
        self.checkpoints: Checkpoints | None = None
        if job.checkpoints is not None:
            self.checkpoints = Checkpoints(job.checkpoints, local.rank, job.identity)
        self.rows: list[dict[str, Any]] = []
        self.times: list[dict[str, Any]] = []
        self.saved_bytes = 0
        self.interrupted = False

    def run(self, report: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
        """All epochs, or those up to the one after which some worker was told to stop."""
        job, epochs = self.job, self.job.options.epochs
        for epoch in range(self._resumed() if job.resume else 0, epochs):
            row = self.epoch(epoch, stop())
            if job.local.rank == 0:
                report(row)
            last = epoch + 1 == epochs
            self.interrupted = self.stopping and not last
            every = job.checkpoint_every
            if self.interrupted or (every and ((epoch + 1) % every == 0 or last)):
                self._save(epoch)
            if self.stopping:
                break

    def _save(self, epoch: int) -> None:
        if self.checkpoints is None:
            return
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "system": self.system.state(),
            "exchange": self.exchange.state(),
            "random": torch.get_rng_state(),
            "rows": self.rows,
            "times": self.times,
            "traffic": [asdict(record) for record in self.exchange.traffic],
        }
        self.checkpoints.save(epoch, state, self.wire.barrier)

    def _resumed(self) -> int:
        """Take up the newest checkpoint that every worker has; returns the epoch that comes next."""
        assert self.checkpoints is not None
        state = self.checkpoints.load(common_epoch(self.wire.gather(self.checkpoints.epochs())))
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.system.restore(state["system"])
        self.exchange.restore(state["exchange"])
        torch.set_rng_state(state["random"])
        self.rows, self.times = state["rows"], state["times"]
        self.exchange.traffic = [Traffic(**record) for record in state["traffic"]]
        return int(state["epoch"]) + 1

    def epoch(self, epoch: int, stop: bool) -> dict[str, Any]:
        """Train one epoch; its row for the table of epochs, equal on all workers, and how long it took."""
        options, start = self.job.options, time.perf_counter_ns()
        plan = self.system.plan(epoch)
        loss, sent = self._step(plan)
        wall_ns = time.perf_counter_ns() - start  # the loss has been read, so a device has finished too
        evaluated = (epoch + 1) % options.eval_every == 0 or epoch + 1 == options.epochs
        scores = self._evaluate(epoch) if evaluated else torch.zeros(6, dtype=torch.float64)
        start = time.perf_counter_ns()
        found = coordinate(Report(loss, sent, wall_ns, scores, stop), self.wire)
        coordinate_ns = time.perf_counter_ns() - start
        if not np.isfinite(found.loss):
            raise LossError(f"the loss is no longer finite in epoch {epoch}; lower --lr")
        self.stopping = found.stop
        counted_s = found.busiest_bytes * 8e-9 / options.link_gbps
        epoch_s = found.slowest_ns * 1e-9 if options.clock == "measured" else max(counted_s, 1e-9)
        log = self.system.observe(found.loss, epoch_s)
        row = epoch_row(plan, found, log, self.job.level_counts, evaluated=evaluated)
        self.rows.append(row | {"counted_comm_s": counted_s})
        walls = {"epoch_ns": wall_ns, "coordinate_ns": coordinate_ns}
        self.times.append({"epoch": epoch, "worker": self.job.local.rank, **walls})
        return self.rows[-1] | {"epoch_s": found.slowest_ns * 1e-9}

    def _step(self, plan: EpochPlan) -> tuple[float, tuple[int, ...]]:
        """Forward, backward, all-reduce, step. (This worker's part of the mean loss, its bytes by kind.)"""
        self.exchange.begin(plan)
        before = len(self.exchange.traffic)
        self.model.train()
        resident = [*self.model.parameters(), self.features, *self.adjacency.weights.values()]
        with kept_for_backward(resident, measure=plan.epoch == 0) as kept:
            scores = self.model(self._view(self.exchange, plan.epoch), self.features)
            members = self.members[0]
            loss = loss_sum(scores[members], self.labels[members]) / self.job.train_total
        self.saved_bytes = max(self.saved_bytes, kept())
        self.optimiser.zero_grad(set_to_none=False)
        loss.backward()
        weights = reduce_gradients(self.model, self.wire)
        self.optimiser.step()
        value = float(loss.detach())
        self.exchange.settle()
        traffic = self.exchange.traffic[before:]
        embeddings = sum(t.main_bytes for t in traffic if t.direction != BACKWARD)
        gradients = sum(t.main_bytes for t in traffic if t.direction == BACKWARD)
        scales = sum(t.scale_bytes for t in traffic)
        return value, (embeddings, gradients, scales, weights)

    @torch.no_grad()
    def _evaluate(self, epoch: int) -> Tensor:
        """float64[6]: (a, b) of each part of the split, by an exact forward pass whose bytes do not count."""
        self.model.eval()
        self.evaluation.begin(EpochPlan(epoch))
        scores = self.model(self._view(self.evaluation, epoch), self.features)
        self.evaluation.traffic.clear()
        self.evaluation.settle()
        parts = [score_parts(scores[members], self.labels[members]) for members in self.members]
        return torch.tensor(parts, dtype=torch.float64).reshape(-1)

    def _view(self, exchange: Exchange, epoch: int) -> View:
        return View(self.adjacency, exchange, self.vertices, seed=self.job.options.seed, epoch=epoch)

    def gathered(self) -> Trained | None:
        """All workers' tables, on worker 0."""
        self.exchange.drain()
        rank = self.job.local.rank
        memory = {
            "worker": rank,
            "saved_bytes": self.saved_bytes,
            "halo_bytes": self.exchange.held_bytes,
            "peak_bytes": peak_bytes(self.device),
        }
        mine = ([asdict(t) | {"worker": rank} for t in self.exchange.traffic], self.times, memory)
        every = self.wire.gather(mine, everywhere=False)
        if rank != 0:
            return None
        times = [row for _, rows, _ in every for row in rows]
        times.append({"worker": rank, "extractor_ns": self.job.extractor_ns})
        exchanges = []
        for traffic, _, _ in every:
            for row in traffic:
                wall = {"epoch": row["epoch"], "worker": row["worker"], "layer": row["layer"]}
                wall |= {name: row.pop(name) for name in WALLS}
                times.append(wall | {"direction": row["direction"]})
                exchanges.append(row)
        weights = {name: value.cpu().numpy() for name, value in self.model.state_dict().items()}
        memories = [memory for _, _, memory in every]
        where = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        return Trained(self.rows, exchanges, times, memories, weights, where, self.interrupted)


def epoch_row(
    plan: EpochPlan, found: Epoch, log: dict[str, Any], level_counts: tuple[int, ...], *, evaluated: bool
) -> dict[str, Any]:
    """The row of the table of epochs. log: what the system observed; level_counts: as in `Job`."""
    base = int(log["base_bits"])
    levels = np.arange(LEVELS, dtype=np.uint8)
    widths = node_bits(base, levels) if base <= 8 else np.full(LEVELS, base)
    row: dict[str, Any] = {
        "epoch": plan.epoch,
        "loss": found.loss,
        "smoothed_loss": log.get("smoothed_loss", np.nan),
        "ldr": log.get("ldr", np.nan),
        "base_bits": base,
        "mode": "asynchronous" if plan.stale else "synchronous",
        "forced_sync": bool(log.get("forced_sync", False)),
    }
    for bits in (1, 2, 4, 8, 32):
        row[f"vertices_{bits}_bit"] = sum(level_counts[level] for level in np.flatnonzero(widths == bits))
    for part, name in enumerate(("train", "validation", "test")):
        row[f"{name}_score"] = ratio(found.scores[2 * part : 2 * part + 2]) if evaluated else np.nan
    return row | {f"{kind}_bytes": count for kind, count in zip(KINDS, found.sent, strict=True)}
