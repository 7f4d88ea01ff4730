"""TorchGT's three conditions under which sparse attention may stand for full attention (section III-B).

1. Every vertex attends to itself. 2. The graph has a Hamiltonian path: NP-hard, so Dirac's sufficient
condition, in its form for paths: n >= 3 and no degree below (n - 1) / 2. 3. Within L layers every vertex
reaches every other: no distance above L. Where a condition is not shown to hold, fully connected layers are
interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from workloads.training.transformer.layout import PairLayout

_SOURCES = 64
_MOST_WORK = 400_000_000


@dataclass(frozen=True)
class Conditions:
    """Whether each condition is shown to hold; reach: why the third is decided as it is."""

    self_attention: bool
    hamiltonian_path: bool
    all_pairs_reach: bool
    reach: str

    @property
    def hold(self) -> bool:
        """All three."""
        return self.self_attention and self.hamiltonian_path and self.all_pairs_reach


def check_conditions(layout: PairLayout, layers: int) -> Conditions:
    """The conditions on a layout of all rows. Reach is exact on graphs of some thousand vertices and wherever
    one search decides; on larger ones it counts as not shown unless twice a vertex's eccentricity is within
    L.
    """
    n = layout.rows
    row, column = layout.ends()
    own = np.zeros(n, dtype=bool)
    own[row[row == column]] = True
    degrees = np.bincount(row[row != column], minlength=n)
    path = n <= 2 or bool(2 * degrees.min() >= n - 1)
    holds, why = _reach(layout, layers)
    return Conditions(bool(own.all()), path, holds, why)


def _reach(layout: PairLayout, layers: int) -> tuple[bool, str]:
    n = layout.rows
    ones = np.ones(layout.pairs, dtype=np.float32)
    matrix = sparse.csr_matrix((ones, layout.indices, layout.indptr), shape=(n, n))
    parts = int(connected_components(matrix, directed=False)[0])
    if parts > 1:
        return False, f"{parts} components"
    first = _eccentricities(matrix, np.array([int(np.argmax(np.diff(layout.indptr)))]))[0]
    if first > layers:
        return False, f"a vertex is {first} steps from another, with {layers} layers"
    if 2 * first <= layers:
        return True, f"no two are more than {2 * first} steps apart"
    if n * layout.pairs > _MOST_WORK:
        return False, "too large to search from every vertex; not shown"
    for start in range(0, n, _SOURCES):
        longest = int(_eccentricities(matrix, np.arange(start, min(start + _SOURCES, n))).max())
        if longest > layers:
            return False, f"a vertex is {longest} steps from another, with {layers} layers"
    return True, "searched from every vertex"


def _eccentricities(matrix: sparse.csr_matrix, sources: np.ndarray) -> np.ndarray:
    """Steps to the farthest vertex from each source of a connected graph."""
    n = matrix.shape[0]
    reached = np.zeros((n, len(sources)), dtype=bool)
    reached[sources, np.arange(len(sources))] = True
    frontier, steps, result = reached.copy(), 0, np.zeros(len(sources), dtype=np.int64)
    while True:
        fresh = (matrix @ frontier.astype(np.float32) > 0) & ~reached
        grew = fresh.any(axis=0)
        if not grew.any():
            return result
        steps += 1
        result[grew] = steps
        reached |= fresh
        frontier = fresh
