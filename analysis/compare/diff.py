"""What changed between two runs, or two sweeps over seeds: in the scenario, and in the results."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.html import frame_html, show_value
from analysis.metrics import aggregation_ratio, permutation_p, utilisation
from analysis.metrics.summary import NOT_A_SETTING
from analysis.records import Runs, load_records, load_runs
from analysis.records.folder import refuse_training
from workloads.errors import InputError

# In the order of a reader's interest; the rest of a summary's figures follow.
FIRST = (
    *("epoch_time_ns", "comm_time_ns", "compute_time_ns", "total_bytes", "up_bytes", "down_bytes"),
    *("fabric_bytes", "backlog_p50_bytes", "backlog_p99_bytes", "backlog_max_bytes", "bypassed_share"),
    *("aggregation_ratio", "up_utilisation", "down_utilisation", "fabric_utilisation"),
)
NOT_COMPARED = ("wall_s", "peak_memory_bytes", "queue_memory_bytes", "memory_bytes", "pipeline_bins")
FACTS = ("graph", "graph_vertices", "graph_directed_edges", "netfold", "compute")
ONE_RUN = "one run: no significance"
LEVEL = 0.05


@dataclass(frozen=True)
class Diff:
    """scenario: key, a, b of what differs. results: one row per system and figure: a, b (means), change
    (relative), runs_a, runs_b, p (two-sided permutation test; NaN where there is one run), says. only: the
    settings that only one side has.
    """

    names: tuple[str, str]
    scenario: pd.DataFrame
    results: pd.DataFrame
    only: tuple[str, ...]

    def changed(self) -> pd.DataFrame:
        """The results that differ."""
        return self.results[self.results["a"] != self.results["b"]].reset_index(drop=True)

    def shown(self, *, everything: bool = False) -> pd.DataFrame:
        """The results as texts for people: what differs of the figures that are asked for first, or all."""
        chosen = self.changed()
        chosen = self.results if everything else chosen[chosen["figure"].isin(FIRST)]
        rows = []
        for _, row in chosen.iterrows():
            figure = str(row["figure"])
            change = row["change"]
            p = "" if math.isnan(row["p"]) else f"p = {row['p']:.3g}"
            rows.append(
                {
                    "run": row["run"],
                    "figure": figure,
                    "a": show_value(figure, row["a"]),
                    "b": show_value(figure, row["b"]),
                    "change": "–" if math.isnan(change) else f"{change:+.1%}",
                    "significance": ", ".join(filter(None, [p, row["says"]])),
                }
            )
        return pd.DataFrame(rows, columns=["run", "figure", "a", "b", "change", "significance"])

    def _repr_html_(self) -> str:
        first, second = self.names
        scenario = frame_html(self.scenario, caption=f"Scenario: a = {first}, b = {second}")
        return scenario + frame_html(self.shown(), caption="Results that differ")


def diff(a: str | Path, b: str | Path) -> Diff:
    """Compare two results folders, single runs in them (<results>/<run>), or sweeps.

    Runs are paired by system, recirculation and every key that varies within a side, seeds apart; where each
    side is a single run they are paired whatever they are. Raises InputError when a side has no run, or when
    nothing pairs.
    """
    first, second = _load(Path(a)), _load(Path(b))
    names = (str(a), str(b))
    frames = [_frame(side) for side in (first, second)]
    keys = _pairing(frames)
    groups = [_grouped(frame, keys) for frame in frames]
    if all(len(group) == 1 for group in groups):
        [key_a], [key_b] = groups
        name = key_a if key_a == key_b else f"{key_a} → {key_b}"
        groups = [{name: next(iter(group.values()))} for group in groups]
    paired = [name for name in groups[0] if name in groups[1]]
    if not paired:
        raise InputError(f"{names[0]} and {names[1]}: no run of one has its like in the other")
    rows = [row for name in paired for row in _compare(name, groups[0][name], groups[1][name])]
    only = [f"{name} only in {names[0]}" for name in groups[0] if name not in groups[1]]
    only += [f"{name} only in {names[1]}" for name in groups[1] if name not in groups[0]]
    columns = ["run", "figure", "a", "b", "change", "runs_a", "runs_b", "p", "says"]
    return Diff(names, _scenario(*frames), pd.DataFrame(rows, columns=columns), tuple(only))


def _load(place: Path) -> Runs:
    """Runs of a folder, or the one run that the folder is."""
    refuse_training(place)
    if (place / "summary.json").is_file() and not (place / "scenario.toml").is_file():
        folder, label = place.parent, place.name
        if label in load_records(folder).summary["order"]:
            runs = load_runs(folder)
            return replace(runs, runs=tuple(run for run in runs.runs if run.label == label))
    runs = load_runs(place)
    if not len(runs):
        why = f" ({next(iter(runs.skipped.values()))})" if runs.skipped else ""
        raise InputError(f"{place}: no results in it or below it{why}")
    return runs


def _frame(runs: Runs) -> pd.DataFrame:
    """The runs with the figures that follow from others."""
    frame = runs.frame.copy()
    rows = []
    for name, records, label in runs.each():
        summary = records.summary["runs"][label]
        used = utilisation(summary, records.scenario.cluster)
        rows.append({"run": name, "aggregation_ratio": aggregation_ratio(summary), **used})
    return frame.merge(pd.DataFrame(rows), on="run")


def _scenario_keys(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns if "." in str(name)]


def _pairing(frames: list[pd.DataFrame]) -> list[str]:
    keys = []
    for name in _scenario_keys(frames[0]):
        seeds = name.endswith(".seed")
        varies = any(name in frame and frame[name].nunique(dropna=False) > 1 for frame in frames)
        if varies and not seeds and name not in NOT_A_SETTING:
            keys.append(name)
    swept = any("@" in str(label) for frame in frames for label in frame["label"])
    several = any(
        frame.groupby(["system", "recirculation"])["memory_bytes"].nunique().max() > 1 for frame in frames
    )
    return ["system", "recirculation", *(["memory_bytes"] if swept or several else []), *keys]


def _grouped(frame: pd.DataFrame, keys: list[str]) -> dict[str, pd.DataFrame]:
    return {_named(key, keys): rows for key, rows in frame.groupby(keys, sort=False, dropna=False)}


def _named(key: Hashable, keys: list[str]) -> str:
    values = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
    system, mode = values.pop("system"), values.pop("recirculation")
    more = [f"{name} {show_value(name, value)}" for name, value in values.items()]
    return ", ".join(filter(None, [f"{system}-{mode}" if mode else str(system), *more]))


def _scenario(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Keys and facts whose values differ; several values of one side together."""
    rows = []
    names = [*FACTS, *_scenario_keys(first)]
    if len(first) == len(second) == 1:
        names = ["system", "recirculation", *names]
    for name in names:
        sides = [list(dict.fromkeys(frame[name])) if name in frame else [] for frame in (first, second)]
        if set(map(str, sides[0])) != set(map(str, sides[1])):
            texts = [", ".join(show_value(name, one) for one in side) for side in sides]
            rows.append({"key": name, "a": texts[0], "b": texts[1]})
    return pd.DataFrame(rows, columns=["key", "a", "b"])


