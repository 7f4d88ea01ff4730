"""The link model: a propagation takes as long as its busiest link needs for its bytes, and then the way once.

No queues, no losses, no slow start: a lower bound that a simulation exceeds by what congestion costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.epoch_time.traffic import Uploads
from sim.scenario import Scenario


def way_ns(scenario: Scenario) -> float:
    """One way between the farthest two hosts, empty."""
    cluster = scenario.cluster
    links = 4 if cluster.leaves else 2
    return links * cluster.link_delay_ns + (links - 1) * cluster.switch_latency_ns


def host_based_ns(bytes_between: NDArray[np.float64], scenario: Scenario) -> float:
    """All of float64[k, k] at once: the busiest host link, or the busiest leaf's links to the spines."""
    if not bytes_between.any():
        return 0.0
    cluster = scenario.cluster
    host = max(bytes_between.sum(1).max(), bytes_between.sum(0).max()) * 8e9 / cluster.host_link_bps
    between = np.zeros((0, 0))
    if cluster.leaves:
        rack = np.arange(len(bytes_between)) // cluster.hosts_per_leaf
        member = (rack[:, None] == np.arange(cluster.leaves)).astype(np.float64)
        between = member.T @ bytes_between @ member
    return max(host, _fabric_ns(between, scenario)) + way_ns(scenario)


def in_network_ns(uploads: Uploads, scenario: Scenario) -> float:
    """Up, added, down, block after block, a round trip to agree on each block's end; recirculation free."""
    if not uploads.up.any():
        return 0.0
    host = max(uploads.up.max(), uploads.down.max()) * 8e9 / scenario.cluster.host_link_bps
    waits = 2 * way_ns(scenario) * max(1, uploads.blocks)
    return max(host, _fabric_ns(uploads.across, scenario)) + waits


def _fabric_ns(between: NDArray[np.float64], scenario: Scenario) -> float:
    """float64[leaves, leaves] spread evenly over the spines."""
    if not between.size:
        return 0.0
    away = between - np.diag(np.diag(between))
    rate = scenario.cluster.spines * scenario.cluster.fabric_link_bps
    return float(max(away.sum(1).max(), away.sum(0).max()) * 8e9 / rate)
