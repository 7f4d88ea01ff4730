"""Which attention each layer computes on a sequence, with its layouts made when first needed and kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.training.transformer import attention
from workloads.training.transformer.clusters import ClusterLayout, tiled
from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.reform import density, reformed
from workloads.training.transformer.structure import distance_classes
from workloads.training.transformer.tokens import Tokens

TILE_PLACE_WORK = 0.15
"""Work of a place in a tile, as a share of a single pair's: what the counted clock reckons with."""


@dataclass(frozen=True)
class Tiling:
    """side: d_b; least: pairs that make a tile worth while; measured or given, see `measure`."""

    side: int
    least: int


@dataclass
class Patterns:
    """A worker's view of one sequence. queries: the rows whose attention it computes, all of them after an
    all-to-all. made_ns: time spent on layouts after the start.
    """

    tokens: Tokens
    options: TransformerOptions
    tiling: Tiling
    queries: tuple[int, int]
    made_ns: int = 0
    _clusters: dict[float, ClusterLayout] = field(default_factory=dict)
    _classes: Tensor | None = None
    _pairs: PairLayout | None = None

    def cluster(self, multiple: float) -> ClusterLayout:
        """The cluster-sparse layout at a threshold of `multiple` times the graph's density."""
        if multiple not in self._clusters:
            start = time.perf_counter_ns()
            whole, tiling = self.tokens.topology, self.tiling
            beta = multiple * density(whole) if self.options.reform else 0.0
            layout = reformed(whole, self.tokens.starts, side=tiling.side, beta=beta, least=tiling.least)
            if self.queries != (0, self.tokens.count):
                layout = cut(layout, *self.queries, tiling)
            self._clusters[multiple] = layout
            self.made_ns += time.perf_counter_ns() - start
        return self._clusters[multiple]

    def pairs(self) -> PairLayout:
        """The topology of this worker's queries."""
        if self._pairs is None:
            self._pairs = self.tokens.topology.slice(*self.queries)
        return self._pairs

    def work(self, multiple: float) -> float:
        """Pairs of an attention layer at this threshold, places in tiles counted as what they cost."""
        if self.options.attention != "cluster":
            return float(self.pairs().pairs)
        layout = self.cluster(multiple)
        return layout.rest.pairs + TILE_PLACE_WORK * layout.tiles * layout.side**2

    def attend(
        self, kind: str, multiple: float, states: tuple[Tensor, Tensor, Tensor], table: Tensor | None
    ) -> Tensor:
        """Attention of this kind (see `TransformerOptions.attention`) of this worker's queries and heads."""
        q, k, v = states
        kernel = self._kernel(q)
        if kind == "cluster":
            return attention.cluster(q, k, v, self.cluster(multiple), table, kernel=kernel)
        if kind == "sparse":
            return attention.sparse(q, k, v, self.pairs(), table, kernel=kernel)
        if self.tokens.every is not None:
            return self._per_graph(kind, states, table)
        if kind == "full":
            return attention.full(q, k, v, self.pairs(), table, kernel=kernel)
        if kind == "flash":
            return attention.flash(q, k, v)
        return attention.dense(q, k, v, self._distances(q.device), table)

    def _kernel(self, q: Tensor) -> str:
        """flex compiles for each length; batches of graphs, each of another length, are not worth that."""
        if self.tokens.every is not None and self.options.kernel == "auto" and q.device.type == "cuda":
            return "plain"
        return self.options.kernel

    def _distances(self, device: torch.device) -> Tensor:
        if self._classes is None:
            start = time.perf_counter_ns()
            whole = self.tokens.topology
            classes = distance_classes(whole.indptr, whole.indices, whole.classes)
            mine = classes[self.queries[0] : self.queries[1]].astype(np.int32)
            self._classes = torch.from_numpy(mine).to(device)
            self.made_ns += time.perf_counter_ns() - start
        return self._classes

    def _per_graph(self, kind: str, states: tuple[Tensor, Tensor, Tensor], table: Tensor | None) -> Tensor:
        """Full attention within each graph of a batch; their pairs' classes are all known."""
        every, segments = self.tokens.every, self.tokens.segments
        assert every is not None
        if kind == "full":
            return attention.sparse(*states, every, table, kernel=self._kernel(states[0]))
        parts = []
        for first, last in zip(segments[:-1].tolist(), segments[1:].tolist(), strict=True):
            q, k, v = (state[:, first:last] for state in states)
            if kind == "flash":
                parts.append(attention.flash(q, k, v))
                continue
            own = every.classes[every.indptr[first] : every.indptr[last]]
            classes = torch.from_numpy(own.reshape(last - first, -1).astype(np.int32)).to(q.device)
            parts.append(attention.dense(q, k, v, classes, table))
        return torch.cat(parts, dim=1)


def cut(layout: ClusterLayout, first: int, last: int, tiling: Tiling) -> ClusterLayout:
    """The layout of queries first..last-1 alone, tiled from the first of them; moved: an even share."""
    part = tiled(layout.as_pairs().slice(first, last), tiling.side, tiling.least)
    moved = round(layout.moved * part.pairs / max(1, layout.pairs))
    return replace(part, moved=moved, reformed_share=layout.reformed_share)


def layout_row(layout: ClusterLayout) -> dict[str, Any]:
    """What a record says of a layout."""
    return {
        "pairs": layout.pairs,
        "moved_pairs": layout.moved,
        "moved_share": layout.moved / max(1, layout.pairs),
        "reformed_share": layout.reformed_share,
        "tiles": layout.tiles,
        "tiled_pairs": layout.tiled_pairs,
        "tile_fill": layout.tiled_pairs / max(1, layout.tiles * layout.side**2),
        "layout_bytes": layout.nbytes,
    }
