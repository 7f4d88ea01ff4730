"""snapshot: whole snapshots on one worker; rows are redistributed for the recurrent part and back."""

from workloads.systems.system import System

SYSTEM = System(
    name="snapshot",
    title="snapshot partition",
    source="Chakaravarthy et al., ESDG, SC 2021",
    position=260,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="snapshot",
    inputs_each=True,
)
