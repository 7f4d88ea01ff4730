"""What is learned on a graph: features, labels and split, with what the graph lacks filled in and said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.graph import Graph

IDENTITY_MOST = 2048
TRAIN, VALIDATION, TEST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class TrainingData:
    """features: float32[n, d]; labels: int64[n] (-1 unlabelled) or float32[n, classes] of 0/1 (multi-label);
    split: int8[n] (0 train, 1 validation, 2 test, -1 none). notes: what was made up here, for the record.
    """

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | npt.NDArray[np.float32]
    split: npt.NDArray[np.int8]
    num_classes: int
    notes: str

    @property
    def multi_label(self) -> bool:
        """Several labels per vertex: binary cross entropy and F1-micro instead of softmax and accuracy."""
        return self.labels.ndim == 2


def training_data(graph: Graph, seed: int) -> TrainingData:
    """Features, labels and split of a graph.

    A small graph without features gets the identity (each vertex its own feature, as Kipf and Welling do for
    featureless graphs); one without a split a random one of 60/20/20 per cent of the labelled vertices, drawn
    with `seed`. Raises InputError for a graph without labels, or a large one without features.
    """
    if graph.labels is None:
        raise InputError(f"graph {graph.name}: it has no labels to train on; try debian or karate")
    notes = []
    if graph.features is not None:
        features = graph.features
    elif graph.num_vertices <= IDENTITY_MOST:
        features = np.eye(graph.num_vertices, dtype=np.float32)
        notes.append("features: identity")
    else:
        raise InputError(
            f"graph {graph.name}: {graph.num_vertices} vertices without features; "
            f"allowed without: {IDENTITY_MOST}"
        )
    multi = graph.labels.ndim == 2
    labels = graph.labels.astype(np.float32) if multi else graph.labels.astype(np.int64)
    labelled = np.ones(len(labels), dtype=bool) if multi else graph.labels >= 0
    if graph.split is not None:
        split = np.where(labelled, graph.split, -1).astype(np.int8)
    else:
        split = _random_split(labelled, seed)
        notes.append(f"split: random 60/20/20 of the labelled vertices, seed {seed}")
    for part, name in ((TRAIN, "training"), (VALIDATION, "validation"), (TEST, "test")):
        if not (split == part).any():
            raise InputError(f"graph {graph.name}: no labelled {name} vertices")
    return TrainingData(features, labels, split, graph.num_classes, "; ".join(notes))


def _random_split(labelled: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.int8]:
    split = np.full(len(labelled), -1, dtype=np.int8)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(labelled))
    first, second = int(0.6 * len(order)), int(0.8 * len(order))
    split[order[:first]] = TRAIN
    split[order[first:second]] = VALIDATION
    split[order[second:]] = TEST
    return split
