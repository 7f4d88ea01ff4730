"""A sweep from units to finished folders: each group prepared once, each unit simulated once, none missed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from analysis.records import Runs, load_runs
from analysis.sweep.address import group_name, plan_name
from analysis.sweep.child import PrepareRequest, RunRequest
from analysis.sweep.cluster import Cluster, local_cluster, remote_cluster
from analysis.sweep.folder import SweepFolder
from analysis.sweep.memory import preparing_bytes, simulating_bytes
from analysis.sweep.spec import Sweep, Unit
from analysis.sweep.task import allow, carry_out, stop_all
from sim.scenario_io import dump_scenario
from workloads.errors import InputError

OUT_OF_MEMORY = 9  # the signal of the kernel's out-of-memory killer, and of whoever kills by hand


class Watcher(Protocol):
    """Is told how a sweep goes; `progress` shows it on a terminal."""

    def begin(self, total: int, reused: int, failed: int) -> None: ...
    def damaged(self, name: str, reason: str) -> None: ...
    def prepared(self, group: int, groups: int) -> None: ...
    def ended(self, name: str, outcome: str, reason: str) -> None: ...


@dataclass
class Outcome:
    """What a sweep left. outcomes: unit -> "ran", "reused" or "failed"; failures: unit -> why; damaged: unit
    -> what was wrong with the results that were there and are made again.
    """

    folder: Path
    sweep: Sweep
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def counts(self) -> dict[str, int]:
        """How many units there are, and how many ended how."""
        found = Counter(self.outcomes.values())
        return {"units": len(self.sweep.units), **{how: found[how] for how in ("ran", "reused", "failed")}}

    def runs(self) -> Runs:
        """The finished units of this sweep in its order, without those of others in the folder."""
        everything = load_runs(self.folder / "runs")
        place = {name: number for number, name in enumerate(self.sweep.units)}
        mine = [run for run in everything.runs if run.folder.name in place]
        mine.sort(key=lambda run: place[run.folder.name])
        return Runs(everything.roots, tuple(mine), everything.skipped)

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{count} {how}" for how, count in self.counts().items())
        return f"<p>{self.folder}: {counts}</p>" + self.runs()._repr_html_()


def run_sweep(
    sweep: Sweep,
    place: str | Path,
    watcher: Watcher | None = None,
    *,
    scheduler: str | None = None,
    jobs: int | None = None,
    memory_bytes: int | None = None,
    retry: bool = False,
    cache: Path | None = None,
) -> Outcome:
    """Bring every unit of a sweep to an end in the folder `place`; those that have ended are not run again.

    scheduler: a Dask scheduler's address; default: this machine, `jobs` at a time, within memory_bytes.
    retry: also those that failed. Ctrl-C ends what runs and keeps what has ended (Outcome.interrupted).
    Raises InputError when the folder or the scheduler cannot be used.
    """
    folder = SweepFolder(Path(place).resolve())
    folder.create()
    folder.record(sweep)
    outcome = Outcome(folder.root, sweep)
    cluster: AbstractContextManager[Cluster]
    cluster = remote_cluster(scheduler) if scheduler else local_cluster(jobs, memory_bytes)
    with folder.in_use():
        drive = _Drive(folder, sweep, outcome, watcher or _Silent(), cache)
        left = drive.left_to_do(retry)
        if left:
            allow()
            with cluster as started:
                try:
                    drive.through(started, left)
                except BaseException as error:
                    stop_all()
                    if not isinstance(error, KeyboardInterrupt):
                        raise
                    outcome.interrupted = True
                    for unit in left:  # its process had ended, but nobody had heard yet
                        ended = folder.is_done(unit.name) and not folder.damage(unit.name)
                        if unit.name not in outcome.outcomes and ended:
                            outcome.outcomes[unit.name] = "ran"
    return outcome


class _Silent:
    def begin(self, total: int, reused: int, failed: int) -> None: ...
    def damaged(self, name: str, reason: str) -> None: ...
    def prepared(self, group: int, groups: int) -> None: ...
    def ended(self, name: str, outcome: str, reason: str) -> None: ...


@dataclass
class _Ask:
    """A task in flight. memory_bytes: what it declared; alone: it has the whole of a worker's memory."""

    request: PrepareRequest | RunRequest
    memory_bytes: int
    alone: bool = False


