"""Measured compute times from a file: a CSV or Parquet table in place of the roofline's figures.

Columns: system (a name, or "*" for all), layer, direction ("forward", "backward"), phase ("pre", "post"
of the propagation), worker, ns. Every (layer, direction, phase) of the epoch needs every worker.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from workloads.compute import Phase
from workloads.errors import InputError

COLUMNS = ("system", "layer", "direction", "phase", "worker", "ns")


SHIPPED = Path(__file__).parent / "traces" / "data"


def table_path(name: str | Path) -> Path:
    """The file itself, or the shipped trace of that name (workloads/traces/data)."""
    file, shipped = Path(name), SHIPPED / f"{name}.parquet"
    return shipped if not file.exists() and shipped.is_file() else file


def shipped_traces() -> list[str]:
    """Names of the traces that come with netfold."""
    return sorted(file.stem for file in SHIPPED.glob("*.parquet"))


def load_compute_table(path: str | Path) -> pd.DataFrame:
    """The table, checked: its columns, whole layers and workers, finite times of zero or more, no row twice.

    Raises InputError naming the file and the first offending row.
    """
    file = table_path(path)
    try:
        if file.suffix == ".parquet":
            table = pd.read_parquet(file)
        else:
            table = pd.read_csv(file, dtype={"system": str, "direction": str, "phase": str})
    except FileNotFoundError:
        shipped = ", ".join(shipped_traces())
        raise InputError(f"compute.table: {file} does not exist; shipped traces: {shipped}") from None
    except Exception as error:  # pandas and pyarrow raise a dozen kinds on damaged files
        first = str(error).partition("\n")[0][:80]
        raise InputError(f"compute.table: {file} is not a readable CSV or Parquet table ({first})") from None
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        expected = ", ".join(COLUMNS)
        raise InputError(f"compute.table: {file} lacks {', '.join(missing)}; columns are {expected}")
    for name in ("layer", "worker", "ns"):
        values = pd.to_numeric(table[name], errors="coerce")
        bad = ~np.isfinite(values) | (values < 0) | (values > 2**53)
        if name != "ns":
            bad |= values != values.round()
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            given = str(table[name].iloc[row])[:40]
            allowed = "a number of 0 or more"
            raise InputError(f"compute.table: {file}, row {row + 1}: {name} is {given!r}; {allowed}")
        table[name] = values.round().astype(np.int64)
    key = ["system", "layer", "direction", "phase", "worker"]
    if table.duplicated(key).any():
        row = int(np.flatnonzero(table.duplicated(key))[0])
        raise InputError(f"compute.table: {file}, row {row + 1} repeats an earlier (system .. worker)")
    return table[list(COLUMNS)]


def measured_phases(table: pd.DataFrame, phases: list[Phase], system: str) -> list[Phase]:
    """The phases with times from the table; the all-reduce (layer 0) stays modelled unless the table has it.

    Raises InputError where the table lacks a worker of a needed phase.
    """
    rows = table[table["system"] == system]
    if rows.empty:
        rows = table[table["system"] == "*"]
    groups = dict(iter(rows.groupby(["layer", "direction", "phase"])))
    measured = []
    for phase in phases:
        times = {}
        for part, modelled in (("pre", phase.pre_ns), ("post", phase.post_ns)):
            group = groups.get((phase.layer, phase.direction, part))
            if group is None and phase.layer == 0:
                times[part] = modelled
                continue
            where = f"compute.table: system {system!r}, layer {phase.layer} {phase.direction} {part}"
            if group is None:
                raise InputError(f"{where}: no rows; every phase of the epoch needs every worker")
            column = group.set_index("worker")["ns"].reindex(range(len(modelled)))
            if column.isna().any():
                worker = int(np.flatnonzero(column.isna())[0])
                raise InputError(f"{where}: worker {worker} is missing; workers are 0..{len(modelled) - 1}")
            times[part] = column.to_numpy(dtype=np.int64)
        measured.append(replace(phase, pre_ns=times["pre"], post_ns=times["post"]))
    return measured
