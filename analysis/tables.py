"""The comparison and the paper's figures as tables for a terminal, and the same content for scripts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table

from analysis.html import show_value
from analysis.metrics import comparison, memory_sweep
from analysis.published import findings
from analysis.records import Records
from sim.quantities import format_bytes, format_count, format_ns


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.0%}"


def _time(value: float) -> str:
    return "-" if math.isnan(value) else format_ns(value)


# Parts of the comparison: columns as (heading, column of `comparison`, how to show it).
_Column = tuple[str, str, Callable[[float], str]]
_COLUMNS: dict[str, list[_Column]] = {
    "Traffic of one epoch": [
        ("up", "up_bytes", format_bytes),
        ("down", "down_bytes", format_bytes),
        ("total", "total_bytes", format_bytes),
        ("vs host", "traffic_vs_host", _percent),
    ],
    "Switches": [
        ("backlog p50", "backlog_p50_bytes", format_bytes),
        ("p99", "backlog_p99_bytes", format_bytes),
        ("max", "backlog_max_bytes", format_bytes),
        ("recirc. passes", "recirculated_passes", format_count),
        ("bypassed", "bypassed_share", "{:.0%}".format),
    ],
    "Times, recirculation free and within Tofino's limits": [
        ("comm free", "comm_free_ns", _time),
        ("comm tofino", "comm_tofino_ns", _time),
        ("epoch free", "epoch_free_ns", _time),
        ("vs host", "epoch_vs_host", _percent),
        ("epoch tofino", "epoch_tofino_ns", _time),
        ("vs host", "epoch_tofino_vs_host", _percent),
    ],
}


def systems_table(records: Records) -> Table:
    """One row per system: traffic, backlog, recirculation, bypass, times in both recirculation modes."""
    table = Table(title="Systems, one epoch", caption=records.provenance(), title_justify="left")
    return _fill(table, records, [column for columns in _COLUMNS.values() for column in columns])


def narrow_tables(records: Records) -> list[Table]:
    """The same as `systems_table` in three tables that fit a terminal of 80 columns."""
    tables = []
    for title, columns in _COLUMNS.items():
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        tables.append(_fill(table, records, columns))
    tables[-1].caption = records.provenance()
    return tables


def _fill(table: Table, records: Records, columns: list[_Column]) -> Table:
    table.add_column("system", no_wrap=True)
    for heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for system, row in comparison(records).iterrows():
        table.add_row(str(system), *(show(row[source]) for _, source, show in columns))
    return table


def sweep_table(records: Records) -> Table | None:
    """The memory sweep, or None when there was none."""
    sweep = memory_sweep(records)
    if sweep.empty:
        return None
    table = Table(title="Switch memory, recirculation free", title_justify="left")
    table.add_column("system")
    for heading in ("memory", "total traffic", "vs host", "epoch"):
        table.add_column(heading, justify="right")
    for _, row in sweep.iterrows():
        memory = format_bytes(row["memory_bytes"]) if row["memory_bytes"] else "unlimited"
        traffic, epoch = format_bytes(row["total_bytes"]), _time(row["epoch_time_ns"])
        table.add_row(row["system"], memory, traffic, _percent(row["traffic_vs_host"]), epoch)
    return table


def published_table(records: Records) -> Table | str:
    """The paper's figures with ours beside them where the setting matches; one sentence where none does."""
    found = findings(records)
    if all(finding.note.startswith("other setting") for finding in found):
        ours = f"{records.graph_name}, {records.scenario.cluster.workers} workers"
        return (
            "The SwitchGNN paper's figures are for reddit with 32 or 128 workers; "
            f"this run ({ours}) has none to set beside them. Try --graph reddit --workers 128."
        )
    table = Table(title="The SwitchGNN paper (ATC 2025) and this run", title_justify="left")
    for heading in ("claim", "paper", "ours", "setting"):
        table.add_column(heading, justify="right" if heading in ("paper", "ours") else "left")
    for finding in found:
        paper = "lower" if finding.kind == "lower" else finding.show(finding.paper)
        table.add_row(finding.text, paper, finding.show(finding.ours), finding.note)
    return table


def frame_table(frame: pd.DataFrame, title: str) -> Table:
    """Any frame as a table, its numbers shown by the units in the columns' names."""
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        heading = str(name).replace("_", " ")  # so that it wraps where the terminal is narrow
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for _, row in frame.iterrows():
        table.add_row(*(show_value(str(name), row[name]) for name in frame.columns))
    return table


def as_plain(records: Records) -> dict[str, Any]:
    """Everything the tables show, plain numbers, NaN as null."""
    return {
        "folder": str(records.folder),
        "provenance": records.provenance(),
        "graph": records.summary["graph"],
        "systems": plain_rows(comparison(records).reset_index()),
        "memory_sweep": plain_rows(memory_sweep(records)),
        "published": [
            {"id": one.id, "text": one.text, "paper": one.paper, "ours": one.ours, "note": one.note}
            for one in findings(records)
        ],
        "values_equal_oracle": records.values(),
        "failures": records.summary["failures"],
        "interrupted": records.summary.get("interrupted", False),
    }


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as plain values, NaN as None."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [
        {str(name): getattr(value, "item", lambda value=value: value)() for name, value in row.items()}
        for row in rows
    ]
