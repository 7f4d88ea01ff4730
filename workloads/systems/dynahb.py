"""dynahb: workers keep copies of all that they depend on; only weights travel (docs/dynamic-graphs.md)."""

from workloads.systems.system import System

SYSTEM = System(
    name="dynahb",
    title="DynaHB-like",
    source="Song et al., DynaHB, VLDB 2024",
    position=250,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="metis-union",
    copies=True,
)
