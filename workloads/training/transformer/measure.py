"""Choosing d_b and k by measurement: what tiles and single pairs cost on this device, and the fastest
layout."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from workloads.graphs.graph import Graph
from workloads.training.transformer import attention
from workloads.training.transformer.clusters import ClusterLayout
from workloads.training.transformer.layout import PairLayout, permuted
from workloads.training.transformer.names import SIDES
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.order import Order, make_order
from workloads.training.transformer.patterns import Tiling
from workloads.training.transformer.reform import density, reformed
from workloads.training.transformer.structure import CLASSES

CLUSTERS = (8, 16, 32)
"""Cluster counts that are tried; 8 is the paper's on its device."""
_SAMPLE_ROWS = 2048


@dataclass(frozen=True)
class Choice:
    """One combination that was timed: an attention of one head, forward and backward."""

    clusters: int
    side: int
    least: int
    ns: float


def attention_ns(
    layout: PairLayout | ClusterLayout, width: int, device: torch.device, repeats: int = 3
) -> float:
    """Nanoseconds of one head's attention over a layout, forward and backward, the fastest of some turns."""
    generator = torch.Generator().manual_seed(1)
    sizes = (layout.rows, layout.columns, layout.columns)
    states = [torch.randn(1, size, width, generator=generator).to(device).requires_grad_() for size in sizes]
    table = torch.zeros(1, CLASSES, device=device, requires_grad=True)
    kind: Callable[..., torch.Tensor] = attention.cluster
    if isinstance(layout, PairLayout):
        kind = attention.sparse

    # A long attention shares a busy CPU with others, a short one does not: its own time compares them.
    clock = time.perf_counter_ns if device.type == "cuda" else time.thread_time_ns

    def once() -> float:
        start = clock()
        kind(*states, layout, table).sum().backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return float(clock() - start)

    once()
    return min(once() for _ in range(repeats))


def pays_from(side: int, width: int, pair_ns: float, device: torch.device) -> int:
    """From how many pairs on a tile of this side is faster than they would be one by one."""
    blocks = _SAMPLE_ROWS // side
    per_row = min(8, blocks)
    columns = (np.arange(blocks)[:, None] + np.arange(per_row)) % blocks
    columns.sort(axis=1)
    rows = np.arange(_SAMPLE_ROWS + 1, dtype=np.int64)
    layout = ClusterLayout(
        _SAMPLE_ROWS,
        _SAMPLE_ROWS,
        side,
        np.arange(blocks + 1, dtype=np.int64) * per_row,
        columns.ravel().astype(np.int32),
        np.ones((blocks * per_row, side, side), dtype=np.uint8),
        PairLayout(_SAMPLE_ROWS, rows * 0, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8)),
    )
    tile_ns = attention_ns(layout, width, device) / layout.tiles
    return int(min(max(2, math.ceil(tile_ns / pair_ns)), side * side))


def choose(
    graph: Graph,
    topology: PairLayout,
    options: TransformerOptions,
    device: torch.device,
    *,
    kept: tuple[int, int, int] | None = None,
) -> tuple[Order, PairLayout, Tiling, list[Choice]]:
    """The order, the topology in it, and the tiling whose attention at beta_G is fastest on this device,
    among those that the options leave open; and all that were timed. kept: (k, d_b, pairs of a tile) of a run
    that goes on.
    """
    if kept is not None:
        order = make_order(graph, options.ordering, kept[0], options.seed)
        return order, permuted(topology, order.order), Tiling(kept[1], kept[2]), []
    width = options.shape.head_width
    counts: Iterable[int] = (options.clusters,) if options.clusters else CLUSTERS
    sides: Iterable[int] = (options.sub_block,) if options.sub_block else SIDES
    if options.ordering != "metis" and not options.clusters:
        counts = CLUSTERS[:1]
    best: tuple[float, Order, PairLayout, Tiling] | None = None
    tried: list[Choice] = []
    least: dict[int, int] = {}
    for count in dict.fromkeys(min(count, graph.num_vertices) for count in counts):
        order = make_order(graph, options.ordering, count, options.seed)
        whole = permuted(topology, order.order)
        pair_ns = attention_ns(whole, width, device) / whole.pairs
        beta = density(whole) if options.reform else 0.0
        for side in sides:
            if side not in least:
                least[side] = pays_from(side, width, pair_ns, device)
            if least[side] > side * side // 4 and side != options.sub_block:
                continue  # tiles of this side hardly ever pay
            layout = reformed(whole, order.starts, side=side, beta=beta, least=least[side])
            ns = attention_ns(layout, width, device)
            tried.append(Choice(order.clusters, side, least[side], ns))
            if best is None or ns < best[0]:
                best = (ns, order, whole, Tiling(side, least[side]))
    if best is None:  # single pairs are faster than any tile
        best = (0.0, order, whole, Tiling(min(least), min(least) ** 2))
    return best[1], best[2], best[3], tried


def reform_error(exact: PairLayout, layout: ClusterLayout, width: int, seed: int = 1) -> tuple[float, float]:
    """What reformation does to an attention of random states, as shares of the exact result's norm: (over the
    rows that lost or won a pair, over all rows). (0, 0) where nothing moved.
    """
    if layout.moved == 0:
        return 0.0, 0.0
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, exact.rows, width, generator=generator) for _ in range(3))
    right, ours = attention.sparse(q, k, v, exact)[0], attention.cluster(q, k, v, layout)[0]
    other = layout.as_pairs()
    key = np.int64(exact.columns)
    before, after = (row * key + column for row, column in (exact.ends(), other.ends()))
    changed = np.unique(np.setxor1d(before, after, assume_unique=True) // key)
    rows = torch.from_numpy(changed)
    norm = torch.linalg.vector_norm
    return float(norm(ours[rows] - right[rows]) / norm(right[rows])), float(norm(ours - right) / norm(right))
