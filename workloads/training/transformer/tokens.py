"""A sequence of tokens as workers get it: a whole graph, or a batch of small ones after each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.training.transformer.layout import PairLayout


@dataclass(frozen=True, eq=False)
class Tokens:
    """One sequence of n tokens, in its order; a worker holds rows bounds[rank]..bounds[rank+1] of it.

    The rows' arrays (of one worker): features float32[r, f]; degrees int64[r] (centrality; -1 a virtual
    vertex); places float32[r, p], Laplacian eigenvectors, or p = 0; ids int32[r], numbers that do not depend
    on order or worker; labels int64[r] or float32[r, c]; split int8[r]. The sequence's: topology, all n rows;
    starts int64[k+1], its clusters; every: all pairs within each graph, where there are several graphs, else
    None; segments int64[g+1]: where each graph starts. train_total: training rows of the whole sequence.
    """

    bounds: list[int]
    features: npt.NDArray[np.float32]
    degrees: npt.NDArray[np.int64]
    places: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int32]
    labels: npt.NDArray[Any]
    split: npt.NDArray[np.int8]
    topology: PairLayout
    starts: npt.NDArray[np.int64]
    segments: npt.NDArray[np.int64]
    every: PairLayout | None
    train_total: int

    @property
    def count(self) -> int:
        """Tokens of the whole sequence."""
        return self.bounds[-1]
