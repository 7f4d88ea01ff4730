"""Tables: the apply function in C++, and the schema that the control plane works with."""

from __future__ import annotations

from p4.codegen.ahead import reads_queue
from p4.codegen.code import Code, unsupported
from p4.codegen.layout import base_of
from p4.codegen.objects import ObjectRef
from p4.codegen.schema import ActionInfo, EntryInfo, FieldInfo, TableInfo
from p4.codegen.statements import StatementWriter
from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.tokens import parse_number

DEFAULT_SIZE = 1024


def annotated_name(annotations: tuple[ast.Annotation, ...], path: str, name: str) -> str:
    """The control plane's name: @name's text (from the root if it begins with a dot), or the path."""
    for note in annotations:
        if note.name == "name" and len(note.body) == 3:
            given = note.body[1].text.strip('"')
            if given.startswith("."):
                return given[1:]
            return f"{path}.{given}" if path else given
    return f"{path}.{name}" if path else name


def scalar_bits(type_: ty.Type) -> int:
    """The width of a scalar in keys and action data."""
    base = base_of(type_)
    if base == ty.ERROR:
        return 16
    if isinstance(base, ty.EnumType):
        return 32
    return ty.bit_width(base) or 0


def _annotated_priority(entry: ir.Entry, rank: int) -> int:
    """The number in BMv2's @priority(n), the lowest n first; `rank` without one."""
    for note in entry.annotations:
        if note.name == "priority" and len(note.body) == 3:
            rank = parse_number(note.body[1].text)[0]
    return rank


def matched_keys(table: ir.Table) -> list[ir.Key]:
    """The keys that entries match; a selector's keys only choose among a group's members."""
    return [k for k in table.keys if k.match_kind != "selector"]


