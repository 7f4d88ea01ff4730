"""Measurements kept in a file, so that a benchmark that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

UNFINISHED = 3


class Kept:
    """Measurements by key, a JSON line of a file each as soon as it is made. log: the file; limit_s: no
    measurement is begun later than this after the start.
    """

    def __init__(self, log: Path, limit_s: float) -> None:
        self._log, self._until = log, time.monotonic() + limit_s
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        self._known = {json.dumps(found["key"]): found["told"] for found in map(json.loads, lines)}

    def get(self, key: list[Any], make: Callable[[], Any]) -> Any:
        """What is kept under `key`; else what make() returns, kept. Ends the program with exit code 3 where
        the time is over.
        """
        name = json.dumps(key)
        if name not in self._known:
            if time.monotonic() > self._until:
                print("not all yet; the same command goes on", file=sys.stderr)
                raise SystemExit(UNFINISHED)
            self._known[name] = make()
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({"key": key, "told": self._known[name]}) + "\n")
        return self._known[name]


def add_arguments(parser: argparse.ArgumentParser, log: str) -> None:
    """--log and --limit; log: the file's name if not given."""
    parser.add_argument(
        "--log", type=Path, default=Path(log), help="a file of JSON lines (default %(default)s)"
    )
    parser.add_argument("--limit", type=float, default=420, help="seconds, then stop (default %(default)s)")
