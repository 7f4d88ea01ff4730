"""The estimate: every system's epoch, layer by layer, with where each figure comes from.

A synchronous system adds up, layer by layer, the slowest worker's compute, quantising, the propagation,
dequantising. An asynchronous one (PipeGCN, SYLVIE) sends while it computes and uses what arrives an epoch
later, so its steady epoch is the longer of all its compute and all the rest (quantising included: it shares
the lane, not the kernels, of computing). The weights' all-reduce and the optimiser follow in every system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.epoch_time.links import host_based_ns, in_network_ns, way_ns
from analysis.epoch_time.traffic import SCALE_BYTES, Sends, count_sends, count_uploads, vector_bytes
from sim.scenario import Scenario
from workloads.compute import Phase, allreduce_phase, compute_table, load_device
from workloads.compute_table import load_compute_table, measured_phases, table_path
from workloads.graphs import Graph
from workloads.partition import Partition
from workloads.plan import Plan, make_plan
from workloads.systems import SYSTEMS
from workloads.traces.record import check_trace, trace_facts

MEASURED, MODELLED, SIMULATED, COUNTED = "measured", "modelled", "simulated", "counted bytes, link model"


@dataclass(frozen=True)
class Part:
    """One stretch of an epoch. kind: compute, quantise, communicate, dequantise or weights; layer 0 is of no
    layer. scale_bytes are not among main_bytes.
    """

    layer: int
    direction: str
    kind: str
    ns: float
    provenance: str
    main_bytes: float = 0.0
    scale_bytes: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """One system's epoch. asynchronous: what is not compute runs beside it. note: what it assumes."""

    system: str
    parts: list[Part] = field(default_factory=list)
    asynchronous: bool = False
    note: str = ""

    def total_ns(self, *kinds: str) -> float:
        """Of all parts of these kinds."""
        return sum(part.ns for part in self.parts if part.kind in kinds)

    @property
    def transfer_ns(self) -> float:
        """Quantising, communicating and dequantising."""
        return self.total_ns("quantise", "communicate", "dequantise")

    @property
    def exposed_ns(self) -> float:
        """What of it the epoch waits for."""
        hidden = self.total_ns("compute") if self.asynchronous else 0.0
        return max(0.0, self.transfer_ns - hidden)

    @property
    def epoch_ns(self) -> float:
        """The whole epoch."""
        return self.total_ns("compute", "weights") + self.exposed_ns

    def provenance(self, *kinds: str) -> str:
        """Of these kinds' parts that take time, joined."""
        return " + ".join(dict.fromkeys(p.provenance for p in self.parts if p.kind in kinds and p.ns))


