"""What is learned on a dynamic graph: standardised features and targets, pairs for links, windows by their
use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.dynamic import DynamicGraph
from workloads.graphs.dynamic.pairs import Pairs, link_pairs

Ints = npt.NDArray[np.int64]
PARTS = ("train", "validation", "test")
METRICS = {"regression": ("rmse", "mae"), "classification": ("accuracy", "f1"), "link": ("auc", "ap")}


@dataclass(frozen=True, eq=False)
class Task:
    """features: float32[T, n, d], standardised by the training snapshots. targets: float32[T, n, k]
    standardised likewise, int64[T, n] (-1: none), or None. target_mean, target_scale: float64[k], to undo it.
    pairs[t]: (int64[e, 2], float32[e]), ends and 1 for those that meet after snapshot t; None for other
    tasks. windows: the last snapshots of the training, validation and test windows. train_counts[t]: labelled
    vertices, values or pairs of the whole graph in a window that ends at t.
    """

    kind: str
    features: npt.NDArray[np.float32]
    targets: npt.NDArray[np.float32] | Ints | None
    target_mean: npt.NDArray[np.float64]
    target_scale: npt.NDArray[np.float64]
    pairs: Pairs | None
    windows: tuple[Ints, Ints, Ints]
    counts: Ints
    outputs: int


def make_task(graph: DynamicGraph, seed: int) -> Task:
    """The task of a dynamic graph. seed: of the pairs that do not meet. Raises InputError for a graph without
    windows or targets in one of the three parts.
    """
    size, snapshots = graph.window, graph.num_snapshots
    ends = np.arange(size - 1, snapshots - (graph.task == "link"))
    train, validation = graph.train_end, graph.val_end
    split = (ends < train, (ends >= train) & (ends < validation), ends >= validation)
    windows = tuple(ends[part] for part in split)
    for name, found in zip(PARTS, windows, strict=True):
        if not len(found):
            raise InputError(
                f"dynamic graph {graph.name}: no {name} window of {size} of its {snapshots} snapshots"
            )
    features, _, _ = _standardised(graph.features, train)
    targets, mean, scale, pairs = graph.targets, np.zeros(1), np.ones(1), None
    if graph.task == "regression":
        assert targets is not None
        targets, mean, scale = _standardised(targets, train)
        counts = np.full(snapshots, targets.shape[1] * targets.shape[2])
    elif graph.task == "classification":
        assert targets is not None
        counts = (targets >= 0).sum(axis=1)
    else:
        pairs = link_pairs(graph, seed)
        counts = np.array([len(labels) for _, labels in pairs])
    for name, found in zip(PARTS, windows, strict=True):
        if not counts[found].any():
            raise InputError(f"dynamic graph {graph.name}: nothing to predict in its {name} windows")
    outputs = graph.target_width
    return Task(
        graph.task,
        features,
        targets,
        mean,
        scale,
        pairs,
        (windows[0], windows[1], windows[2]),
        counts,
        outputs,
    )


def _standardised(
    values: npt.NDArray[np.float32], train_end: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean 0 and deviation 1 per column over the training snapshots; columns that do not vary keep their
    value.
    """
    known = values[:train_end].astype(np.float64)
    mean, scale = known.mean(axis=(0, 1)), known.std(axis=(0, 1))
    flat = scale < 1e-12
    mean, scale = np.where(flat, 0, mean), np.where(flat, 1, scale)
    return ((values - mean) / scale).astype(np.float32), mean, scale
