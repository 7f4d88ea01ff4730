"""What a run of a cluster leaves: a summary, tables, a folder, and a table for people."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from emulator.cluster.measured import Measured
from emulator.cluster.prepare import FCS_BYTES, Prepared
from emulator.wire import FRAME_BYTES
from sim.results import ResultsFolder, write_json, write_table
from workloads.terminal import plain_console

SCHEMAS: dict[str, pa.Schema] = {
    "propagations": pa.schema(
        [
            ("propagation", pa.int32()),
            ("layer", pa.int32()),
            ("direction", pa.string()),
            ("width", pa.int32()),
            ("duration_ns", pa.int64()),
            ("equal", pa.bool_()),
        ]
    ),
    "links": pa.schema(
        [
            ("source", pa.string()),
            ("target", pa.string()),
            ("kind", pa.string()),
            ("frames", pa.int64()),
            ("bytes", pa.int64()),
        ]
    ),
    "workers": pa.schema([("worker", pa.int32()), ("counter", pa.string()), ("count", pa.int64())]),
}


def frame_bytes(size: int) -> int:
    """Bytes of an Ethernet frame with its FCS, as the simulation counts them."""
    return size + FCS_BYTES


def summary(prepared: Prepared, measured: Measured, switch: str) -> dict[str, Any]:
    """Flat figures of one run."""
    totals: Counter[str] = Counter()
    for worker in measured.workers:
        totals.update(worker)
    seconds = sum(measured.durations_ns) / 1e9
    kinds = packets_by_kind(measured.traffic)
    frames = sum(count for (source, _), by_kind in measured.traffic.items()
                 if source.startswith("worker") for count in by_kind.values())  # fmt: skip
    return {
        "netfold": version("netfold"),
        "provenance": provenance(measured),
        "system": prepared.system.name,
        "switch": switch,
        "graph": prepared.graph.name,
        "graph_kind": prepared.graph.provenance.kind,
        "workers": prepared.topology.workers,
        "racks": prepared.topology.racks,
        "spines": prepared.topology.spines,
        "propagations": len(measured.durations_ns),
        "values_equal_oracle": bool(measured.equal) and all(measured.equal),
        "comm_time_ns": sum(measured.durations_ns),
        "loading_ns": measured.loading_ns,
        "frames_from_workers": frames,
        "frames_per_s": frames / seconds if seconds else 0.0,
        "wall_s": round(measured.wall_s, 3),
        "packets": kinds,
        "workers_total": {name: count for name, count in sorted(totals.items()) if count},
        "switch_counters": measured.switches,
        "faults": measured.faults,
        "unused_keys": prepared.unused,
    }


def provenance(measured: Measured) -> str:
    """Where the figures come from."""
    how = "emulated in virtual time" if measured.virtual else "emulated"
    where = platform.node() or "this machine"
    return f"{how} on {where} ({platform.machine()}, Python {platform.python_version()})"


def packets_by_kind(traffic: Mapping[tuple[str, str], Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Frames by hop (up: from workers, down: to workers, fabric: between switches) and kind."""
    out: dict[str, Counter[str]] = {"up": Counter(), "down": Counter(), "fabric": Counter()}
    for (source, target), kinds in traffic.items():
        hop = "up" if source.startswith("worker") else "down" if target.startswith("worker") else "fabric"
        out[hop].update(kinds)
    return {hop: dict(sorted(kinds.items())) for hop, kinds in out.items()}


