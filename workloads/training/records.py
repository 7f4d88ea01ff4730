"""A training run's folder: settings, Parquet tables and a summary, there whole or not at all.

epochs: one row per epoch; exchanges: one per epoch, layer, direction and worker. Both are equal for equal
settings (except SYLVIE's with the measured clock). times: this machine's wall times, which are not; memory:
what each worker kept.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workloads.cache import new_folder
from workloads.graphs.graph import Graph
from workloads.partition import Partition
from workloads.training.coordinator import KINDS
from workloads.training.data import TrainingData
from workloads.training.job import Trained
from workloads.training.options import TrainOptions

WARMUP_EPOCHS = 10
TABLES = ("epochs", "exchanges", "times", "memory")


def settings(graph: Graph, partition: Partition, data: TrainingData, options: TrainOptions) -> dict[str, Any]:
    """What the run was, enough to repeat it."""
    import torch  # noqa: PLC0415  # the command has checked that it is there

    return {
        "graph": graph.name,
        "graph_provenance": graph.provenance.kind,
        "graph_digest": graph.digest,
        "made_up": data.notes,
        "score": "F1-micro" if data.multi_label else "accuracy",
        "workers": partition.k,
        "partition": partition.method,
        "partition_seed": partition.seed,
        "partition_digest": partition.digest,
        "torch": torch.__version__,
        "machine": platform.machine(),
        **asdict(options),
    }


def summary(run: Trained) -> dict[str, Any]:
    """Flat figures of a run. Scores are those of the evaluated epoch with the best validation score; bytes
    are totals of all workers and epochs; epoch_s is the median wall time without the first 10 epochs. Of the
    worker with the most: saved_bytes, what autograd kept in a forward pass; halo_bytes, the most remote rows
    it held at a time; peak_bytes, all its memory.
    """
    epochs = pd.DataFrame(run.epochs)
    times = pd.DataFrame(run.times).dropna(subset=["epoch_ns"])
    slowest = times.groupby("epoch")["epoch_ns"].max()
    steady = slowest[WARMUP_EPOCHS:] if len(slowest) > WARMUP_EPOCHS else slowest
    scored = epochs["validation_score"].fillna(-1)
    best = run.epochs[int(np.argmax(scored.to_numpy()))]
    totals = {f"{kind}_bytes": int(epochs[f"{kind}_bytes"].sum()) for kind in KINDS}
    return {
        "epochs": len(epochs),
        "final_loss": float(epochs["loss"].iloc[-1]),
        "best_epoch": int(best["epoch"]),
        "validation_score": float(best["validation_score"]),
        "test_score": float(best["test_score"]),
        "mean_bits": _mean_bits(run),
        "forced_syncs": int(epochs["forced_sync"].sum()),
        **totals,
        "epoch_s": float(steady.median() * 1e-9),
        **{
            f"{name}_s": _slowest_s(run, f"{name}_ns")
            for name in ("extractor", "coordinate", "encode", "decode")
        },
        "device": run.device,
        "saved_bytes": max(row["saved_bytes"] for row in run.memory),
        "halo_bytes": max(row["halo_bytes"] for row in run.memory),
        "peak_bytes": max(row["peak_bytes"] for row in run.memory),
        "interrupted": run.interrupted,
    }


def _slowest_s(run: Trained, column: str) -> float:
    """Over the whole run, of the worker that spent most on it: extracting the mask (offline), coordinating,
    quantising, dequantising.
    """
    per_worker: dict[int, int] = {}
    for row in run.times:
        per_worker[row["worker"]] = per_worker.get(row["worker"], 0) + int(row.get(column, 0))
    return max(per_worker.values()) * 1e-9


def _mean_bits(run: Trained) -> float:
    """Bits of main data per float32 value sent: 32 when exact, 0 where nothing was sent."""
    sent = sum(row["main_bytes"] for row in run.exchanges)
    values = sum(row["values"] for row in run.exchanges)
    return 8 * sent / values if values else 0.0


def write_run(folder: Path, about: dict[str, Any], run: Trained) -> dict[str, Any]:
    """Write the folder and return its summary. Raises InputError where it cannot be written."""
    figures = summary(run)
    with new_folder(folder) as work:
        for name in TABLES:
            rows = getattr(run, name)
            pd.DataFrame(rows).to_parquet(work / f"{name}.parquet", index=False)
        text = json.dumps({"settings": about, "summary": figures}, indent=1)
        (work / "summary.json").write_text(text + "\n", encoding="utf-8")
    return figures
