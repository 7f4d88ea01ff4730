"""strawman: graph-agnostic in-network aggregation, first come first served within the memory."""

from workloads.systems.system import System

SYSTEM = System(
    name="strawman",
    title="strawman",
    source="Li et al., SwitchGNN, ATC 2025 (the graph-agnostic design it starts from)",
    position=30,
    blocks="single",
    order="random",
    switching="fcfs",
)
