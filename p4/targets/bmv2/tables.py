"""Tables and action profiles of a BMv2 switch: names and numbers to P4Runtime entities, written and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from p4.config.v1 import p4info_pb2
from p4.targets.bmv2.control import Control, as_bytes
from p4.targets.bmv2.ports import Ports
from p4.targets.bmv2.process import SwitchProcess
from p4.targets.names import find, take
from p4.targets.target import MatchValue, Target, TargetError
from p4.v1 import p4runtime_pb2

_GROUP_SIZE = 128  # members that a selector's group may grow to


class _Item:
    """A part of the P4Info by its name."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.name: str = message.preamble.name
        self.id: int = message.preamble.id


class TableControl(Target):
    """What a running switch's session, ports and process, and its program's P4Info, are used for here."""

    p4info: p4info_pb2.P4Info
    _control: Control | None = None
    _ports: Ports | None = None
    _process: SwitchProcess | None = None
    # What P4Runtime leaves to the controller to number.
    _entries = _members = _member_groups = 0

    def _alive(self) -> tuple[Control, Ports]:
        if self._control is None or self._ports is None or self._process is None:
            raise TargetError("FAILED_PRECONDITION", "the switch is closed")
        self._process.check()
        return self._control, self._ports

    # ---- tables

    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> int:
        return self._add(self._entry(table, match, priority, (action, data)))

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        self._write("MODIFY", self._entry(table, match, priority, (action, data)))

    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        self._write("DELETE", self._entry(table, match, priority, None))

    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        entity = p4runtime_pb2.Entity()
        info = self._table(table)
        entity.table_entry.table_id = info.preamble.id
        entity.table_entry.is_default_action = True
        self._set_action(entity.table_entry, info, action, data)
        self._write("MODIFY", entity)

    def entry_counters(
        self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0
    ) -> tuple[int, int]:
        entity = p4runtime_pb2.Entity()
        entry = self._entry(table, match, priority, None).table_entry
        entity.direct_counter_entry.table_entry.CopyFrom(entry)
        for answer in self._alive()[0].read(entity):
            counted = answer.direct_counter_entry.data
            return counted.packet_count, counted.byte_count
        raise TargetError("NOT_FOUND", f"table '{table}': no entry with this match")

    def _add(self, entity: p4runtime_pb2.Entity) -> int:
        """A new entry. BMv2 says UNKNOWN of a full table, where P4Runtime has RESOURCE_EXHAUSTED."""
        try:
            self._write("INSERT", entity)
        except TargetError as error:
            number = entity.table_entry.table_id
            info = next(t for t in self.p4info.tables if t.preamble.id == number)
            wanted = p4runtime_pb2.Entity()
            wanted.table_entry.table_id = number
            if error.code == "UNKNOWN" and sum(1 for _ in self._alive()[0].read(wanted)) >= info.size:
                raise TargetError(
                    "RESOURCE_EXHAUSTED", f"table '{info.preamble.name}': it is full ({info.size} entries)"
                ) from None
            raise
        self._entries += 1
        return self._entries - 1

    def _write(self, kind: str, entity: p4runtime_pb2.Entity) -> None:
        self._alive()[0].write(kind, entity)

    def _table(self, name: str) -> Any:
        return self._named("table", self.p4info.tables, name).message

    @staticmethod
    def _named(kind: str, messages: Any, name: str) -> _Item:
        items = [_Item(m) for m in messages]
        return items[find(kind, items, name)]

    def _entry(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        priority: int,
        action: tuple[str, Mapping[str, int] | Sequence[int]] | None,
    ) -> p4runtime_pb2.Entity:
        info = self._table(table)
        entity = p4runtime_pb2.Entity()
        entry = entity.table_entry
        entry.table_id = info.preamble.id
        entry.priority = priority
        left = dict(match)
        for field in info.match_fields:
            value = take(key_name(field.name), left)
            if value is not None:
                _set_match(entry.match, field, value)
        if left:
            names = ", ".join(key_name(f.name) for f in info.match_fields)
            raise TargetError(
                "INVALID_ARGUMENT",
                f"table '{info.preamble.name}' has no key '{next(iter(left))}'; its keys: {names}",
            )
        if action is not None:
            self._set_action(entry, info, *action)
        return entity

    def _set_action(self, entry: Any, table: Any, name: str, data: Mapping[str, int] | Sequence[int]) -> None:
        allowed = {ref.id for ref in table.action_refs}
        self._fill_action(
            entry.action.action, allowed, f"action of table '{table.preamble.name}'", name, data
        )

    def _fill_action(
        self, message: Any, allowed: set[int], kind: str, name: str, data: Mapping[str, int] | Sequence[int]
    ) -> None:
        actions = [a for a in self.p4info.actions if a.preamble.id in allowed]
        info = self._named(kind, actions, name).message
        names = [p.name for p in info.params]
        given = list(data.items()) if isinstance(data, Mapping) else list(zip(names, data, strict=False))
        if {n for n, _ in given} != set(names) or len(data) != len(names):
            raise TargetError(
                "INVALID_ARGUMENT", f"action '{info.preamble.name}' takes {names}, given {list(data)}"
            )
        message.action_id = info.preamble.id
        ids = {p.name: p.id for p in info.params}
        for parameter, value in given:
            added = message.params.add()
            added.param_id = ids[parameter]
            added.value = as_bytes(_unsigned(f"parameter '{parameter}' of action '{name}'", value))

    # ---- action profiles and selectors

    def add_member(self, profile: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> int:
        self._members += 1
        self._write("INSERT", self._member(profile, self._members, (action, data)))
        return self._members

    def modify_member(
        self, profile: str, member: int, action: str, data: Mapping[str, int] | Sequence[int] = ()
    ) -> None:
        self._write("MODIFY", self._member(profile, member, (action, data)))

    def delete_member(self, profile: str, member: int) -> None:
        self._write("DELETE", self._member(profile, member, None))

    def set_group(self, profile: str, members: Sequence[int], *, group: int | None = None) -> int:
        entity = p4runtime_pb2.Entity()
        entry = entity.action_profile_group
        entry.action_profile_id = self._profile(profile).preamble.id
        if group is None:
            self._member_groups += 1
        entry.group_id = self._member_groups if group is None else group
        entry.max_size = max(len(members), _GROUP_SIZE)
        for member in members:
            added = entry.members.add()
            added.member_id, added.weight = member, 1
        self._write("INSERT" if group is None else "MODIFY", entity)
        return int(entry.group_id)

    def delete_group(self, profile: str, group: int) -> None:
        entity = p4runtime_pb2.Entity()
        entity.action_profile_group.action_profile_id = self._profile(profile).preamble.id
        entity.action_profile_group.group_id = group
        self._write("DELETE", entity)

    def insert_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> int:
        return self._add(self._indirect(table, match, member, group, priority))

    def modify_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> None:
        self._write("MODIFY", self._indirect(table, match, member, group, priority))

    def _indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        member: int | None,
        group: int | None,
        priority: int,
    ) -> p4runtime_pb2.Entity:
        if (member is None) == (group is None):
            raise TargetError("INVALID_ARGUMENT", f"table '{table}': an entry has a member or a group")
        entity = self._entry(table, match, priority, None)
        if member is None:
            entity.table_entry.action.action_profile_group_id = group
        else:
            entity.table_entry.action.action_profile_member_id = member
        return entity

    def _profile(self, name: str) -> Any:
        return self._named("action profile", self.p4info.action_profiles, name).message

    def _member(
        self, profile: str, member: int, action: tuple[str, Mapping[str, int] | Sequence[int]] | None
    ) -> p4runtime_pb2.Entity:
        info = self._profile(profile)
        entity = p4runtime_pb2.Entity()
        entry = entity.action_profile_member
        entry.action_profile_id, entry.member_id = info.preamble.id, member
        if action is not None:
            users = set(info.table_ids)
            allowed = {r.id for t in self.p4info.tables if t.preamble.id in users for r in t.action_refs}
            self._fill_action(entry.action, allowed, f"action of profile '{info.preamble.name}'", *action)
        return entity


