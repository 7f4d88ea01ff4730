"""Every run below some folders as one lazy collection: thousands of results folders, tables on demand.

Reading a collection touches each folder's summary.json and scenario.toml, and the last bytes of its tables;
Parquet is read when a table is asked for, and only the columns and runs that are asked for. A damaged folder
is named in `skipped`, and never an error.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from analysis.records.folder import Records, check_summary, load_records, recorded
from sim.results import SCHEMAS
from workloads.errors import InputError

PARQUET_MAGIC = b"PAR1"  # the last bytes of a whole file
FACTS = ("name", "kind", "vertices", "directed_edges")


@dataclass(frozen=True)
class Run:
    """One system run of a collection. name: folder and label; scenario: "section.key" -> resolved value."""

    name: str
    folder: Path
    label: str
    figures: dict[str, Any]
    scenario: dict[str, Any]
    facts: dict[str, Any]

    def values(self) -> dict[str, Any]:
        """Everything known of it by column."""
        return self.facts | self.figures | self.scenario

    def file(self, table: str) -> Path:
        """Where a table of it lies."""
        return self.folder / self.label / f"{table}.parquet"


@dataclass(frozen=True)
class Runs:
    """Runs found below `roots`. skipped: damaged folder or table -> why; grows when one turns out damaged."""

    roots: tuple[Path, ...]
    runs: tuple[Run, ...]
    skipped: dict[str, str] = field(default_factory=dict)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per run: run, label, graph facts, every figure of its summary, every scenario key.

        Scenario keys are "section.key" columns; all units stand in names. The same frame every time: copy it
        before changing it.
        """
        rows = [{"run": run.name, "label": run.label, **run.values()} for run in self.runs]
        return pd.DataFrame(rows)

    def table(
        self, name: str, columns: Sequence[str] | None = None, *, where: ds.Expression | None = None
    ) -> pd.DataFrame:
        """One table of all runs with a `run` column first; columns: those wanted (default: all).

        where: a pyarrow expression over the columns and `run`; files it excludes are not opened. A table that
        cannot be read is named in `skipped`, and its rows are missing.
        """
        wanted = ["run", *(SCHEMAS[name].names if columns is None else columns)]
        try:
            return self.dataset(name).to_table(columns=wanted, filter=where).to_pandas()
        except Exception:  # pyarrow raises a dozen kinds on damaged files: find which
            pieces = [self._piece(run, name, wanted, where) for run in self.runs]
            whole = [piece for piece in pieces if piece is not None]
            return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=wanted)

    def _piece(
        self, run: Run, name: str, wanted: list[str], where: ds.Expression | None
    ) -> pd.DataFrame | None:
        try:
            alone = Runs(self.roots, (run,)).dataset(name)
            return alone.to_table(columns=wanted, filter=where).to_pandas()
        except Exception as error:
            self.skipped[str(run.file(name))] = f"not readable ({str(error).partition(chr(10))[0][:80]})"
            return None

    def dataset(self, name: str) -> ds.FileSystemDataset:
        """The same as a pyarrow dataset, for what no data frame holds; nothing is read yet."""
        runs = [run for run in self.runs if recorded(run.file(name))]
        schema = pa.schema([("run", pa.string()), *SCHEMAS[name]])
        return ds.FileSystemDataset.from_paths(
            [str(run.file(name)) for run in runs],
            schema=schema,
            format=ds.ParquetFileFormat(),
            filesystem=fs.LocalFileSystem(),
            partitions=[ds.field("run") == run.name for run in runs],
        )

    def each(self) -> Iterator[tuple[str, Records, str]]:
        """(name, its folder's records, label) of every run."""
        loaded: dict[Path, Records] = {}
        for run in self.runs:
            if run.folder not in loaded:
                loaded = {run.folder: load_records(run.folder)}
            yield run.name, loaded[run.folder], run.label

    def where(self, **conditions: Any) -> Runs:
        """The runs whose figure, fact or key (write section__key) equals each condition."""
        wanted = {name.replace("__", "."): value for name, value in conditions.items()}
        kept = [run for run in self.runs if wanted.items() <= run.values().items()]
        return Runs(self.roots, tuple(kept), self.skipped)

    def __len__(self) -> int:
        return len(self.runs)

    def _repr_html_(self) -> str:
        """How a notebook shows it: the table over seeds, then what was skipped."""
        from analysis.html import runs_html  # noqa: PLC0415  # a circle otherwise

        return runs_html(self)


