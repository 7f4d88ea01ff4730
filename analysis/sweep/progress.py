"""What someone who waits for a sweep sees: one bar over all of it, failures at once, or plain lines."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from workloads.terminal import PlainColumn, plain_console

PLAIN_EVERY_S = 10.0


class SweepDisplay:
    """A `drive.Watcher` and context manager on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console(stderr=True)
        self.live = self.console.is_terminal
        self.bars = Progress(
            PlainColumn("sweep"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            PlainColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.live,
        )
        self.task = self.bars.add_task("", total=None)
        self.total = self.done = self.failed = 0
        self.stage = ""
        self.told = time.monotonic()

    def __enter__(self) -> SweepDisplay:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def begin(self, total: int, reused: int, failed: int) -> None:
        """What there is, and what of it earlier sweeps have done."""
        self.total, self.done, self.failed = total, reused + failed, failed
        before = f"; {reused} done before" if reused else ""
        before += f", {failed} failed before (--retry tries again)" if failed else ""
        self._say(f"{total} runs{before}")
        self._show()

    def damaged(self, name: str, reason: str) -> None:
        """Results that were there cannot be used."""
        self._say(f"{name}: damaged ({reason}); it is run again")

    def prepared(self, group: int, groups: int) -> None:
        """One more group of units has its plans."""
        self.stage = f"{group} of {groups} prepared" if group < groups else ""
        self._show()

    def ended(self, name: str, outcome: str, reason: str) -> None:
        """One more unit has ended."""
        self.done += 1
        if outcome == "failed":
            self.failed += 1
            self._say(f"{name}: failed: {reason}")
        self._show()

    def _show(self) -> None:
        parts = [f"{self.failed} failed" if self.failed else "", self.stage]
        text = ", ".join(filter(None, parts))
        self.bars.update(self.task, total=self.total, completed=self.done, description=text)
        now = time.monotonic()
        if not self.live and (now - self.told >= PLAIN_EVERY_S or self.done == self.total):
            self.told = now
            self._say(f"{self.done} of {self.total} runs{', ' if text else ''}{text}")

    def _say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)
