"""The trace's file: a compute table in Parquet that also says what was measured, on what, with which
versions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workloads.errors import InputError
from workloads.files import write_whole
from workloads.graphs.graph import Graph
from workloads.partition import Partition

_KEY = b"netfold.trace"


def write_trace(path: Path, table: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Write it whole or not at all. Raises InputError where the place cannot be written."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _KEY: json.dumps(facts).encode()})
    write_whole(path, lambda temporary: pq.write_table(arrow, temporary))


def trace_facts(path: Path) -> dict[str, Any]:
    """What `netfold trace` said of its measurement; empty for a table from elsewhere."""
    if path.suffix != ".parquet":
        return {}
    metadata = pq.read_schema(path).metadata or {}
    facts: dict[str, Any] = json.loads(metadata.get(_KEY, b"{}"))
    return facts


def check_trace(facts: dict[str, Any], graph: Graph, partition: Partition) -> None:
    """Raises InputError when the trace was measured on another graph or other partitions than these."""
    if not facts:
        return
    if facts["graph_digest"] != graph.digest:
        raise InputError(
            f"compute.table: measured on graph {facts['graph']} ({facts['graph_digest'][:12]}), "
            f"but this is {graph.name} ({graph.digest[:12]}); run `netfold trace` for it"
        )
    balance = partition.balance
    if facts["partition_digests"].get(balance) != partition.digest:
        raise InputError(
            f"compute.table: measured on other partitions ({facts['workers']} workers) than this run's "
            f"({partition.k} workers, {balance} balance); run `netfold trace` with its workers and seed"
        )