def load_runs(*roots: str | Path) -> Runs:
    """Every run of every results folder at or below the roots, in the order of their paths.

    Raises InputError when a root is no folder. Hidden folders are not searched: they are unfinished.
    """
    found, skipped = [], {}
    for root in map(Path, roots):
        if not root.is_dir():
            raise InputError(f"{root}: no such folder")
        for folder in _results_folders(root):
            try:
                found += _read(folder, root)
            except InputError as error:
                skipped[str(folder)] = str(error).removeprefix(f"{folder}: ")
    return Runs(tuple(map(Path, roots)), tuple(found), skipped)


def damage(folder: Path) -> str | None:
    """Why a results folder cannot be read, or None. Unlike `load_runs` it reads every table to its end, about
    25 ms for a run of 128 workers.
    """
    try:
        runs = _read(folder, folder)
        load_records(folder)
    except InputError as error:
        return str(error).removeprefix(f"{folder}: ").removeprefix(f"{folder}/")
    for run in runs:
        for table in SCHEMAS:
            try:
                if recorded(run.file(table)):
                    _read_through(run.file(table), SCHEMAS[table])
            except Exception as error:  # pyarrow raises a dozen kinds on damaged files
                reason = str(error).partition("\n")[0][:80]
                return f"{run.label}/{table}.parquet is not readable ({reason})"
    return None


def _read_through(path: Path, schema: pa.Schema) -> None:
    with path.open("rb") as file:  # pyarrow itself refuses names that are not UTF-8
        table = pq.ParquetFile(file)
        if not table.schema_arrow.equals(schema):
            raise ValueError("other columns")
        for _ in table.iter_batches():
            pass


def _results_folders(root: Path) -> Iterator[Path]:
    """Folders that hold a summary.json or a scenario.toml; what lies in one is its own, and not searched."""
    names, folders = set(), []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.is_dir() and not entry.name.startswith("."):
                    folders.append(entry.path)
    except OSError:
        return
    if {"summary.json", "scenario.toml"} & names:
        yield root
        return
    for path in sorted(folders):
        yield from _results_folders(Path(path))


def _read(folder: Path, root: Path) -> list[Run]:
    """The runs of one folder. Raises InputError when it is damaged, or none of `netfold run`."""
    try:
        summary = json.loads((folder / "summary.json").read_bytes())
    except FileNotFoundError:
        raise InputError(f"{folder}: no summary.json; it is unfinished or damaged") from None
    except (OSError, ValueError):
        raise InputError(f"{folder}: summary.json is damaged") from None
    if isinstance(summary, dict) and {"settings", "summary"} <= summary.keys():
        raise InputError(f"{folder}: a training run, which `netfold train` made")
    try:
        check_summary(summary, folder)
        sections = tomllib.loads((folder / "scenario.toml").read_bytes().decode("utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{folder}: scenario.toml is missing or damaged") from None
    flat = {
        f"{section}.{key}": 0 if value == "unlimited" else value
        for section, keys in sections.items()
        if section != "netfold" and isinstance(keys, dict)
        for key, value in keys.items()
    }
    graph = summary["graph"]
    facts = {("graph" if fact == "name" else f"graph_{fact}"): graph.get(fact) for fact in FACTS}
    facts |= {"netfold": summary["netfold"], "compute": summary["compute"]}
    place = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
    rows = []
    for label in summary["order"]:
        figures = summary["runs"][label]
        run = Run(place + label, folder, label, figures, flat, facts)
        for table in SCHEMAS:
            _check_table(run.file(table), folder)
        rows.append(run)
    return rows


def _check_table(path: Path, folder: Path) -> None:
    """Whether a Parquet file is there to its end. Raises InputError."""
    if not recorded(path):
        return
    where = path.relative_to(folder)
    try:
        with path.open("rb") as file:
            file.seek(-len(PARQUET_MAGIC), os.SEEK_END)
            whole = file.read() == PARQUET_MAGIC
    except OSError:
        raise InputError(f"{folder}: {where} is missing or empty") from None
    if not whole:
        raise InputError(f"{folder}: {where} is cut short")
