"""What the page shows of a folder of results folders, such as a sweep's: a table over seeds, and a chart."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.metrics import summarise
from analysis.metrics.summary import ALWAYS, HEADLINES, settings
from analysis.records import Runs
from analysis.sweep.folder import SweepFolder
from analysis.tables import plain_rows
from workloads.errors import InputError

MOST_ROWS = 2000


def sweep_data(runs: Runs) -> dict[str, Any]:
    """Everything the page needs. Raises InputError when there is no run."""
    place = ", ".join(str(root) for root in runs.roots)
    if not len(runs):
        skipped = f"; skipped: {next(iter(runs.skipped.items()))}" if runs.skipped else ""
        raise InputError(f"{place}: no results in it or below it{skipped}")
    frame = runs.frame
    table = summarise(frame)
    keys = settings(frame)
    varied = [name for name in keys if table[name].nunique() > 1]
    numeric = [name for name in varied if pd.api.types.is_numeric_dtype(table[name])]
    table = table.sort_values(numeric, kind="stable") if numeric else table
    graphs = ", ".join(sorted(set(frame["graph"])))
    made = ", ".join(sorted(set(frame["netfold"])))
    seeds = int(table["runs"].max())
    return {
        "kind": "sweep",
        "title": f"{len(runs)} runs on {graphs}",
        "about": [
            ("Runs", f"{len(runs)} in {len(table)} settings, up to {seeds} seeds each"),
            ("Graphs", graphs),
            ("Systems", ", ".join(dict.fromkeys(frame["system"]))),
            ("Varied", ", ".join(varied) or "nothing but seeds"),
            ("Compute", ", ".join(sorted(set(frame["compute"])))),
        ],
        "provenance": f"simulated (netfold {made} on ns-3); means with 95 % bootstrap intervals over seeds",
        "keys": [name for name in varied if name != "system"] or [ALWAYS[0]],
        "columns": [name for name in keys if name in varied or name == "system"],
        "metrics": [name for name in HEADLINES if name in table],
        "rows": plain_rows(table.head(MOST_ROWS)),
        "rows_left_out": max(0, len(table) - MOST_ROWS),
        "failures": _failures(runs),
        "skipped": runs.skipped,
        "commands": [
            f"netfold report {place} -o report.html",
            f"netfold run {runs.runs[0].folder / 'scenario.toml'} -o again",
        ],
        "scenario": "",
    }


def _failures(runs: Runs) -> dict[str, str]:
    """Units of a sweep that failed, and why, where a root is a sweep's folder."""
    found = {}
    for root in runs.roots:
        folder = SweepFolder(root)
        for path in sorted(folder.failed.glob("*.json")):
            reason = folder.failure(path.stem)
            if reason is not None:
                found[path.stem] = reason
    return found
