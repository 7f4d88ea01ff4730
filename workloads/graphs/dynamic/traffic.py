"""`traffic:N[:T]`: sensors along roads; predict every sensor's speed in the next interval (regression).

Sensors lie at random in a square; roads join each with its nearest, both ways. Congestion starts at a sensor
by an incident, is carried to the sensors around it in the next interval, and fades. What a sensor measures of
it is noisy, so that what comes is told by the neighbours more than by the sensor alone. An original snapshot
holds the roads on which probe vehicles were seen in its interval, busy roads more often than quiet ones; the
lifetime says how long a sighting counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from workloads.graphs.dynamic.graph import DynamicGraph, distinct_edges, make_dynamic_graph
from workloads.graphs.graph import Provenance

LIFETIME, WINDOW = 3, 6
NEAREST = 3  # roads a sensor opens itself: ~4 per sensor in all, as at crossings
INTERVALS_A_DAY = 24
KEPT, CARRIED = 0.3, 0.68  # shares of its own and of its neighbours' congestion in the next interval
INCIDENT_RATE, INCIDENT = 0.02, 4.0  # incidents per sensor and interval, and their size
PROCESS_NOISE, SENSOR_NOISE = 0.1, 0.8
FREE_SPEED, DAILY = 1.0, 0.4  # in units of the congestion's


def traffic(n: int, snapshots: int, seed: int, lifetime: int, window: int) -> DynamicGraph:
    """n sensors over `snapshots` intervals. features: measured speed, sine and cosine of the time of day, 1;
    targets[t]: the true speed in interval t + 1.
    """
    random = np.random.default_rng([seed, 31])
    roads = _roads(random.random((n, 2)))
    ends = np.concatenate([roads, roads[:, ::-1]])
    degrees = np.maximum(np.bincount(ends[:, 0], minlength=n), 1)
    congestion = np.zeros(n)
    history = []
    warm_up = 2 * INTERVALS_A_DAY
    for _ in range(warm_up + snapshots + 1):
        around = np.bincount(ends[:, 0], weights=congestion[ends[:, 1]], minlength=n) / degrees
        incidents = INCIDENT * (random.random(n) < INCIDENT_RATE) * random.random(n)
        noise = PROCESS_NOISE * random.standard_normal(n)
        congestion = KEPT * congestion + CARRIED * around + incidents + noise
        history.append(congestion)
    hours = 2 * np.pi * np.arange(snapshots + 1) / INTERVALS_A_DAY
    speed = FREE_SPEED + DAILY * np.sin(hours)[:, None] - np.stack(history[warm_up:])
    features = np.empty((snapshots, n, 4), dtype=np.float32)
    features[:, :, 0] = speed[:-1] + SENSOR_NOISE * random.standard_normal((snapshots, n))
    features[:, :, 1] = np.sin(hours)[:-1, None]
    features[:, :, 2] = np.cos(hours)[:-1, None]
    features[:, :, 3] = 1
    busy = random.beta(2, 1, len(roads))  # the chance that a probe vehicle is seen on a road in an interval
    arrivals = [roads[random.random(len(roads)) < busy] for _ in range(snapshots)]
    notes = f"{len(roads)} roads, incidents that spread along them, noisy sensors"
    return make_dynamic_graph(
        f"traffic:{n}:{snapshots}", n, arrivals, Provenance("generated", "traffic sensors", seed, notes),
        lifetime=lifetime, window=window, features=features, task="regression",
        targets=speed[1:, :, None].astype(np.float32),
    )  # fmt: skip


def _roads(places: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
    """int32[e, 2] roads: every sensor with its NEAREST nearest."""
    n = len(places)
    near = min(NEAREST, n - 1)
    found = np.asarray(cKDTree(places).query(places, k=near + 1)[1])
    return distinct_edges(n, np.repeat(np.arange(n), near), found[:, 1:].reshape(-1))
