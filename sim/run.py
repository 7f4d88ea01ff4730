"""`netfold run` and `compare` without their looks: prepare, simulate in processes, keep the results.

At most two simulations at a time, fewer when memory is short. Ctrl-C ends them and keeps what has finished.
"""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from sim.job import ENGINE, run_job
from sim.prepare import Job, expand, prepare
from sim.results import ResultsFolder
from sim.scenario import Scenario
from sim.scenario_io import dump_scenario
from workloads.errors import InputError

SLOTS = 2
MEMORY_SHARE = 0.8  # of what is available may be promised to simulations


class Watcher(Protocol):
    """Is told what happens; `sim.progress` shows it on a terminal."""

    def stage(self, text: str) -> None: ...
    def started(self, label: str) -> None: ...
    def advanced(self, label: str, simulated_ns: int, hops: int, share: float) -> None: ...
    def finished(self, label: str, summary: dict[str, Any]) -> None: ...
    def failed(self, label: str, reason: str) -> None: ...


@dataclass
class Outcome:
    """What a run left: summaries and failures by label, and whether Ctrl-C cut it short."""

    place: Path
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


def run_scenario(
    scenario: Scenario,
    place: Path,
    watcher: Watcher,
    *,
    default_systems: str,
    cache: Path | None = None,
    engine: str = ENGINE,
) -> Outcome:
    """Simulate all of a scenario's variants and write the results folder `place`.

    Raises InputError when nothing can be run, and KeyboardInterrupt when nothing had finished; neither leaves
    anything behind. engine: "module:function" with the signature of `sim.engine.simulate`.
    """
    if not scenario.run.systems:  # the folder's scenario.toml must repeat this run under any command
        scenario = replace(scenario, run=replace(scenario.run, systems=default_systems))
    variants = expand(scenario)
    folder = ResultsFolder(place)
    work = folder.building / ".work"
    try:
        work.mkdir()
        prepared = prepare(scenario, variants, work, stage=watcher.stage, cache=cache)
        outcome = Outcome(place, failures=dict(prepared.failures))
        for label, reason in prepared.failures.items():
            watcher.failed(label, reason)
        _simulate_all(deque(prepared.jobs), folder.building, watcher, engine, outcome)
        if not outcome.runs and outcome.interrupted:
            raise KeyboardInterrupt
        if not outcome.runs:
            label, reason = next(iter(outcome.failures.items()))
            raise InputError(f"{label}: {reason}")
        for leftover in folder.building.glob(".*"):
            shutil.rmtree(leftover)
        order = [variant.label for variant in variants if variant.label in outcome.runs]
        outcome.runs = {label: outcome.runs[label] for label in order}
        told = {"version": version("netfold")}
        summary = {
            "netfold": told["version"],
            **prepared.facts,
            "order": order,
            "runs": outcome.runs,
            "failures": outcome.failures,
            "interrupted": outcome.interrupted,
        }
        folder.commit(dump_scenario(scenario, told), summary)
        return outcome
    except BaseException:
        folder.discard()
        raise


def _simulate_all(waiting: deque[Job], folder: Path, watcher: Watcher, engine: str, outcome: Outcome) -> None:
    running: dict[Connection, _Child] = {}
    try:
        with _no_orphans(running):
            while waiting or running:
                while waiting and len(running) < SLOTS and _fits(waiting[0], list(running.values())):
                    with _interrupt_later():  # a child that was started is known, or it would be an orphan
                        child = _Child(waiting.popleft(), folder, engine)
                        running[child.pipe] = child
                    watcher.started(child.label)
                for pipe in wait(list(running), timeout=1.0):
                    assert isinstance(pipe, Connection)
                    if _hear(running[pipe], watcher, outcome):
                        running.pop(pipe).join()
    except KeyboardInterrupt:
        outcome.interrupted = True


@contextmanager
def _no_orphans(running: dict[Connection, _Child]) -> Iterator[None]:
    try:
        yield
    finally:
        for child in running.values():
            child.process.terminate()
        for child in running.values():
            child.join()


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Block SIGINT meanwhile. A child started here inherits the mask: a Ctrl-C while it still imports is not
    its to answer with a traceback."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


class _Child:
    def __init__(self, job: Job, folder: Path, engine: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.job, self.label = job, job.variant.label
        self.pipe, theirs = context.Pipe(duplex=False)
        arguments = (job, folder, engine, theirs)
        self.process: BaseProcess = context.Process(target=run_job, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def join(self) -> None:
        self.process.join()
        self.pipe.close()


def _hear(child: _Child, watcher: Watcher, outcome: Outcome) -> bool:
    """Take one message of a child; True when it was the last."""
    try:
        message = child.pipe.recv()
    except EOFError:  # it ended without a word
        child.process.join()
        code = child.process.exitcode or 0
        why = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        hint = "; is there too little memory?" if code == -9 else ""
        message = ("failed", f"the simulation's process {why}{hint}", "")
    match message:
        case ("progress", simulated_ns, hops, share):
            watcher.advanced(child.label, simulated_ns, hops, share)
            return False
        case ("done", summary):
            outcome.runs[child.label] = summary
            watcher.finished(child.label, summary)
        case ("failed", reason, _):
            outcome.failures[child.label] = reason
            watcher.failed(child.label, reason)
    return True


def _fits(job: Job, running: list[_Child]) -> bool:
    """Whether a job's estimate fits beside those running; an empty machine takes any job."""
    if not running:
        return True
    promised = sum(child.job.memory_bytes for child in running)
    return promised + job.memory_bytes <= MEMORY_SHARE * (_available_bytes() + promised)


def _available_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 2**62  # not Linux: nothing is known, so nothing is refused
