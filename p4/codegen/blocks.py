"""What parsers and controls have in common as C++: a struct for each instance, its state and apply() in it.

controls.py and parsers.py write the two kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from p4.codegen.code import Code, cpp_name, unsupported
from p4.codegen.layout import Layout, base_of
from p4.codegen.objects import ObjectRef, Objects
from p4.codegen.records import Array, read_for_nothing, records_of
from p4.codegen.schema import ProfileInfo, Schema, StateInfo
from p4.codegen.tables import TableWriter, annotated_name
from p4.lang import ir
from p4.lang import types as ty


class Writer(Protocol):
    """Writes one instance into the program's code; whether its apply() may exit."""

    def write(self, struct: str) -> bool: ...


@dataclass(frozen=True)
class Writers:
    """Who writes parsers and controls: called with what BlockWriter takes, the declaration second."""

    parser: Callable[[Shared, ir.Parser, dict[ir.Variable, ir.Expr], str, str], Writer]
    control: Callable[[Shared, ir.Control, dict[ir.Variable, ir.Expr], str, str], Writer]


@dataclass
class Shared:
    """What all blocks of a program write to."""

    program: ir.Program
    layout: Layout
    schema: Schema
    code: Code = field(default_factory=Code)
    functions: dict[ir.Function, str] = field(default_factory=dict)
    structs: set[str] = field(default_factory=set)
    writers: Writers | None = None  # of inner blocks
    reads_what_it_writes: bool = False  # rounds.py
    may_run_ahead: bool = False  # ahead.py
    followed: frozenset[ir.Instance] | None = None  # announce.py
    profiles: dict[ir.Instance, int] = field(default_factory=dict)  # their numbers in the schema
    objects: Objects = field(default_factory=Objects)
    data_lists: list[tuple[str, ...]] = field(default_factory=list)
    # The elements of register arrays that lie interleaved, by block and number; of each array, its record.
    records: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    record_of: list[int] = field(default_factory=list)
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

    def record_sizes(self) -> list[str]:
        """C++ constants: the bytes of each kind of record of registers."""
        return [
            f"constexpr uint64_t record_{n}_bytes_ = record_bytes({{sizeof({'), sizeof('.join(elements)})}});"
            for n, elements in enumerate(self.records.values())
        ]

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
        self.record_numbers: dict[ir.Instance, int] = {}
        self.actions, self.tables, self.blocks = {}, {}, {}
        self.members = {}
        self.exiting = set()
        self.fields = Code()
        self.code = Code()

    def at(self, member: str) -> str:
        """A member of this block's struct, from the Program struct."""
        return f"{self.access}.{member}" if self.access else member

    def lay_out(self, block: ir.Parser | ir.Control) -> None:
        """Which of the block's register arrays lie interleaved. Before they are written."""
        arrays = []
        for local in block.locals:
            if isinstance(local, ir.Instance) and isinstance(local.type, ty.Extern):
                bits = ty.bit_width(local.type.args[0]) if local.type.name.lower() == "register" else None
                if bits is not None and local.args[0].value is not None:
                    arrays.append(Array(local, self.integer(local.args[0].value), _aligned(bits)))
        self.record_numbers = records_of(block, arrays)
        self.unread = read_for_nothing(block) if self.rerolls else frozenset()

    def register_array(self, instance: ir.Instance, element: ty.Type, size: int) -> str:
        """The C++ type of a register array."""
        cpp = self.cpp(element)
        records = self.shared.records
        # One that lies alone, such as those of the top level, has a negative number.
        key = (self.access, self.record_numbers.get(instance, -1 - len(self.shared.record_of)))
        records.setdefault(key, []).append(cpp)
        record = list(records).index(key)
        self.shared.record_of.append(record)
        return f"RegisterArray<{cpp}, {size}u, record_{record}_bytes_>"

    def register_place(self, place: str) -> tuple[object, int] | None:
        """(its group, its number in the group): a group's registers lie side by side in memory."""
        known = zip(
            self.shared.registered["registers"],
            self.shared.schema.registers,
            self.shared.record_of,
            strict=True,
        )
        groups: dict[tuple[int, int], tuple[tuple[int, bool], int, int]] = {}  # by record and alignment
        for access, info, record in known:
            # Another kind between them would lie there in memory too, if its elements are aligned alike.
            part, kind = (record, _aligned(info.bits)), (info.bits, info.is_signed)
            last, run, number = groups.get(part, (kind, 0, -1))
            groups[part] = (kind, run, number + 1) if kind == last else (kind, run + 1, 0)
            if access == self.at(place):
                return (*part, groups[part][1]), groups[part][2]
        return None

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
                self.fields.line(f"{self.register_array(instance, element, size)} {member};")
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


def write_block(
    shared: Shared,
    declaration: ir.Parser | ir.Control,
    ctor: dict[ir.Variable, ir.Expr],
    path: str,
    access: str,
) -> tuple[str, bool]:
    """(struct name, whether it may exit) of one instance, written after those inside it."""
    struct = shared.struct_name(path)
    writers = shared.writers
    assert writers is not None
    if isinstance(declaration, ir.Parser):
        return struct, writers.parser(shared, declaration, ctor, path, access).write(struct)
    return struct, writers.control(shared, declaration, ctor, path, access).write(struct)


def _aligned(bits: int) -> int:
    """Bytes that an element of a register is aligned to (state.h)."""
    return next((n for n in (1, 2, 4, 8) if bits <= 8 * n), 16)
