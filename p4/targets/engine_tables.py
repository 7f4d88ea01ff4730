"""The tables of the embedded switch: entries, default actions, action profiles, value sets."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence

import numpy as np

from p4.codegen.schema import ActionInfo, ProfileInfo, Schema, TableInfo
from p4.targets.names import checked, encode_data, encode_key, find
from p4.targets.target import MatchValue, Target, TargetError

_STATUS = {
    -3: "INVALID_ARGUMENT",
    -5: "NOT_FOUND",
    -6: "ALREADY_EXISTS",
    -8: "RESOURCE_EXHAUSTED",
    -9: "FAILED_PRECONDITION",
}
NO_MEMBER = (-1, -1)


class EngineTables(Target):
    """What both share: the library, its handle, and the schema that numbers follow."""

    schema: Schema
    _library: c.CDLL
    _handle: int | None

    def load_written_entries(self) -> None:
        """What the program itself puts into its tables."""
        self._const_entries: set[tuple[int, int]] = set()
        for number, table in enumerate(self.schema.tables):
            if table.default_action >= 0:
                data = encode_data(table.actions[table.default_action], table.default_data)
                self._library.nf_table_default(self._handle, number, table.default_action, data, len(data))
            for entry in table.entries:
                key = b"".join(
                    v.to_bytes((f.bits + 7) // 8, "big")
                    for f, (v, _, _) in zip(table.keys, entry.keys, strict=True)
                )
                mask = b"".join(
                    m.to_bytes((f.bits + 7) // 8, "big")
                    for f, (_, m, _) in zip(table.keys, entry.keys, strict=True)
                )
                prefixes = [
                    p for f, (_, _, p) in zip(table.keys, entry.keys, strict=True) if f.match_kind == "lpm"
                ]
                data = encode_data(table.actions[entry.action], entry.data)
                made = self._library.nf_table_insert(
                    self._handle,
                    number,
                    key,
                    mask,
                    prefixes[0] if prefixes else 0,
                    entry.priority,
                    entry.action,
                    data,
                    len(data),
                    *NO_MEMBER,
                )
                if entry.is_const:
                    self._const_entries.add((number, made))

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
        at, encoded = self._direct_action(self._table(table)[1], action, data)
        return self._insert(table, match, priority, (at, encoded), NO_MEMBER)

    def _insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        priority: int,
        call: tuple[int, bytes],
        indirect: tuple[int, int],
    ) -> int:
        number, info = self._table(table)
        if info.entries_are_const:
            raise TargetError("PERMISSION_DENIED", f"table '{info.name}': its entries are const")
        if not info.keys:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' has no key: set its default action")
        self._check_priority(info, priority)
        key, mask, prefix = encode_key(info, match)
        action, data = call
        status = self._library.nf_table_insert(
            self._handle, number, key, mask, prefix, priority, action, data, len(data), *indirect
        )
        if status < 0:
            why = {-6: "an entry with this match is there already", -8: f"it is full ({info.size} entries)"}[
                status
            ]
            raise TargetError(_STATUS[status], f"table '{info.name}': {why}")
        return int(status)

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        number, info = self._table(table)
        entry = self._changeable_entry(number, info, match, priority)
        at, encoded = self._direct_action(info, action, data)
        self._library.nf_table_modify(self._handle, number, entry, at, encoded, len(encoded), *NO_MEMBER)

    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        number, info = self._table(table)
        self._library.nf_table_erase(
            self._handle, number, self._changeable_entry(number, info, match, priority)
        )

    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        number, info = self._table(table)
        if info.default_is_const:
            raise TargetError("PERMISSION_DENIED", f"table '{info.name}': its default action is const")
        at, encoded = self._action(info, action, data, default=True)
        self._library.nf_table_default(self._handle, number, at, encoded, len(encoded))

    def entry_counters(
        self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0
    ) -> tuple[int, int]:
        """(packets, bytes) of a table with a direct counter."""
        number, info = self._table(table)
        if not info.counter:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' has no direct counter")
        values = (c.c_uint64 * 2)()
        self._library.nf_entry_counters(
            self._handle, number, self._entry(number, info, match, priority), values
        )
        return values[0], values[1]

    def _table(self, name: str) -> tuple[int, TableInfo]:
        number = find("table", self.schema.tables, name)
        return number, self.schema.tables[number]

    def _entry(self, number: int, info: TableInfo, match: Mapping[str, MatchValue], priority: int) -> int:
        key, mask, prefix = encode_key(info, match)
        entry = self._library.nf_table_find(self._handle, number, key, mask, prefix, priority)
        if entry < 0:
            raise TargetError("NOT_FOUND", f"table '{info.name}': no entry with this match")
        return int(entry)

    def _changeable_entry(
        self, number: int, info: TableInfo, match: Mapping[str, MatchValue], priority: int
    ) -> int:
        entry = self._entry(number, info, match, priority)
        if (number, entry) in self._const_entries:
            raise TargetError("PERMISSION_DENIED", f"table '{info.name}': this entry is const")
        return entry

    @staticmethod
    def _check_priority(info: TableInfo, priority: int) -> None:
        ordered = any(k.match_kind in ("ternary", "range", "optional") for k in info.keys)
        if ordered and not 0 < priority < 1 << 31:
            raise TargetError(
                "INVALID_ARGUMENT", f"table '{info.name}': priority {priority}, it needs one above 0"
            )
        if not ordered and priority:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' takes no priority, given {priority}")

    def _direct_action(
        self, info: TableInfo, name: str, data: Mapping[str, int] | Sequence[int]
    ) -> tuple[int, bytes]:
        """An action of an entry, in a table that has its actions itself."""
        if info.profile >= 0:
            profile = self.schema.profiles[info.profile].name
            raise TargetError(
                "INVALID_ARGUMENT", f"table '{info.name}': its entries hold members or groups of '{profile}'"
            )
        return self._action(info, name, data, default=False)

    def _action(
        self, info: TableInfo, name: str, data: Mapping[str, int] | Sequence[int], *, default: bool
    ) -> tuple[int, bytes]:
        at = find(f"action of table '{info.name}'", info.actions, name)
        action: ActionInfo = info.actions[at]
        if action.table_only if default else action.default_only:
            raise TargetError(
                "PERMISSION_DENIED", f"action '{action.name}' cannot be used here: it is annotated so"
            )
        return at, encode_data(action, data)

    def value_set_insert(self, name: str, values: Sequence[int], masks: Sequence[int] | None = None) -> None:
        """One more accepted value (or several fields' values, for a set of structs)."""
        number = find("value set", self.schema.value_sets, name)
        fields = self.schema.value_sets[number].fields
        if len(values) != len(fields) or (masks is not None and len(masks) != len(fields)):
            raise TargetError("INVALID_ARGUMENT", f"value set '{name}' takes {len(fields)} values")
        ones = [(1 << f.bits) - 1 for f in fields]
        sides = [
            b"".join(
                checked(f"value set '{name}'", v, f.bits).to_bytes((f.bits + 7) // 8, "big")
                for f, v in zip(fields, side, strict=True)
            )
            for side in (values, masks or ones)
        ]
        if self._library.nf_value_set_insert(self._handle, number, *sides) < 0:
            raise TargetError("RESOURCE_EXHAUSTED", f"value set '{name}' is full")

    # ---- action profiles

    def add_member(self, profile: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> int:
        number, info = self._profile(profile)
        at, encoded = self._member_action(info, action, data)
        status = self._library.nf_member_add(self._handle, number, at, encoded, len(encoded))
        return self._settled(info, status, f"it is full ({info.size} members)")

    def modify_member(
        self, profile: str, member: int, action: str, data: Mapping[str, int] | Sequence[int] = ()
    ) -> None:
        number, info = self._profile(profile)
        at, encoded = self._member_action(info, action, data)
        status = self._library.nf_member_modify(self._handle, number, member, at, encoded, len(encoded))
        self._settled(info, status, f"no member {member}")

    def delete_member(self, profile: str, member: int) -> None:
        number, info = self._profile(profile)
        self._check_unused(number, info, member, -1)
        status = self._library.nf_member_erase(self._handle, number, member)
        self._settled(info, status, f"a group has member {member}" if status == -9 else f"no member {member}")

    def set_group(self, profile: str, members: Sequence[int], *, group: int | None = None) -> int:
        number, info = self._profile(profile)
        if not info.is_selector:
            raise TargetError("INVALID_ARGUMENT", f"'{info.name}' is no action selector: it has no groups")
        if len(set(members)) < len(members):
            raise TargetError("INVALID_ARGUMENT", f"'{info.name}': a member twice in one group")
        array = np.array([checked("member", m, 31) for m in members], np.int32)
        at = -1 if group is None else checked("group", group, 31)
        status = self._library.nf_group_set(self._handle, number, at, len(array), array.ctypes.data)
        return self._settled(info, status, "a member or the group is not there")

    def delete_group(self, profile: str, group: int) -> None:
        number, info = self._profile(profile)
        self._check_unused(number, info, -1, group)
        status = self._library.nf_group_erase(self._handle, number, group)
        self._settled(info, status, f"no group {group}")

    def insert_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> int:
        indirect = self._indirect(self._table(table)[1], member, group)
        return self._insert(table, match, priority, (-1, b""), indirect)

    def modify_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> None:
        number, info = self._table(table)
        indirect = self._indirect(info, member, group)
        entry = self._entry(number, info, match, priority)
        self._library.nf_table_modify(self._handle, number, entry, -1, b"", 0, *indirect)

    def _profile(self, name: str) -> tuple[int, ProfileInfo]:
        number = find("action profile", self.schema.profiles, name)
        return number, self.schema.profiles[number]

    @staticmethod
    def _member_action(
        info: ProfileInfo, name: str, data: Mapping[str, int] | Sequence[int]
    ) -> tuple[int, bytes]:
        at = find(f"action of '{info.name}'", info.actions, name)
        return at, encode_data(info.actions[at], data)

    @staticmethod
    def _settled(info: ProfileInfo, status: int, why: str) -> int:
        if status < 0:
            raise TargetError(_STATUS[status], f"action profile '{info.name}': {why}")
        return int(status)

    def _check_unused(self, number: int, info: ProfileInfo, member: int, group: int) -> None:
        if member < 0 and group < 0:
            return
        for at, table in enumerate(self.schema.tables):
            if table.profile == number and self._library.nf_table_uses(self._handle, at, member, group):
                what = f"member {member}" if member >= 0 else f"group {group}"
                raise TargetError("FAILED_PRECONDITION", f"an entry of table '{table.name}' has {what}")

    def _indirect(self, info: TableInfo, member: int | None, group: int | None) -> tuple[int, int]:
        """(member, group), one of them -1."""
        if info.profile < 0:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' has no action profile")
        if (member is None) == (group is None):
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}': a member or a group is needed")
        given = (-1 if member is None else member, -1 if group is None else group)
        if not self._library.nf_profile_has(self._handle, info.profile, *given):
            profile = self.schema.profiles[info.profile].name
            what = f"group {group}" if member is None else f"member {member}"
            raise TargetError("NOT_FOUND", f"action profile '{profile}' has no {what}")
        return given
