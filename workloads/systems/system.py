"""`System`: what distinguishes one compared system from another, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A recipe: how its plan is made, what its switches do, and where its computation happens.

    name, title: as typed on the command line, and as shown in tables and plots
    source: what it stands for, with the paper
    position: place in listings (small first; equal positions by name)
    blocks, order, residual: arguments of `make_plan`; residual "scenario" is the scenario's `plan.residual`
    switching: "forward" (the switch only forwards), "reserved" (an aggregator is the plan's slot), "fcfs"
        (first come first served; contributions to a vertex without an aggregator are bypassed)
    cross_sum: where the cross edges of a propagation are added up: "receiver" (the worker, on its device),
        "switch", or "sender" (each worker pre-sums its own part, the switch adds the workers')
    unlimited_memory: ignores `switch.memory_bytes`
    hierarchy: what a leaf does with its rack's contributions; the run sets it from `switch.hierarchy`
    bin_vertices, min_bins: the exchange is pipelined with compute in bins of about so many of a worker's
        vertices, but never in fewer than min_bins bins; bin_vertices = 0 means no pipelining
    pipeline_bins: the number that follows for a given graph; the run sets it (see `bins_for`)
    balance: partition balance in place of the scenario's, or "" to keep it
    dynamic: trains a dynamic graph on sliding windows; then also, where the vertices lie and what travels:
    placing: method of `workloads.partition.dynamic` in place of the scenario's, or "" to keep it
    flexible: sends what the scenario's `dynamic` knobs say, not everything
    inputs_each: the boundary's input features travel in every window, not once before training
    copies: workers compute what they need of others again, so that nothing of it travels
    """

    name: str
    title: str
    source: str
    position: int
    blocks: str
    order: str
    switching: str
    residual: str = "none"
    cross_sum: str = "switch"
    unlimited_memory: bool = False
    hierarchy: str = "aggregate"
    bin_vertices: int = 0
    min_bins: int = 1
    pipeline_bins: int = 1
    balance: str = ""
    dynamic: bool = False
    placing: str = ""
    flexible: bool = False
    inputs_each: bool = False
    copies: bool = False

    @property
    def presum(self) -> bool:
        """Whether workers send one partial sum per remote vertex."""
        return self.cross_sum == "sender"

    @property
    def in_network(self) -> bool:
        """Whether a switch aggregates, so that recirculation and switch memory matter."""
        return self.switching != "forward"

    def bins_for(self, num_vertices: int, workers: int) -> int:
        """Bins in which this system pipelines an exchange on a graph of num_vertices over so many workers."""
        if not self.bin_vertices:
            return 1
        return max(self.min_bins, -(-num_vertices // (workers * self.bin_vertices)))
