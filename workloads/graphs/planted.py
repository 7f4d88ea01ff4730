"""`planted:N[:CLASSES]`: a labelled graph to train on, of any size: planted communities with noisy features.

The degree-corrected block model of the stand-ins, with one block per class, a mean degree of 20, 60 % of the
edges inside a class, and features so noisy that a vertex alone is classified wrongly half the time, while its
neighbourhood tells. The numbers are its own: it stands in for no data set.
"""

from __future__ import annotations

import numpy as np

from workloads import _kernels
from workloads.graphs.graph import Graph, Provenance, make_graph
from workloads.graphs.numbers import whole_number
from workloads.graphs.standins import Shape, expected_degrees

MEAN_DEGREE, INSIDE, FEATURE_WIDTH = 20, 0.6, 64
NOISE = 3.0  # its deviation beside the features' own of 1: chosen so that models differ
LEAST_PER_CLASS = 50
MAX_VERTICES = 2_000_000
_BLOCK_STREAM, _DEGREE_STREAM, _NOISE_STREAM = 12, 13, 14


def planted(source: str, text: str, seed: int) -> Graph:
    """The graph of `planted:N[:CLASSES]` (10 classes). Raises InputError."""
    count, colon, class_text = text.partition(":")
    classes = whole_number(source, "classes", class_text if colon else "10", 2, 1000)
    n = whole_number(source, "vertices", count, LEAST_PER_CLASS * classes, MAX_VERTICES)
    block = np.empty(n, dtype=np.int32)
    block[_kernels.permutation(n, seed, _BLOCK_STREAM)] = np.arange(n, dtype=np.int32) % classes
    shape = Shape(n, n * MEAN_DEGREE, FEATURE_WIDTH, classes, (0.6, 0.2, 0.2))
    weights = np.empty(n, dtype=np.int64)
    weights[_kernels.permutation(n, seed, _DEGREE_STREAM)] = expected_degrees(shape, n, MEAN_DEGREE)
    edges = n * MEAN_DEGREE // 2
    indptr, indices, _ = _kernels.block_model(
        weights, block, classes, edges, round(INSIDE * edges), seed, None
    )
    # Noise of another stream: features of as many blocks as vertices have no centre in common.
    noise = _kernels.block_features(np.arange(n, dtype=np.int32), FEATURE_WIDTH, seed + _NOISE_STREAM)
    features = _kernels.block_features(block, FEATURE_WIDTH, seed) + np.float32(NOISE) * noise
    notes = f"{classes} planted communities, {INSIDE:g} of the edges inside one, noisy features"
    return make_graph(
        f"planted:{n}:{classes}",
        (indptr, indices),
        Provenance("generated", "degree-corrected block model", seed, notes),
        feature_width=FEATURE_WIDTH,
        num_classes=classes,
        features=features,
        labels=block,
    )
