"""swash-presum: SWASH with a switch that adds up the boundary sums; no paper has it.

Each worker sends its part of the sum of every chosen boundary vertex; the switch adds the parts and sends the
owner one result, backward likewise. What is cached is a sum per vertex and position, so a vertex is refreshed
by all workers or by none, and the share p is of the summing vertices.
"""

from workloads.systems.system import System

SYSTEM = System(
    name="swash-presum",
    title="SWASH with summing switch",
    source="ours; after SWASH, 2025, and ATP, NSDI 2021",
    position=210,
    blocks="single",
    order="random",
    switching="fcfs",
    cross_sum="sender",
    dynamic=True,
    placing="light-metis",
    flexible=True,
)
