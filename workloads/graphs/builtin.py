"""Generated shapes (star, ring) and the small real graphs that come with networkx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from workloads.errors import InputError
from workloads.graphs.csr import MAX_VERTICES, build_csr
from workloads.graphs.graph import Graph, Provenance, make_graph

NETWORKX: dict[str, tuple[Callable[[], Any], str]] = {
    "karate": (nx.karate_club_graph, "Zachary 1977, friendships in a karate club; labels: the two clubs"),
    "les-miserables": (nx.les_miserables_graph, "Knuth 1993, characters who meet in Les Miserables"),
    "davis": (nx.davis_southern_women_graph, "Davis et al. 1941, women and the events they attended"),
    "florentine": (nx.florentine_families_graph, "Breiger and Pattison 1986, marriages of Florentine families"),
}


def _vertices(source: str, text: str, least: int) -> int:
    try:
        n = int(text)
    except ValueError:
        n = -1
    if not least <= n <= MAX_VERTICES:
        raise InputError(f"{source}: {text!r} vertices, allowed is a whole number {least}..{MAX_VERTICES}")
    return n


def star(source: str, text: str) -> Graph:
    """A star of N vertices: vertex 0 joined to all others (design.md: GAMR finishes it in N)."""
    n = _vertices(source, text, 1)
    leaves = np.arange(1, n, dtype=np.int32)
    csr = build_csr(n, np.zeros(n - 1, np.int32), leaves)
    return make_graph(f"star:{n}", csr, Provenance("generated", f"star of {n} vertices"))


def ring(source: str, text: str) -> Graph:
    """A ring of N >= 3 vertices, each joined to the next."""
    n = _vertices(source, text, 3)
    here = np.arange(n, dtype=np.int32)
    csr = build_csr(n, here, np.roll(here, -1))
    return make_graph(f"ring:{n}", csr, Provenance("generated", f"ring of {n} vertices"))


def from_networkx(name: str) -> Graph:
    """One of the real graphs in networkx. Vertices are numbered in networkx's (fixed) order; weights dropped."""
    make, what = NETWORKX[name]
    real = make()
    number = {vertex: i for i, vertex in enumerate(real.nodes)}
    ends = np.array([(number[a], number[b]) for a, b in real.edges], dtype=np.int32)
    labels = None
    if name == "karate":
        labels = np.array([int(real.nodes[v]["club"] != "Mr. Hi") for v in real.nodes], dtype=np.int32)
    csr = build_csr(len(number), ends[:, 0], ends[:, 1])
    return make_graph(
        name, csr, Provenance("real", f"networkx: {what}"), labels=labels, num_classes=0 if labels is None else 2
    )
