"""The estimate for people: a table with a provenance mark in every cell, the papers' figures, a stacked-bar
plot.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.table import Table

from analysis.epoch_time.estimate import COUNTED, MEASURED, MODELLED, SIMULATED, Estimate
from analysis.plots import COLOURS, STYLE
from analysis.published.values import Number, published_values

MARKS = {MEASURED: "m", MODELLED: "r", SIMULATED: "s", COUNTED: "c", "published": "p"}
LEGEND = "m measured, r modelled (roofline), s simulated, c counted bytes over a link model, p published"
KINDS = {
    "compute": ("compute",),
    "quantise": ("quantise", "dequantise"),
    "communicate": ("communicate",),
    "weights": ("weights",),
}
ALL_KINDS = ("compute", "quantise", "communicate", "dequantise", "weights")


def mark(provenance: str) -> str:
    """The marks of a provenance such as "measured + modelled"."""
    return "".join(MARKS[part] for part in provenance.split(" + ") if part)


def ms(ns: float, provenance: str) -> str:
    """Milliseconds with their marks; a dash for nothing."""
    return f"{ns / 1e6:.2f} {mark(provenance)}" if ns else "-"


def estimate_table(estimates: list[Estimate], title: str) -> Table:
    """A row per system."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("system", "compute ms", "quantise ms", "comm. ms", "weights ms", "exposed ms", "epoch ms"):
        table.add_column(name, justify="left" if name == "system" else "right", no_wrap=True)
    for name in ("vs first", "main MB", "scales MB"):
        table.add_column(name, justify="right", no_wrap=True)
    first = estimates[0].epoch_ns
    for one in estimates:
        cells = [ms(one.total_ns(*kinds), one.provenance(*kinds)) for kinds in KINDS.values()]
        transfer = one.provenance("quantise", "communicate", "dequantise")
        main, scales = (
            sum(getattr(part, name) for part in one.parts) for name in ("main_bytes", "scale_bytes")
        )
        bytes_mark = "s" if one.note == "simulated" else "c"
        everything = one.provenance(*ALL_KINDS)
        table.add_row(
            one.system,
            *cells,
            ms(one.exposed_ns, transfer),
            ms(one.epoch_ns, everything),
            f"{first / one.epoch_ns:.2f}x {mark(everything)}",
            f"{main / 1e6:.1f} {bytes_mark}",
            f"{scales / 1e6:.2f} {bytes_mark}" if scales else "-",
        )
    return table


def published_pairs(estimates: list[Estimate]) -> list[dict[str, Any]]:
    """Every published pair of an epoch time and a communication time, beside our share and speed-up of the
    same system: the settings differ, so times are not compared, only shares and ratios.
    """
    ours = {one.system: one for one in estimates}
    numbers = published_values("sylvie")
    found = []
    for number in numbers.values():
        if (number.about.get("metric"), number.unit) != ("epoch time", "s") or not number.id.endswith(
            "-epoch"
        ):
            continue
        stem = number.id.removesuffix("-epoch")
        comm = numbers.get(f"{stem}-comm")
        base = _exact(number, numbers)
        mine = ours.get(_our_name(number.about["system"]))
        reference = ours.get("dgl")
        found.append(
            {
                "system": number.about["system"],
                "setting": ", ".join(
                    number.about[key] for key in ("model", "graph", "setting") if key in number.about
                ),
                "place": number.place,
                "published_epoch_s": number.value,
                "published_comm_s": None if comm is None else comm.value,
                "published_speedup": None if base is None else base.value / number.value,
                "our_speedup": None
                if mine is None or reference is None
                else reference.epoch_ns / mine.epoch_ns,
                "published_comm_share": None if comm is None else comm.value / number.value,
                "our_comm_share": None if mine is None else mine.exposed_ns / mine.epoch_ns,
                "our_provenance": "" if mine is None else mine.provenance(*ALL_KINDS),
            }
        )
    return found


def _exact(number: Number, numbers: Any) -> Number | None:
    """dgl's epoch time in the same setting."""
    for other in numbers.values():
        same = all(other.about.get(k) == number.about.get(k) for k in ("graph", "model", "setting", "metric"))
        if same and other.about["system"] == "dgl":
            found: Number = other
            return found
    return None


def _our_name(system: str) -> str:
    return "sylvie, async" if system == "sylvie" else system


def published_table(rows: list[dict[str, Any]]) -> Table:
    """The papers' epochs beside our ratios."""
    title = "SYLVIE's paper beside this estimate: other graphs and machines, so ratios only"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in (
        "system",
        "the paper's setting",
        "epoch s",
        "comm. s",
        "over dgl",
        "ours",
        "comm. share",
        "ours ",
    ):
        table.add_column(name, justify="left" if name in ("system", "the paper's setting") else "right")

    def text(value: float | None, form: str, suffix: str) -> str:
        return "-" if value is None else f"{value:{form}}{suffix}"

    for row in rows:
        table.add_row(
            row["system"],
            f"{row['setting']} ({row['place']})",
            text(row["published_epoch_s"], ".2f", " p"),
            text(row["published_comm_s"], ".2f", " p"),
            text(row["published_speedup"], ".2f", "x p"),
            text(row["our_speedup"], ".2f", f"x {mark(row['our_provenance'])}"),
            text(row["published_comm_share"], ".0%", " p"),
            text(row["our_comm_share"], ".0%", f" {mark(row['our_provenance'])}"),
        )
    return table


def draw(estimates: list[Estimate], about: str, folder: Path) -> list[Path]:
    """Stacked bars, what runs beside compute hatched; PNG and SVG. Raises OSError."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 1.4 + 0.42 * len(estimates)), layout="constrained")
        axes = figure.subplots()
        names = [one.system for one in estimates]
        for at, one in enumerate(estimates):
            left = 0.0
            hidden = one.transfer_ns - one.exposed_ns
            for place, (kind, kinds) in enumerate(KINDS.items()):
                ns = one.total_ns(*kinds)
                if kind == "communicate":
                    ns = one.exposed_ns - (0 if one.asynchronous else one.total_ns("quantise", "dequantise"))
                if kind == "quantise" and one.asynchronous:
                    ns = 0.0
                axes.barh(
                    at, ns / 1e6, left=left / 1e6, color=COLOURS[place], label=kind if at == 0 else None
                )
                left += ns
            if hidden:
                axes.barh(at, hidden / 1e6, fill=False, hatch="///", edgecolor=COLOURS[2], linewidth=0)
        axes.barh(0, 0, fill=False, hatch="///", edgecolor=COLOURS[2], label="hidden behind compute")
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel("epoch (ms)")
        axes.legend(loc="lower right", fontsize=8, frameon=False)
        figure.supxlabel("\n".join(textwrap.wrap(about, 120)), fontsize=7)
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            path = folder / f"epoch-time{suffix}"
            figure.savefig(path, metadata=metadata)
            written.append(path)
    return written
