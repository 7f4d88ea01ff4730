"""The completion-time model of an upload order: z = ceil(n/k) + ceil(Q(ceil(n/k)) / k) of SwitchGNN (ATC'25).

The model counts in slots; one slot moves one vertex over one host link. There are k workers. In slot t = 1,
2, ... the next k vertices of the order are uploaded, so all n are up after T = ceil(n/k) slots. The result
of v completes in the slot in which the last of v's neighbours is uploaded (v's own upload is not needed for
it), waits in the egress queue, and can leave from the next slot on; up to k results leave per slot. Q(t) is
the number of results waiting after slot t:

    Q(0) = 0,   Q(t) = max(0, Q(t-1) - k) + c(t)      c(t): results that complete in slot t

After slot T nothing more arrives, so the queue drains in ceil(Q(T)/k) further slots, which gives z.

The star. The paper's analysis has one shared channel (k = 1) and asks when the n - 1 leaves have the hub's
feature; the hub's own result, which can only complete with the last leaf's upload, is left out (`awaited`).
With the hub at position p the n - 1 leaf results complete in slot p and n - p of them have left by slot n,
so Q(n) = p - 1 and z = n + p - 1: n when the hub is first. A random order has p uniform on 1..n, so its mean
is n + (n - 1)/2 = (3n - 1)/2. GAMR's root is random, so the hub is first or second: z is n or n + 1.
Awaiting the hub's result too adds at most one slot.

The ring. Along the ring nearly every upload completes one result, and z is about n. In a random order c(t) is
2t/n on average, so the queue grows from n/2 on and holds n/4 at the end: z is about 5n/4.

`completion_by_port` is the same clock for a real block: each worker has its own upload link and its own
egress queue, so the model sees which worker's port a burst of results falls on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Completion:
    """slots: z, when the last awaited result is delivered. backlog: the most results in one queue after a
    slot.
    """

    slots: int
    backlog: int


def completion_time(
    adj_ptr: Ints, adj: Ints, order: Ints, k: int = 1, awaited: npt.NDArray[np.bool_] | None = None
) -> Completion:
    """The paper's z for one block, with a pooled egress of k results per slot.

    adj_ptr [n+1], adj: the block's symmetric adjacency, every vertex with at least one neighbour; order: [n]
    the vertices in upload order; k: workers; awaited: bool[n], whose results count (default all).
    """
    n = len(order)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    completed = _completion_slots(adj_ptr, adj, position // k + 1)
    if awaited is not None:
        completed = completed[awaited]
    last = -(-n // k)
    queue = _queue_after(np.bincount(completed, minlength=last + 1), k)
    return Completion(last + -(-int(queue[last]) // k), int(queue.max(initial=0)))


def completion_by_port(adj_ptr: Ints, adj: Ints, order: Ints, owner: Ints) -> Completion:
    """The same clock with one upload link and one egress queue per worker, each moving one vertex per slot.

    owner: [n] the worker of each vertex; every worker uploads its own vertices in the order given.
    """
    workers, owner = np.unique(owner, return_inverse=True)
    rank = np.empty(len(order), dtype=np.int64)
    by_owner = np.argsort(owner[order], kind="stable")
    sizes = np.bincount(owner, minlength=len(workers))
    starts = np.cumsum(sizes) - sizes
    rank[order[by_owner]] = np.arange(len(order)) - np.repeat(starts, sizes)
    completed = _completion_slots(adj_ptr, adj, rank + 1)
    slots, backlog = int(sizes.max(initial=0)), 0
    for port in range(len(workers)):
        arrivals = np.bincount(completed[owner == port])
        queue = _queue_after(arrivals, 1)
        slots = max(slots, len(arrivals) - 1 + int(queue[-1]))
        backlog = max(backlog, int(queue.max()))
    return Completion(slots, backlog)


def star_expectation(n: int) -> float:
    """Mean completion time of a random order on the star of n vertices, k = 1, leaves awaited: (3n - 1)/2."""
    return (3 * n - 1) / 2


def _completion_slots(adj_ptr: Ints, adj: Ints, upload_slot: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The slot in which each vertex's last neighbour is uploaded."""
    if len(adj) == 0:
        return np.empty(0, dtype=np.int64)
    return np.maximum.reduceat(upload_slot[adj], adj_ptr[:-1])


def _queue_after(arrivals: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.int64]:
    """Q(t) for t = 0, 1, ...: the recursion of the module's docstring, solved with a running minimum."""
    # Without the floor at zero, w(t) = sum of arrivals up to t-1, less k(t-1), is what has entered and could
    # have left; the queue is w above its lowest level so far, plus what arrives in slot t itself.
    entered = np.concatenate([[0], np.cumsum(arrivals)[:-1]])
    slots = np.arange(len(arrivals))
    free = entered - k * slots
    return free - np.minimum.accumulate(np.minimum(free, 0)) + arrivals
