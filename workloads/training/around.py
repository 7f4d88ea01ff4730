"""What `netfold train` and `netfold train-dynamic` do around a run: where it is kept, what is told of it."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.errors import InputError

MOST_WORKERS = 64
INTERRUPTED = 130


def folders(args: argparse.Namespace, command: str, system: str, model: str) -> tuple[Path, Path]:
    """(the results folder, that of the checkpoints beside it). Raises InputError for workers out of range,
    and for --resume where there is nothing to go on from.
    """
    if not 1 <= args.workers <= MOST_WORKERS:
        raise InputError(f"workers: {args.workers} given; allowed: 1 to {MOST_WORKERS}")
    if args.checkpoint_every < 0:
        raise InputError(f"checkpoint-every: {args.checkpoint_every} given; allowed: 0 or more")
    name = f"{command}-{system}-{model}-{Path(args.graph).stem}-{args.workers}"
    folder = args.output or Path("results") / name.replace(":", "-")
    checkpoints = folder.with_name(f"{folder.name}.checkpoint")
    if args.resume and not checkpoints.is_dir():
        raise InputError(f"resume: there is no {checkpoints}")
    return folder, checkpoints


def trained_and_told(
    args: argparse.Namespace,
    places: tuple[Path, Path],
    train: Callable[[], tuple[dict[str, Any], Any]],
    write: Callable[[Path, dict[str, Any], Any], dict[str, Any]],
    show: Callable[[dict[str, Any], dict[str, Any], Path], None],
    *,
    more: Callable[[], dict[str, Any]] = dict,
) -> int:
    """Train, write the folder, print what it is; the exit status.

    train: gives (settings, what the run left or None where another worker has it); write: its folder, and
    returns the summary; show: settings, summary and folder for people; more: what else --json has.
    """
    from workloads.training.launch import WorkerError  # noqa: PLC0415  # imports torch, which is optional

    folder, checkpoints = places
    try:
        about, run = train()
    except WorkerError as error:
        print(error.report, end="", file=sys.stderr)
        raise
    if run is None:
        return 0  # worker 0 has the results
    figures = write(folder, about, run)
    if not args.checkpoint_every and not run.interrupted:
        shutil.rmtree(checkpoints, ignore_errors=True)
    if args.json:
        answer = {"folder": str(folder), "settings": about, "summary": plain(figures), **more()}
        answer["epochs"] = [plain(row) for row in run.epochs]
        print(json.dumps(answer, indent=1, allow_nan=False))
    else:
        show(about, figures, folder)
    if run.interrupted:
        done = f"{len(run.epochs)} of {about['epochs']} epochs"
        print(f"netfold: interrupted after {done}; the same command with --resume goes on", file=sys.stderr)
        return INTERRUPTED
    return 0


def size(count: float) -> str:
    """Bytes for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f} B"


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()
    }
