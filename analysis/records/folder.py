"""A results folder as tidy pandas: one row per system run, and its tables, units in the column names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sim.quantities import format_bytes
from sim.results import SCHEMAS, is_results
from sim.scenario import Scenario
from sim.scenario_io import load_scenario
from workloads.errors import InputError

# Tables that runs recorded by earlier versions lack: read as empty, and no damage where they are missing.
LATER_TABLES = ("links",)

# Keys that make another experiment of a run than the paper's, which the defaults describe.
PAPERS_KEYS = {
    "partition": ("method",),
    "plan": ("residual",),
    "model": ("layers",),
    "cluster": ("host_link_bps", "fabric_link_bps"),
    "switch": ("aggregator_bytes", "hierarchy", "buffer_bytes"),
    "congestion": ("control",),
    "loss": ("rate",),
    "background": ("load",),
}


@dataclass(frozen=True)
class Records:
    """One results folder. summary: its summary.json; scenario: the resolved scenario it was made with."""

    folder: Path
    summary: dict[str, Any]
    scenario: Scenario

    def runs(self) -> pd.DataFrame:
        """One row per system run in listing order: `label`, then every figure of its summary."""
        rows = [{"label": label, **self.summary["runs"][label]} for label in self.summary["order"]]
        return pd.DataFrame(rows)

    def table(self, label: str, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """One Parquet table ("queues", "blocks", "epochs", "links", "packets") of one run, or columns of it;
        without rows where it is one of LATER_TABLES and the run has none. Raises InputError.
        """
        path = self.folder / label / f"{name}.parquet"
        if not recorded(path):
            return SCHEMAS[name].empty_table().select(list(columns or SCHEMAS[name].names)).to_pandas()
        try:
            with path.open("rb") as file:  # pyarrow itself refuses names that are not UTF-8
                return pd.read_parquet(file, columns=list(columns or SCHEMAS[name].names))
        except Exception as error:  # pyarrow raises a dozen kinds on missing and damaged files
            reason = str(error).partition("\n")[0][:80]
            raise InputError(f"{path}: not a readable table ({reason})") from None

    def values(self) -> dict[str, bool]:
        """Value mode: whether each run's owners received exactly the oracle's sums; empty in timing mode."""
        runs = self.summary["runs"]
        checked = "values_equal_oracle"
        return {
            label: bool(runs[label][checked]) for label in self.summary["order"] if checked in runs[label]
        }

    @property
    def graph_name(self) -> str:
        """The graph as shown; a stand-in's name says so."""
        return str(self.summary["graph"]["name"])

    def unlike_paper(self) -> list[tuple[str, Any, Any]]:
        """(key, value here, value in the paper) of every one of PAPERS_KEYS that differs."""
        papers, found = Scenario(), []
        for section, names in PAPERS_KEYS.items():
            for name in names:
                ours, theirs = (getattr(getattr(one, section), name) for one in (self.scenario, papers))
                if ours != theirs:
                    found.append((f"{section}.{name}", ours, theirs))
        return found

    def provenance(self) -> str:
        """One line under every figure: how it came about, on what graph and cluster, and what is unusual."""
        graph, cluster = self.summary["graph"], self.scenario.cluster
        kind = "" if graph["kind"] in graph["name"] else f", {graph['kind']}"
        held = self.scenario.switch.memory_bytes
        memory = format_bytes(held) if held else "unlimited"
        unusual = "".join(f", {key} = {ours}" for key, ours, _ in self.unlike_paper())
        return (
            f"simulated (netfold {self.summary['netfold']} on ns-3); graph {graph['name']}{kind}; "
            f"{cluster.workers} workers, {cluster.topology}, switch memory {memory}{unusual}; "
            f"compute {self.summary['compute']}"
        )

    def _repr_html_(self) -> str:
        """How a notebook shows it: the comparison of systems with its provenance."""
        from analysis.html import records_html  # noqa: PLC0415  # a circle otherwise

        return records_html(self)


def load_records(folder: str | Path) -> Records:
    """Read a results folder. Raises InputError when it is none, or its summary is damaged."""
    folder = Path(folder)
    refuse_training(folder)
    if not is_results(folder):
        raise InputError(f"{folder}: not a results folder (no summary.json and scenario.toml in it)")
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{folder / 'summary.json'}: damaged; run again") from None
    check_summary(summary, folder)
    return Records(folder, summary, load_scenario(folder / "scenario.toml"))


def training_summary(folder: Path) -> dict[str, Any] | None:
    """{"settings", "summary"} of a folder that `netfold train` made; None where it made none."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(summary, dict) or not all(
        isinstance(summary.get(part), dict) for part in ("settings", "summary")
    ):
        return None
    return summary


def refuse_training(folder: Path) -> None:
    """Raises InputError for a folder that `netfold train` made, which has no simulated runs."""
    if training_summary(folder) is not None:
        raise InputError(
            f"{folder}: a training run, which `netfold train` made, and no simulation; "
            "`netfold show` prints it, and its Parquet tables can be read"
        )


def recorded(path: Path) -> bool:
    """Whether a table's file has to be there: False where the run is older than the table."""
    return path.stem not in LATER_TABLES or os.path.lexists(path)


def check_summary(summary: Any, folder: Path) -> None:
    """Whether a summary has what every reader needs. Raises InputError."""
    if isinstance(summary, dict) and summary.get("kind") == "network":
        raise InputError(
            f"{folder}: the results of a network, not of a propagation; `netfold show` prints them"
        )
    if isinstance(summary, dict) and str(summary.get("provenance", "")).startswith("emulated"):
        raise InputError(
            f"{folder}: the results of `netfold emulate`, not of a simulation; "
            "summary.json and the Parquet tables in it can be read"
        )
    needed = {"netfold", "graph", "order", "runs", "failures", "compute", "partitions", "plans"}
    whole = isinstance(summary, dict) and needed <= summary.keys()
    whole = whole and all(isinstance(summary[name], dict) for name in ("graph", "runs", "failures"))
    whole = (
        whole and isinstance(summary["order"], list) and all(isinstance(one, str) for one in summary["order"])
    )
    if not whole or not all(isinstance(summary["runs"].get(one), dict) for one in summary["order"]):
        raise InputError(f"{folder / 'summary.json'}: not written by this version of netfold; run again")
