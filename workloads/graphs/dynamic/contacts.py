"""`contacts:N[:T]`: people who meet while an infection goes round; predict who is infectious next (classes).

People live in households, work or learn in groups and meet a few others by chance; housemates meet in most
intervals, colleagues now and then. An interval is about as long as an infection lasts; it passes along the
interval's contacts, at home most easily, and leaves no immunity (SIS): it never dies out, and every part of
the time line looks alike. What is known of a person is an unreliable symptom. Whether someone will be
infectious is told by those they met. An original snapshot holds the interval's contacts.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from workloads.graphs.dynamic.graph import DynamicGraph, distinct_edges, make_dynamic_graph
from workloads.graphs.graph import Provenance

LIFETIME, WINDOW = 2, 6
HOUSEHOLD, GROUP = 5, 10  # people
AT_HOME, AT_WORK = 0.9, 0.03  # chance that two of a household, of a group, meet in an interval
BY_CHANCE = 0.2  # contacts a person has by chance in an interval
INFECT_AT_HOME, INFECT, RECOVER = 0.6, 0.2, 0.9  # per contact with an infectious person; per interval
FROM_OUTSIDE = 0.003  # infections of a person per interval from elsewhere
SYMPTOM, FALSE_SYMPTOM = 0.85, 0.05
_WARM_UP = 40


def contacts(n: int, snapshots: int, seed: int, lifetime: int, window: int) -> DynamicGraph:
    """n people over `snapshots` intervals. features: symptom, symptom in the interval before, household's
    size / 10, 1; targets[t]: 1 where the person is infectious after interval t + 1, else 0.
    """
    random = np.random.default_rng([seed, 32])
    homes, works = _groups(random, n, HOUSEHOLD), _groups(random, n, GROUP)
    at_home, at_work = _pairs(homes), _pairs(works)
    ill = random.random(n) < 0.3
    arrivals, symptoms, states = [], [np.zeros(n, dtype=bool)], []
    for step in range(_WARM_UP + snapshots + 1):
        home = at_home[random.random(len(at_home)) < AT_HOME]
        work = at_work[random.random(len(at_work)) < AT_WORK]
        away = np.concatenate([work, random.integers(0, n, (int(n * BY_CHANCE / 2), 2))])
        escape = (1 - INFECT_AT_HOME) ** _exposures(home, ill) * (1 - INFECT) ** _exposures(away, ill)
        caught = random.random(n) < 1 - (1 - FROM_OUTSIDE) * escape
        ill = np.where(ill, random.random(n) >= RECOVER, caught)
        if step >= _WARM_UP:
            met = np.concatenate([home, away])
            arrivals.append(distinct_edges(n, met[:, 0], met[:, 1]))
            states.append(ill)
            symptoms.append(random.random(n) < np.where(ill, SYMPTOM, FALSE_SYMPTOM))
    features = np.ones((snapshots, n, 4), dtype=np.float32)
    features[:, :, 0] = np.stack(symptoms[1:-1])
    features[:, :, 1] = np.stack(symptoms[:-2])
    features[:, :, 2] = np.bincount(homes)[homes] / 10
    share = float(np.mean(states))
    notes = f"households of ~{HOUSEHOLD}, groups of ~{GROUP}; {share:.2f} of the people infectious at a time"
    return make_dynamic_graph(
        f"contacts:{n}:{snapshots}", n, arrivals[:-1], Provenance("generated", "contacts, SIS", seed, notes),
        lifetime=lifetime, window=window, features=features, task="classification",
        targets=np.stack(states[1:]).astype(np.int64), num_classes=2,
    )  # fmt: skip


def _exposures(met: npt.NDArray[np.int64], ill: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """float64[n]: how many infectious people each has met."""
    n = len(ill)
    first, second = met[:, 0], met[:, 1]
    return np.bincount(np.r_[first, second], np.r_[ill[second], ill[first]], minlength=n).astype(float)


def _groups(random: np.random.Generator, n: int, size: int) -> npt.NDArray[np.int64]:
    """int64[n]: everyone's group; groups hold size / 2 to 3 size / 2 people, drawn at random."""
    sizes = random.integers(max(1, size // 2), size + size // 2 + 1, n // max(1, size // 2) + 1)
    group = np.empty(n, dtype=np.int64)
    group[random.permutation(n)] = np.repeat(np.arange(len(sizes)), sizes)[:n]
    return group


def _pairs(group: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[p, 2]: all pairs of people in the same group."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) > 0, True])
    rows = []
    for first, last in pairwise(starts):
        a, b = np.triu_indices(int(last - first), 1)
        rows.append(np.stack([order[first + a], order[first + b]], axis=1))
    return np.concatenate(rows)
