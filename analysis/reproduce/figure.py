"""One figure or table of a paper beside ours: theirs, ours, direction, ratio; and why ours can differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["change", "factor", "share", "direction", "value"]
# How a claim without a number is read: what ours must be for the same direction.
LOWER = "lower"
NO_CHANGE = 0.005  # a change smaller than this is none


@dataclass(frozen=True)
class Row:
    """One comparison.

    kind: "change" (relative, -0.5 = half), "factor", "share", "value" (a difference in `unit`), or
    "direction": the paper says `says`, and ours is a change that must be negative. theirs None: the paper
    gives no number. setting: under which ours was measured. ours NaN: not measured. low, high: the 95 %
    bootstrap interval of ours over seeds; NaN where there is one seed, or a seed's run is missing.
    """

    text: str
    kind: Kind
    theirs: float | None
    ours: float
    setting: str = ""
    says: str = LOWER
    unit: str = ""
    place: str = ""
    low: float = math.nan
    high: float = math.nan

    @property
    def same_direction(self) -> bool | None:
        """Whether ours points where theirs does; None where nothing was measured or there is no direction."""
        if math.isnan(self.ours):
            return None
        if self.kind == "direction":
            return self.ours < -NO_CHANGE
        if self.theirs is None or self.kind in ("share", "value"):
            return None
        neutral = 1.0 if self.kind == "factor" else 0.0
        if abs(self.ours - neutral) < NO_CHANGE:
            return False
        return (self.ours > neutral) == (self.theirs > neutral)

    @property
    def verdict(self) -> str:
        """The direction in a word."""
        if (
            self.same_direction is False
            and self.kind in ("change", "direction")
            and abs(self.ours) < NO_CHANGE
        ):
            return "no change"
        return {True: "yes", False: "NO", None: "-"}[self.same_direction]

    @property
    def ratio(self) -> float:
        """Ours over theirs; NaN where the paper gives no number."""
        return self.ours / self.theirs if self.theirs else math.nan

    def show(self, value: float | None) -> str:
        """A value as people read it."""
        if value is None:
            return self.says
        if math.isnan(value):
            return "-"
        if self.kind in ("change", "direction"):
            return f"{value:+.0%}"
        if self.kind == "factor":
            return f"{value:,.0f}x" if value >= 100 else f"{value:.3g}x"
        return f"{value:.1%}" if self.kind == "share" else f"{value:+.2f} {self.unit}"

    def show_ours(self) -> str:
        """Ours as people read it, with its interval."""
        if math.isnan(self.low):
            return self.show(self.ours)
        return f"{self.show(self.ours)} [{self.show(self.low)}, {self.show(self.high)}]"

    def plain(self) -> dict[str, Any]:
        """For JSON; NaN as None."""
        values = {"ours": self.ours, "ours_low": self.low, "ours_high": self.high, "ratio": self.ratio}
        number = {name: None if math.isnan(value) else value for name, value in values.items()}
        told = {"text": self.text, "kind": self.kind, "setting": self.setting, "place": self.place}
        return {
            **told,
            "theirs": self.theirs,
            "says": self.says,
            **number,
            "same_direction": self.same_direction,
        }


@dataclass(frozen=True)
class Figure:
    """A figure's rows on one graph; why: reasons for which ours can differ, those that hold here."""

    id: str
    title: str
    graph: str
    rows: tuple[Row, ...]
    why: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        rows = [row.plain() for row in self.rows]
        return {"id": self.id, "title": self.title, "graph": self.graph, "rows": rows, "why": list(self.why)}


def headline(figures: Sequence[Figure]) -> str:
    """How many rows point where the paper's do."""
    told = [row.same_direction for figure in figures for row in figure.rows]
    known = [one for one in told if one is not None]
    missing = sum(math.isnan(row.ours) for figure in figures for row in figure.rows)
    text = f"{sum(known)} of {len(known)} comparisons point in the paper's direction"
    return text + (f"; {missing} could not be measured" if missing else "")
