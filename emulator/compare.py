"""One scenario in both substrates: what the simulation counts beside what was really sent.

Timing is the simulation's alone and is not compared. Where both count the same thing they must agree, port
by port, as long as no fault is injected and nobody was slow enough for a timeout. Differences by design are
shown with their reason: leaves count their workers' reports before they pass one on (the simulation's workers
report to the spine), host-based frames carry one chunk (the simulation fills the MTU) and end with a barrier
as blocks do, and the simulation's clock stops with the last result, before the last block's reports are in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.cluster.measured import Measured
from emulator.cluster.prepare import FCS_BYTES, Prepared
from emulator.cluster.report import packets_by_kind
from emulator.wire import FRAME_BYTES
from sim.scenario import Scenario
from sim.wire import CONTROL_FRAME_BYTES
from workloads.compute import Phase

if TYPE_CHECKING:
    from sim.engine import Run

# The simulation's names of the kinds of packets that carry values, and ours.
VALUE_KINDS = {"upload": "upload", "partial": "partial", "result": "result", "raw": "direct", "pull": "pull"}
COUNTED_BY_LEAVES = "leaves count reports and pass on one"
STOPS = "the simulation stops with the last result"
HOST_BARRIER = "host-based exchanges end with a barrier here"
ONE_SIZE = "in a simulation of the P4 program reports and completions are as long as values"
ONE_CHUNK = "host-based frames carry one chunk; the simulation's fill the MTU"


@dataclass(frozen=True)
class Row:
    """One quantity. ``reason``: why it may differ; "" where it must not. ``port``: it is of one port."""

    what: str
    simulated: int
    emulated: int
    reason: str = ""
    port: bool = False

    @property
    def equal(self) -> bool:
        """Whether both say the same."""
        return self.simulated == self.emulated

    @property
    def differs(self) -> bool:
        """Whether it is unequal without a reason."""
        return not self.equal and not self.reason


def simulate(scenario: Scenario, prepared: Prepared, count: int) -> Run:
    """The simulation of the first `count` propagations of the epoch, without compute and without loss."""
    from sim.engine import simulate as run  # noqa: PLC0415  (loads ns-3)

    zero = np.zeros(prepared.topology.workers, np.int64)
    steps = [prepared.propagations[i % len(prepared.propagations)] for i in range(count)]
    phases = [Phase(p.layer, p.direction, p.width, zero, zero) for p in steps]
    plans = {width: prepared.plans[number] for width, number in prepared.job_of.items()}
    switch = replace(scenario.switch, recirculation="free")
    system = replace(prepared.system, hierarchy=switch.hierarchy)
    cluster = replace(scenario.cluster, ecmp="destination")  # as ipv4_lpm's entries choose the spine
    quiet = replace(scenario, cluster=cluster, switch=switch, loss=type(scenario.loss)())
    return run(quiet, system, {p.width: plans[p.width] for p in steps}, phases)


def compare(run: Run, prepared: Prepared, measured: Measured) -> list[Row]:
    """Row by row: packets by hop and kind, bytes by hop and port, passes, bypasses."""
    simulated = run.summary
    kinds = packets_by_kind(measured.traffic)
    hops = ("up", "down", "fabric") if prepared.topology.racks else ("up", "down")
    rows = []
    for hop in hops:
        for theirs, ours in VALUE_KINDS.items():
            sent = kinds[hop].get(ours, 0)
            reason = ONE_CHUNK if theirs == "raw" and sent else ""
            rows.append(Row(f"{hop}: {ours}", int(simulated[f"{hop}_{theirs}_frames"]), sent, reason))
    for hop, theirs, ours in (
        *(("up", "finish", "done"), ("down", "complete", "complete")),
        *(("fabric", "finish", "done"), ("fabric", "complete", "complete")),
    ):
        if hop in hops:
            rows.append(_barriers(simulated, prepared, kinds, (hop, theirs, ours)))
    size = FRAME_BYTES + FCS_BYTES
    for hop in hops:
        if kinds[hop].get("direct"):
            continue
        simulations = sum(int(simulated[f"{hop}_{kind}_frames"]) for kind in VALUE_KINDS if kind != "pull")
        sent = sum(kinds[hop].get(kind, 0) for kind in VALUE_KINDS.values() if kind != "pull")
        headers = simulations * (size - _values(prepared))
        payload = int(simulated[f"{hop}_payload_bytes"])
        rows.append(Row(f"{hop}: bytes of values", payload + headers, sent * size))
    rows.append(Row("passes", int(simulated["passes"]), measured.switches.get("added", 0)))
    bypassed = sum(worker.get("bypassed_chunks", 0) for worker in measured.workers)
    rows.append(Row("bypassed", int(simulated["bypassed"]), bypassed))
    rows.append(Row("saturated", int(simulated["saturated"]), measured.switches.get("saturated", 0)))
    rows += _ports(run.tables["links"], measured, one_size="p4_passes" in simulated)
    return [row for row in rows if row.simulated or row.emulated]


def _ports(links: dict[str, Any], measured: Measured, *, one_size: bool) -> list[Row]:
    """Bytes of values that leave each port: of all frames but reports and completions.

    The simulation counts a port's packets and bytes; its reports and completions are the smallest frames,
    so both numbers tell how many carried values (unless all are of one size).
    """
    size = FRAME_BYTES + FCS_BYTES
    rows = []
    names = zip(links["source"], links["target"], strict=True)
    for (source, target), packets, sent in zip(names, links["packets"], links["bytes"], strict=True):
        frames = measured.traffic.get((source, target), {})
        ours = sum(frames.get(kind, 0) for kind in VALUE_KINDS.values() if kind != "pull")
        theirs, rest = divmod(int(sent) - CONTROL_FRAME_BYTES * int(packets), size - CONTROL_FRAME_BYTES)
        reason = ONE_SIZE if one_size else ONE_CHUNK if frames.get("direct") or rest else ""
        rows.append(
            Row(f"{source} > {target}: bytes of values", theirs * size, ours * size, reason, port=True)
        )
    return rows


def _barriers(
    simulated: dict[str, Any],
    prepared: Prepared,
    kinds: dict[str, dict[str, int]],
    which: tuple[str, str, str],
) -> Row:
    """Reports or completions on one hop, without those before the first propagation."""
    hop, theirs, ours = which
    topology = prepared.topology
    before = (topology.racks if hop == "fabric" else topology.workers) * len(prepared.plans)
    sent = kinds[hop].get(ours, 0) - before
    counted = int(simulated[f"{hop}_{theirs}_frames"])
    reason = ""
    if any(len(plan.residual_adj) for plan in prepared.plans.values()):
        reason = HOST_BARRIER
    elif hop == "fabric" and ours == "done":
        reason = COUNTED_BY_LEAVES
    elif 0 < sent - counted <= 2 * topology.workers:
        reason = STOPS
    return Row(f"{hop}: {ours}", counted, sent, reason)


def _values(prepared: Prepared) -> int:
    """Bytes of the values in one packet."""
    return 4 * next(iter(prepared.plans.values())).values_per_packet


def as_dicts(rows: list[Row]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(row) | {"equal": row.equal, "differs": row.differs} for row in rows]
