"""`LocalGraph`: what one worker knows of the graph: its inner vertices, its halo by owner, and its edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.graphs.graph import Graph
from workloads.partition import Partition


@dataclass(frozen=True, eq=False)
class LocalGraph:
    """One worker's share of a partitioned graph. Local numbers: inner vertices first, then the halo.

    inner: int64[ni] its own vertices, ascending; halo: int64[nh] the distinct remote neighbours, by owner and
    then ascending. indptr: int64[ni+1], indices: int32[m]: the neighbours of each inner vertex, as local
    numbers. degrees: int64[ni+nh], in the whole graph. send[q]: int64[], the inner vertices that worker q has
    in its halo, in q's order; receive[q]: how many halo vertices worker q owns.
    """

    rank: int
    workers: int
    inner: npt.NDArray[np.int64]
    halo: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    degrees: npt.NDArray[np.int64]
    send: tuple[npt.NDArray[np.int64], ...]
    receive: tuple[int, ...]

    @property
    def vertices(self) -> npt.NDArray[np.int64]:
        """Vertex ids by local number, int64[ni+nh]."""
        return np.concatenate([self.inner, self.halo])


def local_graph(graph: Graph, partition: Partition, rank: int) -> LocalGraph:
    """The share of worker `rank`. Both sides of an exchange derive the same order without talking: the graph
    is symmetric, so "my vertices with a neighbour at q" is what q calls its halo at me.
    """
    parts, workers = partition.parts, partition.k
    inner = np.flatnonzero(parts == rank).astype(np.int64)
    counts = graph.degrees[inner]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions = np.arange(indptr[-1]) + np.repeat(graph.indptr[inner] - indptr[:-1], counts)
    neighbours = graph.indices[positions].astype(np.int64)
    owners = parts[neighbours]
    remote = owners != rank
    halo = np.unique(neighbours[remote])
    halo = halo[np.argsort(parts[halo], kind="stable")]

    number = np.full(graph.num_vertices, -1, dtype=np.int32)
    number[inner] = np.arange(len(inner), dtype=np.int32)
    number[halo] = len(inner) + np.arange(len(halo), dtype=np.int32)
    row = np.repeat(np.arange(len(inner)), counts)
    send = tuple(np.unique(row[owners == q]) if q != rank else np.zeros(0, np.int64) for q in range(workers))
    receive = np.bincount(parts[halo], minlength=workers)
    degrees = graph.degrees[np.concatenate([inner, halo])]
    return LocalGraph(
        rank, workers, inner, halo, indptr, number[neighbours], degrees, send, tuple(map(int, receive))
    )
