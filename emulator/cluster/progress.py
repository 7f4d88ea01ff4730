"""How far a run is: a bar on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import sys

from rich.progress import BarColumn, MofNCompleteColumn
from rich.progress import Progress as Bar

from workloads.terminal import PlainColumn, plain_console


class Progress:
    """A context manager; called with propagations done and in all."""

    def __enter__(self) -> Progress:
        console = plain_console(stderr=True)
        self.bar = Bar(
            PlainColumn("emulating"), BarColumn(), MofNCompleteColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("emulating", total=None)
        self.plain = not console.is_terminal
        self.told = 0
        self.bar.start()
        return self

    def __call__(self, done: int, count: int) -> None:
        self.bar.update(self.task, completed=done, total=count)
        tenth = 10 * done // count
        if self.plain and count >= 20 and tenth > self.told:
            self.told = tenth
            print(f"netfold: {done} of {count} propagations", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
