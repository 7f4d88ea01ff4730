"""METIS on a graph with weighted edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pymetis

from workloads.partition.metis import run_metis

_MOST_WEIGHT = 1 << 20  # METIS adds weights up in its index type; 64 bits of it hold 2^43 such edges


def weighted_split(
    indptr: npt.NDArray[np.integer],
    indices: npt.NDArray[np.integer],
    edge_weights: npt.NDArray[np.integer],
    parts: int,
    *,
    vertex_weights: npt.NDArray[np.integer] | None = None,
    imbalance: float = 0.03,
    cuts: int = 1,
    bisect: bool = True,
    seed: int = 1,
) -> npt.NDArray[np.int32]:
    """Split a symmetric CSR graph into `parts` parts with a small sum of cut weights; int32[n], 0..parts-1.

    edge_weights: positive whole numbers, per entry of `indices`. imbalance: how far the largest part may
    exceed the mean, as in `metis_split` (METIS's own for bisections would be 0.001). cuts: how many METIS
    makes, to keep the best. bisect: recursively, or k-way at once. Deterministic in `seed`. Raises InputError
    when METIS dies.
    """
    n = len(indptr) - 1
    if parts == 1:
        return np.zeros(n, dtype=np.int32)
    width = pymetis.zero_copy_dtype()
    heaviest = int(edge_weights.max(initial=1))
    if heaviest > _MOST_WEIGHT:
        edge_weights = np.maximum(1, edge_weights // -(-heaviest // _MOST_WEIGHT))
    options = pymetis.Options(
        seed=int(seed) & 0x7FFFFFFF, ufactor=max(1, min(1000, int(imbalance * 1000))), ncuts=cuts
    )

    def split() -> npt.NDArray[np.int32]:
        _, labels = pymetis.part_graph(
            parts,
            pymetis.CSRAdjacency(indptr.astype(width, copy=False), indices.astype(width, copy=False)),
            vweights=None if vertex_weights is None else vertex_weights.astype(width, copy=False),
            eweights=edge_weights.astype(width, copy=False),
            options=options,
            recursive=bisect,
        )
        return np.asarray(labels).astype(np.int32)

    return run_metis(split, n, len(indices), parts)
