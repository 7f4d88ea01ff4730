"""`social:N[:T]`: a social graph that grows; predict who meets whom in the next interval (links).

People join over time. Each has hidden interests, the centre of their circle and a part of their own; what is
known of them is a noisy picture of these. In an interval people meet again whom they met lately, are
introduced by a common acquaintance, or find somebody of their own circle. So the next links are told by the
graph: by friends of friends, and by the neighbours' interests, which tell more of someone than the noisy
picture.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.graphs.csr import build_csr
from workloads.graphs.dynamic.graph import DynamicGraph, distinct_edges, make_dynamic_graph
from workloads.graphs.graph import Provenance

LIFETIME, WINDOW = 4, 6
CIRCLE = 25  # people, about
INTERESTS = 16
NOISE = 3.0  # deviation of what is known of an interest, of deviation 1
AT_START = 0.3  # of the people are there from the beginning, the others join evenly over time
MEETINGS = 2.0  # per person and interval
AGAIN, INTRODUCED, OWN_CIRCLE = 0.55, 0.15, 0.29  # shares of the meetings; the rest is by chance
_MEMORY = 3  # intervals back from which people meet again


def social(n: int, snapshots: int, seed: int, lifetime: int, window: int) -> DynamicGraph:
    """n people over `snapshots` intervals. features: the noisy interests, log(1 + degree), 1; all 0 before
    someone joins.
    """
    random = np.random.default_rng([seed, 33])
    circles = max(2, n // CIRCLE)
    circle = random.integers(0, circles, n)
    known = random.standard_normal((circles, INTERESTS))[circle]
    known = known + 0.3 * random.standard_normal((n, INTERESTS))
    known = (known + NOISE * random.standard_normal((n, INTERESTS))).astype(np.float32)
    # Vertices are numbered by when they join, as in a stream.
    joins = np.zeros(n, dtype=np.int64)
    late = n - max(2, int(n * AT_START))
    joins[n - late :] = np.sort(random.integers(0, max(1, snapshots - 1), late))
    by_circle = np.argsort(circle, kind="stable")
    arrivals: list[npt.NDArray[np.int32]] = []
    features = np.zeros((snapshots, n, INTERESTS + 2), dtype=np.float32)
    for t in range(snapshots):
        there = int(np.searchsorted(joins, t, side="right"))
        lately = np.concatenate(arrivals[-_MEMORY:]) if arrivals else np.empty((0, 2), np.int32)
        meetings = _meetings(random, there, lately, circle, by_circle)
        arrivals.append(distinct_edges(n, meetings[:, 0], meetings[:, 1]))
        live = np.concatenate(arrivals[max(0, t - lifetime + 1) :])
        features[t, :there, :INTERESTS] = known[:there]
        features[t, :, INTERESTS] = np.log1p(np.bincount(live.reshape(-1), minlength=n))
        features[t, :there, INTERESTS + 1] = 1
    notes = f"{circles} circles, {n - late} people at the start"
    return make_dynamic_graph(
        f"social:{n}:{snapshots}", n, arrivals, Provenance("generated", "growing social graph", seed, notes),
        lifetime=lifetime, window=window, features=features, task="link",
    )  # fmt: skip


def _meetings(
    random: np.random.Generator,
    there: int,
    lately: npt.NDArray[np.int32],
    circle: npt.NDArray[np.int64],
    by_circle: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """int64[m, 2] who meets among the first `there` people."""
    total = int(MEETINGS * there / 2)
    found: list[npt.NDArray[np.integer]] = []
    if len(lately):
        again = lately[random.integers(0, len(lately), int(AGAIN * total))]
        found += [again, _introduced(random, lately, there, int(INTRODUCED * total))]
    first = random.integers(0, there, int(OWN_CIRCLE * total) if len(lately) else total)
    starts = np.searchsorted(circle[by_circle], circle[first])
    ends = np.searchsorted(circle[by_circle], circle[first], side="right")
    second = by_circle[starts + (random.random(len(first)) * (ends - starts)).astype(np.int64)]
    same = second < there  # those of the circle who have joined
    found.append(np.stack([first[same], second[same]], axis=1))
    found.append(random.integers(0, there, (int((1 - AGAIN - INTRODUCED - OWN_CIRCLE) * total), 2)))
    return np.concatenate(found).astype(np.int64)


def _introduced(
    random: np.random.Generator, lately: npt.NDArray[np.int32], n: int, count: int
) -> npt.NDArray[np.int64]:
    """Pairs joined by a path of two of the latest edges: someone, a neighbour, and a neighbour of theirs."""
    indptr, indices = build_csr(n, np.ascontiguousarray(lately[:, 0]), np.ascontiguousarray(lately[:, 1]))
    degrees = np.diff(indptr)
    edges = random.integers(0, len(indices), count)
    middle = indices[edges].astype(np.int64)
    first = np.searchsorted(indptr, edges, side="right") - 1
    last = indices[indptr[middle] + (random.random(count) * degrees[middle]).astype(np.int64)]
    return np.stack([first, last.astype(np.int64)], axis=1)
