"""The schemes that a prediction cannot tell apart, run for a few steps: what is measured decides."""

from __future__ import annotations

from collections.abc import Callable

from workloads.parallel.measure import Measured, measure_schemes
from workloads.parallel.pieces import Balance
from workloads.parallel.predict import Prediction
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task

MOST = 5
NEAR = 1.6  # predicted times within this factor of the first are not told apart
SECONDS = 5.0  # of steps, all schemes together
ROUNDS = 25


def shortlist(ranked: list[Prediction], most: int = MOST) -> list[Scheme]:
    """The first schemes of a ranking that fit and are predicted to be about as fast as the first."""
    fitting = [one for one in ranked if not one.why_not]
    return [one.scheme for one in fitting[:most] if one.step_ns <= NEAR * fitting[0].step_ns]


def measured_shortlist(
    task: Task,
    ranked: list[Prediction],
    *,
    balance: Balance,
    most: int = MOST,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Measured]:
    """The shortlist's schemes, the fastest first; medians of steps in turn. What cannot be run is out."""
    chosen = shortlist(ranked, most)
    if not chosen:
        return []
    found = measure_schemes(task, chosen, rounds=ROUNDS, seconds=seconds, balance=balance, progress=progress)
    return sorted((one for one in found if not one.failure), key=lambda one: one.wall_s)
