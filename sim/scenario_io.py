"""Read a scenario from TOML and `--set section.key=value`, and write a resolved one back as TOML."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from sim.quantities import parse_quantity
from sim.scenario import Scenario, check_value
from workloads.errors import InputError

MAX_FILE_BYTES = 1_000_000
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def load_scenario(path: str | Path | None = None, overrides: Mapping[str, object] | None = None) -> Scenario:
    """The scenario of a TOML file (None: all defaults) with "section.key" overrides, which win.

    Values may be numbers or texts with units ("100MB", "25Gbps", "1us", "unlimited", "auto"). Raises
    InputError for a file that cannot be read, an unknown section or key (with the nearest valid one) and a
    value out of range.
    """
    given: dict[str, object] = {}
    if path is not None:
        tables = read_toml(Path(path))
        if "network" in tables:
            raise InputError(
                f"{path}: describes a network; `netfold run` takes it, here a propagation is needed"
            )
        for section, keys in tables.items():
            if section == "netfold":
                continue  # provenance written by `dump_scenario`
            if not isinstance(keys, dict):
                raise InputError(f"{path}: {_quoted(section)} stands outside a section; add a [section]")
            given |= {f"{section}.{name}": value for name, value in keys.items()}
    given |= overrides or {}
    sections: dict[str, dict[str, Any]] = {}
    for where, value in given.items():
        section, item = find_key(where)
        sections.setdefault(section, {})[item.name] = parse_value(where, value, item)
    classes = _sections()
    return Scenario(**{name: classes[name](**values) for name, values in sections.items()})


def parse_overrides(settings: list[str]) -> dict[str, object]:
    """["switch.memory_bytes=10MB", ...] -> {"switch.memory_bytes": "10MB"}; the last of a key wins."""
    overrides: dict[str, object] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set: {_quoted(setting)} given; expected section.key=value")
        find_key(name.strip())
        overrides[name.strip()] = value.strip()
    return overrides


def find_key(where: str) -> tuple[str, Field[Any]]:
    """(section, field) of a "section.key"; InputError with the nearest valid name if there is none."""
    section, _, name = where.partition(".")
    classes = _sections()
    if section in classes:
        for item in fields(classes[section]):
            if item.name == name:
                return section, item
    every = [f"{known}.{item.name}" for known, cls in classes.items() for item in fields(cls)]
    nearest = difflib.get_close_matches(where[:80], every, n=1, cutoff=0.0)
    same_name = [key for key in every if key.partition(".")[2] == name]
    kind = "key" if section in classes else "section"
    raise InputError(f"unknown {kind} {_quoted(where)}; the nearest is {(same_name or nearest)[0]}")


def parse_value(where: str, value: object, item: Field[Any]) -> Any:
    """A TOML or command-line value as the key's own type, within its limits."""
    meta = item.metadata
    word, unit = meta.get("word", ""), meta.get("unit", "")
    if word and isinstance(value, str) and value.strip().lower() == word:
        return 0
    parsed: object = value
    if unit:
        parsed = parse_quantity(value, unit, where)
    elif isinstance(item.default, bool):
        parsed = _boolean(where, value)
    elif isinstance(item.default, int):
        parsed = _integer(where, value)
    elif isinstance(item.default, float):
        parsed = _real(where, value)
    elif not isinstance(value, str) or not value.isprintable():
        raise InputError(f"{where}: {_quoted(value)} given; expected a printable text")
    if word and parsed == 0:
        raise InputError(f'{where}: 0 given; write "{word}" or a positive number')
    check_value(where, parsed, item)
    return parsed


def dump_scenario(scenario: Scenario, provenance: Mapping[str, str | int | bool]) -> str:
    """The resolved scenario as TOML that `load_scenario` reads back, with a [netfold] table of provenance."""
    lines = ["[netfold]", *[f"{name} = {_toml(value)}" for name, value in provenance.items()]]
    for section in fields(scenario):
        values = getattr(scenario, section.name)
        lines += ["", f"[{section.name}]"]
        for item in fields(values):
            value = getattr(values, item.name)
            word = item.metadata.get("word", "")
            lines.append(f"{item.name} = {_toml(word if word and value == 0 else value)}")
    return "\n".join(lines) + "\n"


def _sections() -> dict[str, Any]:
    return {section.name: type(section.default) for section in fields(Scenario)}


def read_toml(path: Path, what: str = "scenario", most_bytes: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """A file's tables. Raises InputError where it cannot be read; what: a word for what it should be."""
    try:
        data = path.read_bytes()[: most_bytes + 1]
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what} file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > most_bytes:
        raise InputError(f"{path}: more than {most_bytes} bytes; this is no {what}")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{path}: not valid TOML ({str(error)[:120] or type(error).__name__})") from None


def _boolean(where: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise InputError(f"{where}: {_quoted(value)} given; expected true or false")


def _integer(where: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 40:
        try:
            return int(value)
        except ValueError:
            pass
    raise InputError(f"{where}: {_quoted(value)} given; expected a whole number")


def _real(where: str, value: object) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise InputError(f"{where}: {_quoted(value)} given; expected a number")


def _toml(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # printable, so JSON's quoting is TOML's
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def _quoted(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
