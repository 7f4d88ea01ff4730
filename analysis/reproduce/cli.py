"""`netfold reproduce PAPER`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.errors import InputError

if TYPE_CHECKING:
    from analysis.reproduce.figure import Figure

INTERRUPTED = 130
PAPERS = ("switchgnn", "sylvie")
SEEDS_HELP = "runs of each point; from 2 on, means have 95 %% bootstrap intervals (default: 1)"


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `netfold reproduce`."""
    parser = subparsers.add_parser("reproduce", help="run what a paper's figures need, and compare")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument(
        "--graph", metavar="GRAPH[,GRAPH]", help="default: reddit; for sylvie graphs with labels"
    )
    parser.add_argument(
        "--scale", type=float, metavar="SHARE", help="of a stand-in's vertices (default: 0.1)"
    )
    parser.add_argument("--workers", metavar="N[,N]", help="default: 32,128; for sylvie 4")
    parser.add_argument(
        "--figure", metavar="ID[,ID]", help="only these; unknown ones are answered with the list"
    )
    for flag, standard in (("--layers", 4), ("--hidden", 64), ("--epochs", 30)):
        text = f"of sylvie's trainings (default: {standard})"
        parser.add_argument(flag, type=int, default=standard, metavar="N", help=text)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help=SEEDS_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="default: results/reproduce-<paper>"
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="at a time on this machine (default: the cores)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=_reproduce)


def _reproduce(args: argparse.Namespace) -> int:
    if not 1 <= args.seeds <= 1000:
        raise InputError(f"--seeds: {args.seeds} given; allowed: 1 to 1000")
    if args.scale is not None and not 0 < args.scale <= 1:
        raise InputError(f"--scale: {args.scale} given; allowed: above 0, at most 1")
    if args.jobs is not None and not 1 <= args.jobs <= 1024:
        raise InputError(f"--jobs: {args.jobs} given; allowed: 1 to 1024")
    place = args.output or Path("results") / f"reproduce-{args.paper}"
    return _switchgnn(args, place) if args.paper == "switchgnn" else _sylvie(args, place)


def chosen_figures(given: str | None, known: dict[str, str]) -> tuple[str, ...]:
    """The figures of `--figure`, in the paper's order. Raises InputError with the list."""
    names = list(known) if given is None else [name.strip() for name in given.split(",") if name.strip()]
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise InputError(f"--figure: {(wrong or [''])[0][:40]!r} given; allowed: {', '.join(known)}")
    return tuple(name for name in known if name in names)


def worker_counts(given: str | None, standard: tuple[int, ...]) -> tuple[int, ...]:
    """The counts of `--workers`, ascending. Raises InputError."""
    if given is None:
        return standard
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() and 2 <= int(part) <= 1024 for part in parts):
        raise InputError(f"--workers: {given[:40]!r} given; expected numbers of 2 to 1024, such as 32,128")
    return tuple(sorted({int(part) for part in parts}))


def _switchgnn(args: argparse.Namespace, place: Path) -> int:
    from analysis.reproduce import switchgnn  # noqa: PLC0415  # pandas takes seconds to load
    from analysis.sweep.drive import run_sweep  # noqa: PLC0415
    from analysis.sweep.progress import SweepDisplay  # noqa: PLC0415
    from analysis.sweep.spec import make_sweep  # noqa: PLC0415

    figures, workers = chosen_figures(args.figure, switchgnn.FIGURES), worker_counts(args.workers, (32, 128))
    choices = [switchgnn.Choice(graph, scale, workers, figures) for graph, scale in graphs(args, 0.1)]
    points = [point for choice in choices for point in switchgnn.points(choice)]
    sweep = make_sweep(points=points, seeds=range(1, args.seeds + 1))
    with SweepDisplay() as display:
        outcome = run_sweep(sweep, place, display, scheduler=args.scheduler, jobs=args.jobs)
    frame = outcome.runs().frame
    show(
        args.paper,
        [figure for choice in choices for figure in switchgnn.compare(choice, frame)],
        about={"scales": {one.graph: one.scale for one in choices}, "workers": workers, "seeds": args.seeds},
        failures=outcome.failures,
        place=outcome.folder,
        as_json=args.json,
    )
    if outcome.interrupted:
        print(f"netfold: interrupted; the same command goes on from {outcome.folder}", file=sys.stderr)
        return INTERRUPTED
    return 1 if outcome.failures else 0


