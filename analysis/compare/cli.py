"""`netfold diff` and `netfold export`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.records import Runs

TABLES = ("summary", "runs", "metrics", "queues", "blocks", "epochs", "links", "packets")


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register this room's commands."""
    diff = subparsers.add_parser("diff", help="what changed between two runs, and whether it is chance")
    diff.add_argument("a", type=Path, metavar="RUN_A", help="a results or sweep folder, or one run in it")
    diff.add_argument("b", type=Path, metavar="RUN_B")
    diff.add_argument("--all", action="store_true", help="also the figures that are equal")
    diff.add_argument("-o", "--output", type=Path, metavar="FILE", help="also as .csv, .parquet or .tex")
    diff.add_argument("--json", action="store_true", help="print JSON instead of tables")
    diff.set_defaults(run=_diff)
    export = subparsers.add_parser("export", help="figures or tables of runs as CSV, Parquet or LaTeX")
    export.add_argument("results", type=Path, nargs="+", help="results or sweep folders")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", required=True, help=".csv, .parquet, .tex"
    )
    export.add_argument(
        "--table", choices=TABLES, default="summary", help="default: the summary over seeds; runs: a row each"
    )
    export.set_defaults(run=_export)


def _diff(args: argparse.Namespace) -> int:
    from analysis.compare.diff import diff  # noqa: PLC0415  # pandas takes seconds to load
    from analysis.compare.export import check_place, write_table  # noqa: PLC0415
    from analysis.render import wide_console  # noqa: PLC0415
    from analysis.tables import frame_table, plain_rows  # noqa: PLC0415

    if args.output:
        check_place(args.output)
    found = diff(args.a, args.b)
    results = found.results if args.all else found.changed()
    if args.output:
        text = found.shown(everything=args.all) if args.output.suffix == ".tex" else results
        write_table(text, args.output, caption=f"{args.a} and {args.b}")
    if args.json:
        told = {"a": str(args.a), "b": str(args.b), "scenario": plain_rows(found.scenario)}
        print(json.dumps(told | {"results": plain_rows(results), "only": found.only}, indent=2))
        return 0
    console = wide_console()
    if found.scenario.empty:
        console.print("The scenarios are the same.")
    else:
        console.print(frame_table(found.scenario, f"Scenario: a = {args.a}, b = {args.b}"))
    shown = found.shown(everything=args.all)
    if found.changed().empty:
        console.print("Every figure is equal.")
    else:
        console.print(frame_table(shown, "Results that differ" if not args.all else "Results"))
    more = 0 if args.all else len(found.changed()) - len(shown)
    if more:
        console.print(f"{more} more figures differ (--all shows every one)")
    for line in found.only:
        console.print(line, soft_wrap=True)
    return 0


def _export(args: argparse.Namespace) -> int:
    from analysis.compare.export import check_place, write_table  # noqa: PLC0415
    from analysis.records import load_runs  # noqa: PLC0415  # pandas takes seconds to load

    check_place(args.output)
    runs = load_runs(*args.results)
    if not len(runs):
        raise InputError(f"{args.results[0]}: no results in it or below it")
    frame = _table(runs, args.table)
    write_table(frame, args.output)
    print(f"{args.table}: {len(frame)} rows in {args.output}")
    for folder, why in runs.skipped.items():
        print(f"skipped {folder}: {why}")
    return 0


def _table(runs: Runs, name: str) -> pd.DataFrame:
    from analysis.metrics import measure_all, summarise  # noqa: PLC0415

    match name:
        case "summary":
            return summarise(runs.frame)
        case "runs":
            return runs.frame
        case "metrics":
            return measure_all(runs)
    return runs.table(name)
