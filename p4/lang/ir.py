"""The typed program: every name resolved, every implicit cast written out, every generic given its types.

The checker makes it, `codegen` reads it. Expressions carry their type; a known value is a Const.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from p4.lang import ast
from p4.lang.diagnostics import Span
from p4.lang.types import Block as BlockType
from p4.lang.types import EnumType, Extern, Param, Record, Signature, Type

# ---- things with a name


@dataclass(eq=False)
class Variable:
    """``kind``: local, param, ctor (a constructor's parameter) or const."""

    name: str
    type: Type
    kind: str
    span: Span
    direction: str = ""
    annotations: tuple[ast.Annotation, ...] = ()
    default: Expr | None = None


@dataclass(eq=False)
class Instance:
    """An object made by a constructor: extern, parser, control or package. ``methods``: its initializer's."""

    name: str
    type: Type
    args: tuple[Argument, ...]
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)
    declaration: Parser | Control | None = None


@dataclass(eq=False)
class ValueSet:
    name: str
    type: Type
    size: Expr
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class Function:
    name: str
    params: tuple[Variable, ...]
    returns: Type
    body: Block
    span: Span
    signature: Signature


@dataclass(eq=False)
class Action:
    name: str
    params: tuple[Variable, ...]
    body: Block
    span: Span
    signature: Signature
    annotations: tuple[ast.Annotation, ...] = ()

    @property
    def data_params(self) -> tuple[Variable, ...]:
        """The parameters that a table entry supplies."""
        return tuple(p for p in self.params if not p.direction)


@dataclass(frozen=True, eq=False)
class Key:
    """``text`` is the expression as written: its name for the control plane unless annotated."""

    expr: Expr
    match_kind: str
    text: str
    annotations: tuple[ast.Annotation, ...]
    span: Span


@dataclass(frozen=True, eq=False)
class TableAction:
    """An action a table may run, with the directional arguments bound at the table."""

    action: Action
    bound: tuple[Expr, ...]
    annotations: tuple[ast.Annotation, ...]


@dataclass(frozen=True, eq=False)
class ActionUse:
    """An action with its data, as a default action or in an entry. ``data`` is constant."""

    action: Action
    data: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Entry:
    keys: tuple[Match, ...]
    use: ActionUse
    priority: int | None
    is_const: bool
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class Table:
    name: str
    keys: tuple[Key, ...]
    actions: tuple[TableAction, ...]
    default: ActionUse | None
    default_is_const: bool
    entries: tuple[Entry, ...]
    entries_are_const: bool
    size: Expr | None
    properties: dict[str, Expr]
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class Control:
    """``locals`` in order: Variable initialisations (VarDecl), Instance, Action, Table."""

    name: str
    type: BlockType
    params: tuple[Variable, ...]
    ctor_params: tuple[Variable, ...]
    locals: tuple[VarDecl | Instance | Action | Table, ...]
    body: Block
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class State:
    name: str
    body: tuple[Statement, ...]
    transition: Transition
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class Parser:
    name: str
    type: BlockType
    params: tuple[Variable, ...]
    ctor_params: tuple[Variable, ...]
    locals: tuple[VarDecl | Instance | ValueSet, ...]
    states: tuple[State, ...]
    span: Span
    annotations: tuple[ast.Annotation, ...] = ()


@dataclass(eq=False)
class Program:
    """A whole checked program. ``main`` is None for a library.

    ``files``: what it includes. ``missed_files``: where an include was looked for before it was found.
    """

    path: str
    files: tuple[Path, ...]
    errors: tuple[str, ...]
    match_kinds: tuple[str, ...]
    records: dict[str, ast.StructDecl]
    record_types: dict[str, Record]
    enums: dict[str, EnumType]
    externs: dict[str, Extern]
    parsers: dict[str, Parser]
    controls: dict[str, Control]
    functions: tuple[Function, ...]
    actions: tuple[Action, ...]
    instances: tuple[Instance, ...]
    constants: dict[str, Const]
    main: Instance | None
    missed_files: tuple[Path, ...] = ()


# ---- expressions


@dataclass(frozen=True, eq=False)
class Expr:
    type: Type
    span: Span


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """``value``: int (bits, int, serializable enum), bool, or str (string; member of an error or enum)."""

    value: int | bool | str


@dataclass(frozen=True, eq=False)
class Var(Expr):
    variable: Variable


@dataclass(frozen=True, eq=False)
class InstanceRef(Expr):
    """An object where an expression stands: an argument of a constructor, a table's implementation."""

    instance: Instance


@dataclass(frozen=True, eq=False)
class ValueSetRef(Expr):
    value_set: ValueSet


@dataclass(frozen=True, eq=False)
class Field(Expr):
    """A field of a struct, header, union, or of an ApplyResult (hit, miss, action_run)."""

    base: Expr
    name: str


@dataclass(frozen=True, eq=False)
class Item(Expr):
    """An element of a header stack (run-time index) or tuple (constant index)."""

    base: Expr
    index: Expr


