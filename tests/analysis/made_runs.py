"""Small results folders with figures chosen by hand, for the tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.results import ResultsFolder, write_run
from sim.scenario import Scenario
from sim.scenario_io import dump_scenario
from workloads.systems import SYSTEMS

QUEUES = {
    # three intervals of 100 ns, two egress ports and a recirculation queue
    "time_ns": np.repeat([100, 200, 300], 3),
    "switch": np.array(["leaf0", "spine0", "leaf0"] * 3),
    "port": np.array([0, 1, -1] * 3),
    "backlog_bytes": np.array([10, 0, 999, 30, 50, 999, 20, 0, 999]),
    "shared_bytes": np.array([10, 0, 999, 30, 50, 999, 20, 0, 999]),
}
EPOCHS = {
    # one phase without a propagation, then one: workers communicate for 100, 200 and 300 ns
    "layer": np.array([1, 1, 1, 2, 2, 2]),
    "direction": np.array(["forward"] * 6),
    "worker": np.array([0, 1, 2] * 2),
    "start_ns": np.array([0, 0, 0, 50, 50, 50]),
    "comm_start_ns": np.array([-1, -1, -1, 100, 110, 120]),
    "comm_end_ns": np.array([-1, -1, -1, 200, 310, 420]),
    "end_ns": np.array([50, 50, 50, 250, 360, 470]),
}
BLOCKS = {
    "propagation": np.array([0, 0, 1]),
    "layer": np.array([2, 2, 3]),
    "direction": np.array(["forward"] * 3),
    "block": np.array([0, 1, 0]),
    "level": np.array([0, 1, 0]),
    "vertices": np.array([8, 4, 8]),
    "start_ns": np.array([100, 260, 500]),
    "end_ns": np.array([250, 400, 600]),
}


LINKS = {
    # what crosses a leaf-spine:2x2 with a worker per rack drawn in; adds up to the figures below
    "source": np.array(["worker0", "worker2", "leaf0", "leaf1", "leaf0", "spine1"]),
    "target": np.array(["leaf0", "leaf1", "worker0", "worker2", "spine0", "leaf1"]),
    "hop": np.array(["up", "up", "down", "down", "fabric", "fabric"]),
    "packets": np.array([2, 1, 1, 1, 4, 5]),
    "bytes": np.array([375, 125, 200, 300, 50, 150]),
    "background_packets": np.array([0, 1, 0, 0, 0, 0]),
    "background_bytes": np.array([0, 75, 0, 0, 0, 0]),
}


def figures(label: str, **given: Any) -> dict[str, Any]:
    """A run's summary: round numbers, `given` on top."""
    name = label.partition("@")[0]
    system, _, mode = name.rpartition("-") if name.endswith(("-free", "-tofino")) else (name, "", "")
    base = {
        "system": system, "title": SYSTEMS[system].title, "recirculation": mode, "memory_bytes": 10**8,
        "pipeline_bins": 1, "up_bytes": 500, "down_bytes": 500, "total_bytes": 1000, "fabric_bytes": 200,
        "up_payload_bytes": 400, "down_payload_bytes": 400, "fabric_payload_bytes": 100,
        "backlog_p50_bytes": 1, "backlog_p99_bytes": 2, "backlog_max_bytes": 50, "passes": 10,
        "recirculated_passes": 9, "results": 4, "contributions": 40, "bypassed": 10, "pulls": 0, "drops": 0,
        "ecn_marks": 0, "saturated": 0, "bypassed_share": 0.25, "compute_time_ns": 100, "comm_time_ns": 300,
        "epoch_time_ns": 470, "wall_s": 0.1, "peak_memory_bytes": 10**8,
    }  # fmt: skip
    for hop in ("up", "down", "fabric"):
        base[f"{hop}_upload_frames"] = 3 if hop == "up" else 0
        base[f"{hop}_result_frames"] = 2 if hop == "down" else 0
    return base | given


def results(
    place: Path,
    runs: Mapping[str, Mapping[str, Any]],
    *,
    scenario: Scenario | None = None,
    graph: str = "reddit (synthetic stand-in)",
) -> Path:
    """A results folder with these runs."""
    folder = ResultsFolder(place)
    tables = {"queues": QUEUES, "epochs": EPOCHS, "blocks": BLOCKS, "links": LINKS}
    for label, summary in runs.items():
        write_run(folder.building / label, summary, tables)
    about = {"name": graph, "kind": "synthetic stand-in", "vertices": 100, "directed_edges": 800}
    summary = {
        "netfold": "0.1.0", "graph": about | {"top20_edge_share": 0.7, "source": "made", "digest": "0" * 64},
        "partitions": {"unit": {"replication_factor": 15.0, "boundary_vertices": 1000}},
        "plans": {}, "widths": [256], "compute": "modelled (roofline, test)", "order": list(runs),
        "runs": {label: dict(run) for label, run in runs.items()}, "failures": {}, "interrupted": False,
    }  # fmt: skip
    folder.commit(dump_scenario(scenario or Scenario(), {"version": "0.1.0"}), summary)
    return place
