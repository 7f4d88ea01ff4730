"""Training with a predicted scheme on this machine, and with another when the prediction proves wrong.

After each epoch all workers' times go to worker 0, which holds them against the prediction. Past the
threshold it corrects the cost model by what was measured, ranks the schemes again, and the epoch's end is
where all workers change over: weights and Adam's moments are gathered whole and divided anew, so training
goes on with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from workloads.parallel.cluster import Report, run_workers
from workloads.parallel.costs import CostModel
from workloads.parallel.network import Network
from workloads.parallel.pieces import Balance
from workloads.parallel.predict import Prediction, Predictor
from workloads.parallel.replan import Corrections, Observed, Watch, corrections
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task
from workloads.parallel.training import Training

WARMUPS = 1  # epochs after a change that are not held against the prediction: first steps allocate
GAIN = 0.95  # another scheme must promise to take at most this share of the present one's time


@dataclass(frozen=True, eq=False)
class Autopilot:
    """scheme: to begin with; allowed: to choose from. slow: worker -> factor by which it is made slower, from
    epoch `slow_from` on, for tests of the re-planning.
    """

    task: Task
    costs: CostModel
    network: Network
    scheme: Scheme
    allowed: list[Scheme]
    epochs: int
    threshold: float = 1.5
    slow: tuple[tuple[int, float], ...] = ()
    slow_from: int = 0


def fly(
    pilot: Autopilot, on_epoch: Callable[[dict[str, Any]], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Train; one row per epoch: epoch, scheme, loss, measured_ns, predicted_ns, vertices (of each worker's
    first turn), note (what was decided after it, or "").
    """
    rows: list[dict[str, Any]] = []

    def told(row: dict[str, Any]) -> None:
        rows.append(row)
        on_epoch(row)

    _ = pilot.task.places  # the same for all workers
    run_workers(_fly, pilot.scheme.workers, pilot, told)
    return rows


@dataclass
class _Course:
    """Worker 0's present plan."""

    prediction: Prediction
    balance: Balance
    corrected: Corrections


def _fly(pilot: Autopilot, rank: int, workers: int, report: Report) -> None:
    course = _begin(pilot, workers) if rank == 0 else None
    scheme, balance = _agree((pilot.scheme, course.balance if course else None))
    training = Training(pilot.task, scheme, rank, balance)
    watch, since = Watch(pilot.threshold), 0
    for epoch in range(pilot.epochs):
        training.slow_factor = dict(pilot.slow).get(rank, 1.0) if epoch >= pilot.slow_from else 1.0
        step = training.step()
        loss = training.whole_loss(step)
        seen = _observed(step.wall_ns, step.waiting_ns, workers)
        vertices = _everyone(len(training.first_vertices), workers)
        chosen = None
        if course is not None:
            row = {
                "epoch": epoch,
                "scheme": training.scheme.name,
                "loss": loss,
                "measured_ns": round(seen.step_ns),
                "predicted_ns": round(course.prediction.step_ns),
                "vertices": [int(count) for count in vertices],
                "note": "",
            }
            judged = since >= WARMUPS and epoch + 1 < pilot.epochs
            if judged and watch.beyond(course.prediction.step_ns, seen):
                chosen, row["note"] = _again(pilot, course, watch.median())
                watch.recent.clear()
            report(row)
        since += 1
        chosen = _agree(chosen)
        if chosen is not None:
            scheme, balance = chosen
            state, steps = training.state(), training.steps
            training.close()
            training = Training(pilot.task, scheme, rank, balance)
            training.restore(state, steps)
            since = 0
    training.close()


def _begin(pilot: Autopilot, workers: int) -> _Course:
    even = Corrections((1.0,) * workers, 1.0)
    predictor = _predictor(pilot, even)
    return _Course(predictor.predict(pilot.scheme), predictor.balance_of(pilot.scheme), even)


def _again(pilot: Autopilot, course: _Course, seen: Observed) -> tuple[tuple[Scheme, Balance] | None, str]:
    """What to change to, if anything, and what to say. The course is corrected either way."""
    course.corrected = corrections(course.prediction, course.corrected, seen)
    predictor = _predictor(pilot, course.corrected)
    now = course.prediction.scheme
    ranked = predictor.rank(pilot.allowed)
    best = ranked[0]
    stay = predictor.predict(now)
    workers = ", ".join(f"{factor:.2f}" for factor in course.corrected.workers)
    told = f"measured: computation x {workers}, transfers x {course.corrected.transfers:.2f}"
    balance = predictor.balance_of(best.scheme)
    moved = best.scheme == now and balance.shares != course.balance.shares
    if best.scheme == now and not moved:
        course.prediction = stay
        return None, f"{told}; still {now.name}"
    if best.scheme != now and best.step_ns > GAIN * stay.step_ns:
        course.prediction = stay
        return None, f"{told}; {best.scheme.name} would gain too little"
    course.prediction, course.balance = best, balance
    how = "other shares of the graph" if moved else f"on to {best.scheme.name}"
    return (best.scheme, balance), f"{told}; {how}"


def _predictor(pilot: Autopilot, corrected: Corrections) -> Predictor:
    return Predictor(
        pilot.task,
        pilot.costs,
        pilot.network,
        worker_factors=corrected.workers,
        transfer_factor=corrected.transfers,
        speeds=corrected.uneven,
    )


def _observed(wall_ns: int, waiting_ns: int, workers: int) -> Observed:
    waiting = _everyone(waiting_ns, workers)
    return Observed(_everyone(wall_ns, workers) - waiting, waiting)


def _everyone(value: float, workers: int) -> np.ndarray:
    every = [torch.zeros(1, dtype=torch.float64) for _ in range(workers)]
    dist.all_gather(every, torch.tensor([float(value)], dtype=torch.float64))
    return torch.cat(every).numpy()


def _agree(value: Any) -> Any:
    """Worker 0's."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
