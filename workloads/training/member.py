"""A worker that torchrun started, on one machine or many: it joins the others, trains, tells how it ended."""

from __future__ import annotations

import faulthandler
import os
import signal
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, Protocol, TypeVar

import torch
import torch.distributed as dist

from workloads.errors import InputError
from workloads.training.device import START_S, choose_device
from workloads.training.failure import describe
from workloads.training.job import Job, Trained
from workloads.training.watch import Watch, end_process
from workloads.training.wire import LostWorkerError
from workloads.training.worker import train_worker

Result = TypeVar("Result")


class _Patient(Protocol):
    """Options of a run, as far as they matter here."""

    @property
    def timeout_s(self) -> float: ...


class _Placed(Protocol):
    """Options of a run that say where it computes."""

    @property
    def device(self) -> str: ...


class Member:
    """This process as a worker that torchrun started. Made before the graph is loaded: from then on every
    worker notices within seconds when another one ends.
    """

    def __init__(self, options: _Patient) -> None:
        faulthandler.enable()
        self.rank, self.workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        patience = timedelta(seconds=options.timeout_s)
        try:
            self._store, _, _ = next(iter(dist.rendezvous("env://", timeout=patience)))
        except RuntimeError as error:  # torch's DistError is one
            told = str(error).partition("\n")[0][:120]
            raise InputError(f"torchrun: worker {self.rank} cannot reach its store: {told}") from None
        self._watch = Watch(
            self.rank,
            self.workers,
            host=os.environ["MASTER_ADDR"],
            store=self._store,
            patience_s=options.timeout_s,
        )

    def train(self, job: Job, on_epoch: Callable[[dict[str, Any]], None]) -> Trained | None:
        """Train as this worker; the results, on worker 0."""
        return self.run(job, on_epoch, train_worker)

    def run(
        self, job: Any, on_epoch: Callable[[dict[str, Any]], None], work: Callable[..., Result | None]
    ) -> Result | None:
        """As `train`, for any work; see `workloads.training.launch.run_cluster`."""
        device = self.device(job.options)
        self.tell(f"loaded-{self.rank}", "")
        for rank in range(self.workers):  # a graph loads at another pace on another machine
            self.told(f"loaded-{rank}")
        result = work(job, self._store, on_epoch, device=device, stop=_stop_on_signal())
        self._watch.leave()
        return result

    def device(self, options: _Placed) -> torch.device:
        """Where this worker computes, among those of its machine."""
        local_rank, local_workers = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        return choose_device(options.device, local_rank, local_workers)

    def tell(self, name: str, value: str) -> None:
        """Say something to all other workers, before they have joined a group."""
        self._store.set(f"netfold-{name}", value)

    def told(self, name: str) -> str:
        """What some worker tells under this name. The watch ends the wait for it when a worker ends."""
        self._store.wait([f"netfold-{name}"], timedelta(seconds=START_S))
        return str(self._store.get(f"netfold-{name}").decode())

    def fail(self, error: Exception) -> NoReturn:
        """End this process for this reason, and tell the others."""
        if isinstance(error, LostWorkerError):
            self._watch.wait_for_cause()
        if not isinstance(error, InputError):
            traceback.print_exc()
        reason = describe(error)
        self._watch.failed(reason)
        end_process(f"worker {self.rank} of {self.workers} failed: {reason}")


def join_torchrun(options: _Patient, workers: int) -> Member | None:
    """This process as a worker, when torchrun started it, else None.

    Raises InputError when torchrun started another number of processes.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    started = int(os.environ["WORLD_SIZE"])
    if started != workers:
        raise InputError(f"workers: {workers} given, but torchrun started {started} processes")
    return Member(options)


def _stop_on_signal() -> Callable[[], bool]:
    """Under torchrun: whether SIGINT or SIGTERM has come. The second one ends the process as usual."""
    came: list[int] = []

    def take(number: int, frame: Any) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, take)
    return lambda: bool(came)
