"""`netfold report`: the page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sim.quantities import format_bytes


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `netfold report`."""
    report = subparsers.add_parser("report", help="one page about a run or a sweep, to show and to send")
    report.add_argument("results", type=Path, help="folder written by run, compare or sweep")
    report.add_argument("-o", "--output", type=Path, metavar="FILE", default=Path("report.html"))
    report.add_argument("--json", action="store_true", help="print where the page is, as JSON")
    report.set_defaults(run=_report)


def _report(args: argparse.Namespace) -> int:
    from rich.progress import Progress, SpinnerColumn  # noqa: PLC0415

    from analysis.report.page import write_report  # noqa: PLC0415  # pandas takes seconds to load
    from workloads.terminal import PlainColumn, plain_console  # noqa: PLC0415

    console = plain_console(stderr=True)
    columns = SpinnerColumn(), PlainColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(f"reading {args.results}", total=None)
        size = write_report(args.results, args.output)
    if args.json:
        print(json.dumps({"report": str(args.output), "bytes": size}))
    else:
        print(f"report: {args.output} ({format_bytes(size)}; opens offline)", file=sys.stdout)
    return 0
