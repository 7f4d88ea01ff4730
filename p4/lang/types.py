"""The types of P4_16, as values: comparable, printable as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p4.lang import ir


@dataclass(frozen=True, eq=False)
class Type:
    """Base of all types. Its subclasses say whether they compare by their parts."""


@dataclass(frozen=True)
class Simple(Type):
    """A type with no parts: bool, string, error, match_kind, void, int (arbitrary precision)."""

    name: str

    def __str__(self) -> str:
        return self.name


BOOL, STRING, ERROR, MATCH_KIND, VOID, INT = (
    Simple(n) for n in ("bool", "string", "error", "match_kind", "void", "int")
)
# The type of what was already reported as wrong: it fits everywhere, so one mistake gives one error.
UNKNOWN = Simple("<unknown>")
# The type of a bare `...`, before it is given one.
DONT_CARE = Simple("_")


@dataclass(frozen=True)
class Bits(Type):
    """bit<width> or int<width>."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class Varbit(Type):
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class EnumType(Type):
    """``underlying`` and `values` are set for a serializable enum."""

    name: str
    members: tuple[str, ...]
    underlying: Bits | None = None
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name

    def value(self, member: str) -> int:
        """The member's bit pattern (serializable) or its position."""
        at = self.members.index(member)
        return self.values[at] if self.underlying else at


@dataclass(frozen=True)
class Record(Type):
    """struct, header or header_union (``kind``). `fields` follow from the name and args."""

    kind: str
    name: str
    args: tuple[Type, ...]
    fields: tuple[tuple[str, Type], ...] = field(compare=False)

    def __str__(self) -> str:
        if not self.name:
            return "struct {" + ", ".join(f"{t} {n}" for n, t in self.fields) + "}"
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")

    def field_type(self, name: str) -> Type | None:
        return next((t for n, t in self.fields if n == name), None)


@dataclass(frozen=True)
class Stack(Type):
    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Tuple(Type):
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True)
class ListOf(Type):
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class NewType(Type):
    """``type base name;``: like its base, but distinct."""

    name: str
    base: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class TypeVar(Type):
    """A type parameter; each declaration has its own."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SetOf(Type):
    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True)
class Param(Type):
    """A parameter as part of a signature. ``direction``: "", in, out or inout."""

    name: str
    direction: str
    type: Type
    optional: bool = False
    default: ir.Expr | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.direction} {self.type} {self.name}".strip()


@dataclass(frozen=True)
class Signature(Type):
    """Of a function, method, constructor or action. ``returns`` None: a constructor."""

    name: str
    type_params: tuple[TypeVar, ...]
    params: tuple[Param, ...]
    returns: Type | None
    is_abstract: bool = False
    is_optional: bool = False  # an abstract method that may be left out

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"


@dataclass(frozen=True)
class Block(Type):
    """A parser, control or package type. Two of them are alike when their parameters are."""

    kind: str
    name: str = field(compare=False)
    params: tuple[Param, ...] = ()
    args: tuple[Type, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Extern(Type):
    """An extern object type; `methods` follow from name and args."""

    name: str
    args: tuple[Type, ...]
    methods: tuple[Signature, ...] = field(compare=False, default=())

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True)
class ApplyResult(Type):
    """What ``table.apply()`` gives: hit, miss, action_run."""

    table: str

    def __str__(self) -> str:
        return f"the result of {self.table}.apply()"


@dataclass(frozen=True)
class ActionRun(Type):
    """``table.apply().action_run``: only a switch can use it."""

    table: str

    def __str__(self) -> str:
        return f"{self.table}.apply().action_run"


Bindings = Mapping[TypeVar, Type]


def substitute(type_: Type, bindings: Bindings) -> Type:
    """`type_` with its type variables replaced."""
    if not bindings:
        return type_
    sub = substitute
    match type_:
        case TypeVar():
            return bindings.get(type_, type_)
        case Record(kind, name, args, fields):
            if not args and name:
                return type_
            new_fields = tuple((n, sub(t, bindings)) for n, t in fields)
            return Record(kind, name, tuple(sub(a, bindings) for a in args), new_fields)
        case Stack(element, size):
            return Stack(sub(element, bindings), size)
        case Tuple(items):
            return Tuple(tuple(sub(i, bindings) for i in items))
        case ListOf(element):
            return ListOf(sub(element, bindings))
        case SetOf(element):
            return SetOf(sub(element, bindings))
        case Param(name, direction, inner, optional, default):
            return Param(name, direction, sub(inner, bindings), optional, default)
        case Signature():
            return substitute_signature(type_, bindings)
        case Block(kind, name, params, args):
            new_params = tuple(substitute_param(p, bindings) for p in params)
            return Block(kind, name, new_params, tuple(sub(a, bindings) for a in args))
        case Extern(name, args, methods):
            if not args:
                return type_
            new_methods = tuple(substitute_signature(m, bindings) for m in methods)
            return Extern(name, tuple(sub(a, bindings) for a in args), new_methods)
    return type_


def substitute_param(param: Param, bindings: Bindings) -> Param:
    return Param(param.name, param.direction, substitute(param.type, bindings), param.optional, param.default)


def substitute_signature(signature: Signature, bindings: Bindings) -> Signature:
    """Bound in parameters and result; the signature's own type parameters that got a value are dropped."""
    returns = None if signature.returns is None else substitute(signature.returns, bindings)
    params = tuple(substitute_param(p, bindings) for p in signature.params)
    left = tuple(v for v in signature.type_params if v not in bindings)
    return Signature(signature.name, left, params, returns, signature.is_abstract, signature.is_optional)


