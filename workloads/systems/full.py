"""full: every row of every window, input features too, and no cache; METIS on the union of the snapshots."""

from workloads.systems.system import System

SYSTEM = System(
    name="full",
    title="full communication",
    source="SWASH, 2025: its baseline without cache",
    position=220,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="metis-union",
    inputs_each=True,
)
