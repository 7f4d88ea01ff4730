"""full-presum: full communication whose boundary sums a switch adds up."""

from workloads.systems.system import System

SYSTEM = System(
    name="full-presum",
    title="full communication, summing switch",
    source="ours; after ATP, NSDI 2021",
    position=230,
    blocks="single",
    order="random",
    switching="fcfs",
    cross_sum="sender",
    dynamic=True,
    placing="metis-union",
    inputs_each=True,
)
