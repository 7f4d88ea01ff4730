"""The local cluster: one process per worker on this machine; no worker outlives it.

Processes come from a fork server that has torch loaded, so a start costs little. They are sent their jobs one
after the other, and begin when all are there: one that hangs before is named. A worker ends itself when its
launcher dies; when one worker fails, the launcher ends the others and raises one line that names it. The
first Ctrl-C lets all workers finish the epoch they are in; the second ends them at once.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from workloads.errors import InputError
from workloads.training.device import choose_device
from workloads.training.failure import LESS_MEMORY, describe
from workloads.training.job import Job, Trained
from workloads.training.wire import LostWorkerError
from workloads.training.worker import train_worker

_GRACE_S = 1.0
_STATUS_S = 10.0  # a loaded fork server may be late with how a worker ended
_SERVER_LOST = 255  # what multiprocessing says of processes whose fork server is gone
Result = TypeVar("Result")


class WorkerError(InputError):
    """A worker failed; the line says which, and why. report: its traceback; empty where it left none, or
    where the line tells everything.
    """

    def __init__(self, message: str, report: str = "") -> None:
        super().__init__(message)
        self.report = report


class LostServerError(WorkerError):
    """The fork server died, of which no worker is the cause: the same work may be started again."""


@dataclass
class _Failure:
    """Why a worker failed; at: time.monotonic() of it, which processes of one machine share. follows: it only
    missed another worker.
    """

    rank: int
    reason: str
    at: float
    report: str = ""
    follows: bool = False


def train_cluster(jobs: list[Job], on_epoch: Callable[[dict[str, Any]], None]) -> Trained:
    """Run one process per job until all have trained; on_epoch gets each epoch's row.

    Raises WorkerError when a worker fails or dies; all others are ended first.
    """
    return run_cluster(jobs, on_epoch, train_worker)


def run_cluster(
    jobs: Sequence[Any], on_epoch: Callable[[dict[str, Any]], None], work: Callable[..., Result | None]
) -> Result:
    """As `train_cluster`, for any work. work: called in each process as `train_worker` is; a job has
    `options.device`, `local.rank` and `local.workers`.
    """
    choose_device(jobs[0].options.device, 0, len(jobs))  # complain here rather than in every worker
    context = multiprocessing.get_context("forkserver")
    # torch's optimisers import torch._dynamo when first made, which takes as long as torch itself.
    context.set_forkserver_preload([work.__module__, "torch._dynamo"])
    with tempfile.TemporaryDirectory(prefix="netfold-train-") as folder:
        rendezvous = str(Path(folder) / "rendezvous")
        processes, connections = [], []
        try:
            for job in jobs:
                ours, theirs = context.Pipe()
                arguments = (rendezvous, theirs, work)
                name = f"worker {job.local.rank}"
                process = context.Process(target=_run, args=arguments, name=name, daemon=True)
                try:
                    process.start()
                except (OSError, EOFError):  # it died while it was being told its job
                    whom = f"worker {job.local.rank} of {len(jobs)}"
                    raise WorkerError(f"{whom} ended while it started; all workers were ended") from None
                theirs.close()
                processes.append(process)
                connections.append(ours)
            with _interrupts() as interrupts:
                # A process that hangs may leave its job in the pipe, so this must not be who follows them.
                threading.Thread(target=_hand_out, args=(jobs, connections), daemon=True).start()
                cluster = _Cluster(processes, connections, jobs[0].options.timeout_s)
                result: Result = cluster.follow(on_epoch, interrupts)
                return result
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
            for connection in connections:
                connection.close()


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, which would otherwise cut a message of a worker in two."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: came.append(number)) for number in numbers]
    try:
        yield came
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _hand_out(jobs: Sequence[Any], connections: Sequence[Connection]) -> None:
    for job, connection in zip(jobs, connections, strict=True):
        # It has died, or this process has closed the connection meanwhile, where send() finds no handle
        # (TypeError): told elsewhere.
        with suppress(OSError, TypeError):
            connection.send(job)


class _Cluster:
    """Processes under way. patience_s: how long to wait for the next one to be there."""

    def __init__(self, processes: list[Any], connections: list[Connection], patience_s: float) -> None:
        self._processes, self._connections, self._patience_s = processes, connections, patience_s
        self._absent = set(range(len(processes)))
        self._waited_s = 0.0
        self._told = False
        self._failures: list[_Failure] = []
        self._result: Any = None

    def follow(self, on_epoch: Callable[[dict[str, Any]], None], interrupts: list[int]) -> Any:
        """Read what the workers say until every one of them has ended; what worker 0 left."""
        open_ends = dict(zip(self._connections, range(len(self._connections)), strict=True))
        deadline, now = float("inf"), time.monotonic()
        while open_ends:
            ready = wait(list(open_ends), timeout=0.2)
            if len(interrupts) > 1:
                raise KeyboardInterrupt
            if interrupts and not self._told:
                self._told = True
                if not self._absent:
                    self._tell("stop")
            for end in ready:
                assert isinstance(end, Connection)
                rank = open_ends[end]
                try:
                    kind, content = end.recv()
                except (EOFError, OSError):
                    del open_ends[end]
                    self._ended(rank)
                    continue
                if kind == "epoch":
                    on_epoch(content)
                else:
                    self._take(rank, kind, content)
            before, now = now, time.monotonic()
            # At most a second a turn: a machine that slept has not waited.
            self._waited_s = 0.0 if ready else self._waited_s + min(now - before, 1.0)
            if self._absent and self._waited_s > self._patience_s:
                reason = f"did not start within {self._patience_s:g} s; a slow start needs a longer --timeout"
                self._failures.insert(0, _Failure(min(self._absent), reason, 0.0))
                break
            if self._failures:
                deadline = min(deadline, now + _GRACE_S)
                if now > deadline:
                    break
        if self._failures:
            first = min(self._failures, key=lambda failure: (failure.follows, failure.at))
            if interrupts and first.reason == _WITHOUT_SERVER:
                raise KeyboardInterrupt  # SIGTERM to all, as `timeout` sends it, ends the server too
            line = f"worker {first.rank} of {len(self._processes)} {first.reason}; all workers were ended"
            raise (LostServerError if first.reason == _WITHOUT_SERVER else WorkerError)(line, first.report)
        assert self._result is not None
        return self._result

    def _take(self, rank: int, kind: str, content: Any) -> None:
        """What a worker says, other than an epoch's row."""
        if kind == "here":
            self._absent.discard(rank)
            if not self._absent:
                if self._told:
                    self._tell("stop")
                self._tell("go")
        elif kind == "result":
            self._result = content
        else:
            self._failures.append(_Failure(rank, *content))

    def _ended(self, rank: int) -> None:
        process = self._processes[rank]
        process.join(timeout=_STATUS_S)
        if process.exitcode != 0 and all(failure.rank != rank for failure in self._failures):
            # It died without a word, so it is the cause of what its peers complain about.
            self._failures.insert(0, _Failure(rank, _ending(process.exitcode), 0.0))

    def _tell(self, what: str) -> None:
        for connection in self._connections:
            with suppress(OSError):
                connection.send(what)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        hint = f", most likely for want of memory: {LESS_MEMORY}" if code == -signal.SIGKILL else ""
        return f"was killed by {signal.Signals(-code).name}{hint}"
    return _WITHOUT_SERVER if code == _SERVER_LOST else f"ended with status {code}"


_WITHOUT_SERVER = "was lost with the process that starts workers, which something has ended"


def _run(rendezvous: str, connection: Connection, work: Callable[..., Any]) -> None:
    """The process of one worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable()
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        job = connection.recv()
        local = job.local
        device = choose_device(job.options.device, local.rank, local.workers)
        connection.send(("here", None))
        stopped = connection.recv() == "stop" and connection.recv() == "go"
        store = dist.FileStore(rendezvous, local.workers)
        result = work(
            job,
            store,
            lambda row: connection.send(("epoch", row)),
            device=device,
            stop=lambda: stopped or connection.poll(),
        )
        if result is not None:
            connection.send(("result", result))
    except BaseException as error:
        at = time.monotonic()
        report = "" if isinstance(error, InputError) else traceback.format_exc()
        follows = isinstance(error, LostWorkerError)
        connection.send(("failed", (f"failed: {describe(error)}", at, report, follows)))
    connection.close()
    # Threads of gloo may still wait for a peer that is gone: leave without asking them.
    os._exit(0)


def _end_with_launcher() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
