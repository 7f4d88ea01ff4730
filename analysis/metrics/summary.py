"""Many runs as one table: a row per setting, the mean over its seeds with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.metrics.intervals import bootstrap_interval

HEADLINES = ("epoch_time_ns", "total_bytes", "backlog_max_bytes", "bypassed_share")
# What says how a run was made, but not which experiment it is.
NOT_A_SETTING = (
    *("run.systems", "run.recirculation", "run.memory_sweep"),
    *("switch.recirculation", "switch.memory_bytes"),
)
ALWAYS = ("graph", "system", "recirculation", "memory_bytes")


def settings(frame: pd.DataFrame) -> list[str]:
    """The columns by which the runs of a frame differ, seeds apart; graph and system always."""
    varied = [
        str(column)
        for column in frame.columns
        if "." in str(column)
        and not str(column).endswith(".seed")
        and column not in NOT_A_SETTING
        and frame[column].nunique(dropna=False) > 1
    ]
    fixed = [name for name in ALWAYS if name in frame.columns]
    return [*varied, *fixed]


def summarise(
    frame: pd.DataFrame, *, by: Sequence[str] | None = None, metrics: Sequence[str] = HEADLINES
) -> pd.DataFrame:
    """One row per setting: `by` (default: `settings`), runs, then mean, low and high of each metric.

    The mean keeps the metric's name; <metric>_low and <metric>_high are its 95 % bootstrap interval over the
    setting's runs, NaN where there is only one. Order: first appearance.
    """
    keys = list(settings(frame) if by is None else by)
    if frame.empty:
        return pd.DataFrame(columns=[*keys, "runs", *metrics])
    rows = []
    for key, group in frame.groupby(keys, sort=False, dropna=False):
        row = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
        row["runs"] = len(group)
        for metric in metrics:
            values = group[metric].to_numpy(dtype=float)
            low, high = bootstrap_interval(values)
            row |= {metric: float(values.mean()), f"{metric}_low": low, f"{metric}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)
