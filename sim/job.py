"""One simulation in its own process: ns-3's Simulator is process-wide, so each gets a fresh one."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim.results import write_run
from sim.scenario import Scenario
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems.system import System

ENGINE = "sim.engine:simulate"
REPORT_EVERY_S = 0.2


@dataclass(frozen=True)
class Variant:
    """One simulation to run: a system under a scenario whose recirculation and memory are settled."""

    label: str
    system: System
    scenario: Scenario


@dataclass(frozen=True)
class Job:
    """A variant with everything its process needs; plans and values lie on disk."""

    variant: Variant
    plans: dict[int, Path]  # width -> folder
    phases: list[Phase]
    values: dict[int, Path]  # width -> .npz of features and expected sums; empty outside value mode
    memory_bytes: int  # estimate of the process's peak


class Run(Protocol):
    """What an engine returns; see sim/engine.py."""

    summary: dict[str, Any]
    tables: dict[str, dict[str, np.ndarray]]
    results: Any


def run_job(job: Job, folder: Path, engine: str, pipe: Connection) -> None:
    """Simulate, write <folder>/<label>, and tell the parent through the pipe.

    Sends ("progress", ns, packets, share), then ("done", summary) or ("failed", one line, traceback). The
    target of a spawned process; Ctrl-C is the parent's to handle.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.send(("done", _simulate(job, folder, engine, pipe)))
    except InputError as error:
        pipe.send(("failed", str(error), ""))
    except BrokenPipeError:
        pass  # the parent is gone; nobody is left to tell
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        pipe.send(("failed", f"its results cannot be written ({reason})", traceback.format_exc()))
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        pipe.send(("failed", line[:300], traceback.format_exc()))


def _simulate(job: Job, folder: Path, engine: str, pipe: Connection) -> dict[str, Any]:
    module, _, function = engine.partition(":")
    simulate: Callable[..., Run] = getattr(import_module(module), function)
    plans = {width: Plan.load(path) for width, path in job.plans.items()}
    features = {width: np.load(path)["features"][plans[width].boundary] for width, path in job.values.items()}
    started = time.perf_counter()
    run = simulate(
        job.variant.scenario,
        job.variant.system,
        plans,
        job.phases,
        progress=_Reporter(pipe),
        features=features or None,
    )
    summary = dict(run.summary)
    switch = job.variant.scenario.switch
    summary |= {
        "system": job.variant.system.name,
        "title": job.variant.system.title,
        "recirculation": switch.recirculation if job.variant.system.in_network else "",
        "memory_bytes": 0 if job.variant.system.unlimited_memory else switch.memory_bytes,
        "pipeline_bins": job.variant.system.pipeline_bins,
    }
    if job.values:
        summary["values_equal_oracle"] = _check_values(job, run)
    summary["wall_s"] = round(time.perf_counter() - started, 3)
    summary["peak_memory_bytes"] = _peak_memory_bytes()
    part = folder / f".{job.variant.label}.part"
    write_run(part, summary, run.tables)
    os.replace(part, folder / job.variant.label)
    return summary


def _peak_memory_bytes() -> int:
    """This process's peak resident memory; not ru_maxrss, which on Linux starts at the parent's."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _check_values(job: Job, run: Run) -> bool:
    """Whether every propagation's results equal the oracle's sums, bit for bit."""
    expected = {key: np.load(path)["expected"] for key, path in job.values.items()}
    keys = [phase.plan_key for phase in job.phases if phase.width]
    return len(run.results) == len(keys) and all(
        np.array_equal(result, expected[key]) for result, key in zip(run.results, keys, strict=True)
    )


class _Reporter:
    """Sends an engine's progress to the parent, a few times a second."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.last = pipe, 0.0

    def __call__(self, simulated_ns: int, hops: int, share: float) -> None:
        now = time.monotonic()
        if now - self.last >= REPORT_EVERY_S:
            self.last = now
            self.pipe.send(("progress", int(simulated_ns), int(hops), float(share)))
