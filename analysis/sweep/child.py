"""The process that prepares a group of units, or simulates one: `python -m analysis.sweep`.

A process of its own, because ns-3's simulator is process-wide and because memory is then given back. The
request comes over stdin, a pickle behind its length; answers go out over stdout, one JSON object a line.
stdin stays open: when it ends, whoever asked is gone, and so goes this process. It takes the unit's lock
itself, so the lock is free exactly when nobody works on the unit.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from analysis.sweep.folder import SweepFolder
from sim.job import ENGINE, Job, Variant, run_job
from sim.results import ResultsFolder
from sim.scenario_io import dump_scenario
from workloads.errors import InputError
from workloads.files import write_whole

LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Prepared:
    """A job that any unit with the same plan address can run; job None: it cannot be prepared, and why."""

    job: Job | None
    reason: str
    facts: dict[str, Any]

    def paths(self) -> list[Path]:
        """Everything on disk that the job reads."""
        return [] if self.job is None else [*self.job.plans.values(), *self.job.values.values()]


@dataclass(frozen=True)
class PrepareRequest:
    """Prepare one variant per plan address; those that are there already are left as they are."""

    root: Path
    group: str
    variants: dict[str, Variant]
    cache: Path | None = None


@dataclass(frozen=True)
class RunRequest:
    """Simulate one unit from its prepared job. wait: for another process that is at it, or answer "busy"."""

    root: Path
    name: str
    plan: str
    variant: Variant
    wait: bool = False
    engine: str = ENGINE


def answer_prepare(request: PrepareRequest) -> dict[str, Any]:
    """Prepare; {"plans": {address: memory in bytes, or the reason as text}}."""
    folder = SweepFolder(request.root)
    with folder.reading(), folder.lock(f"group-{request.group}", wait=True):
        missing = {plan: one for plan, one in request.variants.items() if folder.load_job(plan) is None}
        if missing:
            _prepare(folder, missing, request.cache)
    told: dict[str, int | str] = {}
    for plan in request.variants:
        prepared = folder.load_job(plan)
        if prepared is None:
            raise InputError("what was prepared is gone; is another program removing files?")
        told[plan] = prepared.reason if prepared.job is None else prepared.job.memory_bytes
    return {"plans": told}


def _prepare(folder: SweepFolder, missing: dict[str, Variant], cache: Path | None) -> None:
    from sim.prepare import prepare  # noqa: PLC0415  # pandas and METIS, which a simulation does without

    work = Path(tempfile.mkdtemp(prefix="work-", dir=folder.prepared))
    labelled = [replace(variant, label=plan) for plan, variant in missing.items()]
    kept = False
    try:
        made = prepare(labelled[0].scenario, labelled, work, stage=_tell_stage, cache=cache)
    except InputError as error:
        results = {plan: Prepared(None, str(error), {}) for plan in missing}
    else:
        kept = True
        jobs = {job.variant.label: job for job in made.jobs}
        results = {
            plan: Prepared(
                jobs.get(plan), made.failures.get(plan, ""), _own_facts(made.facts, jobs.get(plan))
            )
            for plan in missing
        }
    finally:
        if not kept:
            shutil.rmtree(work, ignore_errors=True)
    for plan, prepared in results.items():
        content = pickle.dumps(prepared)
        write_whole(folder.job_file(plan), partial(Path.write_bytes, data=content))


def _own_facts(facts: dict[str, Any], job: Job | None) -> dict[str, Any]:
    own = {path.name for path in job.plans.values()} if job else set()
    return facts | {"plans": {name: plan for name, plan in facts["plans"].items() if name in own}}


def answer_run(request: RunRequest) -> dict[str, Any]:
    """Simulate; {"outcome": "ran" | "reused" | "busy" | "unprepared"}, or "failed" with reason and trace."""
    folder = SweepFolder(request.root)
    with folder.reading(), folder.lock(request.name, wait=request.wait) as held:
        if not held:
            return {"outcome": "busy"}
        damaged = folder.damage(request.name)
        if folder.is_done(request.name) and not damaged:
            return {"outcome": "reused"}
        folder.clear_leftovers(request.name)
        prepared: Prepared | None = folder.load_job(request.plan)
        if prepared is None:
            return {"outcome": "unprepared"}
        if damaged:
            folder.set_aside(request.name)
        told = _simulate(folder, request, prepared)
        if told["outcome"] == "failed":
            scenario = dump_scenario(request.variant.scenario, {"version": version("netfold")})
            folder.fail(request.name, told["reason"], told["trace"], scenario)
        else:
            folder.forget_failure(request.name)
        return told


def _simulate(folder: SweepFolder, request: RunRequest, prepared: Prepared) -> dict[str, Any]:
    if prepared.job is None:
        return {"outcome": "failed", "reason": prepared.reason, "trace": ""}
    # the group's job knows how many bins the system's pipeline has on this graph; the rest is the unit's
    bins = prepared.job.variant.system.pipeline_bins
    variant = replace(request.variant, system=replace(request.variant.system, pipeline_bins=bins))
    job = replace(prepared.job, variant=variant)
    place = ResultsFolder(folder.runs / request.name)
    heard = _Heard()
    try:
        run_job(job, place.building, request.engine, cast(Connection, heard))
        kind, content, trace = (*heard.last, "")[:3]
        if kind != "done":
            return {"outcome": "failed", "reason": content, "trace": trace}
        told = version("netfold")
        summary = {"netfold": told, **prepared.facts, "order": [variant.label], "failures": {}}
        summary |= {"runs": {variant.label: content}, "interrupted": False}
        place.commit(dump_scenario(request.variant.scenario, {"version": told}), summary)
        return {"outcome": "ran", "peak_memory_bytes": content["peak_memory_bytes"]}
    finally:
        place.discard()


class _Heard:
    """Stands in for the pipe of `run_job`: passes progress on, keeps the last word."""

    last: tuple[Any, ...] = ("failed", "it ended without a word", "")

    def send(self, message: tuple[Any, ...]) -> None:
        if message[0] == "progress":
            _tell({"share": message[3]})
        else:
            self.last = message


def _tell_stage(text: str) -> None:
    _tell({"stage": text})


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), file=sys.stdout, flush=True)


def _read_request(stream: BinaryIO) -> PrepareRequest | RunRequest:
    [length] = LENGTH.unpack(stream.read(LENGTH.size))
    request: PrepareRequest | RunRequest = pickle.loads(stream.read(length))
    return request


def _end_with_parent(stream: BinaryIO) -> None:
    stream.read(1)
    os._exit(1)


def main() -> NoReturn:
    """Answer one request; the last line on stdout is the answer."""
    request = _read_request(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, args=[sys.stdin.buffer], daemon=True).start()
    try:
        told = answer_prepare(request) if isinstance(request, PrepareRequest) else answer_run(request)
    except Exception as error:
        line = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        told = {"outcome": "failed", "reason": " ".join(line.split())[:300], "trace": traceback.format_exc()}
    _tell({"answer": told})
    sys.stdout.flush()
    os._exit(0)  # the thread that waits for the parent must not be waited for
