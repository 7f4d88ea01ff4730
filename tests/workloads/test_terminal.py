"""What users named is printed as it is, in lines, tables, bars and states."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.spinner import Spinner
from rich.table import Table

from sim.progress import ProgressDisplay
from workloads.terminal import PlainColumn, plain, plain_console

NAMES = ["contacts:100:12", "a:cat:", "[bold]x[/bold]", "[/]"]


def text_of(console: Console, shown: object) -> str:
    console.file = io.StringIO()
    console.print(shown)
    return console.file.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_as_they_are(name: str) -> None:
    console = plain_console(width=100)
    table = Table("graph", title=name)
    table.add_row(name)
    bar = Progress(PlainColumn("{task.description} {task.fields[state]}"), console=console)
    bar.add_task(name, state=name)
    assert text_of(console, name).strip() == name
    assert text_of(console, table).count(name) == 2
    assert text_of(console, bar.get_renderable()).strip() == f"{name} {name}"
    assert name in text_of(console, Spinner("dots", plain(name)))


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_s_bar_shows_its_label(name: str) -> None:
    console = plain_console(width=100)
    display = ProgressDisplay(console)
    display.started(name)
    assert name in text_of(console, display.bars.get_renderable())
