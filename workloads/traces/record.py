"""The trace's file: a compute table in Parquet that also says what was measured, on what, with which
versions.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workloads.errors import InputError

_KEY = b"netfold.trace"


def write_trace(path: Path, table: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Write it whole or not at all. Raises InputError where the place cannot be written."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _KEY: json.dumps(facts).encode()})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow, temporary)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"output: {path} cannot be written: {error.strerror}") from error


def trace_facts(path: Path) -> dict[str, Any]:
    """What `netfold trace` said of its measurement; empty for a table from elsewhere."""
    metadata = pq.read_schema(path).metadata or {}
    facts: dict[str, Any] = json.loads(metadata.get(_KEY, b"{}"))
    return facts
