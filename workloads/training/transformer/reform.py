"""Elastic computation reformation: sparse clusters become a few compact tiles; pairs change their places.

The layout's k x k clusters are those of the order. An off-diagonal cluster whose density is below a threshold
beta has E pairs scattered over it; they are collected in ceil(E / d_b^2) tiles of the grid, those that hold
most of them already. What lies in a chosen tile stays, everything else moves to a free place of one, to the
nearest row first, and takes its class along. So no pair is lost and none added, but moved pairs join other
vertices: the loss that the auto tuner watches. Clusters (a, b) and (b, a) are reformed alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from workloads.training.transformer.clusters import ClusterLayout, tiled
from workloads.training.transformer.layout import PairLayout, from_pairs
from workloads.training.transformer.structure import Bytes

Ends = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def density(layout: PairLayout) -> float:
    """beta_G: the share of all places at which the whole layout has a pair."""
    return layout.pairs / (layout.rows * layout.columns)


def cluster_densities(layout: PairLayout, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """float64[k, k]: the share of each cluster's places that have a pair."""
    row, column = layout.ends()
    k = len(starts) - 1
    a, b = (np.searchsorted(starts, end, side="right") - 1 for end in (row, column))
    counts = np.bincount(a * k + b, minlength=k * k).reshape(k, k)
    sizes = np.diff(starts)
    return counts / np.maximum(1, np.outer(sizes, sizes))


def reformed(
    layout: PairLayout, starts: npt.NDArray[np.int64], *, side: int, beta: float, least: int
) -> ClusterLayout:
    """The cluster-sparse layout of all rows at threshold beta (0: nothing is moved)."""
    shares = cluster_densities(layout, starts)
    k = len(starts) - 1
    chosen = np.triu((shares > 0) & (shares < beta), 1)
    if not chosen.any():
        return tiled(layout, side, least)
    row, column = layout.ends()
    a, b = (np.searchsorted(starts, end, side="right") - 1 for end in (row, column))
    upper = chosen[a, b]
    keep = ~(upper | chosen[b, a])
    members = np.flatnonzero(upper)
    members = members[np.argsort((a * k + b)[members], kind="stable")]
    cuts = np.flatnonzero(np.diff((a * k + b)[members])) + 1
    rows, columns, classes, moved = [], [], [], 0
    blocks = -(-layout.columns // side)
    for group in np.split(members, cuts):
        at = (int(starts[a[group[0]]]), int(starts[a[group[0]] + 1]))
        to = (int(starts[b[group[0]]]), int(starts[b[group[0]] + 1]))
        ends, order, count = _compacted((row[group], column[group]), at, to, side, blocks)
        rows.append(ends[0])
        columns.append(ends[1])
        classes.append(layout.classes[group][order])
        moved += count
    new_row, new_column = np.concatenate(rows), np.concatenate(columns)
    new_classes = np.concatenate(classes)
    ends = (
        np.concatenate([row[keep], new_row, new_column]),
        np.concatenate([column[keep], new_column, new_row]),
    )
    every: Bytes = np.concatenate([layout.classes[keep], new_classes, new_classes])
    result = tiled(from_pairs(layout.rows, layout.columns, ends, every), side, least, 2 * moved)
    share = chosen.sum() / np.count_nonzero(np.triu(shares, 1))
    return replace(result, reformed_share=float(share))


def _compacted(
    ends: Ends, rows: tuple[int, int], columns: tuple[int, int], side: int, blocks: int
) -> tuple[Ends, npt.NDArray[np.int64], int]:
    """The pairs of one cluster in compact tiles: (their new ends, which old pair each was, how many moved).

    A tile of the grid that reaches over the cluster's border is used inside the cluster only.
    """
    row, column = ends
    place = (row // side) * blocks + column // side
    tiles, which, counts = np.unique(place, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    tile_row, tile_column = tiles[order] // blocks * side, tiles[order] % blocks * side
    height = np.minimum(tile_row + side, rows[1]) - np.maximum(tile_row, rows[0])
    width = np.minimum(tile_column + side, columns[1]) - np.maximum(tile_column, columns[0])
    needed = int(np.searchsorted(np.cumsum(height * width), len(row))) + 1
    chosen = np.zeros(len(tiles), dtype=bool)
    chosen[order[:needed]] = True
    stays = chosen[which]
    free_row, free_column = _free(
        (tile_row[:needed], tile_column[:needed]), rows, columns, side, (row[stays], column[stays])
    )
    leaving = np.flatnonzero(~stays)
    leaving = leaving[np.argsort(row[leaving], kind="stable")]
    # Both sorted by row: as many free places as needed, spread evenly, so that rows shift little.
    picked = np.arange(len(leaving)) * len(free_row) // max(1, len(leaving))
    staying = np.flatnonzero(stays)
    new = (
        np.concatenate([row[staying], free_row[picked]]),
        np.concatenate([column[staying], free_column[picked]]),
    )
    return new, np.concatenate([staying, leaving]), len(leaving)


def _free(tiles: Ends, rows: tuple[int, int], columns: tuple[int, int], side: int, used: Ends) -> Ends:
    """The places of the tiles, inside the cluster, that no pair uses, by row."""
    offset = np.arange(side)
    row = np.broadcast_to(
        tiles[0][:, None, None] + offset[None, :, None], (len(tiles[0]), side, side)
    ).ravel()
    column = np.broadcast_to(tiles[1][:, None, None] + offset, (len(tiles[0]), side, side)).ravel()
    inside = (row >= rows[0]) & (row < rows[1]) & (column >= columns[0]) & (column < columns[1])
    width = columns[1] + 1
    free = np.setdiff1d((row * width + column)[inside], used[0] * width + used[1])
    return free // width, free % width
