"""chunk: chunks of space and time on one worker; embeddings and states travel."""

from workloads.systems.system import System

SYSTEM = System(
    name="chunk",
    title="chunk partition",
    source="Chen et al., DGC, SIGMOD 2023",
    position=270,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="chunk",
    inputs_each=True,
)
