"""Measuring: every worker's steps, one worker after another on this device; warm-up, median, spread."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workloads.compute import layer_widths
from workloads.graphs.graph import Graph
from workloads.partition import Partition
from workloads.systems import SYSTEMS
from workloads.traces.kernels import Step, TraceModel, WorkerSteps
from workloads.training.local_graph import local_graph

WARMUPS = 2
QUARTILES = (0.25, 0.5, 0.75)


def measure(
    graph: Graph,
    partitions: dict[str, Partition],
    model: TraceModel,
    *,
    repeats: int,
    progress: Callable[[int, int], None],
) -> pd.DataFrame:
    """The table that `workloads.compute_table` reads, with columns low_ns and high_ns (quartiles) besides.

    partitions: by balance, "" for the systems without a balance of their own. Every registered system gets
    the times of its partition and of its way of adding up cross edges; "*" gets those of host-based sending.
    """
    recipes = [("*", "receiver", ""), *((s.name, s.cross_sum, s.balance) for s in SYSTEMS.values())]
    kinds = sorted({(balance, cross_sum) for _, cross_sum, balance in recipes})
    total = sum(partitions[balance].k for balance, _ in kinds)
    widths = layer_widths(model, graph)
    rows: list[dict[str, Any]] = []
    done = 0
    for balance, cross_sum in kinds:
        systems = [name for name, how, where in recipes if (where, how) == (balance, cross_sum)]
        for worker in range(partitions[balance].k):
            local = local_graph(graph, partitions[balance], worker)
            for timed in WorkerSteps(local, cross_sum).steps(model, widths):
                low, median, high = time_step(timed.step, repeats)
                key = {"layer": timed.layer, "direction": timed.direction, "phase": timed.phase}
                times = {"worker": worker, "ns": median, "low_ns": low, "high_ns": high}
                rows += [{"system": name, **key, **times} for name in systems]
            done += 1
            progress(done, total)
    return pd.DataFrame(rows)


def time_step(step: Step | None, repeats: int) -> tuple[int, int, int]:
    """Quartiles of the step's wall time in ns, after warm-up; zero for no work."""
    if step is None:
        return 0, 0, 0
    times = []
    for turn in range(WARMUPS + repeats):
        start = time.perf_counter_ns()
        step()
        if turn >= WARMUPS:
            times.append(time.perf_counter_ns() - start)
    low, median, high = np.rint(np.quantile(times, QUARTILES)).astype(int).tolist()
    return low, median, high


def device_title() -> str:
    """The processor and how many threads of it torch uses."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"
