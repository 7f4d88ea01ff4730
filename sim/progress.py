"""What a waiting user sees on stderr: live bars on a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TimeRemainingColumn

from sim.quantities import format_count, format_ns
from workloads.terminal import PlainColumn, plain_console

PLAIN_EVERY_S = 10.0


class ProgressDisplay:
    """A `sim.run.Watcher` and context manager; plain lines come every ten seconds per simulation at most."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console(stderr=True)
        self.live = self.console.is_terminal
        self.bars = Progress(
            SpinnerColumn(),
            PlainColumn("{task.description}"),
            BarColumn(bar_width=24),
            PlainColumn("{task.percentage:>3.0f}%"),
            PlainColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.preparing: TaskID | None = None
        self.tasks: dict[str, TaskID] = {}
        self.began: dict[str, float] = {}
        self.told: dict[str, float] = {}

    def __enter__(self) -> ProgressDisplay:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def stage(self, text: str) -> None:
        """A step of the preparation begins."""
        if not self.live:
            self._say(text)
        elif self.preparing is None:
            self.preparing = self.bars.add_task(text, total=None, state="")
        else:
            self.bars.update(self.preparing, description=text)

    def started(self, label: str) -> None:
        """A simulation's process starts."""
        if self.preparing is not None:
            self.bars.remove_task(self.preparing)
            self.preparing = None
        self.tasks[label] = self.bars.add_task(label, total=1.0, state="starting")
        self.began[label] = self.told[label] = time.monotonic()
        if not self.live:
            self._say(f"{label}: simulating")

    def advanced(self, label: str, simulated_ns: int, hops: int, share: float) -> None:
        """Simulated time and packet-hops so far, and the share of the epoch that is done (0..1)."""
        state = f"{format_ns(simulated_ns)} simulated, {format_count(hops)} packet-hops"
        self.bars.update(self.tasks[label], completed=min(share, 1.0), state=state)
        now = time.monotonic()
        if not self.live and now - self.told[label] >= PLAIN_EVERY_S:
            self.told[label] = now
            left = (now - self.began[label]) * (1 - share) / share if share > 0 else 0.0
            self._say(f"{label}: {share:.0%}, {state}, about {left:.0f} s left")

    def finished(self, label: str, summary: dict[str, Any]) -> None:
        """A simulation has written its results."""
        self._drop(label)
        epoch, wall = format_ns(summary.get("epoch_time_ns", 0)), time.monotonic() - self.began[label]
        self._say(f"{label}: epoch {epoch} simulated in {wall:.1f} s")

    def failed(self, label: str, reason: str) -> None:
        """A simulation could not be prepared or did not end well."""
        self._drop(label)
        self._say(f"{label}: failed: {reason}")

    def _drop(self, label: str) -> None:
        task = self.tasks.pop(label, None)
        if task is not None:
            self.bars.remove_task(task)

    def _say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)
