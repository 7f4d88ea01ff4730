"""What the control plane can reach in a program: tables, actions, state. Data, saved beside the library.

Numbers are positions: table 3 of the schema is table 3 of the C ABI.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class FieldInfo:
    """A key field, an action parameter or a digest's field."""

    name: str
    bits: int
    match_kind: str = ""


@dataclass(frozen=True)
class ActionInfo:
    name: str
    params: tuple[FieldInfo, ...]
    table_only: bool = False
    default_only: bool = False


@dataclass(frozen=True)
class EntryInfo:
    """An entry of the program: per key field (value, mask or high end, prefix), action number, data."""

    keys: tuple[tuple[int, int, int], ...]
    action: int
    data: tuple[int, ...]
    priority: int
    is_const: bool


@dataclass(frozen=True)
class TableInfo:
    name: str
    keys: tuple[FieldInfo, ...]
    actions: tuple[ActionInfo, ...]
    size: int
    default_action: int
    default_data: tuple[int, ...]
    default_is_const: bool
    entries_are_const: bool
    entries: tuple[EntryInfo, ...]
    counter: str = ""  # its direct counter's name
    counter_unit: str = ""
    profile: int = -1  # the action profile that its entries' actions are in, by number


@dataclass(frozen=True)
class ProfileInfo:
    """An action profile or selector: at most `size` members, actions as its tables number them."""

    name: str
    size: int
    is_selector: bool
    actions: tuple[ActionInfo, ...] = ()


@dataclass(frozen=True)
class StateInfo:
    """A register array (``bits`` per element), counter, meter or value set.

    ``unit``: packets or bytes (a counter's also packets_and_bytes). ``table``: whose direct meter it is.
    """

    name: str
    size: int
    bits: int = 0
    unit: str = ""
    fields: tuple[FieldInfo, ...] = ()
    table: str = ""
    is_signed: bool = False


@dataclass
class Schema:
    """Everything, by kind."""

    tables: list[TableInfo] = field(default_factory=list)
    profiles: list[ProfileInfo] = field(default_factory=list)
    registers: list[StateInfo] = field(default_factory=list)
    counters: list[StateInfo] = field(default_factory=list)
    meters: list[StateInfo] = field(default_factory=list)
    value_sets: list[StateInfo] = field(default_factory=list)
    digests: list[StateInfo] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Schema:
        raw = json.loads(text)
        schema = Schema()
        for table in raw["tables"]:
            table["keys"] = tuple(FieldInfo(**k) for k in table["keys"])
            table["actions"] = _actions(table["actions"])
            table["entries"] = tuple(
                EntryInfo(
                    tuple((v, m, p) for v, m, p in e["keys"]),
                    e["action"],
                    tuple(e["data"]),
                    e["priority"],
                    e["is_const"],
                )
                for e in table["entries"]
            )
            table["default_data"] = tuple(table["default_data"])
            schema.tables.append(TableInfo(**table))
        for profile in raw["profiles"]:
            profile["actions"] = _actions(profile["actions"])
            schema.profiles.append(ProfileInfo(**profile))
        for kind in ("registers", "counters", "meters", "value_sets", "digests"):
            for state in raw[kind]:
                state["fields"] = _fields(state["fields"])
                getattr(schema, kind).append(StateInfo(**state))
        return schema


def _fields(raw: list[dict[str, Any]]) -> tuple[FieldInfo, ...]:
    return tuple(FieldInfo(**f) for f in raw)


def _actions(raw: list[dict[str, Any]]) -> tuple[ActionInfo, ...]:
    return tuple(ActionInfo(a["name"], _fields(a["params"]), a["table_only"], a["default_only"]) for a in raw)
