"""Graphs: real files, Debian's dependency graph, synthetic stand-ins and generated shapes, as one `Graph`."""

from __future__ import annotations

from workloads.graphs.graph import Graph, Provenance
from workloads.graphs.sources import load_graph

__all__ = ["Graph", "Provenance", "load_graph"]
