"""presum: what general in-network aggregation would do with a graph.

Each worker adds up its own vertices' contributions to every remote vertex and sends that partial sum once;
the switch adds the workers' partial sums in one pass each and sends the owner one result. Destinations are
taken in one order shared by all workers (like a tensor's index in SwitchML), so aggregators are soon free.
"""

from workloads.systems.system import System

SYSTEM = System(
    name="presum",
    title="presum (as ATP, SwitchML)",
    source="ours; after Lao et al., ATP, NSDI 2021, and Sapio et al., SwitchML, NSDI 2021",
    position=50,
    blocks="single",
    order="random",
    switching="fcfs",
    cross_sum="sender",
)
