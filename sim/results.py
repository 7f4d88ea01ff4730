"""The results folder: Parquet tables and summaries, written beside and moved into place when complete.

    <folder>/scenario.toml       the resolved scenario with the version: `netfold run` on it repeats the run
    <folder>/summary.json        graph, partition, per-run figures, failures
    <folder>/<run>/*.parquet     queues, blocks, epochs, links, packets of a system run; summary.json beside
The same seed and versions give byte-identical Parquet: no times of day, fixed order, fixed encoding.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workloads.errors import InputError

# Columns and types of every table, in file order.
SCHEMAS: dict[str, pa.Schema] = {
    "queues": pa.schema(
        [
            ("time_ns", pa.int64()),
            ("switch", pa.string()),
            ("port", pa.int32()),
            ("backlog_bytes", pa.int64()),
            ("shared_bytes", pa.int64()),
        ]
    ),
    "blocks": pa.schema(
        [
            ("propagation", pa.int32()),
            ("layer", pa.int32()),
            ("direction", pa.string()),
            ("block", pa.int32()),
            ("level", pa.int32()),
            ("vertices", pa.int64()),
            ("start_ns", pa.int64()),
            ("end_ns", pa.int64()),
        ]
    ),
    "epochs": pa.schema(
        [
            ("layer", pa.int32()),
            ("direction", pa.string()),
            ("worker", pa.int32()),
            ("start_ns", pa.int64()),
            ("comm_start_ns", pa.int64()),
            ("comm_end_ns", pa.int64()),
            ("end_ns", pa.int64()),
        ]
    ),
    "links": pa.schema(
        [
            ("source", pa.string()),
            ("target", pa.string()),
            ("hop", pa.string()),
            ("packets", pa.int64()),
            ("bytes", pa.int64()),
            ("background_packets", pa.int64()),
            ("background_bytes", pa.int64()),
        ]
    ),
    "packets": pa.schema(
        [
            ("time_ns", pa.int64()),
            ("kind", pa.string()),
            ("src", pa.string()),
            ("dst", pa.string()),
            ("vertex", pa.int64()),
            ("chunk", pa.int32()),
            ("block", pa.int32()),
            ("bytes", pa.int32()),
            ("hop", pa.string()),
        ]
    ),
}
NOT_REPRODUCIBLE = ("wall_s", "peak_memory_bytes")  # measured on this machine: kept out of Parquet


def write_run(
    folder: Path, summary: Mapping[str, Any], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Write one system run's tables and summary.json into `folder` (created, parents too)."""
    folder.mkdir(parents=True)
    for name, schema in SCHEMAS.items():
        write_table(folder / f"{name}.parquet", tables.get(name, {}), schema)
    write_json(folder / "summary.json", summary)


def write_table(path: Path, columns: Mapping[str, np.ndarray], schema: pa.Schema) -> None:
    """One Parquet file with exactly the schema's columns; no columns at all means no rows.

    Raises ValueError when columns are missing, superfluous or of unequal length.
    """
    if columns and set(columns) != set(schema.names):
        raise ValueError(f"{path.name}: columns {sorted(columns)} given, {sorted(schema.names)} expected")
    arrays = [
        pa.array(_plain(columns[name]) if columns else [], type=kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    with path.open("wb") as file:  # pyarrow itself refuses names that are not UTF-8
        pq.write_table(table, file, compression="zstd", row_group_size=1 << 20)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Keys sorted, numbers plain, so that equal contents give equal files."""
    text = json.dumps(content, indent=2, sort_keys=True, default=_json_number, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


class ResultsFolder:
    """A results folder under construction: written beside its place, moved there by `commit`.

    A place that is a symbolic link stays one: what it points to is written. Raises InputError when the place
    is taken by something that is not a results folder, is where the user stands, or cannot be written.
    """

    def __init__(self, place: Path) -> None:
        self.given = place
        self.place = Path(os.path.realpath(place))
        self.building = self._beside("building")
        self.made: list[Path] = []  # parents that were missing, innermost first
        try:
            if self.place.is_dir():
                free = is_results(self.place) or not any(self.place.iterdir())
            else:
                free = not os.path.lexists(self.place)
            if not free:
                raise InputError(f"--output: {place} exists and is no results folder; give another place")
            if Path.cwd().is_relative_to(self.place):
                raise InputError(f"--output: {place} is the current folder; name one in it")
            self._make_parents()
            self._remove_leftovers()
            self.building.mkdir()
        except OSError as error:
            self.discard()
            raise self._unwritable(error) from None

    def _beside(self, state: str) -> Path:
        """A folder of this process beside the place, named so that others can tell when it is left over."""
        return self.place.parent / f".{self.place.name}.{state}-{socket.gethostname()}-{os.getpid()}"

    def _remove_leftovers(self) -> None:
        """Remove what killed runs on this machine left of this place. Earlier results that one had stepped
        aside are left where it put nothing in their place.
        """
        states = "building|replaced" if self.place.exists() else "building"
        name, host = re.escape(self.place.name), re.escape(socket.gethostname())
        for beside in self.place.parent.iterdir():
            left = re.fullmatch(rf"\.{name}\.(?:{states})-{host}-([1-9]\d*)", beside.name)
            if left and (beside == self.building or not _is_alive(int(left[1]))):
                shutil.rmtree(beside, ignore_errors=True)

    def _make_parents(self) -> None:
        for parent in self.place.parents:
            if parent.exists():
                break
            self.made.append(parent)
        for parent in reversed(self.made):
            parent.mkdir(exist_ok=True)

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"--output: {self.given} cannot be written ({error.strerror or error})")

    def commit(self, scenario_toml: str, summary: Mapping[str, Any]) -> None:
        """Write the two top files and move the folder into place, over earlier results of the same name.

        Raises InputError when it cannot be written; earlier results are then where they were.
        """
        aside = self._beside("replaced")
        try:
            (self.building / "scenario.toml").write_text(scenario_toml, encoding="utf-8")
            write_json(self.building / "summary.json", summary)
            while not self._move_in(aside):
                shutil.rmtree(aside, ignore_errors=True)
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            if aside.exists() and not self.place.exists():
                os.replace(aside, self.place)
        shutil.rmtree(aside, ignore_errors=True)

    def _move_in(self, aside: Path) -> bool:
        """Step earlier results aside and take their name; False where another run took it in between."""
        if self.place.exists():
            os.replace(self.place, aside)
        try:
            os.replace(self.building, self.place)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    def discard(self) -> None:
        """Leave nothing behind, parents that were made for the results included."""
        shutil.rmtree(self.building, ignore_errors=True)
        for parent in self.made:
            try:
                parent.rmdir()
            except OSError:  # it holds something by now
                break


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def is_results(folder: Path) -> bool:
    """Whether `folder` is a results folder that a run has committed."""
    return (folder / "summary.json").is_file() and (folder / "scenario.toml").is_file()


def _plain(values: np.ndarray) -> np.ndarray | list[str]:
    return [str(value) for value in values] if values.dtype.kind == "O" else values


def _json_number(value: object) -> int | float:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no place in a summary")
