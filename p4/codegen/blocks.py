"""Parsers and controls as C++ structs: one struct for each instance, holding its state and its apply()."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from p4.codegen.code import Code, cpp_name, unsupported
from p4.codegen.layout import Layout, base_of, scalar_fields
from p4.codegen.objects import ObjectRef, Objects
from p4.codegen.schema import FieldInfo, ProfileInfo, Schema, StateInfo, TableInfo
from p4.codegen.statements import has_exit
from p4.codegen.tables import TableWriter, annotated_name, scalar_bits
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic, P4Error


@dataclass
class Shared:
    """What all blocks of a program write to."""

    program: ir.Program
    layout: Layout
    schema: Schema
    code: Code = field(default_factory=Code)
    functions: dict[ir.Function, str] = field(default_factory=dict)
    structs: set[str] = field(default_factory=set)
    writers: Writers | None = None  # None: those of this file
    profiles: dict[ir.Instance, int] = field(default_factory=dict)  # their numbers in the schema
    objects: Objects = field(default_factory=Objects)
    data_lists: list[tuple[str, ...]] = field(default_factory=list)
    # C++ expressions, from the Program struct, of the objects in the schema's order.
    registered: dict[str, list[str]] = field(
        default_factory=lambda: {
            "tables": [],
            "profiles": [],
            "registers": [],
            "counters": [],
            "meters": [],
            "value_sets": [],
        }
    )

    def struct_name(self, path: str) -> str:
        wanted = cpp_name(path.replace(".", "_")) + "_block"
        name, n = wanted, 1
        while name in self.structs:
            n += 1
            name = f"{wanted}{n}"
        self.structs.add(name)
        return name


def ctor_values(
    declaration: ir.Parser | ir.Control, instance: ir.Instance, outer: BlockWriter | None
) -> dict[ir.Variable, ir.Expr]:
    """The constructor parameters' values, those of the outer block put in."""
    out: dict[ir.Variable, ir.Expr] = {}
    for variable, argument in zip(declaration.ctor_params, instance.args, strict=True):
        if argument.value is not None:
            out[variable] = outer.passed(argument.value) if outer else argument.value
    return out


