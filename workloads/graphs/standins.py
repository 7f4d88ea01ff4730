"""Synthetic stand-ins for reddit, yelp, ogbn-products and amazon: a degree-corrected stochastic block model.

Model (Karrer and Newman, Physical Review E 83 (2011) 016107), blocks of equal size as classes: an edge takes
its first end by degree, its second by degree inside the same block or in the whole graph, so that the share
of edges inside a block is the published homophily. Degrees follow a truncated power law with the published
mean. Loops and duplicates are drawn again until the published number of edges is reached. Nothing is known or
assumed of structure inside a block, so cuts inside one are those of a random graph. Values:
data/standins.toml.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs.graph import Graph, Provenance, make_graph

TABLE = Path(__file__).parent / "data" / "standins.toml"
# Raise it when the same arguments give another graph: cached stand-ins are then made anew.
GENERATOR_VERSION = 2
TYPICAL_EXPONENT = 2.5
# A denser graph than this is nothing like a sparse power-law graph; a tiny scale lowers the mean degree
# instead.
MAX_DENSITY = 0.25
MIN_VERTICES = 100
LABELS_SHARE, LABELS_FLIPPED = 0.1, 0.05  # nobody has published them for yelp and amazon
_LABEL_STREAM = 4
_SPLIT_STREAM, _BLOCK_STREAM, _DEGREE_STREAM = 1, 2, 3


@dataclass(frozen=True)
class Shape:
    """Published shape of a data set; see data/standins.toml for the source of each value."""

    vertices: int
    directed_edges: int
    feature_width: int
    classes: int
    split: tuple[float, float, float]
    homophily: float | None = None
    top_fifth_share: float | None = None
    multi_label: bool = False


@cache
def shapes() -> dict[str, Shape]:
    """Every stand-in's shape by name."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    result = {}
    for name, row in table.items():
        if name != "rules":
            values = {key: value for key, value in row.items() if key != "sources"}
            result[name] = Shape(**(values | {"split": tuple(values["split"])}))
    return result


def _power_integral(power: float, low: float, high: float) -> float:
    if abs(power + 1) < 1e-9:
        return math.log(high / low)
    return (high ** (power + 1) - low ** (power + 1)) / (power + 1)


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the increasing `function` crosses zero."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


def least_degree(exponent: float, mean: float, most: float) -> float:
    """The lower end of a power law truncated at `most` that has this mean."""

    def excess(low: float) -> float:
        return _power_integral(1 - exponent, low, most) / _power_integral(-exponent, low, most) - mean

    return _bisect(excess, 1e-6 * mean, mean)


def exponent_for_share(share: float, mean: float, most: float) -> float:
    """The exponent at which the fifth of the vertices with the highest degrees holds `share` of it all."""

    def missing(exponent: float) -> float:
        low = least_degree(exponent, mean, most)
        whole = _power_integral(-exponent, low, most)
        cut = _bisect(lambda x: 0.2 - _power_integral(-exponent, x, most) / whole, low, most)
        return share - _power_integral(1 - exponent, cut, most) / _power_integral(1 - exponent, low, most)

    return _bisect(missing, 1.05, 4.0)


def expected_degrees(shape: Shape, n: int, mean: float) -> npt.NDArray[np.int64]:
    """int64[n] whole-number expected degrees, ascending: the quantiles of the truncated power law.

    The cut-off is the structural one of the graph at hand; the exponent is that of the full-size data set.
    """
    full_mean = shape.directed_edges / shape.vertices
    exponent = TYPICAL_EXPONENT
    if shape.top_fifth_share is not None:
        exponent = exponent_for_share(shape.top_fifth_share, full_mean, math.sqrt(shape.directed_edges))
    most = max(min(math.sqrt(n * mean), n - 1.0), mean * 1.01)
    low = least_degree(exponent, mean, most)
    quantile = (np.arange(n) + 0.5) / n
    power = 1 - exponent
    degrees = (low**power + quantile * (most**power - low**power)) ** (1 / power)
    return np.maximum(np.rint(degrees), 1).astype(np.int64)


