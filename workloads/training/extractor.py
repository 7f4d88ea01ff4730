"""SYLVIE's Graph Extractor: which boundary vertices deserve more bits, by their degree in the whole graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.graphs.graph import Graph
from workloads.partition import Partition

# The paper gives no thresholds. Its tables report 1.45 bits a value on average (126.9 of 2791.7 MB), so few
# vertices can lie above the lowest level: here the top 10, 3 and 1 per cent.
THRESHOLDS = (0.90, 0.97, 0.99)
LEVELS = len(THRESHOLDS) + 1


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
    pool = boundary_pool(graph, partition)
    importance = percentile_rank(graph.degrees[pool])
    levels = np.searchsorted(THRESHOLDS, importance, side="right").astype(np.uint8)
    if kind == "uniform":
        levels[:] = 0
    elif kind == "shuffled":
        levels = np.random.default_rng(seed).permutation(levels)
    everywhere = np.zeros(graph.num_vertices, dtype=np.uint8)
    everywhere[pool] = levels
    return NodeMask(pool, importance, everywhere)


def boundary_pool(graph: Graph, partition: Partition) -> npt.NDArray[np.int64]:
    """int64[nb]: the vertices with a neighbour at another worker, ascending."""
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    crossing = partition.parts[rows] != partition.parts[graph.indices]
    return np.unique(rows[crossing])


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
