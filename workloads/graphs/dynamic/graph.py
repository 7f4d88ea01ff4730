"""`DynamicGraph`, the frozen value that dynamic training, partitioning and planning read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Graph, Provenance, make_graph

Task = Literal["regression", "classification", "link"]
TASKS: tuple[Task, ...] = ("regression", "classification", "link")

_DIGEST_FORMAT = "netfold-dynamic-graph-1"


@dataclass(frozen=True, eq=False)
class DynamicGraph:
    """T snapshots of one set of n vertices.

    arrivals: T arrays int32[e_t, 2], the *original snapshots*: the distinct undirected edges (lower id first,
    ascending) that were seen in interval t. lifetime z: an edge seen in interval t is in snapshots t..t+z-1,
    so snapshot t is the union of original snapshots t-z+1..t.
    indptr, indices: T CSRs of the snapshots, int64[n+1] and int32[m_t], symmetric and simple, rows ascending,
    as in `Graph`. weights: T arrays float32[m_t] of edge weights, or None where all edges weigh the same.
    features: float32[T, n, d], what is known of each vertex at the end of interval t.
    task and targets: "regression" float32[T, n, k], "classification" int64[T, n] (-1: none), both of the time
    after snapshot t, so that a model which has seen snapshots ..t predicts targets[t]; "link" None: predict
    arrivals[t + 1] (the last snapshot has no target).
    window Ns: consecutive snapshots of one training sample. train_end, val_end: targets of snapshots
    t < train_end are for training, t < val_end for validation, the later ones for testing.
    digest: the content address, over all of this but the name and provenance.
    """

    name: str
    lifetime: int
    window: int
    arrivals: tuple[npt.NDArray[np.int32], ...]
    indptr: tuple[npt.NDArray[np.int64], ...]
    indices: tuple[npt.NDArray[np.int32], ...]
    weights: tuple[npt.NDArray[np.float32], ...] | None
    features: npt.NDArray[np.float32]
    task: Task
    targets: npt.NDArray[Any] | None
    num_classes: int
    train_end: int
    val_end: int
    provenance: Provenance
    digest: str

    @property
    def num_vertices(self) -> int:
        """Number of vertices, n; the same in every snapshot."""
        return len(self.indptr[0]) - 1

    @property
    def num_snapshots(self) -> int:
        """Number of snapshots, T."""
        return len(self.indptr)

    @property
    def feature_width(self) -> int:
        """Features of a vertex in a snapshot, d."""
        return self.features.shape[2]

    @property
    def target_width(self) -> int:
        """Values that a model puts out per vertex: k, the classes, or 0 for links."""
        if self.task == "regression" and self.targets is not None:
            return int(self.targets.shape[2])
        return self.num_classes

    @property
    def num_windows(self) -> int:
        """Windows of Ns consecutive snapshots over all T, T - Ns + 1."""
        return self.num_snapshots - self.window + 1

    @property
    def snapshot_edges(self) -> npt.NDArray[np.int64]:
        """Directed edges of each snapshot, int64[T]."""
        return np.array([len(row) for row in self.indices], dtype=np.int64)

    def snapshot(self, t: int) -> Graph:
        """Snapshot t as a `Graph` without features, for what plans and partitions static graphs."""
        return make_graph(f"{self.name} snapshot {t}", (self.indptr[t], self.indices[t]), self.provenance)


def merge_arrivals(
    n: int, arrivals: Sequence[npt.NDArray[np.int32]], lifetime: int
) -> tuple[tuple[npt.NDArray[np.int64], ...], tuple[npt.NDArray[np.int32], ...]]:
    """The CSRs (indptr, indices) of all snapshots: t is the union of arrivals t-lifetime+1..t."""
    rows = [np.ascontiguousarray(pairs[:, 0]) for pairs in arrivals]
    columns = [np.ascontiguousarray(pairs[:, 1]) for pairs in arrivals]
    made = []
    for t in range(len(arrivals)):
        live = slice(max(0, t - lifetime + 1), t + 1)
        made.append(build_csr(n, rows[live], columns[live]))
    return tuple(ptr for ptr, _ in made), tuple(adj for _, adj in made)


def distinct_edges(
    n: int, sources: npt.NDArray[np.integer], targets: npt.NDArray[np.integer]
) -> npt.NDArray[np.int32]:
    """int32[e, 2]: the distinct undirected edges without self loops, lower end first, ascending."""
    low = np.minimum(sources, targets).astype(np.int64)
    high = np.maximum(sources, targets).astype(np.int64)
    keys = np.unique((low * n + high)[low != high])
    return np.stack([keys // max(n, 1), keys % max(n, 1)], axis=1).astype(np.int32)


def chronological_split(num_snapshots: int, told: int) -> tuple[int, int]:
    """(train_end, val_end): the first 60 % of the snapshots to train, the next 20 % to validate; where there
    are few, each part has one of the `told` first, those with something to predict, as long as they last.
    """
    val_end = min(max(2, num_snapshots * 8 // 10), told - 1)
    return max(1, min(num_snapshots * 6 // 10, val_end - 1)), val_end


def check_lifetime(lifetime: int) -> None:
    """Raises InputError where an edge cannot live so many snapshots."""
    if not 1 <= lifetime <= 10_000:
        raise InputError(f"lifetime: {lifetime} snapshots given; allowed: 1 to 10000")


def make_dynamic_graph(
    name: str,
    n: int,
    arrivals: Sequence[npt.NDArray[np.int32]],
    provenance: Provenance,
    *,
    lifetime: int,
    window: int,
    features: npt.NDArray[np.float32],
    task: Task,
    targets: npt.NDArray[Any] | None = None,
    num_classes: int = 0,
) -> DynamicGraph:
    """Merge the arrivals into snapshots, split in time, freeze and compute the digest.

    arrivals: as `distinct_edges` gives them. Raises InputError where T, lifetime and window do not fit, and
    ValueError when shapes disagree.
    """
    count = len(arrivals)
    check_lifetime(lifetime)
    # No links arrive after the last snapshot.
    train_end, val_end = chronological_split(count, count - (task == "link"))
    if not 1 <= window <= train_end:
        raise InputError(
            f"window: {window} snapshots given; allowed: 1 to {train_end}, the training part of {count}"
        )
    if features.dtype != np.float32 or features.shape[:2] != (count, n):
        raise ValueError(f"features: {features.dtype}{features.shape} for {count} snapshots of {n} vertices")
    if targets is not None and targets.shape[:2] != (count, n):
        raise ValueError(f"targets: {targets.shape} for {count} snapshots of {n} vertices")
    indptr, indices = merge_arrivals(n, arrivals, lifetime)
    for array in (*arrivals, *indptr, *indices, features, *(() if targets is None else (targets,))):
        array.flags.writeable = False
    digest = dynamic_digest(
        n, arrivals=arrivals, lifetime=lifetime, window=window, features=features, task=task, targets=targets,
        num_classes=num_classes,
    )  # fmt: skip
    return DynamicGraph(
        name, lifetime, window, tuple(arrivals), indptr, indices, None, features, task, targets, num_classes,
        train_end, val_end, provenance, digest,
    )  # fmt: skip


def dynamic_digest(
    n: int,
    *,
    arrivals: Sequence[npt.NDArray[np.int32]],
    lifetime: int,
    window: int,
    features: npt.NDArray[np.float32],
    task: str,
    targets: npt.NDArray[Any] | None,
    num_classes: int,
) -> str:
    """sha256 (hex) over what a dynamic graph is made of; the snapshots follow from it."""
    digest = hashlib.sha256(f"{_DIGEST_FORMAT} {n} {lifetime} {window} {task} {num_classes}".encode())
    for array in (*arrivals, features, targets):
        if array is None:
            digest.update(b"|none")
            continue
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"|{little.dtype.str} {array.shape}".encode())
        digest.update(little.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
