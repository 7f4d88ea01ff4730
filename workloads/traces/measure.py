"""Measuring: every worker's steps, one worker after another on one device, in rounds; median and spread.

All of a worker's timings at once would share whatever the machine was doing at that moment. So the workers
take turns, round after round, and a step's median is over all rounds: a disturbance shorter than half of the
measurement moves no median, and a longer one shows in how far the rounds lie apart.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workloads import _kernels
from workloads.compute import layer_widths
from workloads.graphs.graph import Graph
from workloads.partition import Partition
from workloads.systems import STATIC_SYSTEMS
from workloads.traces.kernels import Step, TraceModel, WorkerSteps
from workloads.training.local_graph import local_graph

WARMUPS = 2  # per step and round
QUANTISER_PHASES = ("quantise", "dequantise")
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Measured:
    """rounds_apart: the slowest round's total less the fastest's, over their median. waited_share: how long
    the timed work had to wait for a processor.
    """

    table: pd.DataFrame
    rounds_apart: float
    waited_share: float


def measure(
    graph: Graph,
    partitions: dict[str, Partition],
    model: TraceModel,
    *,
    repeats: int,
    rounds: int,
    progress: Callable[[int, int], None],
    device: torch.device | None = None,
) -> Measured:
    """All steps of all workers, timed `repeats` times in each of `rounds` rounds.

    The table is the one that `workloads.compute_table` reads, with columns low_ns and high_ns (quartiles)
    besides, and the phases "quantise" and "dequantise" of host-based sending. Layer 0 is what follows the
    last layer: its "post" is the optimiser's step.

    partitions: by balance, "" for the systems without a balance of their own. Every registered system gets
    the times of its partition and of its way of adding up cross edges; "*" gets those of host-based sending.
    """
    recipes = [("*", "receiver", ""), *((s.name, s.cross_sum, s.balance) for s in STATIC_SYSTEMS.values())]
    kinds = sorted({(balance, cross_sum) for _, cross_sum, balance in recipes})
    where = device or torch.device("cpu")
    visits = [(kind, worker) for kind in kinds for worker in range(partitions[kind[0]].k)]
    widths = layer_widths(model, graph)
    times: dict[tuple[Any, ...], list[int]] = {}
    totals = [0] * rounds
    stopwatch = Stopwatch(where)
    for turn in range(rounds):
        for at, ((balance, cross_sum), worker) in enumerate(visits):
            steps = WorkerSteps(local_graph(graph, partitions[balance], worker), cross_sum, where)
            timings = [*steps.steps(model, widths), steps.optimiser(model, widths)]
            if (balance, cross_sum) == ("", "receiver"):
                timings += steps.quantising(model, widths)
            for timed in timings:
                got = stopwatch.time(timed.step, repeats)
                key = (balance, cross_sum, timed.layer, timed.direction, timed.phase, worker)
                times.setdefault(key, []).extend(got)
                totals[turn] += sum(got)
            progress(turn * len(visits) + at + 1, rounds * len(visits))
    rows: list[dict[str, Any]] = []
    for (balance, cross_sum, layer, direction, phase, worker), got in times.items():
        low, median, high = np.rint(np.quantile(got, QUARTILES)).astype(int).tolist()
        row = {"layer": layer, "direction": direction, "phase": phase, "worker": worker}
        row |= {"ns": median, "low_ns": low, "high_ns": high}
        systems = [name for name, how, balanced in recipes if (balanced, how) == (balance, cross_sum)]
        whom = ["*"] if phase in QUANTISER_PHASES else systems
        rows += [{"system": name, **row} for name in whom]
    apart = (max(totals) - min(totals)) / max(1.0, float(np.median(totals)))
    return Measured(pd.DataFrame(rows), apart, stopwatch.waited_share)


class Stopwatch:
    """Times steps on one device. On a CPU it is wall time, on CUDA the time between two events on its
    stream.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._wall_ns, self._cpu_ns = 0, 0

    def time(self, step: Step | None, repeats: int) -> list[int]:
        """`repeats` times in ns, after warm-up; zeros for no work."""
        if step is None:
            return [0] * repeats
        for _ in range(WARMUPS):
            step()
        if self._cuda:
            return [_cuda_ns(step) for _ in range(repeats)]
        cpu = time.process_time_ns()
        found = [_wall_ns(step) for _ in range(repeats)]
        self._cpu_ns += time.process_time_ns() - cpu
        self._wall_ns += sum(found)
        return found

    @property
    def waited_share(self) -> float:
        """The share of the timed wall time in which this process had no processor, because others had it: of
        a single thread's, for with several it cannot be told. 0 on CUDA.
        """
        return max(0.0, 1 - self._cpu_ns / self._wall_ns) if self._wall_ns else 0.0


def _wall_ns(step: Step) -> int:
    start = time.perf_counter_ns()
    step()
    return time.perf_counter_ns() - start


def _cuda_ns(step: Step) -> int:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return round(start.elapsed_time(end) * 1e6)


def versions() -> dict[str, str]:
    """What the times were measured with."""
    found = {name: metadata.version(name) for name in ("netfold", "torch", "numpy")}
    cuda = {} if torch.version.cuda is None else {"cuda": torch.version.cuda}
    return {"python": platform.python_version(), "kernels": _kernels.quantiser(), **found, **cuda}


def device_title(device: torch.device) -> str:
    """The CUDA device, or the processor and how many threads of it torch uses."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"
