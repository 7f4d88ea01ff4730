"""What a sweep file asks for: points in scenario space, and the single simulations ("units") they need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.html import frame_html
from analysis.sweep.address import absolute_inputs, unit_name
from sim.job import Variant
from sim.prepare import expand
from sim.quantities import parse_quantity
from sim.scenario import Scenario
from sim.scenario_io import find_key, load_scenario, read_toml
from workloads.errors import InputError

SECTIONS = ("sweep", "set", "grid", "list")
OPTIONS = ("scenario", "seeds", "seed_keys", "memory")
DEFAULT_SYSTEMS = "host,g3,strawman,presum,switchgnn,switchgnn-no-gamr"
MOST_POINTS = 100_000
MOST_FILE_BYTES = 10_000_000


@dataclass(frozen=True)
class Unit:
    """One simulation. scenario: has one system, one recirculation mode, one memory; name: its address."""

    name: str
    variant: Variant

    @property
    def scenario(self) -> Scenario:
        """The scenario that `netfold run` repeats it with."""
        return self.variant.scenario


@dataclass(frozen=True)
class Point:
    """One combination that was asked for: the keys it sets, and the names of the units it needs."""

    keys: dict[str, Any]
    units: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """All of a sweep. units: by name, each once, whatever number of points need it. memory_bytes: what every
    unit declares to need, or None for an estimate.
    """

    points: tuple[Point, ...]
    units: dict[str, Unit]
    memory_bytes: int | None = None

    def _repr_html_(self) -> str:
        """How a notebook shows it: a row per point."""
        rows = [{**point.keys, "runs": len(point.units)} for point in self.points]
        caption = f"{len(self.points)} points, {len(self.units)} different runs"
        return frame_html(pd.DataFrame(rows), caption=caption)


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep file. Raises InputError, one line that names the key."""
    path = Path(path)
    given = read_toml(path, "sweep", MOST_FILE_BYTES)
    try:
        return _from_tables(given, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def make_sweep(
    *,
    base: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    points: Sequence[Mapping[str, Any]] = ({},),
    seeds: Iterable[int] = (),
    seed_keys: Sequence[str] = ("run.seed",),
    scenario: Path | None = None,
    memory_bytes: int | None = None,
) -> Sweep:
    """The sweep over points x grid x seeds; all keys are "section.key". base: set everywhere.

    Later wins: scenario file, base, point, grid, seed. Raises InputError for unknown keys and bad values.
    """
    grid = dict(grid or {})
    seeds = list(seeds)
    for name in [*grid, *seed_keys]:
        find_key(name)
    combinations = math.prod(len(values) for values in grid.values()) * len(points) * max(1, len(seeds))
    if combinations > MOST_POINTS:
        raise InputError(f"{combinations} points given; at most {MOST_POINTS}")
    rounds: list[int | None] = [*seeds] if seeds else [None]
    made: list[Point] = []
    units: dict[str, Unit] = {}
    addresses: dict[tuple[str, str], str] = {}
    for point in points:
        for values in itertools.product(*grid.values()):
            for seed in rounds:
                keys = dict(point) | dict(zip(grid, values, strict=True))
                if seed is not None:
                    keys |= dict.fromkeys(seed_keys, seed)
                chosen = load_scenario(
                    scenario, {"run.systems": DEFAULT_SYSTEMS, **_given(base, scenario), **keys}
                )
                found = [_unit(variant, addresses) for variant in expand(absolute_inputs(chosen))]
                units |= {unit.name: unit for unit in found}
                made.append(Point(keys, tuple(unit.name for unit in found)))
    return Sweep(tuple(made), units, memory_bytes)


def _given(base: Mapping[str, Any] | None, scenario: Path | None) -> dict[str, Any]:
    """`base`, with the scenario file's own systems where base names none."""
    given = dict(base or {})
    if scenario is not None and "run.systems" not in given:
        own = load_scenario(scenario).run.systems
        given |= {"run.systems": own} if own else {}
    return given


def _unit(variant: Variant, addresses: dict[tuple[str, str], str]) -> Unit:
    """A variant on its own. What its system does not look at is set to the default, so that it runs once."""
    system, scenario = variant.system, variant.scenario
    switch, run = scenario.switch, replace(scenario.run, systems=system.name, memory_sweep="")
    if not system.in_network or system.unlimited_memory:
        switch = replace(switch, memory_bytes=Scenario().switch.memory_bytes)
    run = replace(run, recirculation=switch.recirculation)
    alone = replace(scenario, switch=switch, run=run)
    [single] = expand(alone)
    return Unit(unit_name(single, addresses), single)


def _from_tables(given: dict[str, Any], beside: Path) -> Sweep:
    unknown = [name for name in given if name not in SECTIONS]
    if unknown:
        raise InputError(f"unknown table {unknown[0][:40]!r}; allowed: {', '.join(SECTIONS)}")
    options = _table(given, "sweep")
    wrong = [name for name in options if name not in OPTIONS]
    if wrong:
        raise InputError(f"sweep.{wrong[0][:40]}: unknown; allowed: {', '.join(OPTIONS)}")
    listed = given.get("list", [{}])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed) or not listed:
        raise InputError("list: expected [[list]] tables, one per point")
    grid = _flat(_table(given, "grid"), "grid")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"grid: {name} needs a list of values")
    memory = options.get("memory")
    base = options.get("scenario")
    if base is not None and not isinstance(base, str):
        raise InputError("sweep.scenario: expected the path of a scenario file")
    return make_sweep(
        base=_flat(_table(given, "set"), "set"),
        grid=grid,
        points=[_flat(point, "list") for point in listed],
        seeds=_seeds(options.get("seeds", [])),
        seed_keys=_texts(options.get("seed_keys", ["run.seed"]), "sweep.seed_keys"),
        scenario=None if base is None else beside / base,
        memory_bytes=None if memory is None else parse_quantity(memory, "bytes", "sweep.memory"),
    )


def _table(given: dict[str, Any], name: str) -> dict[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name}: expected a table [{name}]")
    return table


def _flat(table: dict[str, Any], where: str) -> dict[str, Any]:
    """{"cluster": {"workers": 4}} and {"cluster.workers": 4} are the same."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        nested = (
            {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        )
        for key, one in nested.items():
            find_key(key)
            if key in flat:
                raise InputError(f"{where}: {key} given twice")
            flat[key] = one
    return flat


def _seeds(given: Any) -> list[int]:
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST_POINTS:
        return list(range(1, given + 1))
    whole = isinstance(given, list) and all(
        isinstance(one, int) and not isinstance(one, bool) for one in given
    )
    if not whole or len(set(given)) != len(given):
        raise InputError("sweep.seeds: expected a number of seeds, or a list of different seeds")
    return list(given)


def _texts(given: Any, where: str) -> list[str]:
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise InputError(f"{where}: expected a list of section.key names")
    return given
