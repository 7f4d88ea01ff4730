"""Every number of a paper by its id, from <paper>.csv beside this file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import pandas as pd

from workloads.errors import InputError

PAPERS = {
    "switchgnn": "SwitchGNN: Li et al., Accelerating Distributed Graph Learning by Using Collaborative "
    "In-Network Multicast and Aggregation, USENIX ATC 2025",
    "sylvie": "SYLVIE: 3D-adaptive and Universal System for Large-scale Graph Neural Network Training",
    "torchgt": "TorchGT: A Holistic System for Large-scale Graph Transformer Training",
    "swash": "SWASH: distributed dynamic GNN training with sliding-window cache sharing, Proceedings of the "
    "ACM on Management of Data 3 (3), 2025",
    "adaptive-graph-transformer": "An account of distributed graph-transformer training with adaptive "
    "parallelism and sparse operators (no paper)",
}


@dataclass(frozen=True)
class Number:
    """One published number. deviation: the one stated with it, or None. about: the other columns."""

    id: str
    value: float
    deviation: float | None
    unit: str
    place: str
    about: Mapping[str, str]


@cache
def published_values(paper: str) -> Mapping[str, Number]:
    """All numbers of a paper. Raises InputError for a paper that is not known."""
    return MappingProxyType({row["id"]: _number(row) for row in _rows(paper)})


def published_frame(paper: str) -> pd.DataFrame:
    """The same as a frame: id, value, deviation, unit, what it is of, place."""
    rows = [{name: value or None for name, value in row.items()} for row in _rows(paper)]
    frame = pd.DataFrame(rows)
    for column in ("value", "deviation"):
        frame[column] = pd.to_numeric(frame[column])
    return frame


def _rows(paper: str) -> list[dict[str, str]]:
    if paper not in PAPERS:
        raise InputError(f"paper: {paper[:40]!r} given; allowed: {', '.join(PAPERS)}")
    text = files("analysis.published").joinpath(f"{paper}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(row: dict[str, Any]) -> Number:
    known = ("id", "value", "deviation", "unit", "place")
    about = {name: value for name, value in row.items() if name not in known and value}
    deviation = float(row["deviation"]) if row["deviation"] else None
    return Number(row["id"], float(row["value"]), deviation, row["unit"], row["place"], about)
