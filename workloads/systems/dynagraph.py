"""dynagraph: input features once, then every hidden row of every window (see docs/dynamic-graphs.md)."""

from workloads.systems.system import System

SYSTEM = System(
    name="dynagraph",
    title="DynaGraph-like",
    source="Guan et al., DynaGraph, GRADES-NDA 2022",
    position=240,
    blocks="none",
    order="random",
    switching="forward",
    cross_sum="receiver",
    dynamic=True,
    placing="metis-union",
)
