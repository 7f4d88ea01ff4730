"""Read a [network] scenario from TOML, and write a resolved one back."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

from sim.network.scenario import LISTS, SECTIONS, NetworkScenario, SwitchRule
from sim.scenario_io import parse_value, read_toml
from workloads.errors import InputError

_PATHS = ("program", "include", "entries")  # of a switch rule: relative to the scenario's folder


def is_network(path: Path | None) -> bool:
    """Whether a scenario file describes a network instead of a propagation: it has a [network] section.

    Raises InputError where it cannot be read.
    """
    return path is not None and "network" in read_toml(path)


def load_network(path: Path, overrides: Mapping[str, object] | None = None) -> NetworkScenario:
    """The scenario of a TOML file, with "section.key" overrides for [network], [links] and [hosts].

    Raises InputError naming table and key for everything that is not allowed there.
    """
    raw = read_toml(path)
    sections: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    lists: dict[str, list[dict[str, object]]] = {}
    for name, value in raw.items():
        if name == "netfold":
            continue  # provenance, written by `dump_network`
        if name in SECTIONS and isinstance(value, dict):
            sections[name] |= value
        elif name in LISTS and isinstance(value, list) and all(isinstance(x, dict) for x in value):
            lists[name] = value
        else:
            raise InputError(f"{path}: {_unknown_table(name)}")
    for where, value in (overrides or {}).items():
        section, _, item = where.partition(".")
        if section in LISTS:
            raise InputError(
                f"--set {where[:60]}: each [[{section}]] is one of a list; change it in {path}, "
                f"--set takes keys of {', '.join(f'[{name}]' for name in SECTIONS)}"
            )
        if section not in SECTIONS:
            raise InputError(f"--set {where}: a network's sections are {', '.join(SECTIONS)}")
        sections[section][item] = value
    made: dict[str, Any] = {name: cls(**_values(name, cls, sections[name])) for name, cls in SECTIONS.items()}
    given: list[frozenset[str]] = []
    for name, tables in lists.items():
        rows = []
        for number, table in enumerate(tables, 1):
            values = _values(f"{name} {number}", LISTS[name], table)
            if name == "switch":
                given.append(frozenset(values))
                values = {k: _found(path.parent, k, v) if k in _PATHS else v for k, v in values.items()}
            rows.append(LISTS[name](**values))
        made[name] = tuple(rows)
    return NetworkScenario(**made, given=tuple(given))


def dump_network(scenario: NetworkScenario, provenance: Mapping[str, str | int]) -> str:
    """The scenario as TOML that `load_network` reads back, with a [netfold] table of provenance."""
    lines = ["[netfold]", *[f"{name} = {_toml(value)}" for name, value in provenance.items()]]
    for name in SECTIONS:
        lines += ["", f"[{name}]", *_lines(getattr(scenario, name), None)]
    for name in LISTS:
        for number, row in enumerate(getattr(scenario, name)):
            # A switch rule overrides only what it gives, so only that is written.
            only = scenario.given[number] if name == "switch" and scenario.given else None
            lines += ["", f"[[{name}]]", *_lines(row, only)]
    return "\n".join(lines) + "\n"


def with_output_paths(scenario: NetworkScenario) -> NetworkScenario:
    """Every path absolute, so that the results folder's scenario.toml can be run from anywhere."""

    def absolute(text: str) -> str:
        return str(Path(text).resolve()) if len(text) < 4096 and Path(text).exists() else text

    def rule_of(rule: SwitchRule) -> SwitchRule:
        changes: dict[str, Any] = {name: _map(absolute, getattr(rule, name)) for name in _PATHS}
        return replace(rule, **changes)

    return replace(scenario, switch=tuple(rule_of(rule) for rule in scenario.switch))


def _map(function: Any, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return function(value) if isinstance(value, str) else tuple(function(x) for x in value)


def _found(folder: Path, key: str, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Paths as they are from here; what is no file beside the scenario stays as it was."""

    def one(text: str) -> str:
        if key == "entries" and not text.endswith(".stf"):
            return text
        return str(folder / text) if (folder / text).exists() else text

    return _map(one, value)


def _values(where: str, cls: Any, given: Mapping[str, object]) -> dict[str, Any]:
    known = {item.name.rstrip("_"): item for item in fields(cls)}
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            nearest = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.0)[0]
            raise InputError(f"{where}: unknown key {name[:60]!a}; the nearest is {nearest}")
        out[known[name].name] = _value(
            f"{where}.{name}" if " " not in where else f"{where}: {name}", value, known[name]
        )
    return out


def _value(where: str, value: object, item: Field[Any]) -> Any:
    if not isinstance(item.default, tuple):
        return parse_value(where, value, item)
    rows = [value] if isinstance(value, str) else value
    if not isinstance(rows, list) or not all(
        isinstance(x, str) and x.isprintable() and x.strip() for x in rows
    ):
        raise InputError(f"{where}: {ascii(value)[:60]} given; expected a text or a list of texts")
    return tuple(rows)


def _unknown_table(name: str) -> str:
    known = [*SECTIONS, *LISTS]
    if name in SECTIONS:
        return f"{name}: write it once, as [{name}]"
    if name in LISTS:
        return f"{name}: write [[{name}]], once for each"
    nearest = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.0)[0]
    return f"{name[:60]!a} has no place beside [network]; the nearest is {nearest}"


def _lines(values: Any, only: frozenset[str] | None) -> list[str]:
    out = []
    for item in fields(values):
        value = getattr(values, item.name)
        if (only is not None and item.name not in only) or value in ((), ""):
            continue
        word = item.metadata.get("word", "")
        out.append(f"{item.name.rstrip('_')} = {_toml(word if word and value == 0 else value)}")
    return out


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(x) for x in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else repr(value)
