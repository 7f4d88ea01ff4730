"""Terminal output that prints what users named as it is: `contacts:100:12` is no emoji, `[a]` no colour."""

from __future__ import annotations

from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text


def plain_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console on which text is only text. width: columns; None: the terminal's."""
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


class PlainColumn(TextColumn):
    """A progress bar's column of text; `template` is formatted with the bar's `task`."""

    def __init__(self, template: str) -> None:
        super().__init__(template, markup=False)


def plain(line: str) -> Text:
    """For the places where rich takes a string for markup whatever the console says, such as a status."""
    return Text(line)
