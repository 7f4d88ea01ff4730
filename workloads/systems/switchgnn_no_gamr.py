"""switchgnn-no-gamr: the ablation without graph-aware reordering; blocks are uploaded in random order."""

from workloads.systems.system import System

SYSTEM = System(
    name="switchgnn-no-gamr",
    title="SwitchGNN without GAMR",
    source="Li et al., SwitchGNN, ATC 2025 (ablation)",
    position=70,
    blocks="multilevel",
    order="random",
    switching="reserved",
    residual="scenario",
)