def has_type_vars(type_: Type) -> bool:
    """Whether any type variable is left inside."""
    match type_:
        case TypeVar():
            return True
        case Record(_, _, args, fields):
            return any(map(has_type_vars, args)) or (not args and any(has_type_vars(t) for _, t in fields))
        case Stack(element, _) | ListOf(element) | SetOf(element):
            return has_type_vars(element)
        case Tuple(items):
            return any(map(has_type_vars, items))
        case Extern(_, args, _):
            return any(map(has_type_vars, args))
        case Block(_, _, params, _):
            return any(has_type_vars(p.type) for p in params)
    return False


def unify(formal: Type, actual: Type, bindings: dict[TypeVar, Type], *, exact: bool = False) -> bool:
    """Bind the variables of `formal` so that `actual` can be passed for it; False if it cannot.

    ``exact``: nothing is converted, as for the parameters of a parser or control.
    """
    if UNKNOWN in (formal, actual) or actual == DONT_CARE:
        return True
    if isinstance(formal, TypeVar):
        known = bindings.get(formal)
        if exact and known is not None:
            return known == actual
        if known is None or (known == INT and isinstance(actual, (Bits, NewType, EnumType))):
            bindings[formal] = actual
            return True
        return known == formal or (isinstance(known, TypeVar) and known is actual) or _fits(known, actual)
    match formal, actual:
        case Record(), Record() if formal.name == actual.name and formal.name and formal.args:
            return all(unify(f, a, bindings) for f, a in zip(formal.args, actual.args, strict=True))
        case Record(), Record() if not exact and (not actual.name or not formal.name):
            if [n for n, _ in formal.fields] != [n for n, _ in actual.fields]:
                return False
            return all(
                unify(f, a, bindings) for (_, f), (_, a) in zip(formal.fields, actual.fields, strict=True)
            )
        case Record(), Tuple(items) if not exact:
            return len(formal.fields) == len(items) and all(
                unify(f, a, bindings) for (_, f), a in zip(formal.fields, items, strict=True)
            )
        case Stack(), Stack():
            return formal.size == actual.size and unify(formal.element, actual.element, bindings)
        case Stack(), Tuple(items):
            return len(items) <= formal.size and all(unify(formal.element, i, bindings) for i in items)
        case Tuple(), Tuple():
            return len(formal.items) == len(actual.items) and all(
                unify(f, a, bindings) for f, a in zip(formal.items, actual.items, strict=True)
            )
        case ListOf(), Tuple(items):
            return all(unify(formal.element, i, bindings) for i in items)
        case ListOf(), ListOf():
            return unify(formal.element, actual.element, bindings)
        case SetOf(), SetOf():
            return unify(formal.element, actual.element, bindings)
        case Extern(), Extern():
            return formal.name == actual.name and all(
                unify(f, a, bindings) for f, a in zip(formal.args, actual.args, strict=False)
            )
        case Block("package", _, _, formal_args), Block("package", _, _, actual_args):
            return formal.name == actual.name and all(
                unify(f, a, bindings) for f, a in zip(formal_args, actual_args, strict=False)
            )
        case Block(), Block():
            return formal.kind == actual.kind and _unify_params(formal.params, actual.params, bindings)
    return formal == actual if exact else _fits(formal, actual)


def _unify_params(
    formal: tuple[Param, ...], actual: tuple[Param, ...], bindings: dict[TypeVar, Type]
) -> bool:
    """In order; a block may leave out the parameters that its type calls optional."""
    left = list(actual)
    for param in formal:
        if (
            left
            and param.direction == left[0].direction
            and unify(param.type, left[0].type, bindings, exact=True)
        ):
            left.pop(0)
        elif not param.optional:
            return False
    return not left


def _fits(wanted: Type, actual: Type) -> bool:
    """Whether a value of type `actual` can become `wanted` without a written cast (structure apart)."""
    if wanted == actual or UNKNOWN in (wanted, actual):
        return True
    if actual == INT:
        return isinstance(wanted, Bits)
    if isinstance(actual, EnumType) and actual.underlying is not None:
        return wanted in (actual.underlying, INT)
    # Structures are decided item by item when they are converted.
    return isinstance(actual, (Tuple, Record)) and isinstance(wanted, (Tuple, Record, ListOf, Stack))


def bit_width(type_: Type) -> int | None:
    """Bits of a value of fixed size on the wire (or varbit's maximum); None for what has no bits."""
    match type_:
        case Bits(width) | Varbit(width):
            return width
        case Simple("bool"):
            return 1
        case EnumType():
            return type_.underlying.width if type_.underlying else None
        case NewType():
            return bit_width(type_.base)
        case Record(kind, _, _, fields):
            widths = [bit_width(inner) for _, inner in fields]
            known = [w for w in widths if w is not None]
            if len(known) < len(widths):
                return None
            return max(known, default=0) if kind == "header_union" else sum(known)
        case Tuple(items):
            return bit_width(Record("struct", "", (), tuple((str(i), t) for i, t in enumerate(items))))
        case Stack(element, size):
            one = bit_width(element)
            return None if one is None else one * size
    return None
