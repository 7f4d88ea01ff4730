"""The figures of a results folder as PNG and SVG, each with its provenance under it.

Colours are Okabe and Ito's, told apart under common colour blindness; marks differ by hatch or dash too.
Equal records give equal files: no date, a fixed salt for the SVG's ids.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from analysis.metrics import backlog_over_time, cell, comparison, memory_sweep
from analysis.records import Records
from workloads.systems import SYSTEMS

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
DASHES = ("-", "--", "-.", ":")
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "svg.hashsalt": "netfold",
    "svg.fonttype": "none",
    "figure.dpi": 100,
    "savefig.dpi": 150,
}
BACKLOG_SYSTEMS = ("switchgnn", "switchgnn-no-gamr")
MAX_POINTS = 2000  # per line; more cannot be seen and make an SVG slow


def draw_all(records: Records, folder: Path) -> list[Path]:
    """Write every figure the records allow into `folder` (created); the paths written, PNG before SVG.

    Each file is whole or not there. Raises OSError when one cannot be written.
    """
    written: list[Path] = []
    drawers: dict[str, Callable[[Records], Figure | None]] = {
        "comparison": draw_comparison,
        "backlog": draw_backlog,
        "memory": draw_memory,
    }
    with mpl.rc_context(STYLE):
        for name, draw in drawers.items():
            figure = draw(records)
            if figure is None:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
                path, part = folder / f"{name}{suffix}", folder / f".{name}.part{suffix}"
                try:
                    figure.savefig(part, metadata=metadata)
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
                written.append(path)
    return written


def draw_comparison(records: Records) -> Figure | None:
    """Traffic over the hosts' links and epoch time, one bar group per system."""
    table = comparison(records)
    if table.empty:
        return None
    figure = _figure(records, width=10.5, height=1.6 + 0.55 * len(table))
    traffic, epoch = figure.subplots(1, 2)
    rows = range(len(table))
    up, down = table["up_bytes"] / 1e9, table["down_bytes"] / 1e9
    look = {"edgecolor": "white", "linewidth": 0.5}
    traffic.barh(rows, up, color=COLOURS[0], label="up: hosts to switches", **look)
    traffic.barh(rows, down, left=up, color=COLOURS[4], hatch="//", label="down: switches to hosts", **look)
    traffic.set_xlabel("traffic per epoch (GB on host links)")
    in_network = [system not in SYSTEMS or SYSTEMS[system].in_network for system in map(str, table.index)]
    for mode, offset, colour, hatch in (("free", -0.2, COLOURS[2], ""), ("tofino", 0.2, COLOURS[1], "\\\\")):
        shown = [row for row in rows if in_network[row]]
        times = (table[f"epoch_{mode}_ns"] / 1e6).to_numpy()[shown]
        places = [row + offset for row in shown]
        epoch.barh(places, times, 0.38, color=colour, hatch=hatch, label=f"recirculation {mode}", **look)
    shown = [row for row in rows if not in_network[row]]
    times = (table["epoch_free_ns"] / 1e6).to_numpy()[shown]
    epoch.barh(shown, times, 0.78, color="#999999", label="no recirculation", **look)
    epoch.set_xlabel("epoch time (ms)")
    for axes in (traffic, epoch):
        axes.set_yticks(rows, list(table.index))
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.15, 1.0),
            ncols=3,
            frameon=False,
            fontsize=8,
            columnspacing=1.0,
        )
    return figure


def draw_backlog(records: Records) -> Figure | None:
    """The longest egress queue over time, with and without GAMR; None unless both ran."""
    labels = [f"{system}-free" for system in BACKLOG_SYSTEMS]
    if not all(label in records.summary["order"] for label in labels):
        return None
    figure = _figure(records, width=7.5, height=4.5)
    axes = figure.subplots()
    for index, (label, name) in enumerate(
        zip(labels, ("with GAMR", "without GAMR (random order)"), strict=True)
    ):
        backlog = backlog_over_time(records.table(label, "queues"))
        thinned = _thin(backlog["time_ns"].to_numpy(), backlog["backlog_bytes"].to_numpy())
        axes.plot(
            thinned[0] / 1e6, thinned[1] / 1e6, DASHES[index], color=COLOURS[index], linewidth=1.2, label=name
        )
    axes.set_xlabel("simulated time (ms)")
    axes.set_ylabel("longest egress queue (MB)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def draw_memory(records: Records) -> Figure | None:
    """Traffic against switch memory; None without a sweep."""
    sweep = memory_sweep(records)
    if sweep.empty:
        return None
    sizes = sorted({memory for memory in sweep["memory_bytes"] if memory}) + [0] * bool(
        (sweep["memory_bytes"] == 0).any()
    )
    place = {memory: index for index, memory in enumerate(sizes)}
    figure = _figure(records, width=7.5, height=4.5)
    axes = figure.subplots()
    for index, (system, rows) in enumerate(sweep.groupby("system", sort=False)):
        axes.plot(
            [place[memory] for memory in rows["memory_bytes"]],
            rows["total_bytes"] / 1e9,
            DASHES[index % len(DASHES)],
            marker="osD^v"[index % 5],
            color=COLOURS[index % len(COLOURS)],
            label=str(system),
        )
    table = comparison(records)
    if "host" in table.index:
        axes.axhline(cell(table, "host", "total_bytes") / 1e9, color="black", linewidth=1, label="host")
    axes.set_xticks(
        range(len(sizes)), [f"{memory / 1e6:g} MB" if memory else "unlimited" for memory in sizes]
    )
    axes.set_xlabel("switch memory for aggregation")
    axes.set_ylabel("traffic per epoch (GB on host links)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def _figure(records: Records, *, width: float, height: float) -> Figure:
    """An empty figure with the provenance under it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    caption = textwrap.fill(records.provenance(), int(width * 15))
    figure.supxlabel(caption, fontsize=7, color="#444444")
    return figure


def _thin(times: Any, values: Any) -> tuple[Any, Any]:
    """At most MAX_POINTS points that keep every run's maximum."""
    step = -(-len(times) // MAX_POINTS)
    if step <= 1:
        return times, values
    kept = len(times) // step * step
    return times[:kept:step], values[:kept].reshape(-1, step).max(axis=1)
