"""switchgnn-no-blocks: the ablation without multi-level partitioning; GAMR order, first come first served."""

from workloads.systems.system import System

SYSTEM = System(
    name="switchgnn-no-blocks",
    title="SwitchGNN without blocks",
    source="Li et al., SwitchGNN, ATC 2025 (ablation; the paper has no such curve)",
    position=80,
    blocks="single",
    order="gamr",
    switching="fcfs",
)
