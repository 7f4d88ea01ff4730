"""Every metric of a run as one flat row."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd

from analysis.metrics.network import aggregation_ratio, bypass_share, utilisation
from analysis.metrics.queues import backlog_area, backlog_over_time
from analysis.metrics.times import communication_fairness, completion_times
from analysis.records.collection import Runs
from analysis.records.folder import Records
from sim.scenario import ClusterSection
from workloads.errors import InputError


def measure(records: Records, label: str) -> dict[str, float]:
    """All metrics of one run, from its summary and tables. Raises InputError where a table is unreadable.

    backlog_area_byte_s is the longest egress queue's; ports_area_byte_s adds up all of them; completion_ns is
    the longest propagation's, completions_ns their sum.
    """
    queues = records.table(label, "queues", ["time_ns", "switch", "port", "backlog_bytes"])
    epochs = records.table(label, "epochs")
    return _from_tables(queues, epochs) | _from_summary(
        records.summary["runs"][label], records.scenario.cluster
    )


def measure_all(runs: Runs) -> pd.DataFrame:
    """`measure` for every run of a collection: one row each, column `run` first. Reads every run's tables; a
    run whose tables are unreadable is named in `runs.skipped` and left out.
    """

    def one(place: tuple[str, Records, str]) -> dict[str, Any] | None:
        name, records, label = place
        try:
            return {"run": name, **measure(records, label)}
        except InputError as error:
            runs.skipped[str(records.folder / label)] = str(error)
            return None

    with ThreadPoolExecutor(4) as pool:
        return pd.DataFrame([row for row in pool.map(one, runs.each()) if row is not None])


def _from_summary(summary: Mapping[str, Any], cluster: ClusterSection) -> dict[str, float]:
    return {
        "aggregation_ratio": aggregation_ratio(summary),
        "bypass_share": bypass_share(summary),
        **utilisation(summary, cluster),
    }


def _from_tables(queues: pd.DataFrame, epochs: pd.DataFrame) -> dict[str, float]:
    longest = backlog_over_time(queues)
    everywhere = longest.assign(switch="", port=0)
    area = backlog_area(everywhere)["area_byte_s"]
    done = completion_times(epochs)["last_ns"]
    return {
        "backlog_area_byte_s": float(area.sum()),
        "ports_area_byte_s": float(backlog_area(queues)["area_byte_s"].sum()),
        "completion_ns": float(done.max()) if len(done) else 0.0,
        "completions_ns": float(done.sum()),
        "communication_fairness": communication_fairness(epochs),
    }
