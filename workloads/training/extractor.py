"""SYLVIE's Graph Extractor: which boundary vertices deserve more bits, by their degree in the whole graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.graphs.graph import Graph
from workloads.partition import Partition

# The paper gives no thresholds. Its traffic (126.9 of 2791.7 MB, 1.45 bits a value over a run whose base
# width varies) leaves room for few vertices above the lowest level. So a level takes the vertices of highest
# importance that send at most this share of all vectors: a value then takes at most 1.07 bits at base width 1
# and 2.1 at 2, whatever the graph, which is 15 times less than float32.
SHARES = (0.03, 0.01, 0.003)
LEVELS = len(SHARES) + 1


@dataclass(frozen=True, eq=False)
class NodeMask:
    """pool: int64[nb] boundary vertices, ascending; importance: float64[nb] in 0..1; levels: uint8[n], 0..3,
    of every vertex of the graph (0 outside the pool).
    """

    pool: npt.NDArray[np.int64]
    importance: npt.NDArray[np.float64]
    levels: npt.NDArray[np.uint8]


def extract_mask(graph: Graph, partition: Partition, kind: str, seed: int) -> NodeMask:
    """The mask of a partitioned graph.

    kind: "degree" as the paper; "uniform", level 0 everywhere (the data dimension off); "shuffled", the
    levels of "degree" dealt out at random within the pool, which tells what protecting high degrees is worth.
    """
    pool, sends = boundary_pool(graph, partition)
    importance = percentile_rank(graph.degrees[pool])
    levels = mask_levels(importance, sends)
    if kind == "uniform":
        levels[:] = 0
    elif kind == "shuffled":
        levels = np.random.default_rng(seed).permutation(levels)
    everywhere = np.zeros(graph.num_vertices, dtype=np.uint8)
    everywhere[pool] = levels
    return NodeMask(pool, importance, everywhere)


def boundary_pool(graph: Graph, partition: Partition) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(int64[nb], int64[nb]): the vertices with a neighbour at another worker, ascending, and how many other
    workers have one: the vectors that they send per exchange.
    """
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    other = partition.parts[graph.indices].astype(np.int64)
    crossing = partition.parts[rows] != other
    pairs = np.unique(rows[crossing] * partition.k + other[crossing])
    pool, sends = np.unique(pairs // partition.k, return_counts=True)
    return pool, sends.astype(np.int64)


def mask_levels(importance: npt.NDArray[np.float64], sends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """uint8[nb], 0..3: each level holds the most important vertices that send at most its share in `SHARES`.

    Equal importance means an equal level.
    """
    steps, group = np.unique(importance, return_inverse=True)
    per_step = np.bincount(group, weights=sends, minlength=len(steps))
    from_the_top = np.cumsum(per_step[::-1])[::-1] / max(1, sends.sum())
    levels = np.zeros(len(importance), dtype=np.uint8)
    for share in SHARES:
        levels += from_the_top[group] <= share
    return levels


def percentile_rank(degrees: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """float64[nb] in 0..1: the share of the other vertices whose degree is no higher.

    Equal degrees rank equal, the highest is 1, and the order of the vertices does not matter.
    """
    if len(degrees) < 2:
        return np.ones(len(degrees))
    no_higher = np.searchsorted(np.sort(degrees), degrees, side="right")
    return (no_higher - 1) / (len(degrees) - 1)


def node_bits(base: int, levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """uint8[n] in {1, 2, 4, 8}: the base width doubled per level, at most 8 (the Quant Orchestrator)."""
    return np.minimum(base << levels.astype(np.int64), 8).astype(np.uint8)
