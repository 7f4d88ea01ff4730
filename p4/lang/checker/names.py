"""Scopes, and types as written resolved to types: the checker's lowest layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.diagnostics import Collector, Span

MAX_WIDTH = 1 << 20


@dataclass(frozen=True)
class GenericType:
    """A type with parameters: `body` uses `variables`."""

    name: str
    variables: tuple[ty.TypeVar, ...]
    body: ty.Type


@dataclass(eq=False)
class Overload:
    """One function of a name. A generic one with a body is checked again for each set of type arguments."""

    signature: ty.Signature
    declaration: ast.FunctionDecl
    function: ir.Function | None = None
    instances: dict[tuple[ty.Type, ...], ir.Function] = field(default_factory=dict)


@dataclass(eq=False)
class FunctionSet:
    """All functions of a name, told apart by their number of parameters."""

    name: str
    overloads: list[Overload]


@dataclass(eq=False)
class TypeName:
    """A type's name in a scope."""

    type: ty.Type


Symbol: TypeAlias = (
    ir.Variable
    | ir.Expr
    | ir.Instance
    | ir.Action
    | ir.Table
    | ir.ValueSet
    | ir.Parser
    | ir.Control
    | GenericType
    | TypeName
    | FunctionSet
)


class Scope:
    """One block's names. ``guarded``: names of the block around it that may not be hidden: its parameters."""

    def __init__(self, guarded: frozenset[str] = frozenset()) -> None:
        self.symbols: dict[str, tuple[Symbol, Span | None]] = {}
        self.guarded = guarded


