"""Measuring schemes for real: all of them in the same processes, their steps interleaved."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from workloads.errors import InputError
from workloads.parallel.cluster import Report, run_workers
from workloads.parallel.pieces import Balance
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task
from workloads.parallel.training import Training

WARMUPS = 2
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Measured:
    """One scheme. wall_s: median over steps of the slowest worker's time, with quartiles; compute_s: of the
    worker that computes longest, outside transfers; waiting_s: of the one that is least in transfers, which
    waits for nobody; sent_bytes: of all workers in a step; kept_bytes: of the worker that kept most; losses:
    the mean loss of each step. failure: why it cannot be run, and all else is zero.
    """

    scheme: Scheme
    wall_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0
    compute_s: float = 0.0
    waiting_s: float = 0.0
    sent_bytes: int = 0
    kept_bytes: int = 0
    losses: tuple[float, ...] = ()
    failure: str = ""


def measure_schemes(
    task: Task,
    chosen: list[Scheme],
    *,
    rounds: int = 5,
    seconds: float = float("inf"),
    balance: Balance | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Measured]:
    """Run every scheme (all of equally many workers): warm-up, then `rounds` times two steps of each in turn,
    the second of them timed, or as many rounds, three at least, as `seconds` have room for.
    """
    pairs = [(task, scheme) for scheme in chosen]
    return measure_pairs(pairs, rounds=rounds, seconds=seconds, balance=balance, progress=progress)


def measure_pairs(
    pairs: list[tuple[Task, Scheme]],
    *,
    rounds: int = 5,
    seconds: float = float("inf"),
    balance: Balance | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Measured]:
    """As `measure_schemes`, for several tasks at once."""
    [workers] = {scheme.workers for _, scheme in pairs}
    for task, _ in pairs:
        _ = task.places  # the same for all workers
    payload = pairs, rounds, seconds, balance
    rows: list[dict[str, Any]] = run_workers(
        _measure, workers, payload, lambda row: progress(row["done"], row["total"])
    )
    return [Measured(scheme, **row) for (_, scheme), row in zip(pairs, rows, strict=True)]


def _measure(
    payload: tuple[list[tuple[Task, Scheme]], int, float, Balance | None],
    rank: int,
    workers: int,
    report: Report,
) -> list[dict[str, Any]]:
    pairs, rounds, seconds, balance = payload
    trainings: list[Training | None] = []
    rows: list[dict[str, Any]] = []
    for task, scheme in pairs:
        made, failure = _made(task, scheme, rank, balance)
        trainings.append(made)
        rows.append({"failure": failure} if made is None else {"losses": [], "steps": [], "kept": 0})
    total = (WARMUPS + rounds) * len(pairs)
    gc.disable()  # a collection in one worker is a wait in all
    gc.freeze()  # and what is there by now stays
    start = time.monotonic()
    for turn in range(WARMUPS + rounds):
        for number, (training, row) in enumerate(zip(trainings, rows, strict=True)):
            if training is not None:
                if turn >= WARMUPS:  # a scheme that trains alone finds its data in the caches
                    row["losses"].append(training.whole_loss(training.step()))
                dist.barrier()
                step = training.step(measure=turn == 0)
                row["losses"].append(training.whole_loss(step))
                row["kept"] = max(row["kept"], step.kept_bytes)
                if turn >= WARMUPS:
                    row["steps"].append((step.wall_ns, step.waiting_ns, step.sent_bytes))
            report({"done": turn * len(pairs) + number + 1, "total": total})
        gc.collect()
        late = torch.tensor([float(time.monotonic() - start > seconds)])
        dist.broadcast(late, 0)  # all stop after the same round
        if late and turn + 1 >= WARMUPS + LEAST_ROUNDS:
            break
    gc.unfreeze()
    gc.enable()
    return [_summary(training, row, workers) for training, row in zip(trainings, rows, strict=True)]


def _made(task: Task, scheme: Scheme, rank: int, balance: Balance | None) -> tuple[Training | None, str]:
    """The training, or why some worker cannot have one: the same answer on all of them."""
    try:
        made, failure = Training(task, scheme, rank, balance), ""
    except InputError as error:
        made, failure = None, str(error)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, failure)
    first = next((reason for reason in every if reason), "")
    if first and made is not None:
        made.close()
    return (None, first) if first else (made, "")


def _summary(training: Training | None, row: dict[str, Any], workers: int) -> dict[str, Any]:
    if training is None:
        return row
    mine = torch.tensor(row["steps"], dtype=torch.float64)
    every = [torch.empty_like(mine) for _ in range(workers)]
    dist.all_gather(every, mine)
    kept = torch.tensor([row["kept"]], dtype=torch.int64)
    dist.all_reduce(kept, op=dist.ReduceOp.MAX)
    steps = torch.stack(every).numpy()  # worker, step, (wall, waiting, sent)
    slowest = steps[:, :, 0].max(axis=0) * 1e-9
    low, median, high = np.quantile(slowest, (0.25, 0.5, 0.75))
    training.close()
    return {
        "wall_s": float(median),
        "low_s": float(low),
        "high_s": float(high),
        "compute_s": float(np.median((steps[:, :, 0] - steps[:, :, 1]).max(axis=0)) * 1e-9),
        "waiting_s": float(np.median(steps[:, :, 1].min(axis=0)) * 1e-9),
        "sent_bytes": int(steps[:, 0, 2].sum()),
        "kept_bytes": int(kept),
        "losses": tuple(row["losses"]),
    }
