"""host: every worker sends each boundary vertex once to every distinct remote worker that needs it."""

from workloads.systems.system import System

SYSTEM = System(
    name="host",
    title="host-based (BNS-GCN, p = 1)",
    source="Wan et al., BNS-GCN, MLSys 2022, with sampling off; DGL's exchange does the same",
    position=10,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
)
