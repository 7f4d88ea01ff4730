"""Which worker does what for each vertex in each snapshot, and the copies of DynaHB's kind of cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic import DynamicGraph

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placement:
    """spatial: int32[T, n], the worker that adds up a vertex's neighbourhood in a snapshot; temporal:
    int32[T, n], the worker that keeps its state after the snapshot. A vertex partition has one and the same
    worker in both throughout (`fixed`). copies: per worker the vertices of others that it computes too, or
    None.
    """

    workers: int
    spatial: npt.NDArray[np.int32]
    temporal: npt.NDArray[np.int32]
    copies: tuple[Ids, ...] | None = None

    @cached_property
    def fixed(self) -> bool:
        """Whether it is a vertex partition."""
        same = np.array_equal(self.spatial, self.temporal)
        return same and bool((self.spatial == self.spatial[0]).all())

    def rows(self, which: npt.NDArray[np.int32], t: int, rank: int) -> Ids:
        """Ascending ids of the vertices that `rank` has in snapshot t by `which` (spatial or temporal)."""
        own = np.flatnonzero(which[t] == rank).astype(np.int64)
        return own if self.copies is None else np.union1d(own, self.copies[rank])


def with_copies(graph: DynamicGraph, parts: npt.NDArray[np.int32], hops: int, ends: list[Ids]) -> Placement:
    """A vertex partition whose workers also keep and compute all that their own vertices and `ends` (int64[]
    per worker) depend on within `hops` propagations, in any snapshot.
    """
    copies = []
    for rank, read in enumerate(ends):
        own = parts == rank
        reached = own.copy()
        reached[read] = True
        for _ in range(hops):
            wider = reached.copy()
            for ptr, adj in zip(graph.indptr, graph.indices, strict=True):
                starts = np.repeat(np.arange(graph.num_vertices), np.diff(ptr))
                wider[adj[reached[starts]]] = True
            if np.array_equal(wider, reached):
                break
            reached = wider
        copies.append(np.flatnonzero(reached & ~own).astype(np.int64))
    whole = np.broadcast_to(parts, (graph.num_snapshots, len(parts)))
    return Placement(len(ends), whole, whole, tuple(copies))
