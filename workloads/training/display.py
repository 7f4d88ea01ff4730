"""Live progress of training on stderr: a bar with loss, score and bits; without a terminal a line now and
then.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from workloads.terminal import PlainColumn, plain_console

_LINE_EVERY_S = 10.0


@contextmanager
def training_progress(
    title: str, epochs: int, told: Callable[[dict[str, Any]], str] | None = None
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that takes each epoch's row. told: what to show of a row."""
    told = told or _state
    console = plain_console(stderr=True)
    columns = (PlainColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, PlainColumn("{task.fields[state]}"), console=console, transient=True)
    task = bar.add_task(title, total=epochs, state="starting")
    last = time.monotonic()

    def on_epoch(row: dict[str, Any]) -> None:
        nonlocal last
        state = told(row)
        bar.update(task, completed=row["epoch"] + 1, state=state)
        if not console.is_terminal and time.monotonic() - last > _LINE_EVERY_S:
            last = time.monotonic()
            print(f"{title}: epoch {row['epoch'] + 1} of {epochs}, {state}", file=sys.stderr, flush=True)

    if console.is_terminal:
        with bar:
            yield on_epoch
    else:
        yield on_epoch


def _state(row: dict[str, Any]) -> str:
    score = row["validation_score"]
    scored = "" if math.isnan(score) else f"validation {100 * score:.2f} %, "
    return f"loss {row['loss']:.4f}, {scored}{row['epoch_s']:.2f} s, {row['base_bits']} bit, {row['mode']}"
