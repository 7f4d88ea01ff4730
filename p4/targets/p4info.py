"""A program's P4Info, from its schema: what P4Runtime (specification 1.4, section 6) tells a controller.

Ids are those that p4c gives: the kind in the first byte, below it the low 24 bits of the name's Jenkins hash.
An ``@id`` of the program's own is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from p4.codegen.schema import ActionInfo, FieldInfo, Schema, StateInfo, TableInfo
from p4.config.v1 import p4info_pb2

_MATCH = {"exact": "EXACT", "lpm": "LPM", "ternary": "TERNARY", "range": "RANGE", "optional": "OPTIONAL"}
_TABLE_ONLY, _DEFAULT_ONLY = "@tableonly", "@defaultonly"


class _Ids:
    """Ids of one kind of object by name; names with one hash get neighbouring ids, in the names' order."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        prefix = p4info_pb2.P4Ids.Prefix.Value(kind) << 24
        self.of: dict[str, int] = {}
        taken: set[int] = set()
        for name in sorted(set(names)):
            number = jenkins_hash(name.encode())
            while number & 0xFFFFFF in taken:
                number += 1
            taken.add(number & 0xFFFFFF)
            self.of[name] = prefix | number & 0xFFFFFF


def jenkins_hash(data: bytes) -> int:
    """Bob Jenkins's one-at-a-time hash of 32 bits."""
    value = 0
    for byte in data:
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def make_p4info(schema: Schema, arch: str = "v1model") -> p4info_pb2.P4Info:
    """The P4Info message of a program's schema."""
    info = p4info_pb2.P4Info()
    info.pkg_info.arch = arch
    actions = {a.name: a for t in schema.tables for a in _actions_of(t)}
    direct_counters = [StateInfo(t.counter, 0, unit=t.counter_unit) for t in schema.tables if t.counter]
    direct_meters = [m for m in schema.meters if m.table]
    meters = [m for m in schema.meters if not m.table]
    kinds: dict[str, Sequence[Any]] = {
        "TABLE": schema.tables,
        "ACTION": list(actions.values()),
        "ACTION_PROFILE": schema.profiles,
        "COUNTER": schema.counters,
        "DIRECT_COUNTER": direct_counters,
        "METER": meters,
        "DIRECT_METER": direct_meters,
        "REGISTER": schema.registers,
        "VALUE_SET": schema.value_sets,
        "DIGEST": schema.digests,
    }
    ids = {kind: _Ids(kind, (item.name for item in items)).of for kind, items in kinds.items()}
    aliases = _aliases([item.name for items in kinds.values() for item in items])

    def preamble(message: Any, kind: str, name: str) -> None:
        message.preamble.id = ids[kind][name]
        message.preamble.name = name
        message.preamble.alias = aliases[name]

    for table in schema.tables:
        added = info.tables.add()
        preamble(added, "TABLE", table.name)
        _table(added, table, ids)
        if table.profile >= 0:
            added.implementation_id = ids["ACTION_PROFILE"][schema.profiles[table.profile].name]
        if table.counter:
            added.direct_resource_ids.append(ids["DIRECT_COUNTER"][table.counter])
        for meter in direct_meters:
            if meter.table == table.name:
                added.direct_resource_ids.append(ids["DIRECT_METER"][meter.name])
    for action in actions.values():
        added = info.actions.add()
        preamble(added, "ACTION", action.name)
        _fields(added.params, action.params)
    for number, profile in enumerate(schema.profiles):
        added = info.action_profiles.add()
        preamble(added, "ACTION_PROFILE", profile.name)
        added.size, added.with_selector = profile.size, profile.is_selector
        added.table_ids.extend(ids["TABLE"][t.name] for t in schema.tables if t.profile == number)
    for register in schema.registers:
        added = info.registers.add()
        preamble(added, "REGISTER", register.name)
        added.size = register.size
        element = added.type_spec.bitstring
        (element.int if register.is_signed else element.bit).bitwidth = register.bits
    for kind, states, target in (
        ("COUNTER", schema.counters, info.counters),
        ("DIRECT_COUNTER", direct_counters, info.direct_counters),
    ):
        for state in states:
            added = target.add()
            preamble(added, kind, state.name)
            added.spec.unit = p4info_pb2.CounterSpec.Unit.Value(_counter_unit(state.unit))
            if kind == "COUNTER":
                added.size = state.size
            else:
                owner = next(t for t in schema.tables if t.counter == state.name)
                added.direct_table_id = ids["TABLE"][owner.name]
    for kind, states, target in (
        ("METER", meters, info.meters),
        ("DIRECT_METER", direct_meters, info.direct_meters),
    ):
        for state in states:
            added = target.add()
            preamble(added, kind, state.name)
            added.spec.unit = p4info_pb2.MeterSpec.Unit.Value(state.unit.upper())
            if kind == "METER":
                added.size = state.size
            else:
                added.direct_table_id = ids["TABLE"][state.table]
    for value_set in schema.value_sets:
        added = info.value_sets.add()
        preamble(added, "VALUE_SET", value_set.name)
        added.size = value_set.size
        _match_fields(added.match, value_set.fields)
    for digest in schema.digests:
        added = info.digests.add()
        preamble(added, "DIGEST", digest.name)
        added.type_spec.struct.name = digest.name
        members = info.type_info.structs[digest.name].members
        for field in digest.fields:
            member = members.add()
            member.name = field.name
            member.type_spec.bitstring.bit.bitwidth = field.bits
    return info


