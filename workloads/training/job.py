"""What one worker is given, and what a run leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.training.local_graph import LocalGraph
from workloads.training.options import TrainOptions


@dataclass(frozen=True, eq=False)
class Job:
    """What one worker is given. features, labels, split: rows of its inner vertices, as in `TrainingData`;
    levels: uint8[ni+nh], the mask of its local vertices; level_counts: boundary vertices of the whole graph
    at each level; train_total: training vertices of the whole graph. extractor_ns: how long the mask took,
    offline. identity: of the run, for checkpoints; checkpoints: their folder or None, written every
    `checkpoint_every` epochs (0: only when stopped); resume: go on from the newest.
    """

    options: TrainOptions
    local: LocalGraph
    features: npt.NDArray[np.float32]
    labels: npt.NDArray[Any]
    split: npt.NDArray[np.int8]
    levels: npt.NDArray[np.uint8]
    level_counts: tuple[int, ...]
    num_classes: int
    train_total: int
    extractor_ns: int = 0
    identity: str = ""
    checkpoints: Path | None = None
    checkpoint_every: int = 0
    resume: bool = False


@dataclass
class Trained:
    """What a run leaves: the tables' rows, and the weights (equal on all workers). interrupted: it was told
    to stop before its last epoch.
    """

    epochs: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]
    times: list[dict[str, Any]]
    memory: list[dict[str, Any]]
    weights: dict[str, npt.NDArray[Any]]
    device: str
    interrupted: bool = False