class BlockWriter(TableWriter):
    """Common to parsers and controls: members, and the instances inside."""

    def __init__(self, shared: Shared, ctor: dict[ir.Variable, ir.Expr], path: str, access: str) -> None:
        super().__init__(shared.layout, ctor)
        self.shared = shared
        self.path = path  # for the control plane
        self.access = access  # of this block's struct, from the Program struct
        self.functions = shared.functions
        self.digests = shared.schema.digests
        self.objects = shared.objects
        self.metadata, self.data_lists = {}, shared.data_lists
        self.structs: dict[ir.Instance, str] = {}  # of the blocks inside
        self.actions, self.tables, self.blocks = {}, {}, {}
        self.members = {}
        self.exiting = set()
        self.fields = Code()
        self.code = Code()

    def at(self, member: str) -> str:
        """A member of this block's struct, from the Program struct."""
        return f"{self.access}.{member}" if self.access else member

    def register(self, kind: str, member: str, info: StateInfo) -> None:
        getattr(self.shared.schema, kind).append(info)
        self.shared.registered[kind].append(self.at(member))

    # ---- objects

    def instance(self, instance: ir.Instance) -> None:
        """A member for an object declared here."""
        match instance.type:
            case ty.Extern():
                self.extern(instance, instance.type)
            case ty.Block():
                self.inner_block(instance)

    def inner_block(self, instance: ir.Instance) -> str:
        assert instance.declaration is not None
        name = instance.name or instance.declaration.name
        member = self.member(name)
        path = annotated_name(instance.annotations, self.path, name)
        ctor = ctor_values(instance.declaration, instance, self)
        struct, exits = write_block(self.shared, instance.declaration, ctor, path, self.at(member))
        self.fields.line(f"{struct} {member};")
        self.blocks[instance], self.structs[instance] = member, struct
        if exits:
            self.exiting.add(instance)
        return member

    def passed(self, argument: ir.Expr) -> ir.Expr:
        """An argument of an inner block's constructor: its value, or where the object is."""
        value = self.resolve(argument)
        if isinstance(value, ir.Call) and isinstance(value.target, ir.Construct):  # made for this argument
            self.instance(value.target.instance)
            value = ir.InstanceRef(value.type, value.span, value.target.instance)
        if not isinstance(value, ir.InstanceRef):
            return value
        instance = value.instance
        if instance in self.blocks:
            access, exits = self.at(self.blocks[instance]), instance in self.exiting
            return ObjectRef(value.type, value.span, instance, access, self.structs[instance], exits)
        if instance in self.members:
            access = self.at(self.members[instance])
            return ObjectRef(value.type, value.span, instance, access, self.cpp(instance.type))
        if instance in self.objects.top:
            return self.objects.top[instance]
        raise unsupported(value.span, f"'{instance.name}' as an argument of a constructor here")

    def member(self, name: str) -> str:
        wanted, n = cpp_name(name), 1
        member = wanted
        while member in self.used:
            n += 1
            member = f"{wanted}{n}"
        self.used.add(member)
        return member

    def extern(self, instance: ir.Instance, type_: ty.Extern) -> None:
        member = self.member(instance.name)
        name = annotated_name(instance.annotations, self.path, instance.name)
        args = [a.value for a in instance.args if a.value is not None]
        match type_.name:
            case "register":
                size = self.integer(args[0])
                element = type_.args[0]
                base = base_of(element)
                if not isinstance(base, ty.Bits):
                    raise unsupported(instance.span, f"a register of {element}", "bit<> or int<>")
                self.fields.line(f"Register<{self.cpp(element)}> {member}{{{size}}};")
                self.register("registers", member, StateInfo(name, size, base.width, is_signed=base.signed))
            case "counter":
                size = self.integer(args[0])
                self.fields.line(f"Counter {member}{{{size}}};")
                self.register("counters", member, StateInfo(name, size, unit=self._unit(args[1])))
            case "meter":
                size, unit = self.integer(args[0]), self._unit(args[1])
                self.fields.line(f"Meter {member}{{{size}, {str(unit == 'bytes').lower()}}};")
                self.register("meters", member, StateInfo(name, size, unit=unit))
            case "direct_meter":
                # One cell for each entry number of its table.
                tables = self._direct_tables(instance)
                size = max((t.size for t in tables), default=1024)
                unit, owner = self._unit(args[0]), tables[0].name if tables else ""
                self.fields.line(f"DirectMeter {member}{{{size}, {str(unit == 'bytes').lower()}}};")
                self.register("meters", member, StateInfo(name, size, unit=unit, table=owner))
            case "direct_counter" | "Checksum16":
                pass  # entries count; a checksum has no state
            case "action_profile" | "action_selector":
                self.profile(instance, type_.name, member, name)
            case _:
                raise unsupported(instance.span, f"extern '{type_.name}'")
        self.members[instance] = member

    def _direct_tables(self, instance: ir.Instance) -> list[StateInfo]:
        out = []
        for table in self.local_tables():
            meters = table.properties.get("meters")
            if isinstance(meters, ir.InstanceRef) and meters.instance is instance:
                size = 1024 if table.size is None else self.integer(table.size)
                out.append(StateInfo(annotated_name(table.annotations, self.path, table.name), size))
        return out

    def local_tables(self) -> list[ir.Table]:
        return []

    def profile(self, instance: ir.Instance, kind: str, member: str, name: str) -> None:
        """An action profile; its tables fill in the actions."""
        selects = kind == "action_selector"
        values = [a.value for a in instance.args if a.value is not None]
        size = self.integer(values[1 if selects else 0])
        self.fields.line(f"ActionProfile {member}{{{size}}};")
        self.members[instance] = member
        self.shared.profiles[instance] = len(self.shared.schema.profiles)
        self.shared.schema.profiles.append(ProfileInfo(name, size, selects))
        self.shared.registered["profiles"].append(self.at(member))

    @staticmethod
    def _unit(e: ir.Expr) -> str:
        return str(e.value) if isinstance(e, ir.Const) else "packets"

    def signature(self, params: tuple[ir.Variable, ...]) -> str:
        """C++ parameters; the variables must be declared already."""
        out = []
        for variable in params:
            cpp = self.cpp(variable.type)
            name = self.names[variable].removeprefix("f.")
            structured = isinstance(base_of(variable.type), (ty.Record, ty.Stack, ty.Tuple))
            if isinstance(variable.type, ty.Extern) or variable.direction in ("out", "inout"):
                out.append(f"{cpp}& {name}")
            else:
                out.append(f"const {cpp}& {name}" if structured else f"{cpp} {name}")
        return ", ".join(out)

    def clear_outs(self, params: tuple[ir.Variable, ...]) -> None:
        """An out parameter begins empty: headers invalid, the rest zero."""
        for variable in params:
            if variable.direction == "out":
                self.code.line(f"{self.names[variable]} = {{}};")


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
        with self.code.block(f"void apply({params_with_context})"):
            self.code.line(f"Frame f{{{', '.join(['c', *([frame] if frame else [])])}}};")
            self.clear_outs(control.params)
            for decl in declared:
                if decl.init is not None:
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


