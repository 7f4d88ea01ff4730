"""A program that runs as a child process: it dies with this one, and its output is in a file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_STOP_S = 5.0


class Child:
    """A running command; ``process`` is its process."""

    def __init__(self, command: Sequence[str], console: Path, *, cwd: Path | None = None) -> None:
        """What it prints goes into the file `console`."""
        self._console = console
        # The command runs as it is, with no shell in between, so the signals reach the program itself.
        with console.open("wb") as output:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
            )

    def last_words(self) -> str:
        """The last line it printed, behind a colon; "" if it printed nothing."""
        said = self._console.read_text(errors="replace").strip().splitlines()
        return f": {said[-1]}" if said else ""

    def stop(self) -> None:
        """Ends it, by force if it does not go."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
