"""Profiling this device: a few sizes of every kernel, forward and backward, interleaved; kept as Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workloads.cache import cache_root
from workloads.errors import InputError
from workloads.parallel.kernels import (
    Kernel,
    adam_kernel,
    attention_kernel,
    gradients_kernel,
    layer_kernel,
    linear_kernel,
    loss_kernel,
    message_kernel,
    propagation_kernel,
    relu_kernel,
    rows_kernel,
    spmm_kernel,
)
from workloads.traces.measure import device_title, versions
from workloads.traces.record import trace_facts, write_trace

REPEATS = 9
WARMUPS = 2
COLUMNS = ("kernel", "direction", "V", "E", "d", "out", "heads", "keys", "ns", "low_ns", "high_ns")
SPMM = ("csr", "torch", "blocked", "fused")
ATTENTION = ("dense", "flash", "sparse", "topk")
FORMAT = "netfold-profile-2"


def profiled_kernels() -> list[Kernel]:
    """The sizes that are measured: few, from a small graph's to a medium one's."""
    kernels = [
        linear_kernel(V, d, out, first=first)
        for first in (False, True)
        for V, d, out in ((64, 16, 16), (256, 64, 64), (2048, 32, 32), (2048, 256, 64), (16384, 64, 64))
    ]
    few = ((64, 16), (1024, 64), (8192, 64))
    kernels += [make(V, d) for make in (rows_kernel, relu_kernel) for V, d in few]
    kernels += [loss_kernel(V, classes) for V, classes in ((64, 4), (1024, 32), (4096, 64))]
    kernels += [
        propagation_kernel(kind, V, E, d, halo=halo)
        for kind in ("gcn", "mean", "attend")
        for V, E, d, halo in (
            (64, 256, 16, 0),
            (1024, 8192, 64, 0),
            (1024, 65_536, 16, 512),
            (1024, 65_536, 128, 0),
            (4096, 65_536, 64, 0),
            (4096, 65_536, 32, 4096),
        )
    ]
    kernels += [
        layer_kernel(style, V, d, heads=heads, out=out, inner=inner)
        for style in ("graphormer", "gt")
        for V, d, heads, out, inner in (
            (64, 64, 8, 64, 64),
            (1024, 64, 8, 64, 64),
            (512, 64, 4, 32, 32),
            (1024, 128, 8, 128, 256),
        )
    ]
    kernels += [
        spmm_kernel(variant, V, E, d)
        for variant in SPMM
        for V, E, d in ((64, 256, 16), (1024, 8192, 64), (1024, 65_536, 16), (1024, 65_536, 256))
    ]
    kernels += [spmm_kernel("csr", V, E, d) for V, E, d in ((4096, 131_072, 64), (16384, 131_072, 64))]
    kernels += [
        attention_kernel(variant, V, E, d=d, heads=heads)
        for variant in ATTENTION
        for V, E, d, heads in (
            (64, 256, 16, 4),
            (256, 4096, 64, 8),
            (1024, 8192, 64, 8),
            (1024, 32768, 32, 4),
        )
    ]
    kernels += [
        make(count, tensors)
        for make in (adam_kernel, gradients_kernel)
        for count, tensors in ((1_000, 1), (4_000, 40), (100_000, 8), (1_000_000, 4))
    ]
    return kernels + [message_kernel(V, d) for V, d in ((64, 16), (2048, 64), (16384, 64))]


def measure_profile(
    *, repeats: int = REPEATS, progress: Callable[[int, int], None] = lambda done, total: None
) -> pd.DataFrame:
    """Medians and quartiles of every kernel. Rounds go over all kernels, so that a slow moment of the machine
    falls on all alike.
    """
    kernels = profiled_kernels()
    made = [kernel.make() for kernel in kernels]
    times: list[tuple[list[int], list[int]]] = [([], []) for _ in kernels]
    for turn in range(WARMUPS + repeats):
        for number, (forward, inputs) in enumerate(made):
            ahead, back = timed(forward, inputs)
            if turn >= WARMUPS:
                times[number][0].append(ahead)
                times[number][1].append(back)
            progress(turn * len(made) + number + 1, (WARMUPS + repeats) * len(made))
    rows = []
    for kernel, both in zip(kernels, times, strict=True):
        for direction, found in zip(("forward", "backward"), both, strict=True):
            if direction == "backward" and not any(found):
                continue
            low, median, high = np.rint(np.quantile(found, (0.25, 0.5, 0.75))).astype(int).tolist()
            sizes = {name: getattr(kernel.sizes, name) for name in ("V", "E", "d", "out", "heads", "keys")}
            key = {"kernel": kernel.kernel, "direction": direction}
            rows.append({**key, **sizes, "ns": median, "low_ns": low, "high_ns": high})
    return pd.DataFrame(rows)


def timed(forward: Callable[[], Tensor], inputs: list[Tensor]) -> tuple[int, int]:
    """(forward, backward) wall time in ns; 0 where nothing gets a gradient."""
    start = time.perf_counter_ns()
    result = forward()
    ahead = time.perf_counter_ns() - start
    if not inputs:
        return ahead, 0
    grad = torch.ones_like(result)
    start = time.perf_counter_ns()
    torch.autograd.grad(result, inputs, grad)
    return ahead, time.perf_counter_ns() - start


def profile_path(cache: Path | None = None) -> Path:
    """Where this device's profile is kept."""
    name = "".join(c if c.isalnum() else "-" for c in device_title(torch.device("cpu")))
    return cache_root(cache) / "profiles" / f"{name[:120]}-{FORMAT}.parquet"


def save_profile(path: Path, table: pd.DataFrame) -> None:
    """Write it with device and versions; whole or not at all."""
    facts = {"format": FORMAT, "device": device_title(torch.device("cpu")), "versions": versions()}
    write_trace(path, table, facts)


def load_profile(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """(table, facts) of a saved profile. Raises InputError for what is none."""
    try:
        facts = trace_facts(path)
        table = pd.read_parquet(path)
    except FileNotFoundError:
        raise InputError(f"profile: there is no {path}") from None
    except Exception as error:  # pyarrow raises its own kinds for damaged files
        raise InputError(f"profile: {path} cannot be read: {str(error).splitlines()[0][:80]}") from None
    if facts.get("format") != FORMAT or set(COLUMNS) - set(table.columns):
        raise InputError(f"profile: {path} is no profile of `netfold autoparallel`")
    if not len(table) or not (table["ns"] > 0).all():
        raise InputError(f"profile: {path} has times that are not above 0")
    return table, facts


def device_profile(
    path: Path | None,
    *,
    fresh: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A saved profile, or this device's, measured where it is not kept yet (or `fresh`)."""
    if path is not None and not fresh:
        return load_profile(path)
    kept = path or profile_path()
    if fresh or not kept.exists():
        save_profile(kept, measure_profile(progress=progress))
    return load_profile(kept)
