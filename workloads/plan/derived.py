"""What substrates need beside the plan's own arrays, derived from them: who sends what to whom host-based."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads import _kernels
from workloads.plan.plan import Plan


@dataclass(frozen=True)
class HostSends:
    """Host-based sending of the residual.

    send_ptr int64[nb+1], send_workers uint16[]: the distinct remote workers that boundary vertex b is sent
    to, ascending. receive_ptr int64[workers+1], receive_vertices int32[]: the boundary indices that each
    worker receives, ascending.
    """

    send_ptr: npt.NDArray[np.int64]
    send_workers: npt.NDArray[np.uint16]
    receive_ptr: npt.NDArray[np.int64]
    receive_vertices: npt.NDArray[np.int32]


def host_sends(plan: Plan) -> HostSends:
    """The residual's host-based sends and receives."""
    ptr, workers = _kernels.distinct_owners(
        plan.residual_ptr, plan.residual_adj, plan.owner, plan.num_workers
    )
    vertices = np.repeat(np.arange(plan.num_boundary, dtype=np.int32), np.diff(ptr))
    by_worker = np.argsort(workers, kind="stable")
    counts = np.bincount(workers, minlength=plan.num_workers)
    return HostSends(
        ptr, workers, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), vertices[by_worker]
    )


def all_cross_sends(plan: Plan) -> npt.NDArray[np.int64]:
    """(boundary index * workers + remote worker) of every host-based send if the whole propagation were
    host-based.

    Distinct and ascending; its length is the number of sends the `host` system makes.
    """
    seen = np.zeros((plan.num_boundary, plan.num_workers), dtype=bool)
    seen[
        np.repeat(np.arange(plan.num_boundary), np.diff(plan.residual_ptr)), plan.owner[plan.residual_adj]
    ] = True
    for block in range(plan.num_blocks):
        first, last = plan.block_ptr[block], plan.block_ptr[block + 1]
        vertices = plan.block_vertices[first:last]
        rows = np.repeat(vertices, np.diff(plan.adj_ptr[first : last + 1]))
        columns = plan.owner[vertices][plan.adj[plan.adj_ptr[first] : plan.adj_ptr[last]]]
        seen[rows, columns] = True
    return np.flatnonzero(seen)
