"""Workers as threads of one process, with mailboxes in place of sockets."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import torch

from workloads.training.dynamic.worker import DynamicJob, DynamicTraining
from workloads.training.job import Job, Trained
from workloads.training.wire import Wire
from workloads.training.worker import Training

Boxes = dict[tuple[int, int], "queue.Queue[Any]"]


class Mailboxes(Wire):
    """A worker's wire between threads; boxes: of `mailboxes`, the same for all workers."""

    def __init__(self, rank: int, workers: int, boxes: Boxes, *, timeout_s: float = 60) -> None:
        super().__init__(rank, workers)
        self._boxes = boxes
        self._timeout_s = timeout_s

    def swap(self, message: torch.Tensor, to: int, arriving: torch.Tensor, source: int) -> None:
        if message.numel():
            self._boxes[self.rank, to].put(message.clone())
        if arriving.numel():
            arriving.copy_(self._boxes[source, self.rank].get(timeout=self._timeout_s))

    def barrier(self) -> None:
        self.gather(None)

    def gather(self, value: Any, *, everywhere: bool = True) -> list[Any]:
        for peer in range(self.workers if everywhere else 1):
            self._boxes[self.rank, peer].put(value)
        if not everywhere and self.rank > 0:
            return [None] * self.workers
        return [self._boxes[peer, self.rank].get(timeout=self._timeout_s) for peer in range(self.workers)]


def mailboxes(workers: int) -> Boxes:
    """One box for each sender and receiver."""
    return {(a, b): queue.Queue() for a in range(workers) for b in range(workers)}


def in_threads(workers: int, body: Callable[[int], Any]) -> list[Any]:
    """body(rank) of every worker, each in a thread. Raises what the first that fails raises, at once."""
    results: list[Any] = [None] * workers
    failures: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.5)
    if failures:
        raise failures[0]
    return results


def dynamic_workers(jobs: list[DynamicJob], *, timeout_s: float = 60) -> list[DynamicTraining]:
    """Every worker of a dynamic training before its first epoch, worker 0 first."""
    groups = [mailboxes(len(jobs)) for _ in range(2)]
    return [
        DynamicTraining(
            job,
            torch.device("cpu"),
            [Mailboxes(rank, len(jobs), boxes, timeout_s=timeout_s) for boxes in groups],
        )
        for rank, job in enumerate(jobs)
    ]


def train_in_threads(jobs: list[Job]) -> Trained:
    """As `workloads.training.launch.train_cluster`, in a tenth of its time: no process starts, no gloo."""
    workers = len(jobs)
    groups = [mailboxes(workers) for _ in range(3)]
    made = [
        Training(job, torch.device("cpu"), [Mailboxes(rank, workers, boxes) for boxes in groups])
        for rank, job in enumerate(jobs)
    ]

    def work(rank: int) -> Trained | None:
        made[rank].run(lambda row: None, lambda: False)
        result = made[rank].gathered()
        made[rank].exchange.close()
        made[rank].evaluation.close()
        return result

    trained: Trained = in_threads(workers, work)[0]
    return trained


def train_dynamic(jobs: list[DynamicJob], *, timeout_s: float = 60) -> list[DynamicTraining]:
    """Every worker of a dynamic training after the whole run, worker 0 first."""
    made = dynamic_workers(jobs, timeout_s=timeout_s)

    def work(rank: int) -> None:
        made[rank].mix_once()
        for epoch in range(jobs[rank].options.epochs):
            made[rank].epoch(epoch, False)

    in_threads(len(jobs), work)
    return made
