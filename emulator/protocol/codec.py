"""Fixed point: real numbers as int32 with one scale per job; what does not fit is clipped and counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError

LOWEST, HIGHEST = -(2**31), 2**31 - 1


@dataclass
class Codec:
    """real = integer / scale. ``saturated``: values clipped by `encode` so far.

    Raises InputError for a scale that is not positive and finite.
    """

    scale: float
    saturated: int = 0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"scale: {self.scale} given, a positive finite number is needed")

    def encode(self, values: npt.NDArray[np.floating]) -> npt.NDArray[np.int32]:
        """The nearest integers (halves to even), clipped to int32. Raises InputError for NaN or infinity."""
        if not np.isfinite(values).all():
            raise InputError("values: NaN or infinity cannot be sent in fixed point")
        scaled = np.rint(np.asarray(values, np.float64) * self.scale)
        self.saturated += int(np.count_nonzero((scaled < LOWEST) | (scaled > HIGHEST)))
        return np.clip(scaled, LOWEST, HIGHEST).astype(np.int32)

    def decode(self, sums: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Sums of encoded values as real numbers."""
        return np.asarray(sums, np.float64) / self.scale

    @property
    def step(self) -> float:
        """The distance between neighbouring numbers: rounding errs by at most half of it."""
        return 1 / self.scale


def scale_for(largest: float, contributions: int) -> float:
    """The largest power of two with which sums of `contributions` values of at most `largest` fit int32."""
    bound = max(largest, 1e-30) * max(contributions, 1)
    return float(2.0 ** np.floor(np.log2(HIGHEST / bound)))
