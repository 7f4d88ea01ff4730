"""Which pairs attend, as rows of keys per query, each with its class: the layout of sparse attention.

A layout may cover a run of all rows only (a worker's queries); its columns always are all keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workloads.graphs.graph import Graph
from workloads.training.transformer.structure import SELF, Bytes, edge_classes

Pointers = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PairLayout:
    """Pairs in CSR. indptr: int64[rows+1]; indices: int32[pairs], the keys of a query, ascending; classes:
    uint8[pairs], the row of the bias table (see `structure`). handles: the kernels' views of it.
    """

    columns: int
    indptr: Pointers
    indices: Columns
    classes: Bytes
    handles: dict[Any, Any] = field(default_factory=dict, repr=False)
    _moved: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """Queries."""
        return len(self.indptr) - 1

    @property
    def pairs(self) -> int:
        """Attended pairs."""
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Memory of the layout, structural classes included."""
        return self.indptr.nbytes + self.indices.nbytes + self.classes.nbytes

    def slice(self, first: int, last: int) -> PairLayout:
        """The layout of queries first..last-1."""
        start, end = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - start
        return PairLayout(self.columns, indptr, self.indices[start:end], self.classes[start:end])

    def ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(query, key) of every pair, int64[pairs] each."""
        return np.repeat(np.arange(self.rows), np.diff(self.indptr)), self.indices.astype(np.int64)

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """(query, key, class) of every pair as int64 tensors on a device, kept there."""
        if device not in self._moved:
            row, column = self.ends()
            kept = (row, column, self.classes.astype(np.int64))
            query, key, kind = (torch.from_numpy(part).to(device) for part in kept)
            self._moved[device] = query, key, kind
        return self._moved[device]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "handles": {}, "_moved": {}}  # a worker moves its own


def from_pairs(
    rows: int,
    columns: int,
    ends: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]],
    classes: Bytes,
) -> PairLayout:
    """The layout of pairs in any order; none may come twice."""
    row, column = ends
    order = np.argsort(row.astype(np.int64) * columns + column, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    return PairLayout(columns, indptr, column[order].astype(np.int32), classes[order])


def topology(graph: Graph, kinds: npt.NDArray[np.integer] | None = None) -> PairLayout:
    """Edges and self loops of a graph, with B: TorchGT's local pattern, n + m pairs.

    kinds: int[m], what each directed edge is (0..7), where the data say so; see `edge_classes`.
    """
    n = graph.num_vertices
    row = np.concatenate([np.repeat(np.arange(n, dtype=np.int64), graph.degrees), np.arange(n)])
    column = np.concatenate([graph.indices, np.arange(n, dtype=np.int32)])
    classes = np.concatenate([edge_classes(graph, kinds), np.full(n, SELF, dtype=np.uint8)])
    return from_pairs(n, n, (row, column), classes)


def permuted(layout: PairLayout, order: npt.NDArray[np.int64]) -> PairLayout:
    """The layout of the same pairs when vertex order[i] becomes number i: both ends and B move together."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    row, column = layout.ends()
    return from_pairs(layout.rows, layout.columns, (place[row], place[column]), layout.classes)
