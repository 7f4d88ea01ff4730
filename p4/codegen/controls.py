"""Controls as C++ structs: their tables and actions, and apply() over a frame of references."""

from __future__ import annotations

from dataclasses import replace

from p4.codegen.ahead import looks_at_queue
from p4.codegen.blocks import BlockWriter, Shared, anonymous_instances
from p4.codegen.code import Code, unsupported
from p4.codegen.schema import TableInfo
from p4.codegen.statements import has_exit
from p4.codegen.tables import annotated_name
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic, P4Error


class ControlWriter(BlockWriter):
    """One instance of a control."""

    def __init__(
        self, shared: Shared, control: ir.Control, ctor: dict[ir.Variable, ir.Expr], path: str, access: str
    ) -> None:
        super().__init__(shared, ctor, path, access)
        self.control = control

    def local_tables(self) -> list[ir.Table]:
        return [t for t in self.control.locals if isinstance(t, ir.Table)]

    def write(self, struct: str) -> bool:
        """The struct into the program's code; whether its apply() may exit."""
        control = self.control
        self.used = {"apply", "f", "c", "key", "entry", "call"}
        for variable in control.params:
            self.declare(variable, "f.")
            if isinstance(variable.type, ty.Record) and variable.type.name == "standard_metadata_t":
                self.std_meta = self.names[variable]
        if self.access in ("ingress_", "egress_"):
            names = (self.names[p] for p in control.params[1:3])
            self.metadata = dict(zip(names, ("to", "std_to"), strict=False))
        declared = [d for d in control.locals if isinstance(d, ir.VarDecl)]
        for decl in declared:
            self.declare(decl.variable, "f.")
        params = self.signature(control.params)
        frame = ", ".join(self.names[p].removeprefix("f.") for p in control.params)
        frame_fields = [f"{p.strip()};" for p in params.split(", ")] if params else []
        # Values are held by value, the rest by reference, exactly as they were passed.
        body = Code()
        with body.block("struct Frame", "};"):
            body.line("Context& c;")
            for text in frame_fields:
                body.line(text)
            for decl in declared:
                body.line(f"{self.cpp(decl.variable.type)} {self.names[decl.variable][2:]}{{}};")
        action_path = {a: annotated_name(a.annotations, "", a.name) for a in self.shared.program.actions}
        for action in self.shared.program.actions:
            self.actions[action] = self.member(action.name)
        self.lay_out(control)
        if self.shared.followed is not None and self.access.split(".")[0] == "ingress_":
            together = {self.record_numbers[a] for a in self.shared.followed if a in self.record_numbers}
            self.followed = {a for a, record in self.record_numbers.items() if record in together}
        for local in control.locals:
            if isinstance(local, ir.Action):
                self.actions[local] = self.member(local.name)
                action_path[local] = annotated_name(local.annotations, self.path, local.name)
            elif isinstance(local, ir.Instance):
                self.instance(local)
        for found in anonymous_instances(control):
            self.inner_block(found)
        tables: list[tuple[ir.Table, str]] = []
        for table in self.local_tables():
            member = self.member(table.name)
            self.tables[table] = f"{member}_apply"
            tables.append((table, member))
        self._check_action_names(action_path)
        self._find_exits()
        for action in [
            *self.shared.program.actions,
            *(x for x in control.locals if isinstance(x, ir.Action)),
        ]:
            self._action(action)
        for table, member in tables:
            self._table(table, member, action_path)
        params_with_context = ", ".join(["Context& c", *([params] if params else [])])
        self.begin_member(self.code)
        with self.code.block(f"void apply({params_with_context})"):
            self.code.line(f"Frame f{{{', '.join(['c', *([frame] if frame else [])])}}};")
            self.clear_outs(control.params)
            for decl in declared:
                if decl.init is not None:
                    if looks_at_queue(decl):
                        self.mark_look_at_queue()
                    self.code.line(f"{self.names[decl.variable]} = {self.expr(decl.init)};")
            self.block(control.body)
        out = self.shared.code
        out.line()
        out.line(f"// control {control.name}: {self.path}")
        with out.block(f"struct {struct}", "};"):
            out.add(body)
            out.add(self.fields)
            out.add(self.code)
        return control in self.exiting

    def _check_action_names(self, paths: dict[ir.Action, str]) -> None:
        known: dict[str, ir.Action] = {}
        for action, path in paths.items():
            if known.setdefault(path, action) is not action:
                message = f"action '{action.name}' has the control plane's name of another: '{path}'"
                raise P4Error([Diagnostic(action.span, message, '@name("...") on one of them')])

    def _find_exits(self) -> None:
        """Which actions, tables and blocks may exit, by what they call."""
        control = self.control
        calls: dict[object, set[object]] = {}
        actions = [*self.shared.program.actions, *(x for x in control.locals if isinstance(x, ir.Action))]
        for action in actions:
            called: set[object] = set()
            if has_exit(action.body, called):
                self.exiting.add(action)
            calls[action] = called
        for table in self.local_tables():
            calls[table] = {use.action for use in table.actions}
        called = set()
        if has_exit(control.body, called):
            self.exiting.add(control)
        for applied in called:
            passed = self.passed_block(applied) if isinstance(applied, ir.Instance) else None
            if passed is not None and passed.exits:
                self.exiting.add(applied)
        calls[control] = called
        changed = True
        while changed:
            changed = False
            for caller, callees in calls.items():
                if caller not in self.exiting and callees & self.exiting:
                    self.exiting.add(caller)
                    changed = True

    def _action(self, action: ir.Action) -> None:
        outer, self.used = self.used, set(self.used)
        for param in action.params:
            self.declare(param)
        params = self.signature(action.params)
        self.code.line()
        self.begin_member(self.code)
        with self.code.block(
            f"void {self.actions[action]}({', '.join(['Frame& f', *([params] if params else [])])})"
        ):
            self.code.line("(void)f;")
            self.block(action.body)
        self.used = outer

    def _table(self, table: ir.Table, member: str, action_path: dict[ir.Action, str]) -> None:
        implementation = self.implementation(table)
        profile = -1
        if implementation is not None:
            if implementation not in self.shared.profiles:  # made right in the table's property
                kind = implementation.type
                assert isinstance(kind, ty.Extern)
                name = annotated_name(table.annotations, self.path, table.name)
                self.profile(implementation, kind.name, self.member(f"{table.name}_profile"), name)
            profile = self.shared.profiles[implementation]
        info = self.table_info(table, self.path, action_path, profile)
        if implementation is not None:
            self._share_actions(table, info)
        at, fields = 0, []
        for key in info.keys:
            size = (key.bits + 7) // 8
            fields.append(f"{{Kind::{key.match_kind}, {at}, {size}, {key.bits}}}")
            at += size
        self.fields.line(f"Table {member}{{{{{', '.join(fields)}}}, {info.size}}};")
        self.shared.schema.tables.append(info)
        self.shared.registered["tables"].append(self.at(member))
        meters = table.properties.get("meters")
        meter = self.place(meters) if meters is not None else ""
        self.code.line()
        in_profile = "" if implementation is None else self._profile_place(table, implementation)
        self.table_function(self.code, table, member, meter, in_profile)

    def _profile_place(self, table: ir.Table, implementation: ir.Instance) -> str:
        if implementation in self.members:
            return self.members[implementation]
        return self.place(table.properties["implementation"])

    def _share_actions(self, table: ir.Table, info: TableInfo) -> None:
        """The tables of a profile have the same actions: a member is one of them, by its number."""
        known = self.shared.schema.profiles[info.profile]
        if known.actions and [a.name for a in known.actions] != [a.name for a in info.actions]:
            raise unsupported(
                table.span,
                f"action profile '{known.name}' of tables with different actions",
                "the same actions in the same order",
            )
        self.shared.schema.profiles[info.profile] = replace(known, actions=info.actions)
