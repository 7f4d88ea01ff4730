"""Training runs that a comparison needs, each once: `netfold train` in a process of its own, kept by content.

<place>/trainings/<system>-<digest>/   what `netfold train` leaves
<place>/failed/<system>-<digest>.json  why one failed; tried again next time
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sweep.folder import SweepFolder
from workloads.errors import InputError
from workloads.files import write_whole


@dataclass(frozen=True)
class Training:
    """One run: the options of `netfold train`, without their dashes."""

    options: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, **options: object) -> Training:
        """From keywords; bits="32" is --bits 32."""
        return cls(tuple(sorted((name.replace("_", "-"), str(value)) for name, value in options.items())))

    @property
    def name(self) -> str:
        """<system>-<digest of options and version>."""
        told = json.dumps([version("netfold"), self.options])
        return f"{dict(self.options)['system']}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def command(self, folder: Path) -> list[str]:
        """What repeats it."""
        flags = [part for name, value in self.options for part in (f"--{name}", value)]
        return [sys.executable, "-m", "netfold", "train", *flags, "--json", "-o", str(folder)]


@dataclass(frozen=True)
class Trained:
    """A training's records. summary, settings: as `netfold train` writes them; epochs: its table."""

    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    epochs: pd.DataFrame

    @property
    def main_bytes(self) -> float:
        """Embeddings and their gradients an epoch, all workers, without scales."""
        return float((self.epochs["embeddings_bytes"] + self.epochs["gradients_bytes"]).mean())

    @property
    def scale_bytes(self) -> float:
        """Minima and scales of quantised vectors an epoch."""
        return float(self.epochs["scales_bytes"].mean())

    @property
    def weight_bytes(self) -> float:
        """The all-reduce of weight gradients an epoch."""
        return float(self.epochs["weights_bytes"].mean())

    @property
    def comm_s(self) -> float:
        """Communication an epoch: the busiest worker's bytes over the link (`counted`)."""
        return float(self.epochs["counted_comm_s"].mean())

    def epoch_s(self, compute_s: float) -> float:
        """An epoch's mean time: compute and communication in turn, or overlapped in asynchronous epochs."""
        comm = self.epochs["counted_comm_s"]
        late = self.epochs["mode"] == "asynchronous"
        return float((comm + compute_s).where(~late, comm.clip(lower=compute_s)).mean())

    @property
    def score(self) -> float:
        """Test accuracy (or F1-micro) at the best validation score, in per cent."""
        return 100 * float(self.summary["test_score"])


def bring(
    trainings: Iterable[Training], place: Path, told: Callable[[int, int, str], None]
) -> tuple[dict[Training, Trained], dict[str, str]]:
    """Run those that are not there yet, one after another (each has a process per worker); reuse the rest.

    told(done, all, name) is called before each that runs. Returns records, and reasons of failures by name.
    Another process that is at the same run is waited for. Raises InputError where the folder is of no use.
    """
    folder = SweepFolder(place)
    folder.create()
    wanted = list(dict.fromkeys(trainings))
    found: dict[Training, Trained] = {}
    failures: dict[str, str] = {}
    for done, training in enumerate(wanted):
        where = place / "trainings" / training.name
        with folder.lock(training.name, wait=True):
            if not (where / "summary.json").is_file():
                told(done, len(wanted), training.name)
                reason = _train(training, where)
                if reason:
                    failures[training.name] = reason
                    text = json.dumps({"options": dict(training.options), "reason": reason}, indent=2)
                    write_whole(folder.failed / f"{training.name}.json", partial(Path.write_text, data=text))
                    continue
        folder.forget_failure(training.name)
        found[training] = load_training(where)
    return found, failures


def load_training(folder: Path) -> Trained:
    """Read a folder of `netfold train`. Raises InputError."""
    try:
        told = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        with (folder / "epochs.parquet").open("rb") as file:
            return Trained(told["settings"], told["summary"], pd.read_parquet(file))
    except Exception as error:
        raise InputError(f"{folder}: not a training run ({str(error).partition(chr(10))[0][:80]})") from None


def _train(training: Training, where: Path) -> str:
    """Why it failed; empty when it ended well."""
    where.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        training.command(where), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, said = process.communicate()
        except BaseException:
            process.terminate()  # it ends its workers
            raise
    if process.returncode == 0 and (where / "summary.json").is_file():
        return ""
    lines = [line for line in said.splitlines() if line.strip()]
    return (lines[-1] if lines else f"ended with status {process.returncode}").removeprefix(
        "netfold: error: "
    )[:300]
