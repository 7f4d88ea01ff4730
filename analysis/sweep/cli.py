"""`netfold sweep`: run a sweep file, or go on with it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.quantities import format_bytes, parse_quantity
from workloads.errors import InputError

if TYPE_CHECKING:
    from analysis.sweep.drive import Outcome
    from analysis.sweep.folder import SweepFolder
    from analysis.sweep.spec import Sweep

INTERRUPTED = 130


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `netfold sweep`."""
    sweep = subparsers.add_parser("sweep", help="run many scenarios, each once, here or on a Dask cluster")
    sweep.add_argument("sweep", type=Path, metavar="SWEEP.toml", help="see docs/sweeps.md")
    sweep.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="default: results/sweep-<name>")
    sweep.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, tcp://HOST:PORT")
    sweep.add_argument("--jobs", type=int, metavar="N", help="at a time on this machine (default: the cores)")
    sweep.add_argument(
        "--memory", metavar="SIZE", help="to use of this machine (default: 80 %% of what is free)"
    )
    sweep.add_argument("--retry", action="store_true", help="try again what has failed")
    sweep.add_argument("--dry-run", action="store_true", help="only list what would run")
    sweep.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sweep.set_defaults(run=_sweep)


def _sweep(args: argparse.Namespace) -> int:
    from analysis.sweep.drive import run_sweep  # noqa: PLC0415  # pandas takes seconds to load
    from analysis.sweep.progress import SweepDisplay  # noqa: PLC0415
    from analysis.sweep.spec import load_sweep  # noqa: PLC0415

    if args.jobs is not None and not 1 <= args.jobs <= 1024:
        raise InputError(f"--jobs: {args.jobs} given; allowed: 1 to 1024")
    memory = parse_quantity(args.memory, "bytes", "--memory") if args.memory else None
    if memory is not None and memory < 1:
        raise InputError(f"--memory: {args.memory} given; expected a positive size")
    sweep = load_sweep(args.sweep)
    place = args.output or Path("results") / f"sweep-{args.sweep.stem}"
    if args.dry_run:
        return _list(sweep, place, args.json)
    with SweepDisplay() as display:
        outcome = run_sweep(
            sweep,
            place,
            display,
            scheduler=args.scheduler,
            jobs=args.jobs,
            memory_bytes=memory,
            retry=args.retry,
        )
    _report(outcome, args.json)
    if outcome.interrupted:
        print(f"netfold: interrupted; the same command goes on from {outcome.folder}", file=sys.stderr)
        return INTERRUPTED
    return 1 if outcome.failures else 0


def _list(sweep: Sweep, place: Path, as_json: bool) -> int:
    from analysis.sweep.folder import SweepFolder  # noqa: PLC0415
    from analysis.sweep.memory import preparing_bytes  # noqa: PLC0415

    folder = SweepFolder(place)
    rows = [
        {
            "unit": name,
            "state": _state(folder, name),
            "preparing_bytes": sweep.memory_bytes or preparing_bytes(unit.scenario),
        }
        for name, unit in sweep.units.items()
    ]
    if as_json:
        points = [{"keys": point.keys, "units": point.units} for point in sweep.points]
        print(json.dumps({"folder": str(place), "points": points, "units": rows}, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['state']:7} {row['unit']}  prepared in {format_bytes(float(str(row['preparing_bytes'])))}"
        )
    print(f"{len(sweep.points)} points, {len(rows)} runs")
    return 0


def _state(folder: SweepFolder, name: str) -> str:
    damaged = folder.damage(name)
    if folder.is_done(name) and not damaged:
        return "done"
    return "failed" if folder.failure(name) else "damaged" if damaged else "to do"


def _report(outcome: Outcome, as_json: bool) -> None:
    from analysis.html import with_intervals  # noqa: PLC0415
    from analysis.metrics import summarise  # noqa: PLC0415
    from analysis.metrics.summary import ALWAYS  # noqa: PLC0415
    from analysis.render import wide_console  # noqa: PLC0415
    from analysis.tables import frame_table, plain_rows  # noqa: PLC0415

    runs = outcome.runs()
    summary = summarise(runs.frame)
    if as_json:
        answer: dict[str, Any] = {"folder": str(outcome.folder), **outcome.counts()}
        answer |= {"interrupted": outcome.interrupted, "failures": outcome.failures}
        answer |= {"damaged": outcome.damaged, "skipped": runs.skipped}
        print(json.dumps(answer | {"summary": plain_rows(summary)}, indent=2))
        return
    console = wide_console()
    same = [name for name in ALWAYS if name != "system" and name in summary and summary[name].nunique() < 2]
    told = with_intervals(summary.drop(columns=same))
    console.print(frame_table(told, "Mean over seeds [95 % interval]"))
    lines = [f"{name}: failed: {reason}" for name, reason in outcome.failures.items()]
    lines += [f"skipped {folder}: {why}" for folder, why in runs.skipped.items()]
    counts = ", ".join(f"{count} {how}" for how, count in outcome.counts().items())
    for line in [*lines, counts, f"records: {outcome.folder}"]:
        console.print(line, soft_wrap=True)
