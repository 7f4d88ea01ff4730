"""switchgnn-residual: blocks while they move fewer bytes than hosts would, the remaining edges host-based.

The recursion of multi-level partitioning has a long tail of levels with ever fewer edges a vertex. This
system cuts it off where sending the rest from host to host is cheaper (see workloads/plan/traffic.py).
"""

from workloads.systems.system import System

SYSTEM = System(
    name="switchgnn-residual",
    title="SwitchGNN, rest host-based",
    source="ours; blocks as Li et al., SwitchGNN, ATC 2025",
    position=65,
    blocks="multilevel",
    order="gamr",
    switching="reserved",
    residual="host",
)
