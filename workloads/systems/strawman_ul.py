"""strawman-ul: the strawman with an aggregator for every vertex, the paper's Straw-UL."""

from workloads.systems.system import System

SYSTEM = System(
    name="strawman-ul",
    title="strawman, unlimited memory",
    source="Li et al., SwitchGNN, ATC 2025 (Straw-UL)",
    position=40,
    blocks="single",
    order="random",
    switching="fcfs",
    unlimited_memory=True,
)
