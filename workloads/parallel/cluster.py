"""Work on a local cluster: one process per worker, gloo over loopback, on the launcher that training uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from workloads.errors import InputError
from workloads.parallel.scheme import MOST_WORKERS
from workloads.training.device import START_S, join_group
from workloads.training.launch import LostServerError, run_cluster

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class _Local:
    rank: int
    workers: int


@dataclass(frozen=True)
class _Options:
    device: str = "cpu"
    timeout_s: float = START_S


@dataclass(frozen=True, eq=False)
class Member:
    """What one worker is given. work: called as work(payload, rank, workers, report); worker 0's answer is
    the run's.
    """

    local: _Local
    work: Callable[[Any, int, int, Report], Any]
    payload: Any
    threads: int = 1
    options: _Options = _Options()


def run_workers(
    work: Callable[[Any, int, int, Report], Any],
    workers: int,
    payload: Any,
    on_report: Report = lambda _: None,
) -> Any:
    """Run `work`, a module's function, in `workers` joined processes; what worker 0 returned. Where the fork
    server is lost before anything was reported, it is started again, once.

    Raises WorkerError when one fails or dies (all others are ended), InputError for a number of workers that
    this machine should not be asked for.
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise InputError(f"local workers: {workers} given; allowed: 1 to {MOST_WORKERS}")
    members = [Member(_Local(rank, workers), work, payload) for rank in range(workers)]
    reported = False

    def told(row: dict[str, Any]) -> None:
        nonlocal reported
        reported = True
        on_report(row)

    try:
        return run_cluster(members, told, _join)["answer"]
    except LostServerError:
        if reported:
            raise
    return run_cluster(members, on_report, _join)["answer"]


def _join(
    member: Member,
    store: dist.Store,
    report: Report,
    *,
    device: torch.device,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    rank, workers = member.local.rank, member.local.workers
    join_group(device, store, rank, workers, threads=member.threads)
    answer = member.work(member.payload, rank, workers, report if rank == 0 else lambda _: None)
    dist.barrier()
    dist.destroy_process_group()
    return {"answer": answer} if rank == 0 else None
