"""A progress bar on stderr for work of more than two seconds; a line now and then without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_QUIET_S = 2.0
_LINE_EVERY_S = 15.0


@contextmanager
def shown(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function (done, total) that shows how far `title` has come, once it has taken two seconds."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip
    task = bar.add_task(title)
    start = last = time.monotonic()
    started = False

    def step(done: int, total: int) -> None:
        nonlocal last, started
        now = time.monotonic()
        if now - start < _QUIET_S:
            return
        if console.is_terminal:
            if not started:
                bar.start()
                started = True
            bar.update(task, completed=done, total=total)
        elif now - last > _LINE_EVERY_S:
            last = now
            print(f"{title}: {100 * done // max(total, 1)} %", file=sys.stderr)

    try:
        yield step
    finally:
        if started:
            bar.stop()