class Estimator:
    """What all systems share: graph, partitions, traffic, compute times. stage: told of each step."""

    def __init__(self, scenario: Scenario, graph: Graph, stage: Callable[[str], None]) -> None:
        from workloads.partition import partition_graph  # noqa: PLC0415  # METIS, only where it is needed

        self.scenario, self.graph, self._stage = scenario, graph, stage
        chosen: Any = {"method": scenario.partition.method, "balance": scenario.partition.balance}
        stage(f"partitioning over {scenario.cluster.workers} workers")
        self.partition: Partition = partition_graph(
            graph, scenario.cluster.workers, seed=scenario.partition.seed, **chosen
        )
        stage("counting what crosses between workers")
        self.sends: Sends = count_sends(graph, self.partition)
        self._plans: dict[int, Plan] = {}
        self.device = load_device(scenario.compute.device)
        self.table: pd.DataFrame | None = None
        self.trace: dict[str, Any] = {}
        if scenario.compute.table:
            self.table = load_compute_table(scenario.compute.table)
            self.trace = trace_facts(table_path(scenario.compute.table))
            check_trace(self.trace, graph, self.partition)

    @property
    def compute_from(self) -> str:
        """The compute times' provenance in words."""
        if self.table is None:
            return f"modelled (roofline, {self.device.title})"
        return (
            f"measured on {self.trace['device']}"
            if self.trace
            else f"measured ({self.scenario.compute.table})"
        )

    def phases(self, system: str) -> list[Phase]:
        """The epoch's phases of a registered system, with the all-reduce."""
        model = self.scenario.model
        cross_sum = SYSTEMS[system].cross_sum
        phases = compute_table(self.graph, self.partition, model, self.device, cross_sum=cross_sum)
        cluster = self.scenario.cluster
        hop_ns = (4 if cluster.leaves else 2) * cluster.link_delay_ns
        phases.append(
            allreduce_phase(model, self.graph, cluster.workers, link_bps=cluster.host_link_bps, hop_ns=hop_ns)
        )
        return phases if self.table is None else measured_phases(self.table, phases, system)

    def plan(self, width: int) -> Plan:
        """switchgnn's plan at the scenario's memory."""
        if width in self._plans:
            return self._plans[width]
        self._stage(f"planning switchgnn at width {width}")
        switch = self.scenario.switch
        self._plans[width] = make_plan(
            self.graph,
            self.partition,
            width=width,
            memory_bytes=switch.memory_bytes or None,
            residual=self.scenario.plan.residual,  # type: ignore[arg-type]
            aggregator_bytes=switch.aggregator_bytes,
            values_per_packet=switch.values_per_packet,
            seed=self.scenario.plan.seed,
        )
        return self._plans[width]

    def host_based(
        self,
        system: str,
        *,
        base: int | None = None,
        share: float = 1.0,
        asynchronous: bool = False,
        note: str = "",
    ) -> Estimate:
        """Host-based sending: exact, quantised at base width `base`, or a `share` of it."""
        estimate = Estimate(system, [], asynchronous, note)
        for phase in self.phases("host"):
            self._compute(estimate, phase)
            if not phase.width:
                continue
            forward = phase.direction == "forward"
            turn: Callable[[NDArray[Any]], NDArray[Any]] = (lambda m: m) if forward else np.transpose
            wire = turn(self.sends.wire_bytes(phase.width, base, self.scenario.cluster.mtu_bytes)) * share
            main = float(self.sends.main_bytes(phase.width, base).sum()) * share
            vectors = turn(self.sends.count.sum(0))
            scales = 0.0 if base is None else float(SCALE_BYTES * vectors.sum())
            if base is not None:
                self._quantiser(estimate, phase, vectors, base)
            self._add(
                estimate, phase, ("communicate", host_based_ns(wire, self.scenario), COUNTED), (main, scales)
            )
        return estimate

    def in_network(
        self, system: str, *, base: int | None = None, asynchronous: bool = False, note: str = ""
    ) -> Estimate:
        """Through the switch, exact or quantised on a common range."""
        estimate = Estimate(system, [], asynchronous, note)
        found: dict[int, Any] = {}
        for phase in self.phases("switchgnn"):
            self._compute(estimate, phase)
            if not phase.width:
                continue
            if phase.width not in found:
                plan = self.plan(phase.width)
                uploads = count_uploads(plan, self.scenario, phase.width, self.sends.levels, base)
                rest = residual_sends(plan, self.partition.k)
                found[phase.width] = uploads, plan, rest
            uploads, plan, rest = found[phase.width]
            ns = in_network_ns(uploads, self.scenario) + host_based_ns(
                rest * (4.0 * phase.width), self.scenario
            )
            if base is not None:
                owner = plan.owner[plan.block_vertices]
                vectors = np.diag(np.bincount(owner, minlength=self.partition.k))
                self._quantiser(estimate, phase, vectors, base)
                ns += 2 * way_ns(self.scenario)  # the workers agree on a range by one small packet each
            levels = self.sends.levels[plan.boundary[plan.block_vertices]]
            main = float(vector_bytes(phase.width, base)[levels].sum() + 4.0 * phase.width * rest.sum())
            scales = 0.0 if base is None else SCALE_BYTES * float(self.partition.k)
            self._add(estimate, phase, ("communicate", ns, COUNTED), (main, scales))
        return estimate

    def _compute(self, estimate: Estimate, phase: Phase) -> None:
        if phase.layer == 0:
            reduce, after = float(phase.pre_ns.max()), float(phase.post_ns.max())
            self._add(estimate, phase, ("weights", reduce, MODELLED))
            self._add(estimate, phase, ("weights", after, MEASURED))
            return
        where = MODELLED if self.table is None else MEASURED
        slowest = float(phase.pre_ns.max() + phase.post_ns.max())
        self._add(estimate, phase, ("compute", slowest, where))

    def _quantiser(self, estimate: Estimate, phase: Phase, vectors: NDArray[Any], base: int) -> None:
        """Of the slowest worker: what it encodes (rows) and decodes (columns) in one propagation."""
        out, arriving = vectors.sum(1), vectors.sum(0)
        for kind, count in (("quantise", out), ("dequantise", arriving)):
            ns = self._traced(phase, kind)
            if ns is not None:
                # The trace is of host-based sending: another count of vectors takes its share of the time.
                traced = (
                    self.sends.count.sum(0) if phase.direction == "forward" else self.sends.count.sum(0).T
                )
                usual = traced.sum(1) if kind == "quantise" else traced.sum(0)
                ns = ns * (count / np.maximum(usual, 1))
                self._add(estimate, phase, (kind, float(ns.max(initial=0.0)), MEASURED))
                continue
            moved = count.max(initial=0) * (4.0 * phase.width + phase.width * base / 8)
            self._add(estimate, phase, (kind, moved / self.device.memory_bytes_per_s * 1e9, MODELLED))

    def _traced(self, phase: Phase, kind: str) -> NDArray[np.float64] | None:
        """float64[k]: the trace's quantiser time of each worker, or None where it has none."""
        if not self.trace:
            return None
        rows = self.quantiser_rows
        chosen = rows[
            (rows["layer"] == phase.layer) & (rows["direction"] == phase.direction) & (rows["phase"] == kind)
        ]
        if len(chosen) != self.partition.k:
            return None
        return chosen.sort_values("worker")["ns"].to_numpy(np.float64)

    @property
    def quantiser_rows(self) -> pd.DataFrame:
        """The trace's rows of quantising and dequantising."""
        assert self.table is not None
        return self.table[
            self.table["phase"].isin(("quantise", "dequantise")) & (self.table["system"] == "*")
        ]

    @staticmethod
    def _add(
        estimate: Estimate, phase: Phase, part: tuple[str, float, str], sent: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        """part: kind, ns, provenance; sent: main and scale bytes."""
        estimate.parts.append(Part(phase.layer, phase.direction, *part, *sent))


def residual_sends(plan: Plan, workers: int) -> NDArray[np.float64]:
    """float64[k, k]: vectors that the plan leaves to host-based sending."""
    rows = np.repeat(np.arange(plan.num_boundary), np.diff(plan.residual_ptr))
    pairs = np.unique(rows.astype(np.int64) * workers + plan.owner[plan.residual_adj])
    flat = plan.owner[pairs // workers].astype(np.int64) * workers + pairs % workers
    return np.bincount(flat, minlength=workers * workers).reshape(workers, workers).astype(np.float64)