def key_name(name: str) -> str:
    """A key's name in the P4Info as the program has it: ``h.isValid()`` for ``h.$valid$``."""
    return name.replace("$valid$", "isValid()")


def _unsigned(what: str, value: object) -> int:
    if isinstance(value, bool) or (isinstance(value, int) and value >= 0):
        return int(value)
    raise TargetError("INVALID_ARGUMENT", f"{what}: {value!r} is not an unsigned integer")


def _set_match(fields: Any, info: Any, value: int | tuple[int, int]) -> None:
    """One key's value. A key that matches anything is left out, as P4Runtime wants it."""
    kind = p4info_pb2.MatchField.MatchType.Name(info.match_type)
    what = f"key '{key_name(info.name)}'"
    ones = (1 << info.bitwidth) - 1
    if isinstance(value, tuple) and (kind in ("EXACT", "OPTIONAL") or len(value) != 2):
        raise TargetError("INVALID_ARGUMENT", f"{what} is {kind.lower()}: it takes one value")
    first, second = value if isinstance(value, tuple) else (value, None)
    first = _unsigned(what, first)
    any_match = {"LPM": second == 0, "TERNARY": second == 0, "RANGE": (first, second) == (0, ones)}
    if any_match.get(kind, False):
        return
    field = fields.add()
    field.field_id = info.id
    if kind == "EXACT":
        field.exact.value = as_bytes(first)
    elif kind == "OPTIONAL":
        field.optional.value = as_bytes(first)
    elif kind == "LPM":
        field.lpm.value = as_bytes(first)
        field.lpm.prefix_len = info.bitwidth if second is None else second
    elif kind == "TERNARY":
        field.ternary.value = as_bytes(first)
        field.ternary.mask = as_bytes(ones if second is None else _unsigned(what, second))
    else:
        field.range.low = as_bytes(first)
        field.range.high = as_bytes(first if second is None else _unsigned(what, second))
