"""A sweep's folder on disk. Everything appears whole or not at all, so a kill at any instant loses nothing.

runs/<unit>/          a results folder of one run (`netfold show` reads it)
failed/<unit>.json    why a unit failed, with its scenario
sweeps/<digest>.json  every sweep that used the folder: its points and the units they need
.prepared/            plans and compute times that units share; removed when nothing needs them
.locks/               one file per unit and group; the process that works on it holds a lock (flock), which
                      the kernel drops with the process, however it ends
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.results import is_results
from workloads.errors import InputError
from workloads.files import write_whole

if TYPE_CHECKING:
    from analysis.sweep.spec import Sweep


class SweepFolder:
    """The paths and states of one sweep's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs, self.failed = root / "runs", root / "failed"
        self.prepared, self.locks = root / ".prepared", root / ".locks"

    def create(self) -> None:
        """Make the folder. Raises InputError when the place is taken by something else, or not writable."""
        if self.root.is_dir() and not self.runs.is_dir() and any(self.root.iterdir()):
            raise InputError(f"--output: {self.root} exists and is no sweep's folder; give another place")
        try:
            for folder in (self.runs, self.failed, self.root / "sweeps", self.prepared, self.locks):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--output: {self.root} cannot be written ({error.strerror})") from None

    def is_done(self, name: str) -> bool:
        """Whether a unit's results are there."""
        return is_results(self.runs / name)

    def damage(self, name: str) -> str | None:
        """Why what is there of a unit cannot be used, or None: nothing is there, or whole results are."""
        if not os.path.lexists(self.runs / name):
            return None
        from analysis.records import damage  # noqa: PLC0415  # pandas, which a simulation does without

        return damage(self.runs / name)

    def set_aside(self, name: str) -> None:
        """Remove a unit's damaged results. Only for who holds the unit's lock; a kill leaves leftovers."""
        os.replace(self.runs / name, self.runs / f".{name}.replaced-{os.getpid()}")
        self.clear_leftovers(name)

    def failure(self, name: str) -> str | None:
        """Why a unit failed, or None."""
        try:
            return str(json.loads((self.failed / f"{name}.json").read_text(encoding="utf-8"))["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def fail(self, name: str, reason: str, trace: str, scenario: str) -> None:
        """Keep a failed unit's error."""
        text = json.dumps({"unit": name, "reason": reason, "trace": trace, "scenario": scenario}, indent=2)
        write_whole(self.failed / f"{name}.json", lambda path: path.write_text(text, encoding="utf-8"))

    def forget_failure(self, name: str) -> None:
        """A failed unit is about to be tried again, or has ended well."""
        (self.failed / f"{name}.json").unlink(missing_ok=True)

    def clear_leftovers(self, name: str) -> None:
        """Remove what a killed process left of a unit. Only for who holds the unit's lock."""
        for left in (*self.runs.glob(f".{name}.building-*"), *self.runs.glob(f".{name}.replaced-*")):
            shutil.rmtree(left, ignore_errors=True)

    def record(self, sweep: Sweep) -> None:
        """Write down what was asked for."""
        points = [{"keys": point.keys, "units": point.units} for point in sweep.points]
        text = json.dumps({"points": points}, indent=1, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        write_whole(
            self.root / "sweeps" / f"{name}.json", lambda path: path.write_text(text, encoding="utf-8")
        )

    def job_file(self, plan: str) -> Path:
        """Where the prepared job (a pickle) of a plan address lies."""
        return self.prepared / f"{plan}.job"

    def load_job(self, plan: str) -> Any:
        """A prepared job as `child` wrote it; None when there is none, or its plans are gone."""
        try:
            prepared = pickle.loads(self.job_file(plan).read_bytes())
        except Exception:  # a pickle of another version raises anything; it is then prepared again
            return None
        whole = prepared.job is None or all(path.exists() for path in prepared.paths())
        return prepared if whole else None

    @contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        """Hold the lock `name`; yields False at once where another process has it, unless `wait`."""
        path = self.locks / f"{name}.lock"
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While held, nothing that was prepared is removed; for the processes that read it."""
        with (self.locks / "in-use").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold the folder in use; the last sweep to leave removes what was prepared."""
        with (self.locks / "in-use").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another sweep is still at it
            for path in self.prepared.iterdir():
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
