"""This machine as a cluster: transfers over loopback and kernels with all workers at it, measured.

Workers share cores, caches and memory, and gloo copies with the cores that compute. So nothing here is
measured alone: transfers run in all groups of a scheme at once, through the code that the trainers use, and
kernels in all workers at once, at the sizes that the schemes in question have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
FEW_ROUNDS = 4  # of kernels that take long
WARMUPS = 2
REPEATS = 3  # of a transfer, between two readings of the clock
KERNEL_NS = 8e6  # about so long a kernel is repeated between two readings: longer than a scheduler's slice
TOGETHER = 16  # kernels that lie in memory at a time
QUANTILE = 0.25  # of the rounds: what else the machine does only adds
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
        found = self.curves.get(("boundary", scheme.partition))
        if found is None and scheme.partition == 1:
            return 0.0
        return self.curves["boundary", scheme.partition].time_ns(size)

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        """See `Network`."""
        return "ring" if kind == "all-reduce" else ""


def measure_local(
    workers: int,
    wanted: Sequence[Wanted] = (),
    *,
    known: LocalNetwork | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[LocalNetwork, Exact]:
    """(transfers, times of the kernels wanted), with as many processes as the cluster has workers. known: the
    transfers, where they have been measured before.
    """
    if workers == 1 and not wanted:
        return LocalNetwork({}), {}
    payload = list(wanted), known is None, ROUNDS
    told: dict[str, Any] = run_workers(
        _measure, workers, payload, lambda row: progress(row["done"], row["total"])
    )
    curves = {key: make_curve(SIZES, times) for key, times in told["transfers"].items()}
    return known or LocalNetwork(curves), told["kernels"]


def _measure(
    payload: tuple[list[Wanted], bool, int], rank: int, workers: int, report: Report
) -> dict[str, Any]:
    wanted, transfers, rounds = payload
    total = (WARMUPS + rounds) * transfers + len(wanted)
    found: dict[str, Any] = {"transfers": {}, "kernels": {}}
    if transfers:
        found["transfers"] = _transfers(
            rank, workers, rounds, lambda turn: report({"done": turn, "total": total})
        )
    before = total - len(wanted)
    for at in range(0, len(wanted), TOGETHER):
        found["kernels"] |= _kernels(wanted[at : at + TOGETHER], rank, rounds)
        report({"done": before + min(at + TOGETHER, len(wanted)), "total": total})
    return found


def _transfers(
    rank: int, workers: int, rounds: int, told: Callable[[int], None]
) -> dict[tuple[str, int], list[float]]:
    """(kind, members) -> ns of each of SIZES: rounds go over all, and slow moments fall on all."""
    groups = [members for members in range(2, workers + 1) if workers % members == 0]
    cases = [("boundary", 1, SIZES[0])]
    cases += [(kind, members, size) for kind in KINDS for members in groups for size in SIZES]
    grids = {members: Grid(Scheme(data=workers // members, tensor=members), rank) for members in groups}
    alone = Channel((rank,), rank, None)
    made = {
        case: _transfer(grids[case[1]].channel("tensor") if case[1] > 1 else alone, case[0], case[2])
        for case in cases
    }
    times: dict[tuple[str, int, int], list[float]] = {case: [] for case in cases}
    for turn in range(WARMUPS + rounds):
        for case, (transfer, _) in made.items():
            times[case].append(_together(transfer, REPEATS)[0])
        told(turn + 1)
    for _, close in made.values():
        close()
    least = {case: float(np.quantile(ns[WARMUPS:], QUANTILE)) for case, ns in times.items()}
    curves = {
        (kind, members): [least[kind, members, size] for size in SIZES] for kind, members, _ in cases[1:]
    }
    return curves | {("boundary", 1): [least[cases[0]]] * len(SIZES)}


def _together(work: Callable[[], Any], repeats: int) -> tuple[float, list[Any]]:
    """(ns of one of `repeats` calls, from the first worker's begin to the last one's end: one that has to
    wait for a core begins late; what this worker's calls returned).
    """
    dist.barrier()
    start = time.perf_counter_ns()
    results = [work() for _ in range(repeats)]
    both = torch.tensor([-start, time.perf_counter_ns()])  # a clock that all processes share
    dist.all_reduce(both, op=dist.ReduceOp.MAX)
    return float(both.sum()) / repeats, results


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
        each = max(1, values // (3 * WIDTH * max(1, members - 1)))
        bounds = even_bounds(each * members, members)
        ring = Ring(channel, even_bounds(members, members), bounds, counting=False)
        states = torch.zeros(3, members, each, WIDTH)
        return (lambda: ring.to_heads(states, "forward")), _nothing
    exchange = Exchange(_swapping(channel, max(1, rows // max(1, members - 1))), channel, 1)
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


def _kernels(wanted: list[Wanted], rank: int, rounds: int) -> Exact:
    """Times with all workers at it. A worker that waits for a core is not in its kernel, so what counts is
    how long all of them take for several runs, and only its division by direction is the kernel's own.
    """
    made = [kernel_of(name, sizes).make() for name, sizes in wanted]
    once = torch.tensor([min(sum(timed(*one)) for _ in range(WARMUPS)) for one in made], dtype=torch.float64)
    dist.broadcast(once, 0)
    repeats = (KERNEL_NS / once).clamp(1, 50).int().tolist()
    times: list[list[tuple[float, float]]] = [[] for _ in made]
    for turn in range(rounds):
        for kernel, count, told in zip(made, repeats, times, strict=True):
            if turn >= FEW_ROUNDS and count == 1:
                continue
            whole, own = _together(partial(timed, *kernel), count)
            ahead, back = np.sum(own, axis=0)
            share = torch.tensor([ahead / (ahead + back)], dtype=torch.float64)
            dist.broadcast(share, 0)
            told.append((whole * float(share), whole * (1 - float(share))))
    exact: Exact = {}
    for (name, sizes), (_, inputs), told in zip(wanted, made, times, strict=True):
        ahead, back = np.quantile(told, QUANTILE, axis=0).tolist()
        exact[name, "forward", sizes] = ahead
        if inputs:
            exact[name, "backward", sizes] = back
    return exact