def _compare(name: str, first: pd.DataFrame, second: pd.DataFrame) -> list[dict[str, Any]]:
    numeric = [
        str(column)
        for column in first.columns
        if "." not in str(column)
        and column in second
        and column not in (*NOT_COMPARED, *FACTS)
        and pd.api.types.is_numeric_dtype(first[column])
        and not pd.api.types.is_bool_dtype(first[column])
    ]
    ordered = [figure for figure in FIRST if figure in numeric]
    ordered += [figure for figure in numeric if figure not in FIRST]
    rows = []
    for figure in ordered:
        a, b = first[figure].to_numpy(dtype=float), second[figure].to_numpy(dtype=float)
        if pd.isna(a).all() or pd.isna(b).all():
            continue
        mean_a, mean_b = float(a.mean()), float(b.mean())
        p = permutation_p(a, b)
        change = mean_b / mean_a - 1 if mean_a else (0.0 if mean_a == mean_b else math.nan)
        row = {"run": name, "figure": figure, "a": mean_a, "b": mean_b, "change": change}
        rows.append(row | {"runs_a": len(a), "runs_b": len(b), "p": p, "says": _says(p, mean_a == mean_b)})
    return rows


def _says(p: float, equal: bool) -> str:
    if equal:
        return "equal"
    if math.isnan(p):
        return ONE_RUN
    return "significant at 5 %" if p <= LEVEL else "may be chance"
