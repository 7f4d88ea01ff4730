"""Print a results folder: tables or JSON on stdout, figures into the folder."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from analysis.plots import draw_all
from analysis.records import load_records
from analysis.tables import as_plain, published_table, sweep_table, systems_table

WIDE = 200  # columns when the output is no terminal: enough for the comparison


def render(folder: Path, *, plots: bool, as_json: bool) -> None:
    """Show a results folder. Raises InputError when it is none."""
    records = load_records(folder)
    figures = draw_all(records, folder / "figures") if plots else []
    if as_json:
        print(json.dumps(as_plain(records) | {"figures": [str(path) for path in figures]}, indent=2))
        return
    console = wide_console()
    for part in (systems_table(records), sweep_table(records), published_table(records)):
        if part is not None:
            console.print(part)
    lines = [f"{label}: failed: {reason}" for label, reason in records.summary["failures"].items()]
    lines.append(f"records: {folder}")
    lines += [f"figure:  {path}" for path in figures if path.suffix == ".png"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def wide_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for every column where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)
