"""swash: a share of the boundary rows, of some windows of some epochs; the cache has the others."""

from workloads.systems.system import System

SYSTEM = System(
    name="swash",
    title="SWASH",
    source="SWASH, Proc. ACM Manag. Data 3(3), 2025",
    position=200,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="light-metis",
    flexible=True,
)
