"""Frames and records as small HTML tables: what a notebook shows of our objects, and the report's tables."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from sim.quantities import format_bytes, format_count, format_ns

if TYPE_CHECKING:
    from analysis.records import Records, Runs

MAX_ROWS = 60  # a notebook shows no more of a table; the frame has them all


def show_value(column: str, value: Any) -> str:
    """A figure as people read it, by the unit in its column's name."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    name = column.removesuffix("_low").removesuffix("_high")
    if name.endswith("memory_bytes") and number == 0:
        return "unlimited"
    formats: list[tuple[str, Callable[[float], str]]] = [
        ("_ns", format_ns),
        ("_bytes", format_bytes),
        ("_bps", lambda bps: f"{format_count(bps)}b/s"),
        ("_share", lambda share: f"{share:.1%}"),
        ("_utilisation", lambda share: f"{share:.1%}"),
        ("_vs_host", lambda change: f"{change:+.0%}".replace("-", "−")),
        ("_byte_s", lambda area: f"{format_count(area)}B·s"),
    ]
    for suffix, show in formats:
        if name.endswith(suffix):
            return show(number)
    return format_count(number) if abs(number) >= 10_000 else f"{number:g}"


def frame_html(frame: pd.DataFrame, *, caption: str = "") -> str:
    """A frame as a table whose numbers are shown by their columns' units. At most MAX_ROWS rows."""
    numeric = {column: pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns}
    head = "".join(f"<th{_align(numeric[name])}>{html.escape(str(name))}</th>" for name in frame.columns)
    rows = []
    for _, row in frame.head(MAX_ROWS).iterrows():
        cells = (
            f"<td{_align(numeric[name])}>{html.escape(show_value(str(name), row[name]))}</td>"
            for name in frame.columns
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = len(frame) - MAX_ROWS
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    foot = f"<tfoot><tr><td colspan={len(frame.columns)}>and {more} more</td></tr></tfoot>"
    left = foot if more > 0 else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>{left}</table>"


def with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """A `summarise` frame with each metric's interval in its own cell: "12.3 ms [11.9 ms, 12.6 ms]"."""
    shown = frame.copy()
    for column in [str(name) for name in frame.columns if f"{name}_low" in frame.columns]:
        texts = []
        bounds = frame[f"{column}_low"], frame[f"{column}_high"]
        for value, low, high in zip(frame[column], *bounds, strict=True):
            text = show_value(column, value)
            known = not math.isnan(low)
            texts.append(f"{text} [{show_value(column, low)}, {show_value(column, high)}]" if known else text)
        shown[column] = texts
        shown = shown.drop(columns=[f"{column}_low", f"{column}_high"])
    return shown


def records_html(records: Records) -> str:
    """The comparison of one folder's systems."""
    from analysis.metrics import comparison  # noqa: PLC0415  # a circle otherwise

    table = comparison(records).reset_index()
    traffic, times = ["total_bytes", "traffic_vs_host"], ["epoch_free_ns", "epoch_tofino_ns"]
    wanted = ["system", *traffic, "backlog_max_bytes", *times]
    return frame_html(table[[name for name in wanted if name in table]], caption=records.provenance())


def runs_html(runs: Runs) -> str:
    """The summary over seeds of a collection, and what was skipped."""
    from analysis.metrics import summarise  # noqa: PLC0415  # a circle otherwise

    caption = f"{len(runs)} runs in {', '.join(str(root) for root in runs.roots)}"
    told = "".join(f"<li>{html.escape(f'{folder}: {why}')}</li>" for folder, why in runs.skipped.items())
    skipped = f"<p>Skipped:</p><ul>{told}</ul>" if told else ""
    return frame_html(with_intervals(summarise(runs.frame)), caption=caption) + skipped


def _align(number: bool) -> str:
    return ' style="text-align:right"' if number else ""
