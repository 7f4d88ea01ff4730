"""This machine as a cluster: transfers over loopback and the crowding of its cores, measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from workloads.parallel.cluster import Report, run_workers
from workloads.parallel.curve import Curve, make_curve
from workloads.parallel.grid import Channel, Grid, splits
from workloads.parallel.kernels import Kernel, linear_kernel, spmm_kernel
from workloads.parallel.profile import timed
from workloads.parallel.scheme import Scheme

KINDS = ("all-reduce", "all-gather", "all-to-all")
SIZES = (1_000, 32_000, 256_000, 2_000_000)
ROUNDS = 9
WARMUPS = 2


@dataclass(frozen=True)
class LocalNetwork:
    """Curves by (kind, members of a group): all groups of that size at once, as a scheme has them.
    crowding: kernel family -> its time with all workers computing over its time alone.
    """

    curves: dict[tuple[str, int], Curve]
    crowding: dict[str, float]
    provenance: str = "measured"

    def transfer_ns(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> float:
        """See `Network`."""
        return self.curves[kind, _members(scheme, axes)].time_ns(size)

    def boundary_ns(self, scheme: Scheme, width: int, size: float) -> float:
        """See `Network`. The trainers send it as an all-to-all."""
        return self.curves["all-to-all", scheme.partition].time_ns(size)

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        """See `Network`."""
        return "ring" if kind == "all-reduce" else ""

    def slow_down(self, kernel: str) -> float:
        """See `Network`."""
        return self.crowding["linear" if kernel.startswith(("linear", "attention")) else "spmm"]


def measure_local(
    workers: int, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> LocalNetwork:
    """Measure it, with as many processes as the cluster has workers."""
    if workers == 1:
        return LocalNetwork({}, {"linear": 1.0, "spmm": 1.0})
    told: dict[str, Any] = run_workers(
        _measure, workers, None, lambda row: progress(row["done"], row["total"])
    )
    curves = {
        (kind, members): make_curve(SIZES, times) for (kind, members), times in told["transfers"].items()
    }
    return LocalNetwork(curves, told["crowding"])


def _members(scheme: Scheme, axes: tuple[str, ...]) -> int:
    members = 1
    for axis in axes:
        members *= getattr(scheme, axis)
    return members


def _measure(payload: None, rank: int, workers: int, report: Report) -> dict[str, Any]:
    sizes = [members for members in range(2, workers + 1) if workers % members == 0]
    grids = {members: Grid(Scheme(data=workers // members, tensor=members), rank) for members in sizes}
    cases = [(kind, members, size) for kind in KINDS for members in sizes for size in SIZES]
    times: dict[tuple[str, int, int], list[int]] = {case: [] for case in cases}
    total = (WARMUPS + ROUNDS) * len(cases)
    for turn in range(WARMUPS + ROUNDS):
        for number, (kind, members, size) in enumerate(cases):
            channel = grids[members].channel("tensor")
            dist.barrier()
            start = time.perf_counter_ns()
            _transfer(channel, kind, size)
            taken = torch.tensor([time.perf_counter_ns() - start])
            dist.all_reduce(taken, op=dist.ReduceOp.MAX)
            if turn >= WARMUPS:
                times[kind, members, size].append(int(taken))
            report({"done": turn * len(cases) + number + 1, "total": total})
    crowding = {
        "linear": _crowding(linear_kernel(1024, 64, 64), rank),
        "spmm": _crowding(spmm_kernel("csr", 2048, 32_768, 32), rank),
    }
    transfers = {
        (kind, members): [float(np.median(times[kind, members, size])) for size in SIZES]
        for kind in KINDS
        for members in sizes
    }
    return {"transfers": transfers, "crowding": crowding}


def _transfer(channel: Channel, kind: str, size: int) -> None:
    values, members = max(1, size // 4), channel.workers
    if kind == "all-reduce":
        channel.add_up(torch.zeros(values))
    elif kind == "all-gather":
        parts = splits(values, members)
        channel.gather_all(torch.zeros(parts[channel.rank]), [(part,) for part in parts])
    else:
        each = max(1, values // (members - 1))
        channel.exchange([torch.zeros(each)] * members, [(each,)] * members)


def _crowding(kernel: Kernel, rank: int) -> float:
    """Time with all workers at it, over the time of one while the others wait."""
    forward, inputs = kernel.make()

    def once() -> int:
        return sum(timed(forward, inputs))

    alone, together = [], []
    for turn in range(WARMUPS + ROUNDS):
        dist.barrier()
        one = once() if rank == 0 else 0
        dist.barrier()
        all_at_once = torch.tensor([once()])
        dist.all_reduce(all_at_once, op=dist.ReduceOp.MAX)
        if turn >= WARMUPS:
            alone.append(one)
            together.append(int(all_at_once))
    factor = torch.tensor([float(np.median(together)) / max(1.0, float(np.median(alone)))])
    dist.broadcast(factor, 0)
    return max(1.0, float(factor))
