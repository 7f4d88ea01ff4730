"""Measuring: every worker's steps, one worker after another on this device; warm-up, median, spread."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
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
from workloads.systems import SYSTEMS
from workloads.traces.kernels import Step, TraceModel, WorkerSteps
from workloads.training.local_graph import local_graph

WARMUPS = 2
QUANTISER_PHASES = ("quantise", "dequantise")
QUARTILES = (0.25, 0.5, 0.75)


def measure(
    graph: Graph,
    partitions: dict[str, Partition],
    model: TraceModel,
    *,
    repeats: int,
    progress: Callable[[int, int], None],
    device: torch.device | None = None,
) -> pd.DataFrame:
    """The table that `workloads.compute_table` reads, with columns low_ns and high_ns (quartiles) besides,
    and the phases "quantise" and "dequantise" of host-based sending. Layer 0 is what follows the last layer:
    its "post" is the optimiser's step.

    partitions: by balance, "" for the systems without a balance of their own. Every registered system gets
    the times of its partition and of its way of adding up cross edges; "*" gets those of host-based sending.
    """
    recipes = [("*", "receiver", ""), *((s.name, s.cross_sum, s.balance) for s in SYSTEMS.values())]
    kinds = sorted({(balance, cross_sum) for _, cross_sum, balance in recipes})
    where = device or torch.device("cpu")
    total = sum(partitions[balance].k for balance, _ in kinds)
    widths = layer_widths(model, graph)
    rows: list[dict[str, Any]] = []
    done = 0
    for balance, cross_sum in kinds:
        systems = [name for name, how, where in recipes if (where, how) == (balance, cross_sum)]
        for worker in range(partitions[balance].k):
            local = local_graph(graph, partitions[balance], worker)
            steps = WorkerSteps(local, cross_sum, where)
            timings = [*steps.steps(model, widths), steps.optimiser(model, widths)]
            if (balance, cross_sum) == ("", "receiver"):
                timings += steps.quantising(model, widths)
            for timed in timings:
                low, median, high = time_step(timed.step, repeats, where)
                key = {"layer": timed.layer, "direction": timed.direction, "phase": timed.phase}
                times = {"worker": worker, "ns": median, "low_ns": low, "high_ns": high}
                whom = ["*"] if timed.phase in QUANTISER_PHASES else systems
                rows += [{"system": name, **key, **times} for name in whom]
            done += 1
            progress(done, total)
    return pd.DataFrame(rows)


def time_step(step: Step | None, repeats: int, device: torch.device) -> tuple[int, int, int]:
    """Quartiles of the step's time in ns, after warm-up; zero for no work. On a CPU it is wall time, on CUDA
    the time between two events on its stream.
    """
    if step is None:
        return 0, 0, 0
    timer = _cuda_ns if device.type == "cuda" else _wall_ns
    times = [timer(step) for _ in range(WARMUPS + repeats)][WARMUPS:]
    low, median, high = np.rint(np.quantile(times, QUARTILES)).astype(int).tolist()
    return low, median, high


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
