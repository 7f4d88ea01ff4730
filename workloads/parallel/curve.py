"""Time against size: piecewise linear through what was measured or simulated, a straight line beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Time against size of one quantity (bytes, or values per vertex of a boundary exchange). sizes ascend;
    error: relative, of the extrapolation.
    """

    sizes: tuple[float, ...]
    times_ns: tuple[float, ...]
    error: float

    @property
    def beta(self) -> float:
        """ns per unit of size beyond the largest simulated one."""
        return _slope(self.sizes, self.times_ns)

    @property
    def alpha_ns(self) -> float:
        """The intercept of that line."""
        return self.times_ns[-1] - self.beta * self.sizes[-1]

    def time_ns(self, size: float) -> float:
        """The time of this size; below the smallest simulated one, the smallest's."""
        if size > self.sizes[-1]:
            return self.alpha_ns + self.beta * size
        return float(np.interp(size, self.sizes, self.times_ns))

    def simulated(self, size: float) -> bool:
        """Whether this size lies within what was simulated."""
        return size <= self.sizes[-1]


def make_curve(sizes: Sequence[float], times_ns: Sequence[float]) -> Curve:
    """The curve through simulated points, its error measured on the last of them."""
    error = 0.0
    if len(sizes) > 2:
        told = times_ns[-2] + _slope(sizes[:-1], times_ns[:-1]) * (sizes[-1] - sizes[-2])
        error = abs(told - times_ns[-1]) / times_ns[-1] if times_ns[-1] else 0.0
    return Curve(tuple(map(float, sizes)), tuple(map(float, times_ns)), float(error))


def _slope(sizes: Sequence[float], times_ns: Sequence[float]) -> float:
    if len(sizes) < 2:
        return times_ns[0] / sizes[0] if sizes[0] else 0.0
    return max(0.0, (times_ns[-1] - times_ns[-2]) / (sizes[-1] - sizes[-2]))
