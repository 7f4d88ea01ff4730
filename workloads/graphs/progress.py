"""A progress bar on stderr for work of more than two seconds; a line now and then without a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

from workloads.terminal import PlainColumn, plain_console

_QUIET_S = 2.0
_LINE_EVERY_S = 15.0


@contextmanager
def shown(title: str) -> Iterator[Callable[[int, int], None]]:
    """Shows that `title` is under way once it has taken two seconds.

    Yields a function (done, total) for work that knows how far it is; without a call the bar only moves.
    """
    console = plain_console(stderr=True)
    bar = Progress(
        PlainColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(title, total=None)
    start = time.monotonic()
    finished = threading.Event()
    state = ""

    def watch() -> None:
        if finished.wait(_QUIET_S):
            return
        if console.is_terminal:
            bar.start()
            finished.wait()
            bar.stop()
            return
        while not finished.wait(_LINE_EVERY_S):
            print(f"{title}: {state}{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    def step(done: int, total: int) -> None:
        nonlocal state
        state = f"{100 * done // max(total, 1)} %, "
        bar.update(task, completed=done, total=total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield step
    finally:
        finished.set()
        watcher.join()
