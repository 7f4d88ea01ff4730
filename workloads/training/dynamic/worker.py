"""One worker's loop: per window forward, backward, all-reduce and step; per epoch evaluation and the
scheduler.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from workloads.errors import InputError
from workloads.training.checkpoint import Checkpoints
from workloads.training.device import join_group
from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.choose import Chooser
from workloads.training.dynamic.counted import KINDS, CountedWire
from workloads.training.dynamic.exchange import Staleness
from workloads.training.dynamic.local import LocalDynamic
from workloads.training.dynamic.metrics import Scorer, window_loss
from workloads.training.dynamic.models import MODELS, Model
from workloads.training.dynamic.options import DynamicOptions
from workloads.training.dynamic.schedule import Observed, Schedule
from workloads.training.dynamic.task import METRICS, PARTS
from workloads.training.dynamic.window import (
    Engine,
    Flexible,
    SlidingWindow,
    SnapshotBlock,
    WindowPlan,
    mix_features,
)
from workloads.training.gradients import reduce_gradients
from workloads.training.memory import peak_bytes
from workloads.training.wire import Wire
from workloads.training.worker import LossError


@dataclass(frozen=True, eq=False)
class DynamicJob:
    """What one worker is given. windows: the last snapshots of training, validation and test windows; counts:
    of what is predicted in the whole graph, per last snapshot; scale: float64[k], of the targets. identity,
    checkpoints, checkpoint_every, resume: as in `workloads.training.worker.Job`.
    """

    options: DynamicOptions
    local: LocalDynamic
    kind: str
    window: int
    windows: tuple[np.ndarray[Any, Any], ...]
    counts: np.ndarray[Any, Any]
    outputs: int
    scale: np.ndarray[Any, Any]
    identity: str = ""
    checkpoints: Path | None = None
    checkpoint_every: int = 0
    resume: bool = False


@dataclass
class DynamicTrained:
    """What a run leaves: the tables' rows, and the weights (equal on all workers)."""

    epochs: list[dict[str, Any]]
    windows: list[dict[str, Any]]
    times: list[dict[str, Any]]
    memory: list[dict[str, Any]]
    weights: dict[str, np.ndarray[Any, Any]]
    device: str
    interrupted: bool = False


def train_dynamic_worker(
    job: DynamicJob,
    store: dist.Store,
    report: Callable[[dict[str, Any]], None],
    *,
    device: torch.device,
    stop: Callable[[], bool] = lambda: False,
) -> DynamicTrained | None:
    """Join the group that meets at `store`, and train, as `workloads.training.worker.train_worker`."""
    local = job.local
    threads, patience_s = job.options.threads, job.options.timeout_s
    join_group(device, store, local.rank, local.workers, threads=threads, patience_s=patience_s)
    patience = timedelta(seconds=patience_s)
    wires = [Wire(local.rank, local.workers, dist.new_group(timeout=patience), device) for _ in range(2)]
    training = DynamicTraining(job, device, wires)
    try:
        training.run(report, stop)
        return training.gathered()
    finally:
        dist.destroy_process_group()


