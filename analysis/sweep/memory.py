"""What preparing and simulating a unit needs, so that what runs at once fits in the machine."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from sim.prepare import BASE_MEMORY_BYTES
from sim.scenario import Scenario
from workloads.graphs.formats.registry import FORMATS
from workloads.graphs.standins import shapes
from workloads.systems import System

MEMORY_SHARE = 0.8  # of what is available may be promised
BASE_BYTES = 250_000_000  # Python with numpy, pandas, scipy and pyarrow, and a small graph
# Measured: 37 and 16 B beyond the base on the reddit stand-in at scale 0.02 and 0.1, 15 at full size.
BYTES_PER_EDGE = 30
BYTES_PER_VERTEX = 200
SMALL_EDGES = 2_000_000  # whatever comes with netfold and is no stand-in
BYTES_PER_EDGE_ON_DISK = 4  # of a graph's file, at the least: an int32 each way

# Peaks of simulations over what their plan takes, on the Reddit stand-in at scale 0.1 and 128 workers: 1.5
# times at most, but 6 times with first-come-first-served aggregators, where bypassed packets pile up.
PLAN_SHARE = {"fcfs": 7}
OTHERS_PLAN_SHARE = 2


def budget_bytes() -> int:
    """What may be promised on this machine now."""
    return int(MEMORY_SHARE * psutil.virtual_memory().available)


def preparing_bytes(scenario: Scenario) -> int:
    """An estimate of the peak of loading, partitioning and planning a scenario's graph."""
    vertices, edges = graph_size(scenario)
    values = 0
    if scenario.run.value_mode:  # features and oracle sums of every width, int32 and int64
        values = 3 * 8 * vertices * max(scenario.model.hidden, 128)
    return BASE_BYTES + BYTES_PER_EDGE * edges + BYTES_PER_VERTEX * vertices + values


def simulating_bytes(system: System, prepared_bytes: int) -> int:
    """An estimate of a simulation's peak, from what its prepared plans take (`sim.job.Job.memory_bytes`)."""
    share = PLAN_SHARE.get(system.switching, OTHERS_PLAN_SHARE)
    return BASE_MEMORY_BYTES + share * max(0, prepared_bytes - BASE_MEMORY_BYTES)


def graph_size(scenario: Scenario) -> tuple[int, int]:
    """(vertices, directed edges) of a graph that is not loaded yet: known, or a bound from its file."""
    source, scale = scenario.graph.source, scenario.graph.scale
    if source in shapes():
        shape = shapes()[source]
        return int(shape.vertices * scale), int(shape.directed_edges * scale)
    kind, _, rest = source.partition(":")
    numbers = [int(part) for part in rest.split(":") if part.isdigit()]
    if kind == "rmat" and numbers and numbers[0] < 40:
        factor = numbers[1] if len(numbers) > 1 else 16
        return 1 << numbers[0], 2 * factor << numbers[0]
    if kind in ("star", "ring") and numbers:
        return numbers[0], 2 * numbers[0]
    path = rest if kind in FORMATS else source
    if os.path.exists(path) and (os.sep in path or kind in FORMATS):
        edges = _bytes_on_disk(Path(path)) // BYTES_PER_EDGE_ON_DISK
        return edges // 2, edges
    return SMALL_EDGES // 10, SMALL_EDGES


def _bytes_on_disk(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
