"""A dynamic training run's folder: settings, Parquet tables and a summary, there whole or not at all.

epochs: one row per epoch; windows: one per epoch, window and worker: bytes by kind, rows fresh, cached and
missing, and their staleness; times: per epoch and worker, wall and CPU time of this machine, messages and
bytes; memory: what each worker kept.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from workloads.cache import new_folder
from workloads.graphs.dynamic import DynamicGraph
from workloads.partition.dynamic import DynamicPartition
from workloads.training.dynamic.counted import KINDS
from workloads.training.dynamic.metrics import best_row
from workloads.training.dynamic.options import DynamicOptions
from workloads.training.dynamic.task import METRICS, PARTS
from workloads.training.dynamic.worker import DynamicTrained

TABLES = ("epochs", "windows", "times", "memory")
MEMORY = (
    "cache_bytes",
    "cache_most_bytes",
    "ages_bytes",
    "index_bytes",
    "separate_index_bytes",
    "peak_bytes",
)


def settings(graph: DynamicGraph, partition: DynamicPartition, options: DynamicOptions) -> dict[str, Any]:
    """What the run was, enough to repeat it."""
    import torch  # noqa: PLC0415  # the command has checked that it is there

    return {
        "graph": graph.name,
        "graph_provenance": graph.provenance.kind,
        "graph_digest": graph.digest,
        "task": graph.task,
        "window": graph.window,
        "lifetime": graph.lifetime,
        "workers": partition.workers,
        "partition": partition.method,
        "partition_digest": partition.digest,
        "torch": torch.__version__,
        "machine": platform.machine(),
        **asdict(options),
    }


def summary(task: str, run: DynamicTrained) -> dict[str, Any]:
    """Flat figures of a run. Metrics are those of the evaluated epoch with the best validation value; bytes
    are totals of all workers and epochs; epoch_s, wait_s (sending and receiving) and cpu_s (computing) are
    medians over epochs of the slowest worker; memory is that of the worker with the most.
    """
    epochs, best = pd.DataFrame(run.epochs), best_row(task, run.epochs)
    slowest = pd.DataFrame(run.times).groupby("epoch")[["epoch_ns", "wait_ns", "cpu_ns"]].max()
    rows = epochs[["fresh_rows", "cached_rows", "missing_rows"]].sum()
    used, cached = max(1, int(rows.sum())), max(1, int(rows["cached_rows"]))
    return {
        "epochs": len(epochs),
        "final_loss": float(epochs["loss"].iloc[-1]),
        "best_epoch": int(best["epoch"]),
        **{f"{part}_{name}": float(best[f"{part}_{name}"]) for part in PARTS[1:] for name in METRICS[task]},
        **{f"{kind}_bytes": int(epochs[f"{kind}_bytes"].sum()) for kind in KINDS},
        "fresh_share": float(rows["fresh_rows"] / used),
        "cached_share": float(rows["cached_rows"] / used),
        "missing_share": float(rows["missing_rows"] / used),
        "distance_mean": float((epochs["distance_mean"] * epochs["cached_rows"]).sum() / cached),
        "age_mean": float((epochs["age_mean"] * epochs["cached_rows"]).sum() / cached),
        "distance_most": int(epochs["distance_most"].max()),
        "age_most": int(epochs["age_most"].max()),
        "epoch_s": float(slowest["epoch_ns"].median() * 1e-9),
        "wait_s": float(slowest["wait_ns"].median() * 1e-9),
        "cpu_s": float(slowest["cpu_ns"].median() * 1e-9),
        "device": run.device,
        **{name: max(row[name] for row in run.memory) for name in MEMORY},
        "interrupted": run.interrupted,
    }


def write_run(folder: Path, about: dict[str, Any], run: DynamicTrained) -> dict[str, Any]:
    """Write the folder and return its summary. Raises InputError where it cannot be written."""
    figures = summary(about["task"], run)
    with new_folder(folder) as work:
        for name in TABLES:
            pd.DataFrame(getattr(run, name)).to_parquet(work / f"{name}.parquet", index=False)
        text = json.dumps({"settings": about, "summary": figures}, indent=1)
        (work / "summary.json").write_text(text + "\n", encoding="utf-8")
    return figures
