"""The comparison of one folder's systems, and its memory sweep."""

from __future__ import annotations

import math

import pandas as pd

from analysis.records.folder import Records

MODES = ("free", "tofino")


def comparison(records: Records) -> pd.DataFrame:
    """One row per system at the scenario's own memory, indexed by system name.

    Traffic, backlog and counts are those of the run with free recirculation where there is one. comm_* and
    epoch_* exist per recirculation mode; host-based systems, which never recirculate, show the same time in
    both. traffic_vs_host and epoch_vs_host are relative changes, -0.5 = half; NaN without a host run.
    """
    runs = records.runs()
    own = runs[~runs["label"].str.contains("@")]
    if own.empty:  # only runs of the sweep ended well
        return pd.DataFrame(index=pd.Index([], name="system"))
    rows = []
    for system, group in own.groupby("system", sort=False):
        by_mode = {str(row["recirculation"]): row for _, row in group.iterrows()}
        main = by_mode.get("free", next(iter(by_mode.values())))
        row = {"system": system, "title": main["title"], "label": main["label"]}
        row |= {column: main[column] for column in group.columns if column.endswith(("_bytes", "_share"))}
        row |= {
            column: main[column] for column in ("passes", "recirculated_passes", "results", "pulls", "drops")
        }
        row |= {"ecn_marks": main["ecn_marks"], "saturated": main["saturated"]}
        for mode in MODES:
            timed = by_mode.get(mode, by_mode.get(""))
            for what in ("comm", "epoch"):
                row[f"{what}_{mode}_ns"] = math.nan if timed is None else timed[f"{what}_time_ns"]
        rows.append(row)
    table = pd.DataFrame(rows).set_index("system")
    host = table.loc["host"] if "host" in table.index else None
    for what, column in (
        ("traffic", "total_bytes"),
        ("epoch", "epoch_free_ns"),
        ("epoch_tofino", "epoch_tofino_ns"),
    ):
        table[f"{what}_vs_host"] = math.nan if host is None else table[column] / host[column] - 1
    return table


def change(table: pd.DataFrame, system: str, against: str, column: str) -> float:
    """Relative change of a column from system `against` to `system`; NaN where either is missing."""
    if system not in table.index or against not in table.index:
        return math.nan
    return cell(table, system, column) / cell(table, against, column) - 1


def cell(table: pd.DataFrame, system: str, column: str) -> float:
    """One figure of a comparison as a plain float."""
    return float(table[column].to_dict()[system])


def memory_sweep(records: Records) -> pd.DataFrame:
    """Systems that ran with more than one memory, recirculation free; empty when there was no sweep.

    Columns: system, title, memory_bytes (0 = unlimited), total_bytes, epoch_time_ns, traffic_vs_host.
    """
    runs = records.runs()
    host = runs[runs["system"] == "host"]["total_bytes"]
    swept = runs[runs["recirculation"] == "free"].copy()
    swept = swept[swept["system"].isin(swept[swept["label"].str.contains("@")]["system"])]
    swept["traffic_vs_host"] = swept["total_bytes"] / host.iloc[0] - 1 if len(host) else math.nan
    listed = {system: place for place, system in enumerate(runs["system"].unique())}
    swept["listed"] = swept["system"].map(listed)
    swept["sorted_by"] = swept["memory_bytes"].replace(0, 2**62)
    columns = ["system", "title", "memory_bytes", "total_bytes", "epoch_time_ns", "traffic_vs_host"]
    return swept.sort_values(["listed", "sorted_by"])[columns].reset_index(drop=True)
