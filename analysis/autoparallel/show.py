"""What the commands print: the ranked table and why, times of collectives, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn
from rich.table import Table

from analysis.autoparallel.plan import Ranking, scheme_row
from analysis.render import wide_console
from workloads.parallel.predict import Prediction
from workloads.terminal import PlainColumn, plain_console

_LINE_EVERY_S = 10.0


@contextmanager
def progress(title: str) -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None]]]:
    """Yields (stage, counted): what is being done, and how much of it is done. A bar on a terminal, a line
    now and then elsewhere.
    """
    console = plain_console(stderr=True)
    columns = (SpinnerColumn(), PlainColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(title, total=None)
    last = time.monotonic()
    current = title

    def told() -> None:
        nonlocal last
        if not console.is_terminal and time.monotonic() - last > _LINE_EVERY_S:
            last = time.monotonic()
            print(f"{title}: {current}", file=sys.stderr, flush=True)

    def stage(text: str) -> None:
        nonlocal current
        current = text
        bar.reset(task, description=text, total=None)
        told()

    def counted(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        told()

    if console.is_terminal:
        with bar:
            yield stage, counted
    else:
        yield stage, counted


def table(ranking: Ranking, best: Prediction, top: int) -> None:
    """The first `top` that fit, and as many that do not."""
    facts = ranking.facts
    console = wide_console()
    title = (
        f"{facts['model']['name']} on {facts['graph']} ({facts['vertices']:,} vertices, "
        f"{facts['directed_edges']:,} directed edges), {facts['devices']} devices, {facts['cluster']}"
    )
    shown = Table(title=title, title_justify="left", title_style="bold")
    ran = {one.scheme: one.wall_s for one in ranking.measured}
    names = ["scheme", "step", "compute", "transfers", "sent", "memory"]
    if ran:
        names.insert(2, "measured")
    for name in names:
        shown.add_column(name, justify="left" if name == "scheme" else "right", no_wrap=True)
    shown.add_column("why", overflow="fold")
    fitting = [one for one in ranking.predictions if not one.why_not]
    others = [one for one in ranking.predictions if one.why_not]
    for one in [*fitting[:top], *_distinct(others)[:top]]:
        row = scheme_row(best, one)
        if row["step_ns"] is None:
            shown.add_row(row["scheme"], *["-"] * (len(names) - 1), row["why"])
            continue
        seconds = ran.get(one.scheme)
        shown.add_row(
            row["scheme"] + (" *" if row["sampled"] else ""),
            _time(one.step_ns),
            *([_time(1e9 * seconds) if seconds else ""] if ran else []),
            _time(one.compute_ns),
            _time(one.transfer_ns),
            _size(one.sent_bytes),
            _size(one.memory_bytes),
            row["why"],
        )
    console.print(shown)
    kernels = ", ".join(f"{name} {_time(ns)}" for name, ns in _largest(best.compute))
    moved = ", ".join(f"{name} {_time(ns)}" for name, ns in _largest(best.transfers)) or "none"
    held = ", ".join(f"{name} {_size(size)}" for name, size in _largest(best.memory))
    if ran:
        first = fitting[0].scheme.name
        told = f"{len(ran)} schemes ran a few steps each; the fastest is {best.scheme.name}"
        console.print(
            told + (", the predicted first" if first == best.scheme.name else f"; predicted: {first}")
        )
    console.print(f"{best.scheme.name}: computes {kernels}")
    console.print(f"  transfers {moved}; holds {held}")
    console.print(
        f"computation {facts['device']}; transfers {facts['network']}"
        + (", switches may add" if facts["in_network"] else "")
        + f"; parts evened out by {facts['balance_alpha_ns']:.3g} ns a vertex, "
        f"{facts['balance_beta_ns']:.3g} ns an edge"
    )
    errors = facts["extrapolation_error"]
    if errors:
        worst = max(errors, key=lambda name: errors[name])
        console.print(f"beyond simulated sizes: off by up to {100 * errors[worst]:.1f} % ({worst})")
    if any(one.sampled for one in fitting[:top]):
        console.print("* some replicas' closures were counted, not all, or their parts estimated")
    if len(fitting) > top:
        console.print(f"{len(fitting) - top} more fit; --top shows them, --json all")


def _distinct(others: list[Prediction]) -> list[Prediction]:
    """One of each reason that does not depend on turns and checkpoints."""
    seen: dict[str, Prediction] = {}
    for one in others:
        seen.setdefault(one.why_not, one)
    return list(seen.values())


def training(log: list[dict[str, Any]]) -> None:
    """What happened while training."""
    if not log:
        return
    shown = Table(title="trained", title_justify="left", title_style="bold")
    for name in ("epoch", "scheme", "loss", "measured", "predicted", "note"):
        shown.add_column(name)
    for row in log:
        shown.add_row(
            str(row["epoch"]),
            row["scheme"],
            f"{row['loss']:.5f}",
            _time(row["measured_ns"]),
            _time(row["predicted_ns"]),
            row["note"],
        )
    wide_console().print(shown)


def collectives(cluster: str, members: int, rows: list[dict[str, Any]]) -> None:
    """Times beside lower bounds."""
    shown = Table(title=f"{cluster}, groups of {members}: simulated", title_justify="left")
    for name in ("collective", "algorithm", "bytes", "time", "lower bound", "how known"):
        shown.add_column(
            name, justify="left" if name in ("collective", "algorithm", "how known") else "right"
        )
    for row in rows:
        how = "simulated" if row["simulated"] else f"extrapolated, ±{100 * row['extrapolation_error']:.1f} %"
        shown.add_row(
            row["collective"],
            row["algorithm"],
            _size(row["bytes"]),
            _time(row["time_ns"]),
            _time(row["lower_bound_ns"]),
            how,
        )
    wide_console().print(shown)


def as_json(
    ranking: Ranking, best: Prediction, profile: dict[str, Any], log: list[dict[str, Any]]
) -> dict[str, Any]:
    """All of it."""
    rows = [scheme_row(best, one) for one in ranking.predictions]
    ran = [
        {
            "scheme": one.scheme.name,
            "step_ns": round(1e9 * one.wall_s),
            "compute_ns": round(1e9 * one.compute_s),
        }
        for one in ranking.measured
    ]
    first = next((one.scheme.name for one in ranking.predictions if not one.why_not), "")
    answer = {
        "choice": best.scheme.name,
        "predicted_choice": first,
        "measured": ran,
        "facts": ranking.facts,
        "profile": profile,
        "schemes": rows,
    }
    return answer | ({"epochs": log} if log else {})


def _largest(parts: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda item: -item[1])[:4]


def _time(ns: float) -> str:
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= factor:
            return f"{ns / factor:.3g} {unit}"
    return f"{ns:.0f} ns"


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