class DynamicTraining:
    """One worker's state. wires: for training and for evaluation, whose bytes do not count."""

    def __init__(self, job: DynamicJob, device: torch.device, wires: list[Wire]) -> None:
        self.job, options, local = job, job.options, job.local
        self.wire, self.quiet = (CountedWire(wire, device) for wire in wires)
        self.device, self._plain = device, wires[1]
        self.dtype = torch.float64 if options.precision == "float64" else torch.float32
        torch.manual_seed(options.seed)
        make = MODELS[options.model]
        width = local.features[0].shape[1]
        self.model: Model = make(width, options.hidden, job.outputs, options.layers)
        self.model.to(device, self.dtype)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=options.lr)
        self.schedule = Schedule(options, len(job.windows[0]))
        self.seen = Staleness()
        self.engine = Engine(
            local,
            job.window,
            [SnapshotBlock(edges, self.dtype, device) for edges in local.edges],
            [torch.tensor(rows, dtype=self.dtype, device=device) for rows in local.features],
            [None] * len(local.edges),
            device,
            self._flexible() if options.flexible else None,
        )
        self.checkpoints: Checkpoints | None = None
        if job.checkpoints is not None:
            self.checkpoints = Checkpoints(job.checkpoints, local.rank, job.identity)
        self.rows: list[dict[str, Any]] = []
        self.window_rows: list[dict[str, Any]] = []
        self.times: list[dict[str, Any]] = []
        self.stopping = self.interrupted = False

    def _flexible(self) -> Flexible:
        job, options, index = self.job, self.job.options, self.job.local.index
        assert index is not None
        windows, sets, pairs = len(job.windows[0]), options.cache_windows, job.local.pairs_index

        def cache(positions: int, rows: int) -> PositionCache:
            return PositionCache(sets, windows, positions, rows, self.device)

        rows, choose_ends = cache(job.window, len(index.halo)), None
        if pairs is not None:
            none = PositionCache(0, windows, 1, 0, self.device)
            # Drawn, whatever --choose says: those that are scored stand for the others.
            choose_ends = Chooser(pairs, none, windows, "random", options.seed + 1)
        return Flexible(
            rows,
            cache(job.window, 1),
            Chooser(index, rows, windows, options.choose, options.seed),
            choose_ends,
            self.seen,
        )

    def run(self, report: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
        """All epochs, or those up to the one after which some worker was told to stop."""
        job, epochs = self.job, self.job.options.epochs
        first = self._resumed() if job.resume else 0
        self.mix_once(first > 0)
        for epoch in range(first, epochs):
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

    def mix_once(self, resumed: bool = False) -> None:
        """Sum the features of every snapshot that some window needs. Where features are exchanged once, those
        of the training windows count (unless the run before did count them); those of evaluation never do.
        """
        job, each = self.job, self.job.options.inputs == "each"
        last_trained = int(job.windows[0][-1])
        with torch.no_grad():
            for t in range(int(job.windows[2][-1]) + 1):
                uncounted = each or resumed or t > last_trained
                [self.engine.mixed[t]] = mix_features(
                    self.engine, [t], self.quiet if uncounted else self.wire
                )

    def epoch(self, epoch: int, stop: bool) -> dict[str, Any]:
        """Train one epoch; its row for the table of epochs, the same on every worker."""
        options, job = self.job.options, self.job
        start, cpu, waited = time.perf_counter_ns(), time.thread_time_ns(), self.wire.wait_ns
        before, messages = sum(self.wire.sent.values()), self.wire.messages
        talking = self.schedule.communicating(epoch)
        knobs = self.schedule.knobs
        exact = self.engine.flexible is None
        self.model.train()
        loss = 0.0
        for number, last in enumerate(job.windows[0]):
            communicates = exact or number in talking
            plan = WindowPlan(
                int(last), number, epoch * len(job.windows[0]) + number, communicates, knobs.share
            )
            loss += self._step(epoch, plan)
        wall_ns = time.perf_counter_ns() - start
        wait_ns = self.wire.wait_ns - waited
        told = {"cpu_ns": time.thread_time_ns() - cpu, "messages": self.wire.messages - messages}
        told["sent_bytes"] = sum(self.wire.sent.values()) - before
        evaluated = (epoch + 1) % options.eval_every == 0 or epoch + 1 == options.epochs
        names = [f"{part}_{metric}" for part in PARTS[1:] for metric in METRICS[job.kind]]
        scores = self.evaluate() if evaluated else dict.fromkeys(names, float("nan"))
        row = self._coordinate(epoch, loss, wall_ns, wait_ns, stop)
        row |= {"interval": knobs.interval, "windows": knobs.windows, "share": knobs.share}
        row |= {"communicating": len(job.windows[0]) if exact else len(talking)} | scores
        comm_s = row["wait_s"] if options.clock == "measured" else row["counted_comm_s"]
        used = max(1, row["fresh_rows"] + row["cached_rows"] + row["missing_rows"])
        shares = [row[f"{name}_rows"] / used for name in ("fresh", "cached", "missing")]
        other_s = max(row["epoch_s"] - row["wait_s"], 0.0) if options.clock == "measured" else 0.0
        row["scheduler"] = self.schedule.observe(Observed(row["loss"], comm_s, other_s, *shares))
        walls = {"epoch_ns": wall_ns, "wait_ns": wait_ns, **told}
        self.times.append({"epoch": epoch, "worker": job.local.rank, **walls})
        measured = {name: row.pop(name) for name in ("epoch_s", "wait_s")}
        self.rows.append(row)
        return row | measured

    def _step(self, epoch: int, plan: WindowPlan) -> float:
        """Forward, backward, all-reduce, step; this worker's part of the window's mean loss."""
        before, seen = dict(self.wire.sent), asdict(self.seen)
        self.seen.distance_most = self.seen.age_most = 0
        each = self.job.options.inputs == "each"
        predicted, wanted, weight = self._predict(plan, self.wire, exact=False, each=each)
        loss = window_loss(self.job.kind, predicted, wanted, weight) / max(1, int(self.job.counts[plan.last]))
        self.optimiser.zero_grad(set_to_none=False)
        loss.backward()
        self.wire.kind = "weights"
        reduce_gradients(self.model, self.wire)
        self.optimiser.step()
        row: dict[str, Any] = {"epoch": epoch, "window": plan.number, "worker": self.job.local.rank}
        row |= {"last_snapshot": plan.last, "communicates": plan.communicates}
        row |= {f"{kind}_bytes": self.wire.sent[kind] - before[kind] for kind in KINDS}
        now = asdict(self.seen)
        for name, told in (("fresh", "fresh_rows"), ("cached", "cached_rows"), ("missing", "missing_rows")):
            row[told] = now[name] - seen[name]
        for name in ("distance", "age"):
            row[f"{name}_sum"], row[f"{name}_most"] = now[name] - seen[name], now[f"{name}_most"]
        self.window_rows.append(row)
        return float(loss.detach())

    def _predict(
        self, plan: WindowPlan, wire: CountedWire, *, exact: bool, each: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(predictions, what they should be, how often each counts) of this worker in one window."""
        window = SlidingWindow(self.engine, plan, wire, exact=exact, each=each)
        rows = self.model(window)
        target = self.job.local.targets[plan.last]
        assert target is not None
        wanted = torch.from_numpy(target.values).to(self.device)
        if self.job.kind == "link":
            ends, known = window.ends(rows)
            left, right = (torch.from_numpy(side).to(self.device) for side in (target.left, target.right))
            weight = None
            if known is not None:
                # Pairs whose end was not sent are left out; those with remote ends that were stand for them.
                used = known[left] & known[right]
                remote = torch.maximum(left, right) >= len(rows)
                weight = torch.ones(len(left), dtype=self.dtype, device=self.device)
                weight[remote] = remote.sum() / (used & remote).sum().clamp(min=1)
                weight = weight[used]
                left, right, wanted = left[used], right[used], wanted[used]
            return self.model.score_pairs(ends[left], ends[right]), wanted.to(self.dtype), weight
        predicted = self.model.predict(rows[torch.from_numpy(target.rows).to(self.device)])
        return predicted, wanted.to(self.dtype) if self.job.kind == "regression" else wanted, None

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """The task's metrics on validation and test windows, by exact forward passes whose bytes do not
        count.
        """
        self.model.eval()
        told: dict[str, float] = {}
        for part, lasts in zip(PARTS[1:], self.job.windows[1:], strict=True):
            scorer = Scorer(self.job.kind, self.job.outputs, self.job.scale)
            for last in lasts:
                plan = WindowPlan(int(last))
                predicted, wanted, _ = self._predict(plan, self.quiet, exact=True, each=False)
                scorer.add(predicted, wanted)
            told |= {f"{part}_{name}": value for name, value in scorer.result(self.quiet).items()}
        return told

    def _coordinate(self, epoch: int, loss: float, wall_ns: int, wait_ns: int, stop: bool) -> dict[str, Any]:
        """Add up what the workers report: the epoch's mean loss over windows, bytes by kind, staleness,
        times.
        """
        rank, workers = self.job.local.rank, self.job.local.workers
        mine_rows = self.window_rows[-len(self.job.windows[0]) :]
        sums = [f"{kind}_bytes" for kind in KINDS if kind != "control"]
        sums += ["fresh_rows", "cached_rows", "missing_rows", "distance_sum", "age_sum"]
        values = [loss / len(self.job.windows[0]), float(stop)]
        values += [float(sum(row[name] for row in mine_rows)) for name in sums]
        if epoch == 0:  # what was exchanged once, before the first window
            values[2] = float(self.wire.sent["features"])
        busiest = sum(values[2 : 2 + len(KINDS) - 1])
        by_worker = torch.zeros(5 * workers, dtype=torch.float64)
        mosts = [float(max(row[name] for row in mine_rows)) for name in ("distance_most", "age_most")]
        by_worker[rank::workers] = torch.tensor([busiest, wall_ns, wait_ns, *mosts], dtype=torch.float64)
        vector = torch.cat([torch.tensor(values, dtype=torch.float64), by_worker])
        self.wire.kind = "control"
        self.wire.all_reduce(vector)
        # In each of the ring's 2 (P-1) steps, the workers together send every value once.
        control = 2 * (workers - 1) * vector.numel() * vector.element_size()
        total = float(vector[0])
        if not np.isfinite(total):
            raise LossError(f"the loss is no longer finite in epoch {epoch}; lower --lr")
        self.stopping = bool(vector[1])
        row: dict[str, Any] = {"epoch": epoch, "loss": total}
        row |= {name: int(vector[2 + i]) for i, name in enumerate(sums)} | {"control_bytes": control}
        cached = max(1, row["cached_rows"])
        most = [float(vector[len(values) + i * workers :][:workers].max()) for i in range(5)]
        row["distance_mean"], row["age_mean"] = row.pop("distance_sum") / cached, row.pop("age_sum") / cached
        row["distance_most"], row["age_most"] = int(most[3]), int(most[4])
        row["counted_comm_s"] = most[0] * 8e-9 / self.job.options.link_gbps
        row["epoch_s"], row["wait_s"] = most[1] * 1e-9, most[2] * 1e-9
        return row

    def _save(self, epoch: int) -> None:
        if self.checkpoints is None:
            return
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state(),
            "random": torch.get_rng_state(),
            "rows": self.rows,
            "windows": self.window_rows,
            "times": self.times,
            "sent": self.wire.sent,
        }
        flexible = self.engine.flexible
        if flexible is not None:
            choosers = [c for c in (flexible.choose_rows, flexible.choose_ends) if c is not None]
            state["caches"] = [cache.state() for cache in (flexible.rows, flexible.tops)]
            state["chosen"] = [[torch.from_numpy(part) for part in c.state()] for c in choosers]
            state["seen"] = asdict(self.seen)
        self.checkpoints.save(epoch, state, self._plain.barrier)

    def _resumed(self) -> int:
        """Take up the newest checkpoint that every worker has; returns the epoch that comes next."""
        assert self.checkpoints is not None
        every = self._plain.gather(self.checkpoints.epochs())
        common = set(every[0]).intersection(*every)
        if not common:
            raise InputError("resume: no checkpoint that all workers have; start again without --resume")
        state = self.checkpoints.load(max(common))
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.restore(state["schedule"])
        torch.set_rng_state(state["random"])
        self.rows, self.window_rows, self.times = state["rows"], state["windows"], state["times"]
        self.wire.sent = state["sent"]
        flexible = self.engine.flexible
        if flexible is not None:
            for cache, kept in zip((flexible.rows, flexible.tops), state["caches"], strict=True):
                cache.restore(kept)
            choosers = [c for c in (flexible.choose_rows, flexible.choose_ends) if c is not None]
            for chooser, parts in zip(choosers, state["chosen"], strict=True):
                chooser.restore([part.numpy() for part in parts])
            for name, value in state["seen"].items():
                setattr(self.seen, name, value)
        return int(state["epoch"]) + 1

    def memory(self) -> dict[str, Any]:
        """What this worker keeps: the cache (and the most it may take), the choosers' ages, the boundary
        index.
        """
        job, options, flexible = self.job, self.job.options, self.engine.flexible
        index = job.local.index
        row = {"worker": job.local.rank, "cache_bytes": 0, "cache_most_bytes": 0, "ages_bytes": 0}
        if flexible is not None:
            item, hidden = 8 if options.precision == "float64" else 4, options.hidden
            width = job.local.features[0].shape[1]
            sites = list(MODELS[options.model].sites(options.layers, hidden, width).values())
            tops = []
            if options.model == "evolvegcn":
                tops = [hidden * wide for wide in (width, *[hidden] * (options.layers - 1))]
            caches = (flexible.rows, sites), (flexible.tops, tops)
            row["cache_bytes"] = sum(cache.held_bytes for cache, _ in caches)
            row["cache_most_bytes"] = sum(cache.bound_bytes(widths, item) for cache, widths in caches)
            choosers = [c for c in (flexible.choose_rows, flexible.choose_ends) if c is not None]
            row["ages_bytes"] = sum(chooser.held_bytes for chooser in choosers)
        row["index_bytes"] = index.encoded_bytes if index else 0
        row["separate_index_bytes"] = index.separate_bytes if index else 0
        return row | {"peak_bytes": peak_bytes(self.device)}

    def gathered(self) -> DynamicTrained | None:
        """All workers' tables, on worker 0."""
        every = self._plain.gather((self.window_rows, self.times, self.memory()), everywhere=False)
        return collected(self, every) if self.job.local.rank == 0 else None


def collected(training: DynamicTraining, every: list[Any]) -> DynamicTrained:
    """A run's tables. every: per worker its windows' rows, times and memory."""
    windows = [row for rows, _, _ in every for row in rows]
    times = [row for _, rows, _ in every for row in rows]
    weights = {name: value.cpu().numpy() for name, value in training.model.state_dict().items()}
    device = training.device
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return DynamicTrained(
        training.rows,
        windows,
        times,
        [memory for _, _, memory in every],
        weights,
        where,
        training.interrupted,
    )
