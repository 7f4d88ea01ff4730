"""Checks that the readers of feature, label and sparse-matrix arrays share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import MAX_VERTICES, Csr, build_csr
from workloads.graphs.formats.npz import read_npz

_STEP_VALUES = 1 << 24


def feature_matrix(where: str, array: npt.NDArray[Any], n: int) -> npt.NDArray[np.float32]:
    """float32[n, width]; refuses other shapes, non-numbers, NaN and infinity."""
    if array.dtype.kind not in "fiu" or array.ndim != 2 or len(array) != n:
        raise InputError(f"{where}: {array.dtype}{list(array.shape)}, expected numbers of shape [{n}, width]")
    features = np.empty(array.shape, dtype=np.float32)
    step = max(1, _STEP_VALUES // max(1, array.shape[1]))
    for start in range(0, n, step):
        rows = features[start : start + step]
        with np.errstate(over="ignore"):
            rows[:] = array[start : start + step]
        if not np.isfinite(rows).all():
            row = start + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise InputError(f"{where}: row {row} holds NaN, infinity or a value beyond float32")
    return features


def label_vector(where: str, array: npt.NDArray[Any], n: int) -> npt.NDArray[np.int32]:
    """int32[n] class numbers, -1 for none."""
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise InputError(f"{where}: {array.dtype}{list(array.shape)}, expected whole numbers of shape [{n}]")
    if n and (int(array.min()) < -1 or int(array.max()) >= n + 2**16):
        raise InputError(f"{where}: classes {array.min()}..{array.max()}, allowed is -1..{n + 2**16 - 1}")
    return array.astype(np.int32)


def scipy_sparse(path: Path) -> Csr:
    """The graph of a square matrix that `scipy.sparse.save_npz` wrote (COO or CSR); values are not read."""
    parts = read_npz(path, {"shape": True, "row": False, "col": False, "indices": False, "indptr": False})
    shape = parts["shape"]
    if shape.dtype.kind not in "iu" or shape.shape != (2,) or shape[0] != shape[1]:
        raise InputError(f"{path}: array 'shape' is {shape.tolist()}, expected two equal vertex counts")
    n = int(shape[0])
    names = ("row", "col") if "row" in parts and "col" in parts else ("indptr", "indices")
    if any(name not in parts for name in names):
        raise InputError(
            f"{path}: neither COO (row, col) nor CSR (indptr, indices); save it with scipy as one of these"
        )
    first, second = (parts[name] for name in names)
    for name, array in zip(names, (first, second), strict=True):
        if (
            array.dtype.kind not in "iu"
            or array.ndim != 1
            or array.dtype.itemsize > 8
            or array.dtype == np.uint64
        ):
            raise InputError(
                f"{path}: array {name!r}: {array.dtype}{list(array.shape)}, expected a row of integers"
            )
    if not 0 < n <= MAX_VERTICES:
        raise InputError(f"{path}: {n} vertices, allowed is 1..{MAX_VERTICES}")
    if names[0] == "row":
        if len(first) != len(second):
            raise InputError(f"{path}: {len(first)} rows and {len(second)} columns, expected as many")
        if n > max(10_000_000, 100 * len(first)):
            raise InputError(f"{path}: {n} vertices declared for {len(first)} edges")
        rows = first
    else:
        indptr = first.astype(np.int64)
        if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != len(second) or (np.diff(indptr) < 0).any():
            raise InputError(
                f"{path}: array 'indptr' does not ascend from 0 to {len(second)} in {n + 1} steps"
            )
        rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    try:
        return build_csr(n, rows, second)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
