"""switchgnn: multi-level blocks that fit the switch, each uploaded in GAMR order."""

from workloads.systems.system import System

SYSTEM = System(
    name="switchgnn",
    title="SwitchGNN",
    source="Li et al., SwitchGNN, ATC 2025",
    position=60,
    blocks="multilevel",
    order="gamr",
    switching="reserved",
    residual="scenario",
)
