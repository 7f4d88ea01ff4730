"""The comparison and the paper's figures as tables for a terminal, and the same content for scripts."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from rich.table import Table

from analysis.metrics import comparison, memory_sweep
from analysis.published import findings
from analysis.records import Records
from sim.quantities import format_bytes, format_count, format_ns


def systems_table(records: Records) -> Table:
    """One row per system: traffic, backlog, recirculation, bypass, times in both recirculation modes."""
    table = Table(title="Systems, one epoch", caption=records.provenance(), title_justify="left")
    table.add_column("system")
    for heading in (
        "up", "down", "total", "vs host", "backlog p50", "p99", "max", "recirc. passes", "bypassed",
        "comm free", "comm tofino", "epoch free", "vs host", "epoch tofino", "vs host",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for system, row in comparison(records).iterrows():
        backlog = [format_bytes(row[f"backlog_{which}_bytes"]) for which in ("p50", "p99", "max")]
        table.add_row(
            str(system),
            format_bytes(row["up_bytes"]),
            format_bytes(row["down_bytes"]),
            format_bytes(row["total_bytes"]),
            _percent(row["traffic_vs_host"]),
            *backlog,
            format_count(row["recirculated_passes"]),
            f"{row['bypassed_share']:.0%}",
            _time(row["comm_free_ns"]),
            _time(row["comm_tofino_ns"]),
            _time(row["epoch_free_ns"]),
            _percent(row["epoch_vs_host"]),
            _time(row["epoch_tofino_ns"]),
            _percent(row["epoch_tofino_vs_host"]),
        )
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


def as_plain(records: Records) -> dict[str, Any]:
    """Everything the tables show, plain numbers, NaN as null."""
    return {
        "folder": str(records.folder),
        "provenance": records.provenance(),
        "graph": records.summary["graph"],
        "systems": _plain_rows(comparison(records).reset_index()),
        "memory_sweep": _plain_rows(memory_sweep(records)),
        "published": [
            {"id": one.id, "text": one.text, "paper": one.paper, "ours": one.ours, "note": one.note}
            for one in findings(records)
        ],
        "failures": records.summary["failures"],
        "interrupted": records.summary.get("interrupted", False),
    }


def _plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [
        {str(name): getattr(value, "item", lambda value=value: value)() for name, value in row.items()}
        for row in rows
    ]


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.0%}"


def _time(value: float) -> str:
    return "-" if math.isnan(value) else format_ns(value)
