"""Background traffic: the flow sizes of a Hadoop cluster, as data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Facebook's Hadoop cluster: Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015, in
# the points that public simulators use ("FbHdp_distribution" of the HPCC release). Flow bytes, percent of
# flows at most that large; linear between points.
_HADOOP = (
    (0, 0), (100, 1), (200, 2), (300, 5), (350, 15), (400, 20), (500, 30), (600, 40), (700, 50), (1_000, 60),
    (2_000, 67), (7_000, 70), (30_000, 72), (50_000, 82), (80_000, 87), (120_000, 90), (300_000, 95),
    (1_000_000, 97.5), (2_000_000, 99), (10_000_000, 100),
)  # fmt: skip


def flow_size_cdf(distribution: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(bytes, cumulative probability 0..1), both ascending. The only distribution today is "hadoop"."""
    points = np.array({"hadoop": _HADOOP}[distribution], dtype=np.float64)
    return points[:, 0], points[:, 1] / 100.0


def mean_flow_bytes(distribution: str) -> float:
    """Mean flow size under linear interpolation between the points."""
    size, share = flow_size_cdf(distribution)
    return float(np.sum(np.diff(share) * (size[1:] + size[:-1]) / 2))
