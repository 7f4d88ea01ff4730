"""`Plan`, the frozen value every substrate reads: blocks, upload orders, neighbours, host-based residual."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Order = Literal["gamr", "random", "degree"]
BlocksMode = Literal["multilevel", "single", "none"]
ResidualMode = Literal["none", "host"]

# The plan's scalars and arrays: name -> type. Both the digest and the files follow these tables, in this
# order.
SCALARS: Mapping[str, type] = {
    "num_workers": int,
    "width": int,
    "values_per_packet": int,
    "chunks": int,
    "aggregators": int,
    "memory_bytes": int,
    "aggregator_bytes": int,
    "per_vertex_bytes": int,
    "per_edge_bytes": int,
    "order": str,
    "blocks_mode": str,
    "residual_mode": str,
    "seed": int,
    "graph_name": str,
    "graph_digest": str,
    "partition_digest": str,
}
ARRAYS: Mapping[str, str] = {
    "boundary": "<i4",
    "owner": "<i4",
    "block_level": "<i4",
    "block_ptr": "<i8",
    "block_vertices": "<i4",
    "adj_ptr": "<i8",
    "adj": "<i4",
    "residual_ptr": "<i8",
    "residual_adj": "<i4",
}


@dataclass(frozen=True, eq=False)
class Plan:
    """One propagation, for vectors of `width` values, as blocks of boundary vertices and a host-based
    residual.

    Scalars: num_workers; width (values per vertex); values_per_packet; chunks = ceil(width /
    values_per_packet); aggregators: switch capacity in slots of aggregator_bytes each, 0 = unlimited;
    memory_bytes: the budget they come from, 0 = unlimited; per_vertex_bytes and per_edge_bytes: what else
    the program keeps per vertex and directed edge of a block; order, blocks_mode, residual_mode: how it was
    made; seed; graph and partition digests.

    Arrays, all in *boundary indices* 0..nb-1 (boundary vertices in ascending vertex id):
    boundary int32[nb] vertex ids; owner int32[nb] the worker of each;
    block_level int32[B]; block_ptr int64[B+1]; block_vertices int32[T]: the vertices of block b in upload
    order are block_vertices[block_ptr[b]:block_ptr[b+1]], and a vertex's position there is its slot;
    adj_ptr int64[T+1], adj int32[]: the slots, ascending, of entry t's neighbours in its block, so the
    expected count of entry t is adj_ptr[t+1] - adj_ptr[t];
    residual_ptr int64[nb+1], residual_adj int32[]: cross edges that go host-based, as boundary indices,
    symmetric.

    Every directed cross edge is in exactly one block or in the residual; a vertex without an edge in a block
    is not in it; in a limited plan every block's vertices * chunks <= aggregators. `digest` is the content
    address of all of this.
    """

    num_workers: int
    width: int
    values_per_packet: int
    chunks: int
    aggregators: int
    memory_bytes: int
    aggregator_bytes: int
    per_vertex_bytes: int
    per_edge_bytes: int
    order: Order
    blocks_mode: BlocksMode
    residual_mode: ResidualMode
    seed: int
    graph_name: str
    graph_digest: str
    partition_digest: str
    boundary: npt.NDArray[np.int32]
    owner: npt.NDArray[np.int32]
    block_level: npt.NDArray[np.int32]
    block_ptr: npt.NDArray[np.int64]
    block_vertices: npt.NDArray[np.int32]
    adj_ptr: npt.NDArray[np.int64]
    adj: npt.NDArray[np.int32]
    residual_ptr: npt.NDArray[np.int64]
    residual_adj: npt.NDArray[np.int32]
    digest: str

    @property
    def num_boundary(self) -> int:
        """Number of boundary vertices, nb."""
        return len(self.boundary)

    @property
    def num_blocks(self) -> int:
        """Number of blocks, B."""
        return len(self.block_level)

    @property
    def num_uploads(self) -> int:
        """Uploads of a propagation over all blocks, T (each is `chunks` packets); results are as many."""
        return len(self.block_vertices)

    def shape(self) -> dict[str, Any]:
        """What `netfold plan inspect` prints; see `workloads.plan.shape`."""
        from workloads.plan.shape import plan_shape  # noqa: PLC0415  (shape reads Plan: imported late, no circle)

        return plan_shape(self)

    def save(self, folder: Path) -> None:
        """Write plan.json and one .npy per array; the folder appears whole or not at all. Raises
        InputError.
        """
        from workloads.plan.files import save_plan  # noqa: PLC0415

        save_plan(self, folder)

    @staticmethod
    def load(folder: Path) -> Plan:
        """Read a saved plan, arrays memory-mapped, content checked. Raises InputError when missing or
        damaged.
        """
        from workloads.plan.files import load_plan  # noqa: PLC0415

        return load_plan(folder)


def plan_digest(values: Mapping[str, Any]) -> str:
    """sha256 hex over the scalars and the little-endian arrays named in SCALARS and ARRAYS."""
    digest = hashlib.sha256(b"netfold-plan-1")
    for name in SCALARS:
        digest.update(f"|{name}={values[name]}".encode())
    for name, dtype in ARRAYS.items():
        array = np.ascontiguousarray(values[name], dtype=dtype)
        digest.update(f"|{name}[{len(array)}]".encode())
        digest.update(array.view(np.uint8).data)
    return digest.hexdigest()


def freeze_plan(**values: Any) -> Plan:
    """A Plan from its scalars and arrays; computes the digest and makes the arrays read-only."""
    for name in ARRAYS:
        values[name].flags.writeable = False
    return Plan(**values, digest=plan_digest(values))
