"""Link prediction's pairs: those that meet in the next interval, and as many that do not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic.graph import DynamicGraph

Pairs = tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]], ...]


def link_pairs(graph: DynamicGraph, seed: int) -> Pairs:
    """Per snapshot but the last: int64[e, 2], the pairs that meet next and as many that do not, drawn from
    all vertices met so far, lower ends first; and float32[e], 1 for those that meet.
    """
    n, made = graph.num_vertices, []
    met = np.zeros(n, dtype=bool)
    met[graph.arrivals[0].reshape(-1)] = True
    for t in range(graph.num_snapshots - 1):
        right = graph.arrivals[t + 1].astype(np.int64)
        met[right.reshape(-1)] = True
        known = np.flatnonzero(met)
        keys = right[:, 0] * n + right[:, 1]
        random = np.random.default_rng([seed, 71, t])
        wrong = np.zeros(0, dtype=np.int64)
        for _ in range(8):
            if len(wrong) >= len(keys) or len(known) < 2:
                break
            drawn = np.sort(known[random.integers(0, len(known), (2 * len(keys) + 8, 2))], axis=1)
            drawn = drawn[drawn[:, 0] < drawn[:, 1]]
            fresh = drawn[:, 0] * n + drawn[:, 1]
            wrong = np.unique(np.concatenate([wrong, fresh[~np.isin(fresh, keys)]]))
        wrong = np.sort(random.permutation(wrong)[: len(keys)])
        ends = np.concatenate([right, np.stack([wrong // n, wrong % n], axis=1)])
        labels = np.concatenate([np.ones(len(keys)), np.zeros(len(wrong))]).astype(np.float32)
        made.append((ends, labels))
    return tuple(made)