def _table(message: Any, table: TableInfo, ids: dict[str, dict[str, int]]) -> None:
    _match_fields(message.match_fields, table.keys)
    for action in _actions_of(table):
        reference = message.action_refs.add()
        reference.id = ids["ACTION"][action.name]
        if action.default_only:
            reference.scope = p4info_pb2.ActionRef.Scope.Value("DEFAULT_ONLY")
            reference.annotations.append(_DEFAULT_ONLY)
        elif action.table_only:
            reference.scope = p4info_pb2.ActionRef.Scope.Value("TABLE_ONLY")
            reference.annotations.append(_TABLE_ONLY)
    message.size = table.size
    message.is_const_table = table.entries_are_const
    if table.default_is_const and table.default_action >= 0:
        message.const_default_action_id = ids["ACTION"][table.actions[table.default_action].name]


def _actions_of(table: TableInfo) -> list[ActionInfo]:
    """The table's actions; one that sets no default action has NoAction (P4_16 specification 14.2.1.2)."""
    actions = list(table.actions)
    if table.default_action < 0 and all(a.name != "NoAction" for a in actions):
        actions.append(ActionInfo("NoAction", (), default_only=True))
    return actions


def _match_fields(fields: Any, keys: Sequence[FieldInfo]) -> None:
    for number, key in enumerate(keys, 1):
        added = fields.add()
        # A header's validity is a field of it to P4Runtime.
        added.id, added.name, added.bitwidth = number, key.name.replace("isValid()", "$valid$"), key.bits
        added.match_type = p4info_pb2.MatchField.MatchType.Value(_MATCH[key.match_kind or "exact"])


def _fields(messages: Any, fields: Sequence[FieldInfo]) -> None:
    for number, field in enumerate(fields, 1):
        added = messages.add()
        added.id, added.name, added.bitwidth = number, field.name, field.bits


def _counter_unit(unit: str) -> str:
    return "BOTH" if "and" in unit else unit.upper()


def _aliases(names: Sequence[str]) -> dict[str, str]:
    """For each name its shortest last part that no other name ends with."""
    parts = {name: name.split(".") for name in names}
    endings: dict[tuple[str, ...], set[str]] = {}
    for name, words in parts.items():
        for at in range(len(words)):
            endings.setdefault(tuple(words[at:]), set()).add(name)
    aliases = {}
    for name, words in parts.items():
        suffixes = [tuple(words[at:]) for at in reversed(range(len(words)))]
        aliases[name] = ".".join(next((s for s in suffixes if len(endings[s]) == 1), suffixes[-1]))
    return aliases
