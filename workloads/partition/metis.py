"""METIS through pymetis: the one place that calls it, with the widths, options and limits it wants.

METIS here has 64-bit indices and needs ~70 B of memory and ~0.4 us per directed edge. Above METIS_MOST_EDGES
it is given a thinned copy of the graph: every vertex keeps about the same number of randomly chosen edges,
weighted so that each cut keeps its expected weight. On a Reddit-size block model (114.6 M directed edges,
128 parts) the whole graph takes 8.3 GB; thinned to 35 M edges the cut rose from 79.3 % to 80.0 % of them.

METIS runs in a forked child: pymetis holds the GIL throughout, which would freeze progress displays and
delay Ctrl-C by tens of seconds on a large graph; METIS prints its complaints to stdout, where they would
spoil `--json`; the child gives its memory back; and its death for want of memory is an error here and not
our own. A fork takes 10 to 20 ms of a process with torch or ns-3 in it, more than METIS needs for a small
graph, so those are split in this process (METIS's complaints are about more parts than it finds vertices
for, which small graphs here have not).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pymetis

from workloads import _kernels
from workloads.errors import InputError

METIS_MOST_EDGES = 64_000_000
"""Directed edges that METIS is given at most: ~5 GB."""
_SMALL = 200_000  # directed edges that METIS splits in less time than a progress bar's step, 0.1 s


def metis_split(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    parts: int,
    *,
    weights: npt.NDArray[np.int64] | None = None,
    shares: list[float] | None = None,
    imbalance: float = 0.03,
    seed: int = 1,
    most_edges: int = METIS_MOST_EDGES,
) -> npt.NDArray[np.int32]:
    """Split a symmetric CSR graph into `parts` parts of even weight with a small edge cut; int32[n].

    shares: each part's share of the weight, None: equal. imbalance: how far the largest part may exceed the
    mean (0.03 is METIS's own default for k-way); METIS treats it as a wish, and may leave parts larger or
    empty. Deterministic in `seed`. Recursive bisection up to 8 parts, k-way above, as pymetis and the METIS
    manual advise.
    """
    n = len(indptr) - 1
    if parts == 1:
        return np.zeros(n, dtype=np.int32)
    options = pymetis.Options(seed=int(seed) & 0x7FFFFFFF, ufactor=max(1, min(1000, int(imbalance * 1000))))

    def split() -> npt.NDArray[np.int32]:
        return _part_graph(
            indptr, indices, parts, weights=weights, shares=shares, options=options, most_edges=most_edges
        )

    return run_metis(split, n, len(indices), parts)


def run_metis(
    split: Callable[[], npt.NDArray[np.int32]], n: int, edges: int, parts: int
) -> npt.NDArray[np.int32]:
    """What split() returns, int32[n]: here for a small graph, else in a child. Raises InputError when the
    child dies.
    """
    if edges <= _SMALL and n >= 20 * parts:
        return split()
    return _in_child(split, n)


def _part_graph(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    parts: int,
    *,
    weights: npt.NDArray[np.int64] | None,
    shares: list[float] | None,
    options: pymetis.Options,
    most_edges: int,
) -> npt.NDArray[np.int32]:
    width = pymetis.zero_copy_dtype()
    edge_weights = None
    adjacency: npt.NDArray[np.integer] = indices
    if len(indices) > most_edges:
        keep = _edges_per_vertex(np.diff(indptr), most_edges)
        indptr, adjacency, edge_weights = _kernels.thin_graph(indptr, indices, keep, options.seed)
    _, labels = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(indptr.astype(width, copy=False), adjacency.astype(width, copy=False)),
        vweights=None if weights is None else weights.astype(width, copy=False),
        eweights=edge_weights,
        tpwgts=shares,
        options=options,
        recursive=parts <= 8,
    )
    return np.asarray(labels).astype(np.int32)


def _in_child(split: Callable[[], npt.NDArray[np.int32]], n: int) -> npt.NDArray[np.int32]:
    """What split() returns, int32[n], computed in a forked child. Raises InputError when the child dies."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            with os.fdopen(write_end, "wb") as stream:
                stream.write(split().tobytes())
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(write_end)
    status = None
    try:
        with os.fdopen(read_end, "rb") as stream:
            answer = stream.read()
        status = os.waitpid(child, 0)[1]
    finally:
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if status != 0 or len(answer) != 4 * n:
        raise InputError(
            f"METIS: it ended without an answer (status {status}) on {n} vertices, most likely for want "
            "of memory (it needs ~70 B per directed edge, up to 5 GB)"
        )
    return np.frombuffer(answer, dtype=np.int32).copy()


def _edges_per_vertex(degrees: npt.NDArray[np.int64], most_edges: int) -> float:
    """How many edges each vertex may keep so that about `most_edges` remain: each edge is kept for either
    end.
    """
    low, high = 1.0, float(degrees.max())
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * np.minimum(degrees, middle).sum() < most_edges else (low, middle)
    return low
