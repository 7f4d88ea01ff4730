"""Generated shapes (star, ring, R-MAT) and the small real graphs that come with networkx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from workloads import _kernels
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Graph, Provenance, make_graph
from workloads.graphs.numbers import whole_number

NETWORKX: dict[str, tuple[Callable[[], Any], str]] = {
    "karate": (nx.karate_club_graph, "Zachary 1977, friendships in a karate club; labels: the two clubs"),
    "les-miserables": (nx.les_miserables_graph, "Knuth 1993, characters who meet in Les Miserables"),
    "davis": (nx.davis_southern_women_graph, "Davis et al. 1941, women and the events they attended"),
    "florentine": (
        nx.florentine_families_graph,
        "Breiger and Pattison 1986, marriages of Florentine families",
    ),
}


# Vertices or drawn edges: either is some 3 GB while the graph is being built.
MAX_GENERATED = 100_000_000


def star(source: str, text: str) -> Graph:
    """A star of N vertices: vertex 0 joined to all others (design.md: GAMR finishes it in N)."""
    n = whole_number(source, "vertices", text, 1, MAX_GENERATED)
    leaves = np.arange(1, n, dtype=np.int32)
    csr = build_csr(n, np.zeros(n - 1, np.int32), leaves)
    return make_graph(f"star:{n}", csr, Provenance("generated", f"star of {n} vertices"))


def ring(source: str, text: str) -> Graph:
    """A ring of N >= 3 vertices, each joined to the next."""
    n = whole_number(source, "vertices", text, 3, MAX_GENERATED)
    here = np.arange(n, dtype=np.int32)
    csr = build_csr(n, here, np.roll(here, -1))
    return make_graph(f"ring:{n}", csr, Provenance("generated", f"ring of {n} vertices"))


def rmat_sizes(source: str, text: str) -> tuple[int, int]:
    """(scale, edge factor) of `SCALE[:EDGEFACTOR]`; raises InputError."""
    scale_text, colon, factor_text = text.partition(":")
    scale = whole_number(source, "scale", scale_text, 1, 26)
    factor = whole_number(
        source, "edge factor", factor_text if colon else "16", 1, max(1, MAX_GENERATED >> scale)
    )
    return scale, factor


def rmat(
    scale: int, edge_factor: int, seed: int, progress: Callable[[int, int], None] | None = None
) -> Graph:
    """R-MAT with Graph500's probabilities: 2^scale vertices, edge_factor * 2^scale edges drawn."""
    drawn = edge_factor << scale
    csr = _kernels.rmat(scale, drawn, seed, None if progress is None else lambda done: progress(done, drawn))
    notes = f"{drawn} edges drawn, {len(csr[1]) // 2} left without loops and duplicates"
    return make_graph(
        f"rmat:{scale}:{edge_factor}", csr, Provenance("generated", "R-MAT 0.57/0.19/0.19/0.05", seed, notes)
    )


def from_networkx(name: str) -> Graph:
    """One of the real graphs in networkx. Numbered in networkx's (fixed) order; weights dropped."""
    make, what = NETWORKX[name]
    real = make()
    number = {vertex: i for i, vertex in enumerate(real.nodes)}
    ends = np.array([(number[a], number[b]) for a, b in real.edges], dtype=np.int32)
    labels = None
    if name == "karate":
        labels = np.array([int(real.nodes[v]["club"] != "Mr. Hi") for v in real.nodes], dtype=np.int32)
    csr = build_csr(len(number), ends[:, 0], ends[:, 1])
    return make_graph(
        name,
        csr,
        Provenance("real", f"networkx: {what}"),
        labels=labels,
        num_classes=0 if labels is None else 2,
    )
