"""The syntax tree: small frozen nodes, each with the span of its first token's line. No meaning here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from p4.lang.diagnostics import Span
from p4.lang.tokens import Token


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Everything has a place."""

    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Annotation(Node):
    """``@name(body)``; the body's tokens are kept as written, brackets included."""

    name: str
    body: tuple[Token, ...]


# ---- types


@dataclass(frozen=True, slots=True, eq=False)
class BaseType(Node):
    """bool, error, string, void, match_kind, or the arbitrary-precision int."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class BitsType(Node):
    """bit<width>, int<width> or varbit<width>."""

    kind: str
    width: Expr


@dataclass(frozen=True, slots=True, eq=False)
class NamedType(Node):
    name: str
    is_global: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SpecializedType(Node):
    base: NamedType
    args: tuple[TypeNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TupleType(Node):
    """tuple<...> or list<T>."""

    kind: str
    args: tuple[TypeNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StackType(Node):
    element: TypeNode
    size: Expr


@dataclass(frozen=True, slots=True, eq=False)
class DontCareType(Node):
    pass


TypeNode: TypeAlias = BaseType | BitsType | NamedType | SpecializedType | TupleType | StackType | DontCareType


# ---- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Expr(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class IntLiteral(Expr):
    """``width`` is None for an arbitrary-precision constant."""

    value: int
    width: int | None
    signed: bool


@dataclass(frozen=True, slots=True, eq=False)
class BoolLiteral(Expr):
    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Expr):
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expr):
    name: str
    is_global: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TypeExpr(Expr):
    """A type where an expression stands: ``Enum.member``, ``Control.apply(..)``, a constructor's name."""

    type: TypeNode


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expr):
    base: Expr
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expr):
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expr):
    """``base[high:low]``, or ``base[low +: width]`` with `low` in `high` and `is_width` set."""

    base: Expr
    high: Expr
    low: Expr
    is_width: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Ternary(Expr):
    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    type: TypeNode
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Arg(Node):
    """``value`` is None for ``_``."""

    name: str | None
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    callee: Expr
    type_args: tuple[TypeNode, ...]
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListExpr(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RecordExpr(Expr):
    fields: tuple[tuple[str, Expr], ...]
    has_default: bool


@dataclass(frozen=True, slots=True, eq=False)
class DefaultExpr(Expr):
    """``...``: the default value of whatever stands here."""


@dataclass(frozen=True, slots=True, eq=False)
class InvalidExpr(Expr):
    """``{#}``: an invalid header or header union."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskSet(Expr):
    value: Expr
    mask: Expr


@dataclass(frozen=True, slots=True, eq=False)
class RangeSet(Expr):
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AnySet(Expr):
    """``default`` or ``_``."""

    is_default: bool


@dataclass(frozen=True, slots=True, eq=False)
class TupleSet(Expr):
    items: tuple[Expr, ...]


# ---- statements


@dataclass(frozen=True, slots=True, eq=False)
class Statement(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Block(Statement):
    items: tuple[Node, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    """``op`` is "" for plain assignment, "+" for ``+=`` and so on."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement(Statement):
    call: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    condition: Expr
    then: Statement
    orelse: Statement | None


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCase(Node):
    """``label`` AnySet is default; ``block`` is None when the case falls through."""

    label: Expr
    block: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Statement):
    subject: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    inits: tuple[Node, ...]
    condition: Expr
    updates: tuple[Statement, ...]
    body: Statement


@dataclass(frozen=True, slots=True, eq=False)
class ForIn(Statement):
    """Over ``first..last`` (inclusive), or over a list or stack when `last` is None."""

    type: TypeNode
    name: str
    first: Expr
    last: Expr | None
    body: Statement


@dataclass(frozen=True, slots=True, eq=False)
class Exit(Statement):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Empty(Statement):
    pass


# ---- declarations


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Node):
    """`span` is the name's."""

    annotations: tuple[Annotation, ...]
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class VarDecl(Declaration):
    type: TypeNode
    init: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class ConstDecl(Declaration):
    type: TypeNode
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class InstanceDecl(Declaration):
    type: TypeNode
    args: tuple[Arg, ...]
    initializer: tuple[Declaration, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class FieldDecl(Declaration):
    type: TypeNode


@dataclass(frozen=True, slots=True, eq=False)
class StructDecl(Declaration):
    """``kind``: struct, header or header_union."""

    kind: str
    type_params: tuple[str, ...]
    fields: tuple[FieldDecl, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EnumMember(Declaration):
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class EnumDecl(Declaration):
    underlying: TypeNode | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NamesDecl(Declaration):
    """``error {..}`` or ``match_kind {..}``; `name` says which."""

    names: tuple[tuple[str, Span], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TypedefDecl(Declaration):
    """``is_new`` for ``type``, which makes a distinct type."""

    is_new: bool
    type: TypeNode


@dataclass(frozen=True, slots=True, eq=False)
class Param(Declaration):
    """``direction``: "", in, out or inout."""

    direction: str
    type: TypeNode
    default: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Prototype(Declaration):
    """A function, an extern's method, or (``returns`` None) its constructor."""

    returns: TypeNode | None
    type_params: tuple[str, ...]
    params: tuple[Param, ...]
    is_abstract: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExternDecl(Declaration):
    type_params: tuple[str, ...]
    methods: tuple[Prototype, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDecl(Declaration):
    """``body`` is None for an extern function."""

    prototype: Prototype
    body: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class SelectCase(Node):
    keyset: Expr
    state: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    exprs: tuple[Expr, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GoTo(Node):
    state: str


@dataclass(frozen=True, slots=True, eq=False)
class StateDecl(Declaration):
    items: tuple[Node, ...]
    transition: GoTo | Select | None


@dataclass(frozen=True, slots=True, eq=False)
class ValueSetDecl(Declaration):
    type: TypeNode
    size: Expr


@dataclass(frozen=True, slots=True, eq=False)
class ParserDecl(Declaration):
    """A parser, or a parser type (``states`` None)."""

    type_params: tuple[str, ...]
    params: tuple[Param, ...]
    ctor_params: tuple[Param, ...]
    locals: tuple[Declaration, ...]
    states: tuple[StateDecl, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class ControlDecl(Declaration):
    """A control, or a control type (``body`` None)."""

    type_params: tuple[str, ...]
    params: tuple[Param, ...]
    ctor_params: tuple[Param, ...]
    locals: tuple[Declaration, ...]
    body: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class PackageDecl(Declaration):
    type_params: tuple[str, ...]
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionDecl(Declaration):
    params: tuple[Param, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class KeyElement(Node):
    expr: Expr
    match_kind: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionRef(Node):
    """``expr`` is a name, or a call of it that binds the directional parameters."""

    expr: Expr
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Node):
    is_const: bool
    priority: Expr | None
    keyset: Expr
    action: Expr
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Property(Node):
    """``name`` key, actions, entries (with a tuple in `value`) or any other (with an expression)."""

    annotations: tuple[Annotation, ...]
    name: str
    is_const: bool
    value: tuple[KeyElement, ...] | tuple[ActionRef, ...] | tuple[Entry, ...] | Expr


@dataclass(frozen=True, slots=True, eq=False)
class TableDecl(Declaration):
    properties: tuple[Property, ...]
