"""METIS through pymetis: the one place that calls it, with the widths, options and limits it wants."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pymetis

_LARGEST_WEIGHT_SUM = 1 << 62


def metis_split(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    parts: int,
    *,
    weights: npt.NDArray[np.int64] | None = None,
    imbalance: float = 0.03,
    seed: int = 1,
) -> npt.NDArray[np.int32]:
    """Split a symmetric CSR graph into `parts` parts of even weight with a small edge cut; int32[n].

    imbalance: how far the largest part may exceed the mean (0.03 is METIS's own default for k-way); METIS
    treats it as a wish, and may leave parts larger or empty. Deterministic in `seed`. Recursive bisection up
    to 8 parts, k-way above, as the METIS manual advises.
    """
    if parts == 1:
        return np.zeros(len(indptr) - 1, dtype=np.int32)
    width = pymetis.zero_copy_dtype()
    options = pymetis.Options(seed=int(seed) & 0x7FFFFFFF, ufactor=max(1, min(1000, int(imbalance * 1000))))
    graph = pymetis.CSRAdjacency(indptr.astype(width, copy=False), indices.astype(width, copy=False))
    vweights = None if weights is None else weights.astype(width, copy=False)
    _, labels = pymetis.part_graph(parts, graph, vweights=vweights, options=options, recursive=parts <= 8)
    return np.asarray(labels).astype(np.int32)
