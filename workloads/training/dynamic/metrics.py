"""Loss of a window, and the tasks' metrics: RMSE and MAE, accuracy and F1, AUC and average precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from workloads.training.dynamic.counted import CountedWire
from workloads.training.dynamic.task import METRICS

Floats = npt.NDArray[np.float64]


def window_loss(kind: str, predicted: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    """The sum over values, vertices or pairs. predicted: float[r, k] or logits float[e]; weight: float[e],
    how often each pair counts.
    """
    if kind == "regression":
        return mse_loss(predicted, wanted, reduction="sum")
    if kind == "classification":
        return cross_entropy(predicted, wanted, reduction="sum")
    return binary_cross_entropy_with_logits(predicted, wanted, weight, reduction="sum")


class Scorer:
    """Collects a worker's predictions over windows; `result` is the metrics over all workers and windows."""

    def __init__(self, kind: str, outputs: int, scale: Floats) -> None:
        self._kind, self._scale = kind, scale
        size = 3 if kind == "regression" else outputs * outputs
        self._sums = torch.zeros(size, dtype=torch.float64)
        self._classes = outputs
        self._pairs: list[Tensor] = []

    def add(self, predicted: Tensor, wanted: Tensor) -> None:
        """One window."""
        if self._kind == "regression":
            error = (predicted - wanted).double().cpu() * torch.from_numpy(self._scale)
            self._sums += torch.stack(
                [(error**2).sum(), error.abs().sum(), torch.tensor(float(error.numel())).double()]
            )
        elif self._kind == "classification":
            cell = (wanted * self._classes + predicted.argmax(1)).cpu()
            self._sums += torch.bincount(cell, minlength=self._classes**2)
        else:
            self._pairs.append(torch.stack([predicted.double().cpu(), wanted.double().cpu()], 1).reshape(-1))

    def result(self, wire: CountedWire) -> dict[str, float]:
        """The task's two metrics, the same on every worker; NaN where there is nothing to score."""
        first, second = METRICS[self._kind]
        if self._kind == "link":
            mine = torch.cat(self._pairs) if self._pairs else torch.zeros(0, dtype=torch.float64)
            every = torch.cat(wire.gather_values(mine)).reshape(-1, 2).numpy()
            return {first: auc(every[:, 0], every[:, 1]), second: average_precision(every[:, 0], every[:, 1])}
        sums = self._sums.clone()
        wire.all_reduce(sums)
        if self._kind == "regression":
            squares, absolute, count = (float(value) for value in sums)
            if not count:
                return {first: float("nan"), second: float("nan")}
            return {first: (squares / count) ** 0.5, second: absolute / count}
        table = sums.reshape(self._classes, self._classes).numpy()
        return {first: _accuracy(table), second: f1_macro(table)}


def _accuracy(table: Floats) -> float:
    return float(np.trace(table) / table.sum()) if table.sum() else float("nan")


def f1_macro(table: Floats) -> float:
    """Mean F1 over the classes that occur. table[i, j]: vertices of class i taken for j."""
    right, of_class, taken = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    there = of_class > 0
    if not there.any():
        return float("nan")
    return float(np.mean(2 * right[there] / (of_class + taken)[there]))


def auc(scores: Floats, labels: Floats) -> float:
    """Area under the ROC curve: how often a positive scores higher than a negative, ties counting half."""
    positives = float(labels.sum())
    negatives = len(labels) - positives
    if not positives or not negatives:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[labels > 0.5].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(scores: Floats, labels: Floats) -> float:
    """Sum over thresholds of the gain in recall times the precision there; equal scores are one threshold."""
    positives = float(labels.sum())
    if not positives:
        return float("nan")
    _, place = np.unique(-scores, return_inverse=True)
    right = np.bincount(place, weights=labels)
    found, taken = np.cumsum(right), np.cumsum(np.bincount(place))
    return float(np.sum(right / positives * found / taken))


def better(kind: str, a: float, b: float) -> bool:
    """Whether the first metric's value a is better than b; anything is better than NaN."""
    if np.isnan(b):
        return not np.isnan(a)
    return a < b if kind == "regression" else a > b


def best_row(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The epoch with the best validation value of the first metric; the last where none was evaluated."""
    name, best = f"validation_{METRICS[kind][0]}", rows[-1]
    for row in rows:
        if better(kind, row[name], best[name]):
            best = row
    return best
