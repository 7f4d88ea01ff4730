"""Collective times for any size: a few sizes simulated, interpolated between, extrapolated beyond with a
stated error; kept in the cache by content.

Up to the largest simulated size the curve is piecewise linear through the simulated points; beyond it time is
alpha + beta * bytes with the slope of the two largest. `error` is what that extrapolation misses at the
largest simulated size when it is made from the sizes below it, so it is measured, on every curve.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sim.collectives import check_kind, time_collective
from sim.collectives_plans import Groups
from sim.engine import native_config
from sim.scenario import Scenario
from workloads.cache import cache_root
from workloads.errors import InputError
from workloads.files import write_whole
from workloads.parallel.curve import Curve, make_curve
from workloads.systems import SYSTEMS

SMALLEST_BYTES = 2_000
GROWTH = 8
POINTS = 6
MOST_HOPS = 500_000  # of the largest simulated size: about a tenth of a second
_VERSION = "netfold-collectives-1"


def collective_curve(
    scenario: Scenario,
    kind: str,
    algorithm: str,
    groups: Groups,
    *,
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Curve:
    """The curve of one collective in every group at once. Raises InputError as `time_collective` does."""
    check_kind(kind, algorithm)
    members = len(groups[0])
    if members == 1:
        return Curve((1.0,), (0.0,), 0.0)
    recipe = [kind, algorithm, [list(map(int, group)) for group in groups]]

    def simulated() -> Curve:
        progress(f"simulating {kind} ({algorithm}) in {len(groups)} group(s) of {members}")
        sizes: list[float] = []
        times: list[float] = []
        size = SMALLEST_BYTES
        for _ in range(POINTS):
            timed = time_collective(scenario, kind, algorithm, groups, size)
            sizes.append(size)
            times.append(timed.time_ns)
            # A clique of n members is n - 1 passes an upload: work for the simulator that is no packet.
            work = timed.packet_hops * (members if algorithm == "in-network" else 1)
            if len(sizes) > 2 and work * GROWTH > MOST_HOPS:
                break
            size *= GROWTH
        return make_curve(sizes, times)

    return cached_curve(scenario, recipe, simulated, cache)


def best_algorithm(curves: dict[str, Curve], size: float) -> str:
    """The algorithm whose curve is lowest at this size."""
    return min(curves, key=lambda name: curves[name].time_ns(size))


def cached_curve(
    scenario: Scenario, recipe: Any, simulated: Callable[[], Curve], cache: Path | None
) -> Curve:
    """What `simulated` returns, kept under everything that decides it: the recipe and the cluster."""
    config = native_config(scenario, SYSTEMS["host"])
    names = sorted(name for name in dir(config) if not name.startswith("_"))
    cluster = {name: repr(getattr(config, name)) for name in names}
    window = [scenario.switch.memory_bytes, scenario.switch.aggregator_bytes, scenario.cluster.topology]
    told = json.dumps([_VERSION, recipe, cluster, window], sort_keys=True)
    file = cache_root(cache) / "collectives" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Curve(tuple(kept["sizes"]), tuple(kept["times_ns"]), float(kept["error"]))
    except (OSError, ValueError, KeyError, TypeError):
        curve = simulated()
    _keep(file, {"sizes": curve.sizes, "times_ns": curve.times_ns, "error": curve.error})
    return curve


def _keep(file: Path, values: dict[str, Any]) -> None:
    text = json.dumps(values)
    with suppress(InputError):  # a cache that cannot be written keeps nothing
        write_whole(file, lambda path: path.write_text(text, encoding="utf-8"))
