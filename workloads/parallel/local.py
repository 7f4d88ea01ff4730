"""This machine as a cluster: transfers over loopback and kernels with all workers at it, measured.

Workers share cores, caches and memory, and gloo copies with the cores that compute. So nothing here is
measured alone: transfers run in all groups of a scheme at once, through the code that the trainers use, and
kernels in all workers at once, at the sizes that the schemes in question have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from workloads.parallel.cluster import Report, run_workers
from workloads.parallel.curve import Curve, make_curve
from workloads.parallel.grid import Channel, Grid, splits
from workloads.parallel.kernels import Sizes, kernel_of
from workloads.parallel.ops import gather_columns
from workloads.parallel.profile import timed
from workloads.parallel.scheme import Scheme
from workloads.training.exchange import EpochPlan, Exchange
from workloads.training.local_graph import LocalGraph
from workloads.training.transformer.parallel import Ring, even_bounds

KINDS = ("all-reduce", "all-gather", "all-to-all", "boundary")
SIZES = (1_000, 8_000, 64_000, 256_000, 1_000_000, 4_000_000)
ROUNDS = 7
WARMUPS = 2
REPEATS = 3  # of a transfer, between two readings of the clock
KERNEL_NS = 4e6  # about so long a kernel is repeated between two readings
LONG_NS = 1e8
WIDTH = 32  # values a row of what is sent

Wanted = tuple[str, Sizes]
Exact = dict[tuple[str, str, Sizes], float]


@dataclass(frozen=True)
class LocalNetwork:
    """Curves by (kind, members of a group): all groups of that size at once, as a scheme has them."""

    curves: dict[tuple[str, int], Curve]
    provenance: str = "measured"
    packed: bool = True

    def transfer_ns(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> float:
        """See `Network`."""
        return self.curves[kind, scheme.members(axes)].time_ns(size)

    def boundary_ns(self, scheme: Scheme, width: int, size: float) -> float:
        """See `Network`."""
        return self.curves["boundary", scheme.partition].time_ns(size)

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        """See `Network`."""
        return "ring" if kind == "all-reduce" else ""


def measure_local(
    workers: int,
    wanted: Sequence[Wanted] = (),
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[LocalNetwork, Exact]:
    """(transfers, times of the kernels wanted), with as many processes as the cluster has workers."""
    if workers == 1 and not wanted:
        return LocalNetwork({}), {}
    told: dict[str, Any] = run_workers(
        _measure, workers, list(wanted), lambda row: progress(row["done"], row["total"])
    )
    curves = {
        (kind, members): make_curve(SIZES, times) for (kind, members), times in told["transfers"].items()
    }
    return LocalNetwork(curves), told["kernels"]


def _measure(wanted: list[Wanted], rank: int, workers: int, report: Report) -> dict[str, Any]:
    sizes = [members for members in range(2, workers + 1) if workers % members == 0]
    cases = [(kind, members, size) for kind in KINDS for members in sizes for size in SIZES]
    total = WARMUPS + ROUNDS + len(wanted)
    times: dict[tuple[str, int, int], list[float]] = {case: [] for case in cases}
    grids = {members: Grid(Scheme(data=workers // members, tensor=members), rank) for members in sizes}
    made = {case: _transfer(grids[case[1]].channel("tensor"), case[0], case[2]) for case in cases}
    for turn in range(WARMUPS + ROUNDS):
        for case, (transfer, _) in made.items():
            dist.barrier()
            start = time.perf_counter_ns()
            for _ in range(REPEATS):
                transfer()
            taken = torch.tensor([(time.perf_counter_ns() - start) / REPEATS], dtype=torch.float64)
            dist.all_reduce(taken, op=dist.ReduceOp.MAX)
            if turn >= WARMUPS:
                times[case].append(float(taken))
        report({"done": turn + 1, "total": total})
    for _, close in made.values():
        close()
    transfers = {
        (kind, members): [float(np.median(times[kind, members, size])) for size in SIZES]
        for kind in KINDS
        for members in sizes
    }
    kernels: Exact = {}
    for number, (name, size_of) in enumerate(wanted, 1):
        for direction, ns in _kernel(name, size_of, workers).items():
            kernels[name, direction, size_of] = ns
        report({"done": WARMUPS + ROUNDS + number, "total": total})
    return {"transfers": transfers, "kernels": kernels}


def _transfer(channel: Channel, kind: str, size: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """(one transfer as the trainers make it, what ends it)."""
    values, members = max(1, size // 4), channel.workers
    rows = max(1, values // WIDTH)
    if kind == "all-reduce":
        vector = torch.zeros(values)
        return (lambda: channel.add_up(vector)), _nothing
    if kind == "all-gather":
        mine = torch.zeros(rows, splits(WIDTH, members)[channel.rank])
        return (lambda: gather_columns(mine, channel, WIDTH)), _nothing
    if kind == "all-to-all":
        each = max(1, values // (3 * WIDTH * (members - 1)))
        bounds = even_bounds(each * members, members)
        ring = Ring(channel, even_bounds(members, members), bounds, counting=False)
        states = torch.zeros(3, members, each, WIDTH)
        return (lambda: ring.to_heads(states, "forward")), _nothing
    exchange = Exchange(_swapping(channel, max(1, rows // (members - 1))), channel, 1)
    exchange.begin(EpochPlan(0))
    inner = torch.zeros(len(exchange.local.inner), WIDTH)
    halo = torch.zeros(len(exchange.local.halo), WIDTH)
    turn = 0

    def there_and_back() -> None:
        nonlocal turn
        turn += 1
        if turn % 2:
            exchange.send_embeddings(inner, 1)
        else:
            exchange.send_gradients(halo, 1)
        exchange.traffic.clear()

    return there_and_back, exchange.close


def _nothing() -> None:
    pass


def _swapping(channel: Channel, rows: int) -> LocalGraph:
    """A share whose worker swaps so many rows with each other member."""
    rank, members = channel.rank, channel.workers
    random = np.random.default_rng(rank)
    count = 2 * rows * (members - 1)
    send = [np.sort(random.permutation(count)[: rows * (q != rank)]) for q in range(members)]
    receive = tuple(rows * (q != rank) for q in range(members))
    remote = np.arange(sum(receive), dtype=np.int64)
    none, inner = np.zeros(0, dtype=np.int32), np.arange(count, dtype=np.int64)
    indptr, degrees = np.zeros(count + 1, dtype=np.int64), np.ones(count + len(remote), dtype=np.int64)
    return LocalGraph(rank, members, inner, remote, indptr, none, degrees, tuple(send), receive)


def _kernel(name: str, sizes: Sizes, workers: int) -> dict[str, float]:
    """Direction -> ns with all workers at it: the mean worker's, since none waits for another in between."""
    forward, inputs = kernel_of(name, sizes).make()
    told = torch.tensor([float(min(sum(timed(forward, inputs)) for _ in range(WARMUPS + 1)))])
    dist.broadcast(told, 0)
    repeats = int(np.clip(KERNEL_NS / float(told), 1, 20))
    found = []
    for _ in range(3 if float(told) > LONG_NS else ROUNDS):
        dist.barrier()
        both = torch.tensor([timed(forward, inputs) for _ in range(repeats)], dtype=torch.float64).mean(0)
        dist.all_reduce(both)
        found.append((both / workers).tolist())
    ahead, back = np.median(found, axis=0).tolist()
    return {"forward": ahead} | ({"backward": back} if inputs else {})
