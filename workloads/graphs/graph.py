"""`Graph`, the frozen value every later step reads: a simple symmetric graph in CSR."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

ProvenanceKind = Literal["real", "synthetic stand-in", "generated"]

_DIGEST_FORMAT = "netfold-graph-1"
_HASH_STEP_BYTES = 64 << 20


@dataclass(frozen=True)
class Provenance:
    """Where a graph comes from: real data, a synthetic stand-in for it, or a generated shape."""

    kind: ProvenanceKind
    source: str
    seed: int | None = None
    notes: str = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """A simple symmetric graph: no self loops, no duplicates, both directions stored, rows ascending.

    indptr: int64[n+1]; indices: int32[m], m counts directed edges. features: float32[n, feature_width] or
    None; labels: int32[n], int32[n, num_classes] of 0/1 for multi-label data, or None (-1 is an unlabelled
    vertex); split: int8[n] (0 train, 1 validation, 2 test, -1 none) or None. `feature_width` and
    `num_classes` are declared even where the arrays are absent, because traffic depends on the widths alone.
    `digest` is the content address; two graphs with equal digests hold equal arrays.
    """

    name: str
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    feature_width: int
    num_classes: int
    features: npt.NDArray[np.float32] | None
    labels: npt.NDArray[np.int32] | None
    split: npt.NDArray[np.int8] | None
    provenance: Provenance
    digest: str

    @property
    def num_vertices(self) -> int:
        """Number of vertices."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of directed edges: twice the undirected ones."""
        return len(self.indices)

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """Neighbours of each vertex, int64[n]."""
        return np.diff(self.indptr)


def make_graph(
    name: str,
    csr: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]],
    provenance: Provenance,
    *,
    feature_width: int = 0,
    num_classes: int = 0,
    features: npt.NDArray[np.float32] | None = None,
    labels: npt.NDArray[np.int32] | None = None,
    split: npt.NDArray[np.int8] | None = None,
) -> Graph:
    """Put the parts together and compute the digest. Raises ValueError when the shapes disagree."""
    indptr, indices = csr
    n = len(indptr) - 1
    for what, array in (("features", features), ("labels", labels), ("split", split)):
        if array is not None and len(array) != n:
            raise ValueError(f"{what} has {len(array)} rows for {n} vertices")
    if features is not None and features.shape != (n, feature_width):
        raise ValueError(f"features have shape {features.shape}, declared ({n}, {feature_width})")
    arrays: list[npt.NDArray[np.generic] | None] = [indptr, indices, features, labels, split]
    for part in arrays:
        if part is not None:
            part.flags.writeable = False
    digest = content_digest(arrays, feature_width, num_classes)
    return Graph(
        name, indptr, indices, feature_width, num_classes, features, labels, split, provenance, digest
    )


def content_digest(arrays: list[npt.NDArray[np.generic] | None], feature_width: int, num_classes: int) -> str:
    """sha256 (hex) over the little-endian arrays, their types and shapes, and the declared widths."""
    digest = hashlib.sha256(f"{_DIGEST_FORMAT} {feature_width} {num_classes}".encode())
    for array in arrays:
        if array is None:
            digest.update(b"|none")
            continue
        little = array.dtype.newbyteorder("<")
        digest.update(f"|{little.str} {array.shape}".encode())
        flat = np.ascontiguousarray(array).reshape(-1)
        step = max(1, _HASH_STEP_BYTES // flat.itemsize)
        for start in range(0, len(flat), step):
            digest.update(flat[start : start + step].astype(little, copy=False).view(np.uint8).data)
    return digest.hexdigest()
