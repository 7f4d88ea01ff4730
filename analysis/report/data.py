"""What the page shows of one results folder, thinned to what a screen can show: plain values for JSON."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.metrics import (
    aggregation_ratio,
    backlog_area,
    backlog_over_time,
    block_times,
    comparison,
    link_utilisation,
    memory_sweep,
    utilisation,
)
from analysis.metrics.queues import interval_ns
from analysis.published import findings
from analysis.records.folder import Records
from analysis.tables import plain_rows
from sim.quantities import format_bytes
from sim.scenario_io import dump_scenario
from workloads.systems import SYSTEMS

MOST_POINTS = 2000  # of a line
MOST_BINS, LEAST_BINS = 240, 40  # of a heat map's time axis
MOST_CELLS = 2_000_000  # of all heat maps together: 2 bytes each, before base64
MOST_BLOCKS = 4000  # of a timeline
STEPS = 65_535  # of a packed backlog


def report_data(records: Records) -> dict[str, Any]:
    """Everything the page needs. Raises InputError where a table of the folder is unreadable."""
    labels = list(records.summary["order"])
    cells = _cells_per_run(records, labels)
    return {
        "kind": "run",
        "title": _title(records),
        "about": _about(records),
        "provenance": records.provenance(),
        "headline": plain_rows(_headline(records)),
        "runs": [_run(records, label, cells) for label in labels],
        "memory": plain_rows(memory_sweep(records)),
        "host_bytes": _host_bytes(records),
        "published": [
            {"text": one.text, "paper": one.show(one.paper) if one.paper is not None else "lower",
             "ours": one.show(one.ours), "note": one.note, "place": one.place}
            for one in findings(records)
        ],
        "failures": records.summary["failures"],
        "topology": {
            "leaves": records.scenario.cluster.leaves,
            "spines": records.scenario.cluster.spines,
            "workers": records.scenario.cluster.workers,
        },
        "commands": _commands(records),
        "scenario": dump_scenario(records.scenario, {"version": records.summary["netfold"]}),
    }  # fmt: skip


def _title(records: Records) -> str:
    cluster = records.scenario.cluster
    return f"{records.graph_name}: one training epoch on {cluster.workers} workers"


def _about(records: Records) -> list[tuple[str, str]]:
    graph, scenario, summary = records.summary["graph"], records.scenario, records.summary
    cluster, switch, model = scenario.cluster, scenario.switch, scenario.model
    kind = "" if graph["kind"] in graph["name"] else f" ({graph['kind']})"
    parts = summary["partitions"].get(scenario.partition.balance, {})
    held = format_bytes(switch.memory_bytes) if switch.memory_bytes else "unlimited"
    size = f"{graph.get('vertices', 0):,} vertices, {graph.get('directed_edges', 0):,} directed edges"
    cut = f"{parts['boundary_vertices']:,} boundary vertices" if "boundary_vertices" in parts else ""
    replication = parts.get("replication_factor")
    sent = f"each sent to {replication:.1f} workers on average" if replication else ""
    network = f"{cluster.topology}, {cluster.host_link_bps / 1e9:g} Gb/s to hosts"
    network += f", {cluster.fabric_link_bps / 1e9:g} Gb/s between switches" if cluster.leaves else ""
    unusual = ", ".join(f"{key} = {ours}" for key, ours, _ in records.unlike_paper())
    rows = [
        ("Graph", f"{graph['name']}{kind}: {size}"),
        (
            "Partition",
            ", ".join(filter(None, [f"{scenario.partition.method}, {cluster.workers} workers", cut, sent])),
        ),
        ("Model", f"GCN, {model.layers} layers of {model.hidden}"),
        ("Network", network),
        ("Switch memory", f"{held} of aggregators, {switch.aggregator_bytes} B each"),
        ("Compute", str(summary["compute"])),
        ("Unlike the paper", unusual),
    ]
    return [(name, text) for name, text in rows if text]


def _headline(records: Records) -> pd.DataFrame:
    table = comparison(records).reset_index()
    wanted = ["system", "title", "total_bytes", "traffic_vs_host", "backlog_p99_bytes", "backlog_max_bytes"]
    wanted += ["bypassed_share", "epoch_free_ns", "epoch_vs_host", "epoch_tofino_ns", "epoch_tofino_vs_host"]
    return table[[name for name in wanted if name in table]]


def _host_bytes(records: Records) -> int | None:
    host = records.summary["runs"].get("host")
    return None if host is None else int(host["total_bytes"])


def _run(records: Records, label: str, cells: int) -> dict[str, Any]:
    summary = records.summary["runs"][label]
    queues = records.table(label, "queues", ["time_ns", "switch", "port", "backlog_bytes"])
    backlog = backlog_over_time(queues)
    times, longest = thin_maximum(backlog["time_ns"].to_numpy(), backlog["backlog_bytes"].to_numpy())
    system = SYSTEMS.get(summary["system"])
    used = utilisation(summary, records.scenario.cluster)
    return {
        "label": label,
        "system": summary["system"],
        "title": summary["title"],
        "recirculation": summary["recirculation"],
        "memory_bytes": summary["memory_bytes"],
        "swept": "@" in label,
        "in_network": system is None or system.in_network,
        "epoch_ns": summary["epoch_time_ns"],
        "backlog": {"time_ms": _round(times / 1e6, 6), "bytes": longest.tolist()},
        "ports": _ports(queues, cells),
        "blocks": _blocks(records.table(label, "blocks")),
        "traffic": _traffic(summary),
        "utilisation": {hop: _number(share) for hop, share in used.items()},
        "aggregation_ratio": _number(aggregation_ratio(summary)),
        "links": _links(records, label),
        "epochs": _epochs(records.table(label, "epochs")),
    }


def thin_maximum(
    times: npt.NDArray[np.int64], values: npt.NDArray[np.int64], most: int = MOST_POINTS
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """At most `most` points: the maximum of each run of neighbours, at the run's last time."""
    step = max(1, -(-len(times) // most))
    starts = np.arange(0, len(times), step)
    if not len(starts):
        return times, values
    ends = np.minimum(starts + step, len(times)) - 1
    return times[ends], np.maximum.reduceat(values, starts)


def _cells_per_run(records: Records, labels: list[str]) -> int:
    return MOST_CELLS // max(1, len(labels))


def _ports(queues: pd.DataFrame, cells: int) -> dict[str, Any]:
    """Backlog by egress port and time bin: the maximum in each, packed as uint16 shares of the largest."""
    egress = queues[queues["port"] >= 0]
    grid = egress.pivot_table(
        index="time_ns",
        columns=["switch", "port"],
        values="backlog_bytes",
        aggfunc="max",
        sort=False,
        observed=True,
    ).fillna(0)
    names = [":".join(map(str, column)) for column in grid.columns.tolist()]
    bins = int(min(MOST_BINS, max(LEAST_BINS, cells // max(1, len(names))), max(1, len(grid))))
    starts = np.linspace(0, len(grid), bins + 1).astype(int)[:-1] if len(grid) else np.array([], dtype=int)
    values = (
        np.maximum.reduceat(grid.to_numpy(), starts, axis=0) if len(starts) else np.zeros((0, len(names)))
    )
    largest = float(values.max(initial=0))
    packed = np.ceil(values / largest * STEPS) if largest else values
    times = grid.index.to_numpy()
    ends = times[np.append(starts[1:], len(times)) - 1] if len(starts) else times
    areas = {f"{row.switch}:{row.port}": row.area_byte_s for row in backlog_area(queues).itertuples()}
    return {
        "names": names,
        "time_ms": _round(ends / 1e6, 6),
        "interval_ms": interval_ns(queues) / 1e6,
        "largest_bytes": largest,
        "area_byte_s": [areas.get(name, 0.0) for name in names],
        "packed": base64.b64encode(packed.T.astype("<u2").tobytes()).decode("ascii"),
    }


def _blocks(blocks: pd.DataFrame) -> dict[str, Any]:
    """The blocks that are longest, when there are more than a screen can show; left_out: how many are not."""
    timed = block_times(blocks)
    kept = timed.nlargest(MOST_BLOCKS, "duration_ns").sort_values(["propagation", "start_ns"], kind="stable")
    columns = ["propagation", "layer", "direction", "block", "level", "vertices"]
    shown: dict[str, Any] = {name: kept[name].tolist() for name in columns}
    shown |= {"start_ms": _round(kept["start_ns"] / 1e6, 6), "end_ms": _round(kept["end_ns"] / 1e6, 6)}
    return shown | {
        "left_out": len(timed) - len(kept),
        "gap_ms": float(timed["gap_ns"].clip(lower=0).sum() / 1e6),
    }


def _traffic(summary: dict[str, Any]) -> dict[str, Any]:
    """Bytes on each class of links, values apart from headers and control; frames by kind."""
    told: dict[str, Any] = {}
    for hop in ("up", "down", "fabric"):
        frames = {
            name.removeprefix(f"{hop}_").removesuffix("_frames"): count
            for name, count in summary.items()
            if name.startswith(f"{hop}_") and name.endswith("_frames") and count
        }
        told[hop] = {
            "bytes": summary[f"{hop}_bytes"],
            "payload_bytes": summary.get(f"{hop}_payload_bytes", 0),
            "frames": frames,
        }
    return told


def _links(records: Records, label: str) -> dict[str, Any]:
    """Every direction of every link by column, in the table's order; no rows where a run has none."""
    links = records.table(label, "links")
    cluster = records.scenario.cluster
    used = link_utilisation(links, records.summary["runs"][label], cluster)
    columns = ["source", "target", "hop", "packets", "bytes", "background_bytes"]
    return {
        **{name: links[name].tolist() for name in columns},
        "utilisation": [_number(round(float(share), 6)) for share in used],
    }


def _epochs(epochs: pd.DataFrame) -> list[dict[str, Any]]:
    """Each phase's mean over workers: compute before, in a propagation, and after; the longest in it."""
    rows = []
    for key, group in epochs.groupby(["layer", "direction"], sort=False):
        layer, direction = map(str, key) if isinstance(key, tuple) else ("0", "")
        travels = group["comm_start_ns"] >= 0
        whole = group["end_ns"] - group["start_ns"]
        before = (group["comm_start_ns"] - group["start_ns"]).where(travels, whole)
        inside = (group["comm_end_ns"] - group["comm_start_ns"]).where(travels, 0)
        after = (group["end_ns"] - group["comm_end_ns"]).where(travels, 0)
        row = {"layer": int(layer), "direction": direction}
        row |= {
            "before_ms": before.mean() / 1e6,
            "comm_ms": inside.mean() / 1e6,
            "after_ms": after.mean() / 1e6,
        }
        rows.append(row | {"longest_comm_ms": inside.max() / 1e6})
    return rows


def _commands(records: Records) -> list[str]:
    place = records.folder
    return [
        f"netfold run {place / 'scenario.toml'} -o again",
        f"netfold show {place}",
        f"netfold report {place} -o report.html",
    ]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _round(values: Any, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]
