"""Estimates from a results folder: what was simulated, along the way of the worker that finished last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.epoch_time.estimate import MEASURED, MODELLED, SIMULATED, Estimate, Part
from analysis.records import load_records
from sim.scenario import Scenario


def simulated_estimates(folder: Path) -> tuple[Scenario, list[Estimate]]:
    """(the run's scenario, one estimate per simulated run). Raises InputError for no results folder."""
    records = load_records(folder)
    told = str(records.summary["compute"])
    where = MEASURED if told.startswith("measured") else MODELLED
    found = []
    for label, summary in records.summary["runs"].items():
        table = pd.read_parquet(folder / label / "epochs.parquet")
        found.append(_estimate(label, table, summary, where))
    return records.scenario, found


def _estimate(label: str, table: pd.DataFrame, summary: dict[str, float], where: str) -> Estimate:
    """The last worker's epoch: its communication per layer, and the rest of its time as compute."""
    columns = {name: table[name].to_numpy() for name in table.columns}
    mine = np.flatnonzero(columns["worker"] == columns["worker"][int(np.argmax(columns["end_ns"]))])
    talks = int((columns["comm_start_ns"][mine] >= 0).sum())
    shared = float(summary["up_payload_bytes"]) / max(1, talks)
    weights = MODELLED if where == MODELLED else f"{MODELLED} + {MEASURED}"
    parts = []
    for at in mine:
        whole = float(columns["end_ns"][at] - columns["start_ns"][at])
        begin, end = float(columns["comm_start_ns"][at]), float(columns["comm_end_ns"][at])
        talking = end - begin if begin >= 0 else 0.0
        layer, direction = int(columns["layer"][at]), str(columns["direction"][at])
        rest = Part(layer, direction, "compute", whole - talking, where)
        if layer == 0:
            rest = Part(layer, direction, "weights", whole, weights)
        parts.append(rest)
        # A worker that is late finds its messages there: no time, but bytes all the same.
        if begin >= 0:
            parts.append(Part(layer, direction, "communicate", talking, SIMULATED, shared))
    return Estimate(label, parts, note="simulated")
