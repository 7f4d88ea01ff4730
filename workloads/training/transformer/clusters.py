"""The cluster-sparse layout: square tiles where a tile is full enough to pay, single pairs elsewhere.

Tiles lie on a grid of side d_b over the reordered rows and keys. A tile keeps a class per place and 0 where
no pair attends, so tiles and rest together hold exactly the layout they were made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.training.transformer.layout import PairLayout, from_pairs
from workloads.training.transformer.structure import Bytes


@dataclass(frozen=True, eq=False)
class ClusterLayout:
    """tile_ptr: int64[ceil(rows/side)+1], a row block's tiles; tile_columns: int32[tiles], the column block
    of each, ascending; tile_classes: uint8[tiles, side keys, side queries], 0: no pair; rest: the other
    pairs. moved: pairs that reformation gave another place; reformed_share: of the clusters
    beside the diagonal that have pairs, how many it reformed.
    """

    rows: int
    columns: int
    side: int
    tile_ptr: npt.NDArray[np.int64]
    tile_columns: npt.NDArray[np.int32]
    tile_classes: Bytes
    rest: PairLayout
    moved: int = 0
    reformed_share: float = 0.0
    handles: dict[Any, Any] = field(default_factory=dict, repr=False)
    _pairs: list[PairLayout] = field(default_factory=list, repr=False)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return len(self.tile_columns)

    @property
    def tiled_pairs(self) -> int:
        """Attended pairs inside tiles."""
        return int(np.count_nonzero(self.tile_classes))

    @property
    def pairs(self) -> int:
        """Attended pairs."""
        return self.tiled_pairs + self.rest.pairs

    @property
    def nbytes(self) -> int:
        """Memory of the layout, structural classes included."""
        tiles = self.tile_ptr.nbytes + self.tile_columns.nbytes + self.tile_classes.nbytes
        return tiles + self.rest.nbytes

    def as_pairs(self) -> PairLayout:
        """The same pairs in CSR, kept."""
        if not self._pairs:
            tile, j, i = np.nonzero(self.tile_classes)
            block = np.repeat(np.arange(len(self.tile_ptr) - 1), np.diff(self.tile_ptr))
            row = block[tile] * self.side + i
            column = self.tile_columns[tile].astype(np.int64) * self.side + j
            rest_row, rest_column = self.rest.ends()
            ends = np.concatenate([row, rest_row]), np.concatenate([column, rest_column])
            classes = np.concatenate([self.tile_classes[tile, j, i], self.rest.classes])
            self._pairs.append(from_pairs(self.rows, self.columns, ends, classes))
        return self._pairs[0]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "handles": {}, "_pairs": []}


def tiled(layout: PairLayout, side: int, least: int, moved: int = 0) -> ClusterLayout:
    """Tiles of `side` wherever a place of the grid has at least `least` pairs; nothing is changed."""
    row, column = layout.ends()
    blocks = -(-layout.columns // side)
    place = (row // side) * blocks + column // side
    tiles, which, count = np.unique(place, return_inverse=True, return_counts=True)
    full = count >= least
    number = np.cumsum(full) - 1
    inside = full[which]
    classes = np.zeros((int(full.sum()), side, side), dtype=np.uint8)
    classes[number[which[inside]], column[inside] % side, row[inside] % side] = layout.classes[inside]
    kept = tiles[full]
    row_blocks = -(-layout.rows // side)
    tile_ptr = np.concatenate([[0], np.cumsum(np.bincount(kept // blocks, minlength=row_blocks))])
    outside = ~inside
    ends = row[outside], column[outside]
    rest = from_pairs(layout.rows, layout.columns, ends, layout.classes[outside])
    return ClusterLayout(
        layout.rows,
        layout.columns,
        side,
        tile_ptr.astype(np.int64),
        (kept % blocks).astype(np.int32),
        classes,
        rest,
        moved,
    )