class TableWriter(StatementWriter):
    """`table_function` writes one table of a control; `table_info` describes it."""

    def table_function(self, code: Code, table: ir.Table, name: str, meter: str, profile: str) -> None:
        """`TableResult name(Frame& f)`: look up, run the action.

        ``meter``, ``profile``: the members that are its direct meter and its action profile, or "".
        """
        self.begin_member(code)
        with code.block(f"TableResult {name}_apply(Frame& f)"):
            bound = (e for use in table.actions for e in use.bound if not isinstance(e, ir.Var))
            if reads_queue([*(key.expr for key in table.keys), *bound]):
                self.mark_look_at_queue()
            if matched_keys(table):
                code.line(f"uint64_t key[{max(1, self._words(table))}] = {{}};")
                at = 0
                for key in matched_keys(table):
                    bits = scalar_bits(key.expr.type)
                    cpp = f"{'sint' if self._signed(key.expr.type) else 'bit'}<{bits}>"
                    code.line(f"key_field<{cpp}, {at}>(key, {self.bits(key.expr)});  // {key.match_kind}")
                    at += (bits + 7) // 8
                of_a_byte = at == 1 and matched_keys(table)[0].match_kind == "exact"
                code.line(f"const int entry = {name}.{'lookup_byte' if of_a_byte else 'lookup'}(key);")
            else:
                code.line("const int entry = -1;")
            if meter:
                code.line(f"{meter}.entry = entry;")
            direct = f"entry < 0 ? {name}.default_call() : {name}.entry(entry).call"
            if profile:
                indirect = f"entry < 0 ? Indirect{{}} : {name}.entry(entry).indirect"
                with code.block("const auto hash = [&]() -> uint64_t", "};"):
                    for line in self._selector_hash(table):
                        code.line(line)
                code.line(f"const ActionCall& call = {profile}.choose({indirect}, {direct}, hash);")
            else:
                code.line(f"const ActionCall& call = {direct};")
            if self._counts(table):
                counted = "entry >= 0" if self.followed is None else "!Rehearsal && entry >= 0"
                code.line(f"if ({counted}) {name}.entry(entry).count(f.c.packet_bytes);")
            with code.block("switch (call.action)"):
                for number, use in enumerate(table.actions):
                    code.line(f"case {number}: {self._run(use)} break;")
            code.line("return {entry >= 0, call.action};")

    def _selector_hash(self, table: ir.Table) -> list[str]:
        """The hash that picks a group's member: of the selector keys one after another, as BMv2 has it."""
        keys = tuple(k.expr for k in table.keys if k.match_kind == "selector")
        implementation = self.implementation(table)
        if not keys or implementation is None:
            return ["return 0;"]
        algorithm = self.algorithm(implementation.args[0].value or keys[0])
        data = ir.Aggregate(ty.Tuple(tuple(k.type for k in keys)), table.span, keys)
        return [
            *self.writer(data, "selected_"),
            f"return hash_bytes({algorithm}, selected_.data(), selected_.bytes(), f.c.random);",
        ]

    def implementation(self, table: ir.Table) -> ir.Instance | None:
        """The action profile or selector of a table."""
        value = table.properties.get("implementation")
        if value is None:
            return None
        value = self.resolve(value)
        if isinstance(value, ir.Call) and isinstance(value.target, ir.Construct):
            return value.target.instance
        if isinstance(value, (ir.InstanceRef, ObjectRef)):
            return value.instance
        raise unsupported(table.span, f"this implementation of table '{table.name}'")

    @staticmethod
    def _signed(type_: ty.Type) -> bool:
        base = base_of(type_)
        return isinstance(base, ty.Bits) and base.signed

    @staticmethod
    def _words(table: ir.Table) -> int:
        return (sum((scalar_bits(k.expr.type) + 7) // 8 for k in matched_keys(table)) + 7) // 8

    @staticmethod
    def _counts(table: ir.Table) -> bool:
        return "counters" in table.properties

    @staticmethod
    def _direct_counter(table: ir.Table, path: str) -> tuple[str, str]:
        """(name, unit) of the counter that each entry has, or two times ""."""
        use = table.properties.get("counters")
        if not isinstance(use, ir.InstanceRef):
            return "", ""
        instance = use.instance
        unit = instance.args[0].value
        name = annotated_name(instance.annotations, path, instance.name)
        return name, str(unit.value) if isinstance(unit, ir.Const) else "packets"

    def _run(self, use: ir.TableAction) -> str:
        before: list[str] = []
        after: list[str] = []
        arguments, at, bound = [], 0, iter(use.bound)
        for param in use.action.signature.params:
            if param.direction:
                value = next(bound)
                argument = ir.Argument(param, value)
                arguments.append(
                    self._argument(
                        argument, "", [], copy_all=True, in_order=False, before=before, after=after
                    )
                )
                continue
            arguments.append(self._data_param(param.type, at))
            at += (scalar_bits(param.type) + 7) // 8
        call = f"{self.actions[use.action]}{self.rehearsal}({', '.join(['f', *arguments])});"
        if before or after:
            return f"{{ {' '.join([*before, call, *after])} }}"
        return call

    def _data_param(self, type_: ty.Type, at: int) -> str:
        base = base_of(type_)
        if isinstance(base, ty.Bits):
            return f"data_param<{self.cpp(base)}, {at}>(call)"
        raw = f"data_param<bit<{scalar_bits(base)}>, {at}>(call)"
        return f"({raw}.v != 0)" if base == ty.BOOL else f"{self.cpp(base)}({raw}.v)"

    # ---- schema

    def table_info(
        self, table: ir.Table, path: str, action_path: dict[ir.Action, str], profile: int
    ) -> TableInfo:
        timeout = table.properties.get("support_timeout")
        if timeout is not None and not (isinstance(timeout, ir.Const) and timeout.value is False):
            raise unsupported(table.span, "table property 'support_timeout'")
        if len(matched_keys(table)) < len(table.keys) and not self._selects(table):
            raise unsupported(table.span, f"selector keys of table '{table.name}' without an action_selector")
        keys = []
        for key in matched_keys(table):
            name = key.text
            for note in key.annotations:
                if note.name == "name" and len(note.body) == 3:
                    name = note.body[1].text.strip('"')
            keys.append(FieldInfo(name, scalar_bits(key.expr.type), key.match_kind))
        if sum((k.bits + 7) // 8 for k in keys) > 512:
            raise unsupported(table.span, "a key of more than 512 bytes")
        actions = tuple(self._action_info(use, action_path) for use in table.actions)
        size = DEFAULT_SIZE if table.size is None else self.integer(table.size)
        default = self._use(table, table.default) if table.default else (-1, ())
        counter, unit = self._direct_counter(table, path)
        entries = self._entries(table)
        size = max(size, len(entries)) if table.entries_are_const else size
        return TableInfo(
            annotated_name(table.annotations, path, table.name), tuple(keys), actions, size, *default,
            table.default_is_const, table.entries_are_const, entries, counter, unit, profile,
        )  # fmt: skip

    def _selects(self, table: ir.Table) -> bool:
        implementation = self.implementation(table)
        return (
            implementation is not None
            and isinstance(implementation.type, ty.Extern)
            and implementation.type.name == "action_selector"
        )

    def _action_info(self, use: ir.TableAction, action_path: dict[ir.Action, str]) -> ActionInfo:
        params = tuple(FieldInfo(p.name, scalar_bits(p.type)) for p in use.action.data_params)
        notes = {a.name for a in use.annotations}
        return ActionInfo(action_path[use.action], params, "tableonly" in notes, "defaultonly" in notes)

    def _use(self, table: ir.Table, use: ir.ActionUse) -> tuple[int, tuple[int, ...]]:
        number = next(i for i, a in enumerate(table.actions) if a.action is use.action)
        return number, tuple(self._plain(v) for v in use.data)

    def _plain(self, e: ir.Expr) -> int:
        """A constant as its bit pattern."""
        value = self.resolve(e)
        base = base_of(value.type)
        if not isinstance(value, ir.Const):
            raise unsupported(e.span, "a value that is not a plain constant here")
        if isinstance(base, ty.EnumType):
            return base.value(str(value.value))
        if base == ty.ERROR:
            raise unsupported(e.span, "an error as an entry's value")
        width = scalar_bits(base)
        return int(value.value) & ((1 << width) - 1) if width else int(value.value)

    def _entries(self, table: ir.Table) -> tuple[EntryInfo, ...]:
        """Entries as written, with the priorities that the specification gives them (14.2.1.4)."""
        if table.entries and "implementation" in table.properties:
            raise unsupported(table.span, f"entries in table '{table.name}', whose actions are in a profile")
        out = []
        for entry, priority in zip(table.entries, self._priorities(table), strict=True):
            keys = []
            for key, match in zip(table.keys, entry.keys, strict=True):
                width = scalar_bits(key.expr.type)
                keys.append(self._entry_key(key, match, width))
            action, data = self._use(table, entry.use)
            out.append(EntryInfo(tuple(keys), action, data, priority, entry.is_const))
        return tuple(out)

    @staticmethod
    def _priorities(table: ir.Table) -> list[int]:
        """Of each entry; the largest wins. Where the table says the smallest does, they are negated."""
        largest = table.properties.get("largest_priority_wins")
        sign = -1 if isinstance(largest, ir.Const) and largest.value is False else 1
        given = table.properties.get("priority_delta")
        delta = int(given.value) if isinstance(given, ir.Const) else 1
        entries = table.entries
        if entries and entries[0].priority is not None:
            out, last = [], 0
            for entry in entries:
                last = last - sign * delta if entry.priority is None else entry.priority
                out.append(sign * last)
            return out
        if (
            table.entries_are_const
        ):  # nothing else can be in the table: the first wins, or BMv2's @priority(n)
            return [-_annotated_priority(e, position + 1) for position, e in enumerate(entries)]
        if sign > 0:
            return [(len(entries) - 1 - position) * delta + 1 for position in range(len(entries))]
        return [-(position * delta + 1) for position in range(len(entries))]

    def _entry_key(self, key: ir.Key, match: ir.Match, width: int) -> tuple[int, int, int]:
        """(value, mask or high end, prefix length)."""
        ones = (1 << width) - 1
        if match.kind == "any":
            return (0, ones if key.match_kind == "range" else 0, 0)
        assert match.value is not None
        value = self._plain(match.value)
        if match.kind == "range":
            assert match.second is not None
            return value, self._plain(match.second), width
        if match.kind == "mask":
            assert match.second is not None
            mask = self._plain(match.second) & ones
            return value & mask, mask, mask.bit_count()
        return value, value if key.match_kind == "range" else ones, width