def _labels(
    shape: Shape, block: npt.NDArray[np.int32], seed: int, *, features: bool
) -> npt.NDArray[np.int32] | None:
    """The block itself; with several labels per vertex int32[n, classes] of 0/1: the block's own tenth of the
    classes, one in twenty of a vertex's flipped.
    """
    if not shape.multi_label:
        return block
    if not features:
        return None
    random = np.random.default_rng([seed, _LABEL_STREAM])
    pattern = random.random((int(block.max()) + 1, shape.classes)) < LABELS_SHARE
    flipped = random.random((len(block), shape.classes), dtype=np.float32) < LABELS_FLIPPED
    return (pattern[block] ^ flipped).astype(np.int32)


def stand_in(
    name: str,
    *,
    scale: float = 1.0,
    seed: int = 1,
    features: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Graph:
    """The stand-in of a data set at a share `scale` of its vertices. Raises InputError.

    features: also make float32 features (a random centre per block plus noise of equal variance) and, where
    the data set has several labels per vertex, those of its block; without it only the widths are declared,
    because traffic depends on nothing else. progress is called with (done, total).
    """
    shape = shapes()[name]
    least = MIN_VERTICES / shape.vertices
    if not least <= scale <= 1:
        raise InputError(
            f"scale: {scale:g} for {name}, allowed is {least:.2g} ({MIN_VERTICES} vertices) to 1"
        )
    n = round(shape.vertices * scale)
    published_mean = shape.directed_edges / shape.vertices
    mean = min(published_mean, MAX_DENSITY * (n - 1))
    edges = round(n * mean / 2)

    # Fewer blocks of the full size rather than as many small ones, which could not hold the mean degree.
    blocks = max(2, round(shape.classes * scale))
    block = np.empty(n, dtype=np.int32)
    block[_kernels.permutation(n, seed, _BLOCK_STREAM)] = np.arange(n, dtype=np.int32) % blocks
    weights = np.empty(n, dtype=np.int64)
    weights[_kernels.permutation(n, seed, _DEGREE_STREAM)] = expected_degrees(shape, n, mean)
    inside = -1 if shape.homophily is None else round(edges * shape.homophily)
    indptr, indices, got_inside = _kernels.block_model(
        weights,
        block,
        blocks,
        edges,
        inside,
        seed,
        None if progress is None else lambda done: progress(done, 3 * edges),
    )

    split = np.full(n, 2, dtype=np.int8)
    order = _kernels.permutation(n, seed, _SPLIT_STREAM)
    train, valid = (round(n * share) for share in shape.split[:2])
    split[order[:train]] = 0
    split[order[train : train + valid]] = 1

    notes = [f"degree-corrected block model, shape of {name} (sources: workloads/graphs/data/standins.toml)"]
    if scale != 1:
        notes.append(f"{scale:g} of its vertices in {blocks} of its {shape.classes} classes")
    degrees = np.sort(np.diff(indptr))[::-1]
    got_mean = len(indices) / n
    if abs(got_mean / published_mean - 1) > 0.01:
        notes.append(f"mean degree {got_mean:.1f} instead of {published_mean:.1f}: too few vertices for more")
    if shape.homophily is not None:
        share = 2 * got_inside / len(indices)
        notes.append(f"{share:.3f} of the edges inside a class (published {shape.homophily:g})")
    if shape.top_fifth_share is not None:
        share = degrees[: n // 5].sum() / len(indices)
        notes.append(
            f"a fifth of the vertices carries {share:.2f} of the edges (published {shape.top_fifth_share:g})"
        )
    size = "" if scale == 1 else f", scale {scale:g}"
    return make_graph(
        f"{name} (synthetic stand-in{size})",
        (indptr, indices),
        Provenance("synthetic stand-in", f"stand-in for {name}", seed, "; ".join(notes)),
        feature_width=shape.feature_width,
        num_classes=shape.classes,
        features=_kernels.block_features(block, shape.feature_width, seed) if features else None,
        labels=_labels(shape, block, seed, features=features),
        split=split,
    )
