"""`Partition`, the frozen value that says which worker holds each vertex, and what it measures on a graph."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.graphs.graph import Graph

Method = Literal["metis", "random", "contiguous"]
Balance = Literal["unit", "degree", "feature"]


@dataclass(frozen=True, eq=False)
class Partition:
    """A vertex-to-worker map. parts: int32[n], values 0..k-1, none empty; edge_cut counts undirected edges.

    `balance` names the vertex weight that METIS evened out (see `workloads.partition.make.vertex_weights`).
    `digest` is the content address: equal digests mean equal `parts` and `k`.
    """

    parts: npt.NDArray[np.int32]
    k: int
    method: Method
    balance: Balance
    seed: int
    edge_cut: int
    digest: str

    def stats(self, graph: Graph) -> dict[str, Any]:
        """What the partition means for traffic, as a flat dict.

        edge_cut (undirected) and cut_share of all edges; balance_vertices and balance_edges: largest worker
        over the mean (1.0 is even); boundary_vertices; host_sends: (vertex, distinct remote worker) pairs,
        what host-based sending moves; replication_factor: host_sends per boundary vertex (the paper: ~16 for
        Reddit at 128 workers); isolated_workers: workers none of whose vertices has a cross edge.
        """
        sizes = np.bincount(self.parts, minlength=self.k)
        edges = np.bincount(self.parts, weights=graph.degrees, minlength=self.k)
        boundary, ptr, adj = _kernels.boundary_graph(graph.indptr, graph.indices, self.parts)
        owners = self.parts[boundary]
        _, remote = _kernels.distinct_owners(ptr, adj, owners, self.k)
        active = np.bincount(owners, minlength=self.k)
        return {
            "workers": self.k,
            "method": self.method,
            "balance": self.balance,
            "seed": self.seed,
            "edge_cut": self.edge_cut,
            "cut_share": self.edge_cut / max(1, graph.num_edges // 2),
            "balance_vertices": float(sizes.max() / sizes.mean()),
            "balance_edges": float(edges.max() / max(1.0, edges.mean())),
            "boundary_vertices": len(boundary),
            "host_sends": len(remote),
            "replication_factor": len(remote) / max(1, len(boundary)),
            "isolated_workers": int((active == 0).sum()),
        }


def freeze_partition(
    graph: Graph, parts: npt.NDArray[np.int32], k: int, *, method: Method, balance: Balance, seed: int
) -> Partition:
    """Count the cut, compute the digest and make the arrays read-only."""
    parts = np.ascontiguousarray(parts, dtype=np.int32)
    parts.flags.writeable = False
    kept = _kernels.kept_degrees(graph.indptr, graph.indices, parts)
    cut = (graph.num_edges - int(kept.sum(dtype=np.int64))) // 2
    digest = hashlib.sha256(f"netfold-partition-1 {k} ".encode() + parts.astype("<i4").tobytes()).hexdigest()
    return Partition(parts, k, method, balance, seed, cut, digest)
