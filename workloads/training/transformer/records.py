"""A graph transformer's run as a folder: settings, tables, predictions and a summary, there whole or not at
all.

epochs and exchanges are equal for equal settings (but for the measured clock, and measured k and d_b, which
settings name); times, memory and preparation are this machine's.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workloads.cache import new_folder
from workloads.graphs.graph import Graph
from workloads.training.data import TrainingData
from workloads.training.job import Trained
from workloads.training.score import ratio, score_parts
from workloads.training.transformer.graph_set import GraphSet
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.order import restored
from workloads.training.transformer.prepare import Prepared
from workloads.training.transformer.reform import density
from workloads.training.transformer.shapes import exchanged_values

WARMUP_EPOCHS = 5


def settings(
    graph: Graph | GraphSet, data: TrainingData | None, prepared: Prepared, options: TransformerOptions
) -> dict[str, Any]:
    """What the run was, enough to repeat it, with what preparation found."""
    first = prepared.jobs[0].train[0]
    chosen = {name: value for name, value in asdict(options).items() if name not in ("clusters", "sub_block")}
    return {
        "graph": graph.name,
        "graph_provenance": graph.provenance.kind,
        "graph_digest": graph.digest,
        "made_up": data.notes if data is not None else "",
        "score": "F1-micro" if data is not None and data.multi_label else "accuracy",
        "workers": prepared.jobs[0].local.workers,
        "torch": torch.__version__,
        "machine": platform.machine(),
        **chosen,
        "shape": asdict(options.shape),
        "attention": options.attention,
        "order": options.ordering,
        "exchange": options.exchanging,
        "clusters": prepared.order.clusters,
        "sub_block": prepared.tiling.side,
        "tile_pays_from_pairs": prepared.tiling.least,
        "tried": [asdict(choice) for choice in prepared.tried],
        "beta_g": density(first.topology),
        "conditions": {**asdict(prepared.conditions), "hold": prepared.conditions.hold},
        "interleaved": prepared.dense,
    }


def restored_scores(
    run: Trained, prepared: Prepared, data: TrainingData
) -> tuple[np.ndarray, dict[str, float]]:
    """The last scores in the graph's own order, and how they do against its labels: the permutation's inverse
    is applied before the metrics, so a part that was permuted differently shows here.
    """
    tokens = np.concatenate(list(run.weights["predictions"]))
    scores = restored(tokens, prepared.order.order)
    labels = torch.tensor(data.labels)
    found = {}
    for part, name in enumerate(("train", "validation", "test")):
        at = torch.from_numpy(np.flatnonzero(data.split == part))
        counts = torch.tensor(score_parts(torch.from_numpy(scores)[at], labels[at]), dtype=torch.float64)
        found[f"last_{name}_score"] = ratio(counts)
    return scores, found


def summary(run: Trained, prepared: Prepared, options: TransformerOptions) -> dict[str, Any]:
    """Flat figures. Bytes are totals of all workers and epochs. handed_values: what a worker hands to the
    exchanges of a layer's forward pass, the most of any; formula_values: 4 S d / P with all-to-all, 2 S d
    with all-gather. preparation_s: everything before the first epoch and the layouts that the tuner asked for
    later; preparation_share: of all the time.
    """
    epochs = pd.DataFrame(run.epochs)
    slowest = pd.DataFrame(run.times).groupby("epoch")["epoch_ns"].max()
    steady = slowest[WARMUP_EPOCHS:] if len(slowest) > WARMUP_EPOCHS else slowest
    best = run.epochs[int(np.argmax(epochs["validation_score"].fillna(-1).to_numpy()))]
    first = prepared.jobs[0].train[0]
    tokens = sum(batch.count for batch in prepared.jobs[0].train) / len(prepared.jobs[0].train)
    workers = prepared.jobs[0].local.workers
    layouts_s = max(row["layouts_ns"] for row in run.memory) * 1e-9
    preparation_s = sum(prepared.costs.values()) + layouts_s
    training_s = float(slowest.sum() * 1e-9)
    exchanges = pd.DataFrame(run.exchanges)
    handed = 0.0
    if len(exchanges):
        forward = exchanges[(exchanges["direction"] == "forward") & (exchanges["epoch"] == 0)]
        per = forward.groupby(["worker", "layer"])["handed_values"].sum()
        handed = float(per.max()) / len(prepared.jobs[0].train)
    dense, layers = run.memory[0]["dense_layers"], run.memory[0]["layers_run"]
    return {
        "epochs": len(epochs),
        "final_loss": float(epochs["loss"].iloc[-1]),
        "best_epoch": int(best["epoch"]),
        "validation_score": float(best["validation_score"]),
        "test_score": float(best["test_score"]),
        "dense_layer_share": dense / layers if layers else 0.0,
        "mean_moved_share": float(epochs["moved_share"].mean()) if "moved_share" in epochs else 0.0,
        "last_beta_multiple": float(epochs["beta_multiple"].iloc[-1]),
        **{
            f"{kind}_bytes": int(epochs[f"{kind}_bytes"].sum()) for kind in ("forward", "backward", "weights")
        },
        "handed_values": handed,
        "formula_values": exchanged_values(tokens, options.shape.hidden, workers, options.exchanging),
        "epoch_s": float(steady.median() * 1e-9),
        "preparation_s": preparation_s,
        "preparation_share": preparation_s / (preparation_s + training_s),
        **{f"preparation_{name}": value for name, value in prepared.costs.items()},
        "preparation_layouts_s": layouts_s,
        "device": run.device,
        "saved_bytes": max(row["saved_bytes"] for row in run.memory),
        "peak_bytes": max(row["peak_bytes"] for row in run.memory),
        "topology_bytes": first.topology.nbytes,
        "interrupted": run.interrupted,
    }


def write_run(
    folder: Path,
    about: dict[str, Any],
    run: Trained,
    *,
    prepared: Prepared,
    data: TrainingData | None,
    options: TransformerOptions,
) -> dict[str, Any]:
    """Write the folder and return its summary. Raises InputError where it cannot be written."""
    figures = summary(run, prepared, options)
    predictions = None
    if data is not None:
        scores, found = restored_scores(run, prepared, data)
        figures |= found
        if not data.multi_label:
            predictions = pd.DataFrame(
                {"vertex": np.arange(len(scores)), "prediction": scores.argmax(1), "label": data.labels}
            )
    with new_folder(folder) as work:
        for name in ("epochs", "exchanges", "times", "memory"):
            pd.DataFrame(getattr(run, name)).to_parquet(work / f"{name}.parquet", index=False)
        if predictions is not None:
            predictions.to_parquet(work / "predictions.parquet", index=False)
        if prepared.reformations:
            pd.DataFrame(prepared.reformations).to_parquet(work / "reformations.parquet", index=False)
        np.save(work / "order.npy", prepared.order.order)
        text = json.dumps({"settings": about, "summary": figures}, indent=1)
        (work / "summary.json").write_text(text + "\n", encoding="utf-8")
    return figures
