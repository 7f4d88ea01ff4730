"""The simulated cluster as a network for predictions: every collective a scheme needs, on its own groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sim.collectives import ALGORITHMS
from sim.collectives_boundary import boundary_curve
from sim.collectives_model import best_algorithm, collective_curve
from sim.scenario import Scenario
from workloads.graphs import Graph
from workloads.parallel.curve import Curve
from workloads.parallel.pieces import Balance, divide
from workloads.parallel.scheme import Scheme
from workloads.partition.partition import freeze_partition

VALUE_BYTES = 4


@dataclass
class SimulatedNetwork:
    """Of each collective the fastest algorithm at its size; "in-network" only where `in_network` says that
    the switches add. A pure graph partition's boundary exchange is simulated as it is, packet by packet;
    inside a mix it is taken for an all-to-all of the busiest part's bytes.
    """

    scenario: Scenario
    graph: Graph
    balance: Balance
    in_network: bool = True
    linear_sums: bool = True  # the model adds neighbours up, so that a switch may
    seed: int = 1
    cache: Path | None = None
    progress: Callable[[str], None] = lambda _: None
    provenance: str = "simulated"
    packed: bool = False
    used: dict[str, Curve] = field(default_factory=dict)
    _curves: dict[tuple[str, tuple[tuple[int, ...], ...]], dict[str, Curve]] = field(default_factory=dict)
    _boundary: dict[str, Curve] = field(default_factory=dict)

    def transfer_ns(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> float:
        """See `Network`."""
        curves = self._of(kind, scheme, axes)
        best = best_algorithm(curves, size)
        members = scheme.members(axes)
        self.used[f"{kind} ({best}) in groups of {members}, {_reach(scheme, axes)}"] = curves[best]
        return curves[best].time_ns(size)

    def boundary_ns(self, scheme: Scheme, width: int, size: float) -> float:
        """See `Network`."""
        if scheme.partition < self.scenario.cluster.workers:
            return self.transfer_ns("all-to-all", scheme, ("partition",), size)
        curves = self._boundaries()
        best = best_algorithm(curves, width)
        self.used[f"boundary exchange ({best})"] = curves[best]
        return curves[best].time_ns(width)

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        """See `Network`."""
        return best_algorithm(self._of(kind, scheme, axes), size)

    def _of(self, kind: str, scheme: Scheme, axes: tuple[str, ...]) -> dict[str, Curve]:
        groups = scheme.groups(axes)
        key = kind, groups
        if key not in self._curves:
            allowed = [name for name in ALGORITHMS[kind] if self.in_network or name != "in-network"]
            self._curves[key] = {
                name: collective_curve(
                    self.scenario, kind, name, groups, cache=self.cache, progress=self.progress
                )
                for name in allowed
            }
        return self._curves[key]

    def _boundaries(self) -> dict[str, Curve]:
        if not self._boundary:
            workers = self.scenario.cluster.workers
            parts = divide(self.graph, workers, self.balance, self.seed)
            partition = freeze_partition(
                self.graph, parts, workers, method="metis", balance="unit", seed=self.seed
            )
            systems = ["host", *(["presum"] if self.in_network and self.linear_sums else [])]
            self._boundary = {
                system: boundary_curve(
                    self.scenario, self.graph, partition, system, cache=self.cache, progress=self.progress
                )
                for system in systems
            }
        return self._boundary


def _reach(scheme: Scheme, axes: tuple[str, ...]) -> str:
    group = scheme.group(0, axes)
    return "neighbours" if group[-1] - group[0] == len(group) - 1 else f"every {group[1] - group[0]}th"