class _Drive:
    def __init__(
        self, folder: SweepFolder, sweep: Sweep, outcome: Outcome, watcher: Watcher, cache: Path | None
    ) -> None:
        self.folder, self.sweep, self.outcome, self.watcher, self.cache = (
            folder,
            sweep,
            outcome,
            watcher,
            cache,
        )
        self.session = uuid.uuid4().hex[:12]
        self.files: dict[tuple[str, str], str] = {}
        self.plans = {name: plan_name(unit.variant, self.files) for name, unit in sweep.units.items()}
        self.waiting: dict[str, list[str]] = {}  # group -> its units that are left to do
        self.busy: list[_Ask] = []
        self.flight: dict[Any, _Ask] = {}
        self.groups = 0

    def left_to_do(self, retry: bool) -> list[Unit]:
        """Sort units into finished, failed before, and left, among which are those with damaged results."""
        left = []
        with ThreadPoolExecutor(4) as pool:
            damages = dict(zip(self.sweep.units, pool.map(self.folder.damage, self.sweep.units), strict=True))
        for name, unit in self.sweep.units.items():
            reason, damaged = None if retry else self.folder.failure(name), damages[name]
            if self.folder.is_done(name) and not damaged:
                self.outcome.outcomes[name] = "reused"
            elif reason is not None:
                self.outcome.outcomes[name], self.outcome.failures[name] = "failed", reason
            else:
                left.append(unit)
                if damaged:
                    self.outcome.damaged[name] = damaged
                    self.watcher.damaged(name, damaged)
        counts = self.outcome.counts()
        self.watcher.begin(counts["units"], counts["reused"], counts["failed"])
        return left

    def through(self, cluster: Cluster, left: list[Unit]) -> None:
        """Everything that is left, to its end."""
        from distributed import as_completed  # noqa: PLC0415  # takes a second

        finished = as_completed([])
        submit = self._submitter(cluster, finished.add)
        for unit in left:
            self.waiting.setdefault(group_name(unit.variant, self.files), []).append(unit.name)
        self.groups = len(self.waiting)
        for group, names in self.waiting.items():
            units = [self.sweep.units[name] for name in names]
            variants = {self.plans[unit.name]: unit.variant for unit in units}
            request = PrepareRequest(self.folder.root, group, variants, self.cache)
            submit(_Ask(request, self.sweep.memory_bytes or preparing_bytes(units[0].scenario)))
        for future in finished:
            ask = self.flight.pop(future.key)
            answer = {"outcome": "failed", "reason": self._lost(future), "trace": ""}
            if future.status == "finished":
                answer = future.result()
            for more in self._took(ask, answer, cluster):
                submit(more)
            if not self.flight:  # only what another sweep is at is left: wait for it
                for more in self.busy:
                    submit(more)
                self.busy = []

    def _submitter(self, cluster: Cluster, follow: Callable[[Any], None]) -> Callable[[_Ask], None]:
        def submit(ask: _Ask) -> None:
            number = uuid.uuid4().hex[:8]
            future = cluster.client.submit(
                carry_out,
                ask.request,
                key=f"netfold-{type(ask.request).__name__.lower()}-{self.session}-{number}",
                resources=cluster.needs(ask.memory_bytes),
                pure=False,
            )
            self.flight[future.key] = ask
            follow(future)

        return submit

    def _took(self, ask: _Ask, answer: dict[str, Any], cluster: Cluster) -> Iterator[_Ask]:
        """Act on an answer; what is to be asked next."""
        outcome = answer.get("outcome")
        if outcome == "unreachable":
            raise InputError(f"--output: {self.folder.root} is not there on a worker; use a shared folder")
        if outcome == "stopped":
            return
        if outcome == "killed" and answer["signal"] == OUT_OF_MEMORY and not ask.alone:
            yield _Ask(ask.request, cluster.memory_bytes or ask.memory_bytes, alone=True)
        elif outcome == "killed":
            hint = "; is there too little memory?" if answer["signal"] == OUT_OF_MEMORY else ""
            told = {
                "outcome": "failed",
                "reason": f"its process was killed by signal {answer['signal']}{hint}",
            }
            yield from self._took(ask, told, cluster)
        elif isinstance(ask.request, PrepareRequest):
            yield from self._prepared(ask.request, answer)
        elif outcome == "busy":
            request = ask.request
            self.busy.append(_Ask(self._run(request.name, wait=True), ask.memory_bytes, ask.alone))
        elif outcome == "unprepared":  # a finished sweep on the same folder cleaned up
            variants = {ask.request.plan: ask.request.variant}
            group = group_name(ask.request.variant, self.files)
            self.waiting[group] = [ask.request.name]
            again = PrepareRequest(self.folder.root, group, variants, self.cache)
            yield _Ask(again, preparing_bytes(ask.request.variant.scenario))
        else:
            self._ended(ask.request.name, answer)

    def _prepared(self, request: PrepareRequest, answer: dict[str, Any]) -> Iterator[_Ask]:
        names = self.waiting.pop(request.group)
        self.watcher.prepared(self.groups - len(self.waiting), self.groups)
        for name in names:
            told = answer["plans"][self.plans[name]] if "plans" in answer else answer["reason"]
            if isinstance(told, str):
                self._ended(name, {"outcome": "failed", "reason": told, "trace": answer.get("trace", "")})
            else:
                needs = simulating_bytes(self.sweep.units[name].variant.system, told)
                yield _Ask(self._run(name, wait=False), self.sweep.memory_bytes or needs)

    def _run(self, name: str, *, wait: bool) -> RunRequest:
        unit = self.sweep.units[name]
        return RunRequest(self.folder.root, name, self.plans[name], unit.variant, wait)

    def _ended(self, name: str, answer: dict[str, Any]) -> None:
        outcome, reason = answer["outcome"], answer.get("reason", "")
        self.outcome.outcomes[name] = outcome
        if outcome == "failed":
            self.outcome.failures[name] = reason
            if self.folder.failure(name) is None:  # its process could not say so itself
                scenario = dump_scenario(self.sweep.units[name].scenario, {})
                self.folder.fail(name, reason, answer.get("trace", ""), scenario)
        self.watcher.ended(name, outcome, reason)

    def _lost(self, future: Any) -> str:
        """Why Dask gave a task up."""
        error = future.exception() if future.status == "error" else future.status
        return f"Dask: {' '.join(str(error).split())[:200]}"
