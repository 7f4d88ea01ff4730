"""What a handful of seeds can say: bootstrap intervals of a mean, permutation tests of a difference.

Exact where the possibilities can be enumerated, so that small cases are facts, not draws; otherwise 10,000
draws from a fixed seed, so that the same figures give the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

MOST_CASES = 50_000  # that are enumerated
DRAWS = 10_000


def bootstrap_interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile bootstrap interval (Efron 1979) of the mean. NaN, NaN for fewer than two values.

    All n^n resamples for n <= 6, DRAWS of them beyond.
    """
    return Estimate.of(values).interval(confidence=confidence)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or what was computed from such means, with its bootstrap: `draws` are the same under
    resamples of the seeds. Estimates over the same seeds are resampled together, so what a seed does to both
    sides of a quotient or difference cancels.
    """

    value: float
    draws: npt.NDArray[np.float64]

    @staticmethod
    def of(by_seed: npt.ArrayLike) -> Estimate:
        """The mean of one value per seed; NaN where a seed's run is missing: the mean is then of the others,
        without an interval.
        """
        samples = np.asarray(by_seed, dtype=np.float64)
        known = samples[~np.isnan(samples)]
        value = float(known.mean()) if len(known) else math.nan
        single = len(samples) < 2
        return Estimate(value, samples if single else samples[_resamples(len(samples))].mean(axis=1))

    def interval(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """The percentile interval; NaN, NaN for a single seed or where runs are missing."""
        if len(self.draws) < 2 or np.isnan(self.draws).any():
            return math.nan, math.nan
        tail = 50 * (1 - confidence)
        low, high = np.percentile(self.draws, [tail, 100 - tail])
        return float(low), float(high)

    def __truediv__(self, other: Estimate) -> Estimate:
        value = self.value / other.value if other.value else math.nan
        return Estimate(value, self.draws / np.where(other.draws == 0, math.nan, other.draws))

    def __sub__(self, other: Estimate | float) -> Estimate:
        if isinstance(other, Estimate):
            return Estimate(self.value - other.value, self.draws - other.draws)
        return Estimate(self.value - other, self.draws - other)


def permutation_p(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Two-sided p of the difference of means under exchange of the labels (Fisher's permutation test).

    With n and m values no p below 1 / C(n+m, n) is possible (times 2 if n = m). NaN with fewer than two on a
    side: one run on each side says nothing about chance.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if min(len(a), len(b)) < 2 or np.isnan(a).any() or np.isnan(b).any():
        return math.nan
    pool = np.concatenate((a, b))
    observed = abs(a.mean() - b.mean())
    chosen = _splits(len(a), len(pool))
    sums = pool[chosen].sum(axis=1)
    differences = np.abs(sums / len(a) - (pool.sum() - sums) / len(b))
    extreme = int((differences >= observed - 1e-12 * max(1.0, float(np.abs(pool).max()))).sum())
    exact = math.comb(len(pool), len(a)) <= MOST_CASES
    return extreme / len(chosen) if exact else (extreme + 1) / (len(chosen) + 1)


@cache
def _resamples(n: int) -> npt.NDArray[np.int64]:
    if n**n <= MOST_CASES:
        return np.array(list(product(range(n), repeat=n)))
    return np.random.default_rng(1).integers(0, n, size=(DRAWS, n))


@cache
def _splits(n: int, total: int) -> npt.NDArray[np.int64]:
    if math.comb(total, n) <= MOST_CASES:
        return np.array(list(combinations(range(total), n)))
    random = np.random.default_rng(1)
    return np.array([random.permutation(total)[:n] for _ in range(DRAWS)])