class NameResolver:
    """Scopes and types."""

    def __init__(self, sink: Collector) -> None:
        self.sink = sink
        self.scopes: list[Scope] = [Scope()]
        self.errors: dict[str, Span] = {}
        self.match_kinds: dict[str, Span] = {}
        self.records: dict[str, ast.StructDecl] = {}
        self.record_types: dict[str, ty.Record] = {}
        # Which construct is being checked: "" (top), parser, state, control, apply, action, function.
        self.context = ""

    # ---- scopes

    @contextmanager
    def scope(self, context: str | None = None, *, guarded: bool = False) -> Iterator[Scope]:
        """A new scope. ``guarded``: the one around it holds the parameters of the body that begins here."""
        names = frozenset(self.scopes[-1].symbols) if guarded else self.scopes[-1].guarded
        inner, outer_context = Scope(names), self.context
        self.scopes.append(inner)
        if context is not None:
            self.context = context
        try:
            yield inner
        finally:
            self.scopes.pop()
            self.context = outer_context

    def lookup(self, name: str, is_global: bool = False) -> Symbol | None:
        for scope in self.scopes[:1] if is_global else reversed(self.scopes):
            if name in scope.symbols:
                return scope.symbols[name][0]
        return None

    def declare(self, name: str, symbol: Symbol, span: Span | None) -> None:
        known = self.scopes[-1].symbols.get(name)
        if known is not None:
            where = f" (first at {known[1]})" if known[1] else ""
            self.sink.error(span, f"'{name}' is declared twice in the same scope{where}")
            return
        if name in self.scopes[-1].guarded:
            self.sink.error(span, f"'{name}' hides a parameter of this name", "another name")
        self.scopes[-1].symbols[name] = (symbol, span)

    def describe(self, symbol: Symbol) -> str:
        match symbol:
            case ir.Variable() | ir.Expr():
                return "a value"
            case ir.Instance():
                return "an object"
            case ir.Action():
                return "an action"
            case ir.Table():
                return "a table"
            case ir.ValueSet():
                return "a value set"
            case ir.Parser():
                return "a parser"
            case ir.Control():
                return "a control"
            case FunctionSet():
                return "a function"
        return "a type"

    def suggest(self, name: str) -> str:
        """A known name that may have been meant, as a hint."""
        from difflib import get_close_matches  # noqa: PLC0415 - only on the error path

        known = {n for scope in self.scopes for n in scope.symbols}
        close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
        return f"a declared name; did you mean '{close[0]}'?" if close else "a declared name"

    # ---- types

    def resolve(self, node: ast.TypeNode) -> ty.Type:
        """The type a node names; UNKNOWN after an error."""
        match node:
            case ast.BaseType():
                return {
                    "bool": ty.BOOL,
                    "string": ty.STRING,
                    "error": ty.ERROR,
                    "match_kind": ty.MATCH_KIND,
                    "void": ty.VOID,
                    "int": ty.INT,
                }[node.name]
            case ast.BitsType():
                width = self.constant_int(node.width, "a width")
                if width is None:
                    return ty.UNKNOWN
                low = 1 if node.kind == "int" else 0
                if not low <= width <= MAX_WIDTH:
                    self.sink.error(
                        node.width.span, f"width {width} of {node.kind}<>", f"{low} to {MAX_WIDTH}"
                    )
                    return ty.UNKNOWN
                return ty.Varbit(width) if node.kind == "varbit" else ty.Bits(width, node.kind == "int")
            case ast.NamedType():
                return self._named(node)
            case ast.SpecializedType():
                return self._specialized(node)
            case ast.TupleType():
                items = tuple(self._part(a) for a in node.args)
                if node.kind == "tuple":
                    for written, item in zip(node.args, items, strict=True):
                        if isinstance(item, (ty.Extern, ty.Block)):
                            self.sink.error(written.span, f"{item} in a tuple", "types with run-time values")
                    return ty.Tuple(items)
                if len(items) != 1:
                    self.sink.error(node.span, f"list with {len(items)} type arguments", "list<T>")
                    return ty.UNKNOWN
                return ty.ListOf(items[0])
            case ast.StackType():
                return self._stack(node)
        self.sink.error(node.span, "'_' is not a type here")
        return ty.UNKNOWN

    def _part(self, node: ast.TypeNode) -> ty.Type:
        type_ = self.resolve(node)
        if type_ == ty.VOID:
            self.sink.error(node.span, "void cannot be part of another type")
            return ty.UNKNOWN
        return type_

    def _named(self, node: ast.NamedType) -> ty.Type:
        symbol = self.lookup(node.name, node.is_global)
        match symbol:
            case TypeName():
                return symbol.type
            case GenericType():
                wanted = len(symbol.variables)
                self.sink.error(
                    node.span, f"'{node.name}' needs type arguments", f"{wanted} of them: {node.name}<...>"
                )
                return ty.UNKNOWN
            case ir.Parser() | ir.Control():
                return symbol.type
            case None:
                self.sink.error(node.span, f"unknown type '{node.name}'", self.suggest(node.name))
                return ty.UNKNOWN
        self.sink.error(node.span, f"'{node.name}' is {self.describe(symbol)}, not a type")
        return ty.UNKNOWN

    def _specialized(self, node: ast.SpecializedType) -> ty.Type:
        symbol = self.lookup(node.base.name, node.base.is_global)
        if symbol is None:
            self.sink.error(node.base.span, f"unknown type '{node.base.name}'", self.suggest(node.base.name))
            return ty.UNKNOWN
        if not isinstance(symbol, GenericType):
            self.sink.error(node.span, f"'{node.base.name}' takes no type arguments")
            return ty.UNKNOWN
        if len(node.args) != len(symbol.variables):
            self.sink.error(
                node.span, f"'{symbol.name}' with {len(node.args)} type arguments", f"{len(symbol.variables)}"
            )
            return ty.UNKNOWN
        # A `_` leaves the argument open: it is inferred where the type is used.
        bindings = {
            variable: ty.TypeVar("_") if isinstance(arg, ast.DontCareType) else self._part(arg)
            for variable, arg in zip(symbol.variables, node.args, strict=True)
        }
        return self._well_formed(ty.substitute(symbol.body, bindings), node.span)

    def _well_formed(self, type_: ty.Type, span: Span) -> ty.Type:
        if isinstance(type_, ty.Record):
            for name, inner in type_.fields:
                self.check_field(type_.kind, name, inner, span)
        return type_

    def _stack(self, node: ast.StackType) -> ty.Type:
        element = self.resolve(node.element)
        size = self.constant_int(node.size, "the size of a stack")
        if element == ty.UNKNOWN or size is None:
            return ty.UNKNOWN
        is_header = isinstance(element, ty.Record) and element.kind in ("header", "header_union")
        if not is_header and not isinstance(element, ty.TypeVar):
            self.sink.error(node.span, f"a stack of {element}", "headers or header unions")
            return ty.UNKNOWN
        if not 0 < size <= 1 << 16:
            self.sink.error(node.size.span, f"a stack of {size} elements", "1 to 65536")
            return ty.UNKNOWN
        return ty.Stack(element, size)

    def check_field(self, kind: str, name: str, type_: ty.Type, span: Span) -> None:
        """Whether a header, union or struct may have a field of this type."""
        base = type_
        while isinstance(base, ty.NewType):
            base = base.base
        if base == ty.UNKNOWN or isinstance(base, ty.TypeVar):
            return
        allowed: bool
        if kind == "header":
            allowed = isinstance(base, (ty.Bits, ty.Varbit)) or base == ty.BOOL
            allowed = allowed or (isinstance(base, ty.EnumType) and base.underlying is not None)
            allowed = allowed or (isinstance(base, ty.Record) and base.kind == "struct")
            wanted = "bit, int, varbit, bool, a serializable enum, or a struct of these"
        elif kind == "header_union":
            allowed = isinstance(base, ty.Record) and base.kind == "header"
            wanted = "a header"
        else:
            allowed = not isinstance(base, (ty.Block, ty.Extern, ty.ListOf)) and base not in (
                ty.VOID,
                ty.INT,
                ty.STRING,
                ty.MATCH_KIND,
            )
            wanted = "a type whose values exist at run time"
        if not allowed:
            self.sink.error(span, f"field '{name}' of type {type_} in a {kind}", wanted)

    def type_vars(self, names: tuple[str, ...], span: Span) -> tuple[ty.TypeVar, ...]:
        """New type parameters, declared in the current scope."""
        variables = tuple(ty.TypeVar(name) for name in names)
        for variable in variables:
            if variable.name == "_":
                self.sink.error(span, "'_' is not a name for a type parameter")
            self.declare(variable.name, TypeName(variable), span)
        return variables

    # ---- needed from the layers above

    def constant_int(self, node: ast.Expr, what: str) -> int | None:
        """The value of a compile-time integer; None (reported) if it is none."""
        raise NotImplementedError
