"""Dynamic graphs: snapshots of edges that live for a while, with features, targets, a split in time."""

from __future__ import annotations

from workloads.graphs.dynamic.graph import DynamicGraph
from workloads.graphs.dynamic.sources import load_dynamic_graph

__all__ = ["DynamicGraph", "load_dynamic_graph"]
