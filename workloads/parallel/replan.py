"""Measured against predicted: when to plan again, and what the measurement says about the prediction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workloads.parallel.predict import Prediction

PATIENCE = 2  # epochs in a row beyond the threshold: one may be the machine's hiccup
UNEVEN = 1.25  # workers' computing times further apart than this are taken for different speeds


@dataclass(frozen=True)
class Observed:
    """One epoch. compute_ns, waiting_ns: float[workers]: outside and inside transfers; waiting for slower
    workers is inside.
    """

    compute_ns: npt.NDArray[np.float64]
    waiting_ns: npt.NDArray[np.float64]

    @property
    def step_ns(self) -> float:
        """The slowest worker's whole step."""
        return float((self.compute_ns + self.waiting_ns).max())


@dataclass(frozen=True)
class Corrections:
    """What to multiply predicted times by. workers: factors on computation by worker; transfers: on all."""

    workers: tuple[float, ...]
    transfers: float

    @property
    def uneven(self) -> bool:
        """Whether some worker is slower than the others."""
        return max(self.workers) > UNEVEN * min(self.workers)


@dataclass
class Watch:
    """Tells when to plan again: at an epoch's end, when measured and predicted have differed by more than
    `threshold` (a factor, either way) for `PATIENCE` epochs in a row.
    """

    threshold: float
    recent: list[Observed] = field(default_factory=list)

    def beyond(self, predicted_ns: float, seen: Observed) -> bool:
        """Note an epoch; whether that was enough."""
        ratio = seen.step_ns / predicted_ns
        if 1 / self.threshold <= ratio <= self.threshold:
            self.recent.clear()
            return False
        self.recent.append(seen)
        return len(self.recent) >= PATIENCE

    def median(self) -> Observed:
        """Of the epochs that were beyond."""
        compute = np.median([seen.compute_ns for seen in self.recent], axis=0)
        waiting = np.median([seen.waiting_ns for seen in self.recent], axis=0)
        return Observed(compute, waiting)


def corrections(prediction: Prediction, before: Corrections, seen: Observed) -> Corrections:
    """Factors that would have made the prediction right. `before`: those that it was made with.

    The worker that waits least waits for nobody, so its waiting is the transfers' own time. Computation of a
    worker is held against the slowest one's prediction: where parts were even, that is its speed.
    """
    predicted = prediction.compute_ns / max(before.workers)
    workers = tuple(float(ns) / predicted for ns in seen.compute_ns)
    transfers = before.transfers
    if prediction.transfer_ns > 0:
        transfers *= max(float(seen.waiting_ns.min()), 1.0) / prediction.transfer_ns
    return Corrections(workers, transfers)
