"""g3: host-based exchange from a degree-balanced partition, pipelined in bins with compute.

From the paper's abstract and its authors' public code. "Locality-aware iterative partitioning" balances work
(edges) while keeping neighbours together; the nearest published method, METIS weighted by degree, stands in.
"Multi-level pipeline scheduling" overlaps communication with compute bin by bin; the released example script
sets BIN_SIZE=1000 vertices and CO_DATALOADER=5 bins in flight, both used here. Its peer-to-peer sharing of
intermediate results moves what `host` moves.
"""

from workloads.systems.system import System

SYSTEM = System(
    name="g3",
    title="G3 (pipelined, host-based)",
    source="Wan et al., Scalable and Efficient Full-Graph GNN Training for Large Graphs, SIGMOD 2023",
    position=20,
    blocks="none",
    order="degree",
    switching="forward",
    cross_sum="receiver",
    bin_vertices=1000,
    min_bins=5,
    balance="degree",
)
