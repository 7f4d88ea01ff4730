"""Backlog: how long egress queues were, from a run's `queues` table.

A row holds a port's *maximum* within one sampling interval that ends at `time_ns`, so every figure here is an
upper bound at the resolution of the sampling. Port -1 is a switch's recirculation queue, no egress port.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd


def backlog_over_time(queues: pd.DataFrame) -> pd.DataFrame:
    """The longest queue of all egress ports in each sampling interval: time_ns, backlog_bytes."""
    longest = _egress(queues).groupby("time_ns")["backlog_bytes"].max().sort_index()
    return longest.reset_index()


def backlog_percentiles(queues: pd.DataFrame, percents: Sequence[float] = (50, 90, 99, 100)) -> pd.DataFrame:
    """Percentiles of each egress port's backlog over the intervals in which that port had any.

    One row per switch and port after one of all ports (switch "", port -1), which takes the longest queue of
    every interval: switch, port, busy_share (of the intervals), then one column p<percent>_bytes each.
    numpy's linear interpolation between samples.
    """
    egress = _egress(queues)
    intervals = max(1, egress["time_ns"].nunique())
    rows = [_percentile_row("", -1, backlog_over_time(queues)["backlog_bytes"], intervals, percents)]
    for key, samples in egress.groupby(["switch", "port"], sort=True)["backlog_bytes"]:
        switch, port = tuple(map(str, key)) if isinstance(key, tuple) else ("", "-1")
        rows.append(_percentile_row(switch, int(port), samples, intervals, percents))
    return pd.DataFrame(rows)


def backlog_area(queues: pd.DataFrame) -> pd.DataFrame:
    """Backlog summed over time, per egress port: switch, port, area_byte_s, largest first.

    The sum of maximum x interval length: a queue of 1 MB that stands for 1 ms has 1,000 byte seconds. Divided
    by the run's length it is the mean backlog.
    """
    egress = _egress(queues)
    length_s = interval_ns(queues) * 1e-9
    sums = egress.groupby(["switch", "port"], sort=True)["backlog_bytes"].sum() * length_s
    ordered = sums.rename("area_byte_s").reset_index()
    return ordered.sort_values("area_byte_s", ascending=False, kind="stable").reset_index(drop=True)


def interval_ns(queues: pd.DataFrame) -> int:
    """The sampling interval: the step between samples, or a lone sample's own time; 0 without samples."""
    times = np.unique(queues["time_ns"].to_numpy())
    if len(times) < 2:
        return int(times[0]) if len(times) else 0
    return int(np.diff(times).min())


def _egress(queues: pd.DataFrame) -> pd.DataFrame:
    return queues[queues["port"] >= 0]


def _percentile_row(
    switch: str, port: int, samples: pd.Series, intervals: int, percents: Sequence[float]
) -> dict[str, object]:
    busy = samples[samples > 0].to_numpy()
    values = np.percentile(busy, percents) if len(busy) else np.zeros(len(percents))
    named = {f"p{percent:g}_bytes": float(value) for percent, value in zip(percents, values, strict=True)}
    return {"switch": switch, "port": port, "busy_share": len(busy) / intervals, **named}