def _sylvie(args: argparse.Namespace, place: Path) -> int:
    from workloads.training.require import require_torch  # noqa: PLC0415

    require_torch("reproduce sylvie")
    from analysis.reproduce import sylvie  # noqa: PLC0415  # pandas takes seconds to load
    from analysis.reproduce.trainings import bring  # noqa: PLC0415
    from workloads.terminal import plain_console  # noqa: PLC0415

    if args.scheduler or args.jobs or args.seeds != 1:
        raise InputError(
            "--scheduler, --jobs, --seeds: not for sylvie; its trainings run here, one at a time"
        )
    counts = worker_counts(args.workers, (4,))
    if len(counts) != 1 or counts[0] > 64:
        raise InputError(f"--workers: {args.workers} given; for sylvie one number of 2 to 64")
    sizes = ("layers", args.layers, 64), ("hidden", args.hidden, 4096), ("epochs", args.epochs, 10**6)
    for name, value, most in sizes:
        if not 1 <= value <= most:
            raise InputError(f"--{name}: {value} given; allowed: 1 to {most}")
    choices = [
        sylvie.Choice(
            graph=graph,
            scale=scale,
            workers=counts[0],
            layers=args.layers,
            hidden=args.hidden,
            epochs=args.epochs,
            figures=chosen_figures(args.figure, sylvie.FIGURES),
        )
        for graph, scale in graphs(args, 0.003)
    ]
    compute_s = {choice.graph: choice.compute_s() for choice in choices}
    console = plain_console(stderr=True)
    found, failures = bring(
        [training for choice in choices for training in sylvie.trainings(choice)],
        place.resolve(),
        lambda done, every, name: console.print(f"{done} of {every} trainings; {name}"),
    )
    scales = {choice.graph: choice.scale for choice in choices}
    show(
        args.paper,
        [one for choice in choices for one in sylvie.compare(choice, found, compute_s[choice.graph])],
        about={"scales": scales, "workers": counts, "compute_s": compute_s},
        failures=failures,
        place=place,
        as_json=args.json,
    )
    return 1 if failures else 0


def graphs(args: argparse.Namespace, standard: float) -> list[tuple[str, float]]:
    """(graph, scale) of `--graph` and `--scale`; stand-ins without a scale take `standard`."""
    from workloads.graphs.standins import shapes  # noqa: PLC0415

    names = list(dict.fromkeys(name.strip() for name in (args.graph or "reddit").split(",") if name.strip()))
    whole = [name for name in names if name not in shapes()]
    if not names:
        raise InputError("--graph: no name given")
    if args.scale is not None and whole:
        raise InputError(f"--scale: only for stand-ins ({', '.join(shapes())}), not for {whole[0][:40]}")
    return [(name, 1.0 if name in whole else args.scale or standard) for name in names]


def show(
    paper: str,
    figures: list[Figure],
    *,
    about: dict[str, Any],
    failures: dict[str, str],
    place: Path,
    as_json: bool,
) -> None:
    """Print the comparison."""
    from rich.table import Table  # noqa: PLC0415

    from analysis.published import PAPERS as TITLES  # noqa: PLC0415
    from analysis.render import wide_console  # noqa: PLC0415
    from analysis.reproduce.figure import headline  # noqa: PLC0415

    if as_json:
        told = {"paper": TITLES[paper], "folder": str(place), **about, "headline": headline(figures)}
        print(
            json.dumps(told | {"figures": [one.plain() for one in figures], "failures": failures}, indent=2)
        )
        return
    console = wide_console()
    for figure in figures:
        table = Table(title=f"{figure.title} · {figure.graph}", title_justify="left", title_style="bold")
        over_seeds = any(row.low == row.low for row in figure.rows)
        ours = "ours [95 %]" if over_seeds else "ours"
        for heading in ("", "paper", ours, "same direction", "ours/paper", "where, and our setting"):
            table.add_column(heading, justify="right" if heading in ("paper", ours, "ours/paper") else "left")
        for row in figure.rows:
            ratio = "-" if row.ratio != row.ratio else f"{row.ratio:.2f}"
            where = f"{row.place}; {row.setting}"
            table.add_row(row.text, row.show(row.theirs), row.show_ours(), row.verdict, ratio, where)
        console.print(table)
        for reason in figure.why:
            console.print(f"  can differ: {reason}")
    lines = [f"{name}: failed: {reason}" for name, reason in failures.items()]
    for line in ["", headline(figures), *lines, f"records: {place}"]:
        console.print(line, soft_wrap=True)
