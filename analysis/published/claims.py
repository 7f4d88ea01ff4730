"""The paper's figures beside ours: both where the setting is the same, elsewhere why not."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from analysis.metrics import cell, change, comparison
from analysis.published.values import published_values
from analysis.records.folder import Records
from sim.quantities import format_bytes
from workloads.systems import SYSTEMS


@dataclass(frozen=True)
class Finding:
    """One claim of the paper: its value and ours (None where there is none), as numbers and as shown."""

    id: str
    text: str
    place: str
    kind: str
    paper: float | None
    ours: float | None
    note: str

    def show(self, value: float | None) -> str:
        """A value of this claim as people read it."""
        if value is None:
            return "-"
        match self.kind:
            case "change" | "lower":
                return f"{value:+.0%}"
            case "share":
                return f"{value:.0%}"
            case "factor":
                return f"{value:.1f}x"
        return format_bytes(value)


def load_claims() -> list[dict[str, Any]]:
    """The claims of switchgnn.toml, each with its value and place from switchgnn.csv where it has a row."""
    text = files("analysis.published").joinpath("switchgnn.toml").read_text(encoding="utf-8")
    numbers = published_values("switchgnn")
    claims: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    for claim in claims:
        if claim["id"] in numbers:
            number = numbers[claim["id"]]
            claim |= {"value": number.value, "place": number.place}
    return claims


def findings(records: Records) -> list[Finding]:
    """Every claim with our figure, or with the reason why this run has none to set beside it."""
    found = []
    for claim in load_claims():
        differs = _differences(claim, records)
        ours = math.nan if differs else _measure(claim["metric"], claim["setting"], records)
        if differs:
            note = f"other setting: {', '.join(differs)}"
        elif math.isnan(ours):
            note = f"not run: needs {' and '.join(claim['metric'][1:])}"
        else:
            note = "same setting" + (", synthetic stand-in" if _stand_in(records) else "")
        found.append(
            Finding(
                claim["id"],
                claim["text"],
                claim["place"],
                claim["kind"],
                claim.get("value"),
                None if math.isnan(ours) else ours,
                note,
            )
        )
    return found


def _differences(claim: dict[str, Any], records: Records) -> list[str]:
    """What of a claim's setting this run does not share; a memory that the sweep covered counts as shared."""
    setting, differs = claim["setting"], []
    graph, scenario = records.summary["graph"], records.scenario
    if graph["name"].partition(" ")[0].lower() != setting["graph"]:
        differs.append(f"graph {graph['name']}, not {setting['graph']}")
    elif scenario.graph.scale != 1.0 and _stand_in(records):
        differs.append(f"graph at scale {scenario.graph.scale:g}")
    if "workers" in setting and scenario.cluster.workers != setting["workers"]:
        differs.append(f"{scenario.cluster.workers} workers, not {setting['workers']}")
    if claim["metric"][-1] in SYSTEMS:  # of a simulated run, not of the graph alone
        differs += [f"{key} = {ours}, not {papers}" for key, ours, papers in records.unlike_paper()]
    memory = setting.get("memory_bytes")
    covered = {run["memory_bytes"] for run in records.summary["runs"].values()}
    if memory is not None and memory not in covered:
        differs.append(f"no run with {format_bytes(memory)}")
    return differs


def _measure(metric: list[str], setting: dict[str, Any], records: Records) -> float:
    scenario, memory = records.scenario, setting.get("memory_bytes")
    match metric:
        case ["replication_factor"]:
            return float(records.summary["partitions"].get("unit", {}).get("replication_factor", math.nan))
        case ["top20_edge_share"]:
            return float(records.summary["graph"]["top20_edge_share"])
        case ["aggregator_need_bytes"]:
            vertices = records.summary["partitions"].get("unit", {}).get("boundary_vertices", math.nan)
            chunks = -(-max(records.summary["widths"], default=0) // scenario.switch.values_per_packet)
            return float(vertices * chunks * scenario.switch.aggregator_bytes)
        case [column, system]:
            table = comparison(records)
            return cell(table, system, column) if system in table.index else math.nan
        case [column, system, against]:
            if memory is not None and memory != scenario.switch.memory_bytes:
                return _swept_change(records, column, system, against, memory)
            return change(comparison(records), system, against, column)
    raise ValueError(f"unknown metric {metric}")


def _swept_change(records: Records, column: str, system: str, against: str, memory: int) -> float:
    """The change from the host-based figure, which no memory changes, to the sweep's run at `memory`."""
    runs, table = records.runs(), comparison(records)
    chosen = runs[
        (runs["system"] == system) & (runs["memory_bytes"] == memory) & runs["label"].str.contains("@")
    ]
    if chosen.empty or against != "host" or against not in table.index:
        return math.nan
    own = "epoch_time_ns" if column == "epoch_free_ns" else column
    return float(chosen.iloc[0][own] / cell(table, against, column) - 1)


def _stand_in(records: Records) -> bool:
    return bool(records.summary["graph"]["kind"] == "synthetic stand-in")
