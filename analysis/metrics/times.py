"""Completion times of propagations and blocks, and fairness between workers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd


def completion_times(epochs: pd.DataFrame) -> pd.DataFrame:
    """How long each propagation took, from an `epochs` table: one row per layer and direction, in order.

    layer, direction, workers, start_ns (the first worker's start), first_ns, median_ns, p99_ns and last_ns
    (from that start until a worker was done; last_ns is the propagation's completion time), slowest (worker).
    """
    rows = []
    taking_part = epochs[epochs["comm_start_ns"] >= 0]
    for (layer, direction), group in taking_part.groupby(["layer", "direction"], sort=False):
        start = int(group["comm_start_ns"].min())
        done = group["comm_end_ns"].to_numpy() - start
        row = {"layer": layer, "direction": direction, "workers": len(group), "start_ns": start}
        row |= {"first_ns": int(done.min()), "median_ns": float(np.median(done))}
        row |= {"p99_ns": float(np.percentile(done, 99)), "last_ns": int(done.max())}
        rows.append(row | {"slowest": int(group["worker"].to_numpy()[int(done.argmax())])})
    columns = ["layer", "direction", "workers", "start_ns", "first_ns", "median_ns", "p99_ns", "last_ns"]
    return pd.DataFrame(rows, columns=[*columns, "slowest"])


def block_times(blocks: pd.DataFrame) -> pd.DataFrame:
    """The `blocks` table with `duration_ns`, and `gap_ns` since the propagation's previous block ended.

    The gap is what the step from block to block costs: the multicast of completion, and the next start.
    """
    timed = blocks.sort_values(["propagation", "start_ns", "block"], kind="stable").reset_index(drop=True)
    timed["duration_ns"] = timed["end_ns"] - timed["start_ns"]
    previous = timed.groupby("propagation")["end_ns"].shift()
    timed["gap_ns"] = (timed["start_ns"] - previous).fillna(0).astype(np.int64)
    return timed


def communication_fairness(epochs: pd.DataFrame) -> float:
    """Jain's index of the workers' total time in propagations; 1 = all wait equally long, 1/n = only one."""
    taking_part = epochs[epochs["comm_start_ns"] >= 0]
    spent = taking_part["comm_end_ns"] - taking_part["comm_start_ns"]
    return jain(spent.groupby(taking_part["worker"]).sum().to_numpy())


def jain(shares: npt.ArrayLike) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2) of shares >= 0 (Jain, Chiu and Hawe, DEC-TR-301, 1984).

    Between 1/n and 1. NaN without shares, and where all are 0.
    """
    values = np.asarray(shares, dtype=np.float64)
    squares = float(np.square(values).sum())
    return float(values.sum() ** 2 / (len(values) * squares)) if squares else math.nan
