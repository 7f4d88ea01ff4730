"""Use of links and of in-network aggregation, from a run's summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sim.scenario import ClusterSection


def utilisation(summary: Mapping[str, Any], cluster: ClusterSection) -> dict[str, float]:
    """Mean share of the links' capacity that a run's own frames took while it communicated (comm_time_ns).

    up: hosts to switches; down: switches to hosts; fabric: leaf to spine links, both ways (NaN in a star).
    Headers count; background traffic does not. Above 1 only where propagations overlap each other.
    """
    seconds = summary["comm_time_ns"] * 1e-9
    hosts = cluster.workers * cluster.host_link_bps
    fabric = 2 * cluster.leaves * cluster.spines * cluster.fabric_link_bps
    return {
        f"{hop}_utilisation": _ratio(8 * summary[f"{hop}_bytes"], capacity * seconds)
        for hop, capacity in (("up", hosts), ("down", hosts), ("fabric", fabric))
    }


def aggregation_ratio(summary: Mapping[str, Any]) -> float:
    """Contributions (added up or bypassed) per packet towards an owner (results and bypassed ones).

    1: nothing was aggregated; 16: sixteen neighbours' chunks became one packet. NaN for host-based systems.
    """
    return _ratio(summary["contributions"], summary["results"] + summary["bypassed"])


def bypass_share(summary: Mapping[str, Any]) -> float:
    """Share of contributions that found no aggregator and travelled on alone. NaN for host-based systems."""
    return _ratio(summary["bypassed"], summary["contributions"])


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