class ParserWriter(BlockWriter):
    """One instance of a parser: apply() is a loop over its states."""

    context_argument = "c"

    def __init__(
        self, shared: Shared, parser: ir.Parser, ctor: dict[ir.Variable, ir.Expr], path: str, access: str
    ) -> None:
        super().__init__(shared, ctor, path, access)
        self.parser = parser
        self.value_sets: dict[ir.ValueSet, str] = {}

    def write(self, struct: str) -> bool:
        parser = self.parser
        self.used = {"apply", "c", "state", "steps"}
        for variable in parser.params:
            self.declare(variable)
        for local in parser.locals:
            if isinstance(local, ir.Instance):
                self.instance(local)
            elif isinstance(local, ir.ValueSet):
                self._value_set(local)
        for found in anonymous_instances(parser):
            self.inner_block(found)
        params = self.signature(parser.params)
        states = {s.name: f"in_{cpp_name(s.name)}" for s in parser.states}
        self.fields.line(f"enum State {{ {', '.join(states.values())} }};")
        self.fields.line()
        with self.code.block(f"void apply({', '.join(['Context& c', *([params] if params else [])])})"):
            self.code.line("(void)c;")
            self.clear_outs(parser.params)
            for local in parser.locals:
                if isinstance(local, ir.VarDecl):
                    self.statement(local)
            self.code.line("State state = in_start;")
            loop = self.code.block("for (int steps = 0; steps < max_parser_steps; ++steps)")
            with loop:
                self.code.line("c.step();")
                with self.code.block("switch (state)"):
                    for s in parser.states:
                        self._state(s, states)
            self.code.line("throw ParserError{parser_timeout};")
        out = self.shared.code
        out.line()
        out.line(f"// parser {parser.name}: {self.path}")
        with out.block(f"struct {struct}", "};"):
            out.add(self.fields)
            out.add(self.code)
        return False

    def _value_set(self, value_set: ir.ValueSet) -> None:
        member = self.member(value_set.name)
        fields = [FieldInfo(p.lstrip("."), scalar_bits(t)) for p, t in scalar_fields(value_set.type, "")]
        size = sum((f.bits + 7) // 8 for f in fields)
        self.fields.line(f"ValueSet {member}{{{size}, {self.integer(value_set.size)}}};")
        name = annotated_name(value_set.annotations, self.path, value_set.name)
        self.register(
            "value_sets", member, StateInfo(name, self.integer(value_set.size), fields=tuple(fields))
        )
        self.value_sets[value_set] = member

    def _state(self, state: ir.State, states: dict[str, str]) -> None:
        with self.code.block(f"case {states[state.name]}:"):
            for item in state.body:
                self.statement(item)
            self._transition(state.transition, states)

    def _go(self, name: str, states: dict[str, str]) -> str:
        if name == "accept":
            return "return;"
        if name == "reject":
            return "throw ParserError{no_error};"
        return f"state = {states[name]}; continue;"

    def _transition(self, transition: ir.Transition, states: dict[str, str]) -> None:
        if not transition.exprs:
            self.code.line(self._go(transition.cases[0].state, states))
            return
        keys = []
        for expr in transition.exprs:
            name = self.temporary()
            self.code.line(f"const auto {name} = {self.expr(expr)};")
            keys.append((name, expr))
        for case in transition.cases:
            if len(case.matches) == 1 and case.matches[0].kind == "set":
                tests = [self._in_set(case.matches[0], keys)]
            else:
                tests = [
                    self._test(m, n) for m, (n, _) in zip(case.matches, keys, strict=True) if m.kind != "any"
                ]
            go = self._go(case.state, states)
            if not tests:
                self.code.line(go)
                return
            self.code.line(f"if ({' && '.join(tests)}) {{ {go} }}")
        self.code.line("throw ParserError{no_match};")

    def _test(self, match: ir.Match, key: str) -> str:
        assert match.value is not None
        value = self.expr(match.value)
        if match.kind == "set":
            return self._in_set(match, [(key, match.value)])
        if match.kind == "mask":
            assert match.second is not None
            mask = self.expr(match.second)
            return f"({key} & {mask}) == ({value} & {mask})"
        if match.kind == "range":
            assert match.second is not None
            return f"{key} >= {value} && {key} <= {self.expr(match.second)}"
        return f"{key} == {value}"

    def _in_set(self, match: ir.Match, keys: list[tuple[str, ir.Expr]]) -> str:
        assert isinstance(match.value, ir.ValueSetRef)
        value_set = match.value.value_set
        scalars = [s for _, s in scalar_fields(value_set.type, "")]
        puts, at = [], 0
        for (name, _), scalar in zip(keys, scalars, strict=True):
            bits = scalar_bits(scalar)
            puts.append(f"key_field<bit<{bits}>, {at}>(key, {self.as_bits(name, scalar)});")
            at += (bits + 7) // 8
        words = (at + 7) // 8
        found = f"{self.value_sets[value_set]}.contains(key)"
        return f"({{ uint64_t key[{words}] = {{}}; {' '.join(puts)} {found}; }})"


def anonymous_instances(block: ir.Control | ir.Parser) -> list[ir.Instance]:
    """Blocks that are applied without being declared here: ``C.apply(...)``, or declared inside a body."""
    declared = {x for x in block.locals if isinstance(x, ir.Instance)}
    found: dict[ir.Instance, None] = {}

    def visit(s: ir.Statement) -> None:
        match s:
            case ir.Block():
                for item in s.items:
                    visit(item)
            case ir.If():
                visit(s.then)
                if s.orelse:
                    visit(s.orelse)
            case ir.Switch():
                for case in s.cases:
                    visit(case.body)
            case ir.For() | ir.ForRange() | ir.ForEach():
                visit(s.body)
            case ir.CallStatement(call=ir.Call(target=ir.ApplyBlock(instance))):
                if instance not in declared and instance.declaration is not None:
                    found[instance] = None

    if isinstance(block, ir.Control):
        visit(block.body)
    else:
        for state in block.states:
            for item in state.body:
                visit(item)
    return list(found)


@dataclass(frozen=True)
class Writers:
    """Who writes parsers and controls."""

    parser: type[ParserWriter]
    control: type[ControlWriter]


class TopWriter(BlockWriter):
    """The objects at the program's top level: members of the Program struct itself."""

    context_argument = "c"

    def __init__(self, shared: Shared, taken: set[str]) -> None:
        super().__init__(shared, {}, "", "")
        self.used = set(taken)

    def write(self) -> None:
        for instance in self.shared.program.instances:
            if isinstance(instance.type, ty.Extern):
                self.instance(instance)
                cpp = self.cpp(instance.type)
                ref = ObjectRef(instance.type, instance.span, instance, self.members[instance], cpp)
                self.objects.top[instance] = ref


def write_block(
    shared: Shared,
    declaration: ir.Parser | ir.Control,
    ctor: dict[ir.Variable, ir.Expr],
    path: str,
    access: str,
) -> tuple[str, bool]:
    """(struct name, whether it may exit) of one instance, written after those inside it."""
    struct = shared.struct_name(path)
    writers = shared.writers or Writers(ParserWriter, ControlWriter)
    if isinstance(declaration, ir.Parser):
        return struct, writers.parser(shared, declaration, ctor, path, access).write(struct)
    return struct, writers.control(shared, declaration, ctor, path, access).write(struct)
