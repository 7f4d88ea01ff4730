"""From a few measured points to a cost model: time as a function of V, E, d and heads, per kernel.

Each kernel's time is a sum of non-negative terms (a start, memory traffic, arithmetic), fitted by
non-negative least squares on relative errors, so that small sizes count as much as large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from workloads.errors import InputError
from workloads.parallel.kernels import Sizes

Terms = Callable[[Sizes], list[float]]

_TERMS: dict[str, Terms] = {
    "linear": lambda s: [1, s.V * s.d * s.out, s.V * (s.d + s.out), s.d * s.out],
    "rows": lambda s: [1, s.V * s.d],
    "relu": lambda s: [1, s.V * s.d],
    "loss": lambda s: [1, s.V * s.d],
    "gcn": lambda s: [1, s.E, s.E * s.d, s.V * s.d, s.out * s.d],
    "mean": lambda s: [1, s.E, s.E * s.d, s.V * s.d, s.out * s.d],
    "attend": lambda s: [1, s.E, s.E * s.d, s.V * s.d, s.out * s.d],
    "layer": lambda s: [
        1,
        s.V * s.d * (2 * s.out + s.keys),
        s.V * (4 * s.d + 2 * s.out + s.keys),
        s.d * s.out,
    ],
    "spmm": lambda s: [1, s.E, s.E * s.d, s.V * s.d],
    "attention/sparse": lambda s: [1, s.E * s.heads, s.E * s.d, s.V * s.d],
    "attention/topk": lambda s: [1, s.heads, s.E * s.heads, s.E * s.d, s.V * s.keys * s.d],
    "attention": lambda s: [1, s.E * s.heads, s.E * s.d, s.V * s.d],
    "adam": lambda s: [1, s.V, s.keys],
    "gradients": lambda s: [1, s.V, s.keys],
    "message": lambda s: [1, s.V * s.d],
}


def terms_of(kernel: str, sizes: Sizes) -> list[float]:
    """The model's terms of a kernel."""
    return _TERMS.get(kernel, _TERMS.get(kernel.partition("/")[0], _TERMS["rows"]))(sizes)


@dataclass(frozen=True)
class CostModel:
    """(kernel, direction) -> coefficients in ns; error: the median relative error at the measured points.
    exact: times of kernels that were measured at these very sizes, which need no model.
    """

    coefficients: dict[tuple[str, str], tuple[float, ...]]
    error: dict[tuple[str, str], float] = field(default_factory=dict)
    exact: dict[tuple[str, str, Sizes], float] = field(default_factory=dict)

    def ns(self, kernel: str, direction: str, sizes: Sizes) -> float:
        """Predicted time. Raises InputError for a kernel that the profile lacks."""
        known = self.exact.get((kernel, direction, sizes))
        if known is not None:
            return known
        found = self.coefficients.get((kernel, direction))
        if found is None:
            raise InputError(f"profile: it has no {direction} times of {kernel}; measure it again")
        return float(np.dot(found, terms_of(kernel, sizes)))

    def calibrated(self, exact: dict[tuple[str, str, Sizes], float]) -> CostModel:
        """With these measured times, and all others of a kernel as much slower or faster as its own were."""
        ratios: dict[tuple[str, str], list[float]] = {}
        for (kernel, direction, sizes), ns in exact.items():
            if (kernel, direction) in self.coefficients:
                told = float(np.dot(self.coefficients[kernel, direction], terms_of(kernel, sizes)))
                ratios.setdefault((kernel, direction), []).append(ns / max(told, 1e-9))
        scaled = {
            key: tuple(value * float(np.median(ratios.get(key, [1.0]))) for value in values)
            for key, values in self.coefficients.items()
        }
        return replace(self, coefficients=scaled, exact=exact)

    def both(self, kernel: str, sizes: Sizes) -> float:
        """Forward and backward."""
        return self.ns(kernel, "forward", sizes) + self.ns(kernel, "backward", sizes)

    def balance(self, width: int) -> tuple[float, float]:
        """(alpha, beta): ns that a vertex and a directed edge add to a layer of this width: what partitions
        should even out.
        """
        base, unit = Sizes(4096, 65_536, width, width), 1024
        more_rows = Sizes(4096 + unit, 65_536, width, width)
        more_edges = Sizes(4096, 65_536 + unit, width, width)

        def layer(sizes: Sizes) -> float:
            own = replace(sizes, out=0)
            return self.both("gcn", own) + self.both("linear", sizes) + self.both("relu", sizes)

        alpha = (layer(more_rows) - layer(base)) / unit
        beta = (layer(more_edges) - layer(base)) / unit
        return max(alpha, 1e-3), max(beta, 0.0)


def fit_costs(table: pd.DataFrame) -> CostModel:
    """The model of a profile's table."""
    coefficients, errors = {}, {}
    for (kernel, direction), rows in table.groupby(["kernel", "direction"]):
        points = [
            Sizes(*(int(row[name]) for name in ("V", "E", "d", "out", "heads", "keys")))
            for _, row in rows.iterrows()
        ]
        times = rows["ns"].to_numpy(dtype=float)
        terms = np.array([terms_of(str(kernel), sizes) for sizes in points]) / times[:, None]
        scale = terms.max(axis=0)
        scale[scale == 0] = 1
        found, _ = nnls(terms / scale, np.ones(len(times)))
        found /= scale
        key = (str(kernel), str(direction))
        coefficients[key] = tuple(float(value) for value in found)
        errors[key] = float(np.median(np.abs(terms @ found - 1)))
    return CostModel(coefficients, errors)


def roofline_costs(flops_per_s: float, bytes_per_s: float, start_ns: float = 8_000.0) -> CostModel:
    """A model for a device that is not here, from its datasheet: every term at peak rate, the larger ones
    added; `start_ns` is the launch of a kernel. Predicted times are then *modelled*, and optimistic.
    """
    arithmetic, traffic = 2e9 / flops_per_s, 4e9 / bytes_per_s
    forward = {
        "linear": (start_ns, arithmetic, traffic, traffic),
        "linear/first": (start_ns, arithmetic, traffic, traffic),
        "rows": (2 * start_ns, 4 * traffic),
        "relu": (start_ns, 2 * traffic),
        "loss": (4 * start_ns, 4 * traffic),
        "gcn": (4 * start_ns, traffic, traffic, 4 * traffic, 2 * traffic),
        "mean": (2 * start_ns, traffic, traffic, 3 * traffic, 2 * traffic),
        "attend": (16 * start_ns, 16 * traffic, traffic, 6 * traffic, 3 * traffic),
        "layer/graphormer": (16 * start_ns, 2 * arithmetic, 4 * traffic, 4 * traffic),
        "layer/gt": (16 * start_ns, 2 * arithmetic, 4 * traffic, 4 * traffic),
        "attention/sparse": (2 * start_ns, traffic, 2 * traffic, 4 * traffic),
        "attention/topk": (4 * start_ns, 0.0, traffic, 2 * traffic, 2 * traffic),
        "attention/dense": (2 * start_ns, 3 * traffic, 2 * arithmetic, 4 * traffic),
        "attention/flash": (start_ns, 0.0, 2 * arithmetic, 4 * traffic),
        "adam": (start_ns, 7 * traffic, 0.0),
        "gradients": (2 * start_ns, 4 * traffic, 0.0),
        "message": (start_ns, 4 * traffic),
    }
    both = {(kernel, "forward"): terms for kernel, terms in forward.items()}
    both |= {
        (kernel, "backward"): tuple(2 * term for term in terms)
        for kernel, terms in forward.items()
        if kernel not in ("adam", "gradients", "message")
    }
    return CostModel(both)