def write(
    folder: ResultsFolder, scenario_toml: str, prepared: Prepared, measured: Measured, about: dict[str, Any]
) -> None:
    """The run's results folder: scenario.toml, summary.json, three Parquet tables."""
    place = folder.building
    chosen = prepared.propagations[: len(measured.durations_ns)]
    write_table(
        place / "propagations.parquet",
        {
            "propagation": np.arange(len(chosen)),
            "layer": np.array([p.layer for p in chosen]),
            "direction": np.array([p.direction for p in chosen], dtype=object),
            "width": np.array([p.width for p in chosen]),
            "duration_ns": np.array(measured.durations_ns),
            "equal": np.array(measured.equal),
        },
        SCHEMAS["propagations"],
    )
    rows = [
        (source, target, kind, count)
        for (source, target), kinds in sorted(measured.traffic.items())
        for kind, count in sorted(kinds.items())
    ]
    columns = [np.array(column, dtype=object) for column in zip(*rows, strict=True)] or [np.array([])] * 4
    counts = np.array(columns[3], dtype=np.int64)
    write_table(
        place / "links.parquet",
        {
            "source": columns[0],
            "target": columns[1],
            "kind": columns[2],
            "frames": counts,
            "bytes": counts * frame_bytes(FRAME_BYTES),
        },
        SCHEMAS["links"],
    )
    told = [(w, name, n) for w, counters in enumerate(measured.workers) for name, n in counters.items()]
    write_table(
        place / "workers.parquet",
        {
            "worker": np.array([row[0] for row in told]),
            "counter": np.array([row[1] for row in told], dtype=object),
            "count": np.array([row[2] for row in told]),
        },
        SCHEMAS["workers"],
    )
    write_json(place / "measured.json", {key: about[key] for key in ("wall_s", "provenance")})
    folder.commit(scenario_toml, about)


def show(about: Mapping[str, Any], folder: str) -> None:
    """The table on stdout."""
    total = about["workers_total"]
    switches = about["switch_counters"]
    racks = f", {about['racks']} racks" if about["racks"] else ""
    shape = f"{about['workers']} workers{racks}, switch: {about['switch']}"
    title = f"{about['system']} on {about['graph']}: {shape}"
    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    verdict = "equal to A H, bit for bit" if about["values_equal_oracle"] else "WRONG"
    table.add_row("sums", f"{verdict}, in {about['propagations']} propagations")
    table.add_row("time", f"{about['comm_time_ns'] / 1e6:.3f} ms; loading {about['loading_ns'] / 1e6:.3f} ms")
    table.add_row("throughput", f"{about['frames_per_s']:,.0f} frames/s from the workers")
    for hop in ("up", "down", "fabric"):
        kinds = about["packets"][hop]
        if kinds:
            table.add_row(hop, ", ".join(f"{kind} {count:,}" for kind, count in kinds.items()))
    recovery = ("timeouts", "pulls", "answers", "bypassed_chunks", "reports_resent")
    table.add_row("recovery", _some(total, recovery))
    table.add_row("congestion", _some(total, ("ecn_marks", "cnps")))
    table.add_row("switch", ", ".join(f"{name} {count:,}" for name, count in switches.items() if count))
    dropped = {name: n for name, n in total.items() if name.startswith("dropped.")}
    if dropped:
        table.add_row("dropped", ", ".join(f"{n.removeprefix('dropped.')} {c:,}" for n, c in dropped.items()))
    if about["faults"]:
        table.add_row("faults", ", ".join(f"{name} {count:,}" for name, count in about["faults"].items()))
    if about["unused_keys"]:
        table.add_row("unused keys", ", ".join(about["unused_keys"]))
    table.add_row("provenance", str(about["provenance"]))
    table.add_row("records", folder)
    console = plain_console()
    console.print(table)
    if "substrates" in about:
        console.print(substrates(about["substrates"]))


def substrates(rows: list[dict[str, Any]]) -> Table:
    """Both substrates side by side. Ports that agree are one line."""
    table = Table("", "simulated", "emulated", "", title="both substrates", title_justify="left", box=None)
    ports = [row for row in rows if row["port"]]
    agree = [row for row in ports if row["equal"]]
    for row in rows:
        if row["port"] and row["equal"]:
            continue
        verdict = "equal" if row["equal"] else row["reason"] or "DIFFERS"
        table.add_row(row["what"], f"{row['simulated']:,}", f"{row['emulated']:,}", verdict)
    if agree:
        total = f"{sum(row['emulated'] for row in agree):,}"
        table.add_row(f"bytes of values at {len(agree)} of {len(ports)} ports", total, total, "equal, each")
    return table


def _some(total: Mapping[str, int], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {total.get(name, 0):,}" for name in names)
