"""Attention by torch's FlexAttention, what CUDA devices train with: shapes as in `plain`.

Blocks of `BLOCK` queries and keys without a pair are skipped. Inside the others a pair's class is looked up
in the layout's tiles, so the bias lies where the attention does: memory grows with blocks and tiles that have
a pair, but for a number per place of the grid of blocks (N x N / 16,384 of them). A CPU runs torch's unfused
reference of the same operator, which has a forward pass alone and makes matrices: for tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from workloads.training.transformer.clusters import ClusterLayout
from workloads.training.transformer.layout import PairLayout
from workloads.training.transformer.structure import OUTSIDE

BLOCK = 128
"""Queries and keys of a block: what torch's kernels are tuned for."""
_LEAST_WIDTH = 16
"""Narrower heads are padded with zeros: a tensor core multiplies no less at once."""
_COMPILATIONS = 256
"""Each shape, width and tile side is compiled once; torch gives up after 8 of them otherwise."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A layout on a device. slots: int32[query blocks, key blocks], which block lies there, 0 none; tiles:
    int32[blocks + 1, BLOCK / side, BLOCK / side], which tile; classes: uint8[tiles + 1, side, side]; mask:
    the blocks with a pair.
    """

    side: int
    slots: Tensor
    tiles: Tensor
    classes: Tensor
    mask: BlockMask


def _kind(side: int, slots: Tensor, tiles: Tensor, classes: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """(query, key) -> the class of the pair, 0 where there is none."""

    def kind(i: Tensor, j: Tensor) -> Tensor:
        block = slots[i // BLOCK, j // BLOCK]
        tile = tiles[block, i % BLOCK // side, j % BLOCK // side]
        return classes[tile, i % side, j % side].to(torch.int64)

    return kind


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: PairLayout | ClusterLayout,
    table: Tensor | None,
    *,
    full: bool,
    fused: bool | None = None,
) -> Tensor:
    """The pairs of a layout, or all pairs with the layout's classes where it has them (`full`). fused: by one
    compiled kernel (default: on CUDA).
    """
    blocks = blocks_of(layout, q.device)
    kind = _kind(blocks.side, blocks.slots, blocks.tiles, blocks.classes)

    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert table is not None
        return score + table[h, kind(i, j)]

    def biased_everywhere(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert table is not None
        known = kind(i, j)
        return score + table[h, torch.where(known == 0, OUTSIDE, known)]

    width = q.shape[2]
    padded = max(_LEAST_WIDTH, 1 << (width - 1).bit_length())
    states = [torch.nn.functional.pad(part, (0, padded - width))[None] for part in (q, k, v)]
    run = _compiled() if (q.device.type == "cuda" if fused is None else fused) else flex_attention
    with torch._dynamo.config.patch(recompile_limit=_COMPILATIONS):
        seen = run(
            *states,
            score_mod=None if table is None else biased_everywhere if full else biased,
            block_mask=None if full else blocks.mask,
            scale=1 / math.sqrt(width),
        )
    result: Tensor = seen[0, :, :, :width]
    return result


@functools.cache
def _compiled() -> Any:
    # fullgraph: what cannot be compiled shall fail rather than make N x N matrices without a word.
    return torch.compile(flex_attention, fullgraph=True, dynamic=False)


def blocks_of(layout: PairLayout | ClusterLayout, device: torch.device) -> Blocks:
    """A layout's blocks on a device, kept with it."""
    key = ("flex", device)
    if key not in layout.handles:
        if isinstance(layout, ClusterLayout):
            layout.handles[key] = _blocks(layout.as_pairs(), layout.side, device)
        else:
            layout.handles[key] = _blocks(layout, _LEAST_WIDTH, device)
    return layout.handles[key]


def _blocks(layout: PairLayout, side: int, device: torch.device) -> Blocks:
    row, column = layout.ends()
    across, down = -(-layout.columns // BLOCK), -(-layout.rows // BLOCK)
    in_block = BLOCK // side
    present, block = np.unique(row // BLOCK * across + column // BLOCK, return_inverse=True)
    slots = np.zeros((down, across), dtype=np.int32)
    slots.flat[present] = np.arange(1, len(present) + 1)
    spot = (row % BLOCK // side) * in_block + column % BLOCK // side
    places, tile = np.unique(block * in_block**2 + spot, return_inverse=True)
    tiles = np.zeros((len(present) + 1, in_block, in_block), dtype=np.int32)
    tiles[1:].flat[places] = np.arange(1, len(places) + 1)
    classes = np.zeros((len(places) + 1, side, side), dtype=np.uint8)
    classes[tile + 1, row % side, column % side] = layout.classes
    parts = [torch.from_numpy(part).to(device) for part in (slots, tiles, classes)]
    for part in parts[1:]:  # as long as the layout has blocks and tiles: no reason to compile again
        torch._dynamo.maybe_mark_dynamic(part, 0)
    kind = _kind(side, *parts)

    def attends(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return kind(i, j) > 0

    counts = np.bincount(present // across, minlength=down).astype(np.int32)
    # The key blocks of a row of blocks first, in order; the rest of the row is never read.
    keys = np.argsort(slots == 0, axis=1, kind="stable").astype(np.int32)
    mask = BlockMask.from_kv_blocks(
        torch.from_numpy(counts).to(device)[None, None],
        torch.from_numpy(keys).to(device)[None, None],
        BLOCK_SIZE=BLOCK,
        mask_mod=attends,
        seq_lengths=(layout.rows, layout.columns),
    )
    return Blocks(side, parts[0], parts[1], parts[2], mask)
