"""Use of links and of in-network aggregation, from a run's summary and its table of links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

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


def link_utilisation(
    links: pd.DataFrame, summary: Mapping[str, Any], cluster: ClusterSection
) -> npt.NDArray[np.float64]:
    """`utilisation` of each row of a `links` table: the mean over a class of links is the class's. NaN where
    the run never communicated.
    """
    seconds = summary["comm_time_ns"] * 1e-9
    rates = np.where(links["hop"] == "fabric", cluster.fabric_link_bps, cluster.host_link_bps)
    if not seconds:
        return np.full(len(links), math.nan)
    used: npt.NDArray[np.float64] = 8 * links["bytes"].to_numpy(dtype=np.float64) / (rates * seconds)
    return used


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