@dataclass(frozen=True, eq=False)
class StackPart(Expr):
    """``part``: next, last, lastIndex."""

    base: Expr
    part: str


@dataclass(frozen=True, eq=False)
class Slice(Expr):
    base: Expr
    high: int
    low: int


@dataclass(frozen=True, eq=False)
class SliceAt(Expr):
    """``base[low +: width]`` with `low` known only at run time; `width` is the type's."""

    base: Expr
    low: Expr


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Ternary(Expr):
    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    operand: Expr


@dataclass(frozen=True, eq=False)
class Aggregate(Expr):
    """A struct, header (valid), stack, tuple or list from its parts, in the type's order."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Default(Expr):
    """The type's default value; of a header (``{#}`` too): invalid."""


@dataclass(frozen=True, eq=False)
class Argument:
    """``value`` None: nothing passed (optional parameter, or ``_`` for an out parameter)."""

    param: Param
    value: Expr | None


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A call; `target` says of what. ``type_args``: what the callee's type parameters became."""

    target: Target
    args: tuple[Argument, ...]
    type_args: tuple[Type, ...] = ()


@dataclass(frozen=True, eq=False)
class ActionTarget:
    action: Action


@dataclass(frozen=True, eq=False)
class FunctionTarget:
    function: Function


@dataclass(frozen=True, eq=False)
class ExternFunction:
    name: str


@dataclass(frozen=True, eq=False)
class Method:
    """A method of an extern object: an instance, or a parameter such as packet_in (`Var`)."""

    object: Expr
    extern: Extern
    name: str


@dataclass(frozen=True, eq=False)
class Builtin:
    """A method of headers and stacks: isValid, setValid, setInvalid, push_front, pop_front."""

    object: Expr
    name: str


@dataclass(frozen=True, eq=False)
class ApplyBlock:
    """``instance.apply(...)`` of a parser or control."""

    instance: Instance


@dataclass(frozen=True, eq=False)
class ApplyTable:
    table: Table


@dataclass(frozen=True, eq=False)
class Construct:
    """A constructor call where a value stands, e.g. an argument of a package."""

    instance: Instance


Target: TypeAlias = (
    ActionTarget | FunctionTarget | ExternFunction | Method | Builtin | ApplyBlock | ApplyTable | Construct
)

# ---- matches: select cases and table entries


@dataclass(frozen=True, eq=False)
class Match:
    """How one value is matched. ``kind``: exact, mask, range, any, or set (a value set)."""

    kind: str
    span: Span
    value: Expr | None = None
    second: Expr | None = None


@dataclass(frozen=True, eq=False)
class SelectCase:
    """One match per selected expression (or one of kind any or set for all of them)."""

    matches: tuple[Match, ...]
    state: str
    span: Span


@dataclass(frozen=True, eq=False)
class Transition:
    """``exprs`` empty: go to `cases[0].state` whatever comes."""

    exprs: tuple[Expr, ...]
    cases: tuple[SelectCase, ...]
    span: Span


# ---- statements


@dataclass(frozen=True, eq=False)
class Statement:
    span: Span


@dataclass(frozen=True, eq=False)
class Block(Statement):
    items: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class VarDecl(Statement):
    variable: Variable
    init: Expr | None


@dataclass(frozen=True, eq=False)
class Assign(Statement):
    target: Expr
    value: Expr


@dataclass(frozen=True, eq=False)
class CallStatement(Statement):
    call: Call


@dataclass(frozen=True, eq=False)
class If(Statement):
    condition: Expr
    then: Statement
    orelse: Statement | None


@dataclass(frozen=True, eq=False)
class SwitchCase:
    """``labels``: constants, or Actions for a switch on action_run; empty for default."""

    labels: tuple[Expr | Action, ...]
    is_default: bool
    body: Block


@dataclass(frozen=True, eq=False)
class Switch(Statement):
    """``table`` is set for a switch on action_run (`subject` is then the apply call)."""

    subject: Expr
    table: Table | None
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, eq=False)
class For(Statement):
    inits: tuple[Statement, ...]
    condition: Expr
    updates: tuple[Statement, ...]
    body: Statement


@dataclass(frozen=True, eq=False)
class ForRange(Statement):
    """`variable` from `first` to `last`, both included."""

    variable: Variable
    first: Expr
    last: Expr
    body: Statement


@dataclass(frozen=True, eq=False)
class ForEach(Statement):
    """`variable` is each element of a header stack, or of an Aggregate's items, in turn."""

    variable: Variable
    collection: Expr
    body: Statement


@dataclass(frozen=True, eq=False)
class Exit(Statement):
    pass


@dataclass(frozen=True, eq=False)
class Return(Statement):
    value: Expr | None


@dataclass(frozen=True, eq=False)
class Break(Statement):
    pass


@dataclass(frozen=True, eq=False)
class Continue(Statement):
    pass
