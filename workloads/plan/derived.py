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


def count_all_host_sends(plan: Plan) -> int:
    """How many sends the `host` system makes: (vertex, distinct remote worker) pairs over all cross edges."""
    return int(
        _kernels.count_host_sends(
            plan.owner,
            plan.num_workers,
            plan.block_ptr,
            plan.block_vertices,
            plan.adj_ptr,
            plan.adj,
            plan.residual_ptr,
            plan.residual_adj,
        )
    )
