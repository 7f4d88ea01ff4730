"""Loss and score on a worker's own vertices, in parts that add up over workers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def loss_sum(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy added up over vertices; with several labels per vertex, its mean over the classes."""
    if labels.dim() == 2:
        return binary_cross_entropy_with_logits(scores, labels, reduction="sum") / labels.shape[1]
    return cross_entropy(scores, labels, reduction="sum")


def score_parts(scores: Tensor, labels: Tensor) -> tuple[int, int]:
    """(a, b), sums whose quotient over all workers is the accuracy, or F1-micro with several labels."""
    if labels.dim() == 2:
        chosen, right = scores > 0, labels > 0.5
        both = int((chosen & right).sum())
        return 2 * both, int(chosen.sum()) + int(right.sum())
    return int((scores.argmax(1) == labels).sum()), len(labels)


def ratio(parts: Tensor) -> float:
    """a / b of float64[2]; NaN when there is nothing to score."""
    return float(parts[0] / parts[1]) if parts[1] > 0 else torch.nan
