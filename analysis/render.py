"""Print a results folder: tables or JSON on stdout, figures into the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.plots import draw_all
from analysis.records import Records, load_records
from analysis.tables import as_plain, narrow_tables, published_table, sweep_table, systems_table
from workloads.errors import InputError
from workloads.terminal import plain_console

WIDE = 200  # columns when the output is no terminal: enough for the comparison


def render(folder: Path, *, plots: bool, as_json: bool) -> None:
    """Show a results folder. Raises InputError when it is none, and after the tables when its figures cannot
    be written.
    """
    records = load_records(folder)
    figures, unwritten = _draw(records) if plots else ([], None)
    if as_json:
        print(json.dumps(as_plain(records) | {"figures": [str(path) for path in figures]}, indent=2))
    else:
        _print(records, figures)
    if unwritten:
        raise unwritten


def _draw(records: Records) -> tuple[list[Path], InputError | None]:
    place = records.folder / "figures"
    try:
        return draw_all(records, place), None
    except OSError as error:
        reason = error.strerror or error
        return [], InputError(f"{place}: figures cannot be written ({reason}); --no-plots leaves them out")


def _print(records: Records, figures: list[Path]) -> None:
    console = wide_console()
    sections = [systems_table(records)]
    anywhere = console.options.update(max_width=1000)
    if console.measure(sections[0], options=anywhere).maximum > console.width:
        sections = narrow_tables(records)
    for part in (*sections, sweep_table(records), published_table(records)):
        if part is not None:
            console.print(part)
    lines = [f"{label}: failed: {reason}" for label, reason in records.summary["failures"].items()]
    values = records.values()
    wrong = [label for label, equal in values.items() if not equal]
    if values:
        told = f"WRONG in {', '.join(wrong)}" if wrong else f"equal to the oracle in all {len(values)} runs"
        lines.append(f"values:  {told}")
    lines.append(f"records: {records.folder}")
    lines += [f"figure:  {path}" for path in figures if path.suffix == ".png"]
    for line in lines:
        console.print(line, soft_wrap=True)


def show_training(folder: Path, trained: dict[str, Any], *, as_json: bool) -> int:
    """A training run's settings and figures side by side, and its tables; or its summary.json."""
    if as_json:
        print(json.dumps({**trained, "results": str(folder)}, indent=2))
        return 0
    console = wide_console()
    for title, part in (("settings", trained["settings"]), ("result", trained["summary"])):
        table = Table(title, "value")
        for name, value in part.items():
            table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
        console.print(table)
    tables = ", ".join(path.name for path in sorted(folder.glob("*.parquet")))
    console.print(f"a training run, measured; tables in {folder}: {tables}", soft_wrap=True)
    return 0


def wide_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for every column where there is none."""
    console = plain_console()
    return console if console.is_terminal else plain_console(width=WIDE)
