"""Edge lists to the CSR of a simple symmetric graph (the loop is C++: workloads/native/csr.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.errors import InputError

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
IntArray = npt.NDArray[np.integer]

# Vertex ids are int32 everywhere: 2^31 vertices would need 16 GiB for indptr alone.
MAX_VERTICES = 2**31 - 1


def build_csr(n: int, sources: IntArray | Sequence[IntArray], targets: IntArray | Sequence[IntArray]) -> Csr:
    """The CSR of the undirected simple graph with these edges, in any order and direction.

    sources, targets: integer arrays of equal length, or equally cut lists of them (a streaming reader need
    not concatenate). Self loops are dropped and duplicates merged. Memory: 4 bytes per directed edge, before
    merging, beside the input. Raises InputError when an id is outside 0..n-1.
    """
    source_chunks = [sources] if isinstance(sources, np.ndarray) else list(sources)
    target_chunks = [targets] if isinstance(targets, np.ndarray) else list(targets)
    small = all(chunk.dtype == np.int32 for chunk in (*source_chunks, *target_chunks))
    dtype = np.int32 if small else np.int64
    try:
        return _kernels.build_csr(
            [np.ascontiguousarray(chunk, dtype=dtype) for chunk in source_chunks],
            [np.ascontiguousarray(chunk, dtype=dtype) for chunk in target_chunks],
            n,
        )
    except (IndexError, ValueError) as error:
        raise InputError(f"edge list: {error}") from None


def check_csr(csr: Csr) -> None:
    """Raise InputError unless this is the CSR of a simple symmetric graph with ascending rows."""
    problem = _kernels.check_csr(csr[0], csr[1])
    if problem:
        raise InputError(f"graph: {problem}")
