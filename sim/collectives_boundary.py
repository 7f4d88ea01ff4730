"""A partitioned graph's boundary exchange, simulated: what graph-partition parallelism sends per layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sim.collectives_model import cached_curve
from sim.engine import simulate
from sim.scenario import Scenario
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.graphs import Graph
from workloads.parallel.curve import Curve, make_curve
from workloads.partition import Partition
from workloads.plan import make_plan
from workloads.systems import SYSTEMS

EXCHANGES = ("host", "presum")  # host-based; and added up by the switch in one pass (for linear sums only)
WIDTHS = (30, 60, 120, 240)
MOST_HOPS = 6_000_000
LINKS = 4  # that a packet passes on a leaf-spine


def boundary_curve(
    scenario: Scenario,
    graph: Graph,
    partition: Partition,
    system: str,
    *,
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Curve:
    """Time of one propagation against values per vertex, on an idle cluster. One partition part per worker.

    Widths are simulated as far as their packets stay few; the smallest always is. Raises InputError for
    another number of parts than workers, and for an unknown system.
    """
    if system not in EXCHANGES:
        raise InputError(f"boundary exchange: {system[:40]!r} given; allowed: {', '.join(EXCHANGES)}")
    workers = scenario.cluster.workers
    if partition.k != workers:
        raise InputError(f"partition: {partition.k} parts given; cluster.workers is {workers}")

    def simulated() -> Curve:
        sends = int(partition.stats(graph)["host_sends"])
        if not sends:
            return Curve((1.0,), (0.0,), 0.0)
        chosen = SYSTEMS[system]
        widths: list[float] = []
        times: list[float] = []
        idle = np.zeros(workers, dtype=np.int64)
        for width in WIDTHS:
            per_vertex = width / 340 if system == "host" else -(-width // scenario.switch.values_per_packet)
            if len(widths) > 1 and sends * per_vertex * LINKS > MOST_HOPS:
                break
            progress(f"simulating the boundary exchange ({system}), {width} values a vertex")
            plan = make_plan(
                graph,
                partition,
                width=width,
                memory_bytes=None,
                blocks=chosen.blocks,  # type: ignore[arg-type]
                order=chosen.order,  # type: ignore[arg-type]
                values_per_packet=scenario.switch.values_per_packet,
                cache=cache,
            )
            phases = [Phase(1, "forward", width, idle, idle)]
            summary = simulate(scenario, chosen, {width: plan}, phases).summary
            widths.append(width)
            times.append(int(summary["epoch_time_ns"]))
        return make_curve(widths, times)

    return cached_curve(scenario, ["boundary", system, graph.digest, partition.digest], simulated, cache)
