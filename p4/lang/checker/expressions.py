"""Expressions: constants, names, members, lists and records."""

from __future__ import annotations

from dataclasses import replace

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.conversions import base_of, unknown
from p4.lang.checker.names import FunctionSet, GenericType, TypeName
from p4.lang.checker.operators import OperatorChecker
from p4.lang.diagnostics import Span

_MAX_DEPTH = 400


class ExpressionChecker(OperatorChecker):
    """`expr` is the entry."""

    depth = 0

    def expr(self, node: ast.Expr, expected: ty.Type | None = None) -> ir.Expr:
        """The typed expression. `expected` guides lists, records and ``...``; it is not enforced here."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.depth = 0
            self.sink.error(node.span, f"expression nested deeper than {_MAX_DEPTH}")
            return unknown(node.span)
        try:
            return self._expr(node, expected)
        finally:
            self.depth = max(0, self.depth - 1)

    def _expr(self, node: ast.Expr, expected: ty.Type | None) -> ir.Expr:
        span = node.span
        match node:
            case ast.IntLiteral():
                return self._int_literal(node)
            case ast.BoolLiteral():
                return ir.Const(ty.BOOL, span, node.value)
            case ast.StringLiteral():
                return ir.Const(ty.STRING, span, node.value)
            case ast.Name():
                return self._name(node)
            case ast.Member():
                return self._member(node)
            case ast.Index():
                return self._index(node)
            case ast.Slice():
                return self.slice_node(node)
            case ast.Unary():
                return self.unary_node(node)
            case ast.Binary():
                return self.binary_node(node)
            case ast.Ternary():
                return self.ternary_node(node, expected)
            case ast.Cast():
                return self._cast(node)
            case ast.Call():
                return self.call(node)
            case ast.ListExpr():
                return self._list(node, expected)
            case ast.RecordExpr():
                return self._record(node, expected)
            case ast.DefaultExpr():
                return ir.Default(ty.DONT_CARE if expected is None else expected, span)
            case ast.InvalidExpr():
                return self._invalid(span, expected)
            case ast.TypeExpr():
                self.sink.error(span, "a type where a value is expected")
                return unknown(span)
            case ast.MaskSet() | ast.RangeSet() | ast.AnySet() | ast.TupleSet():
                self.sink.error(span, "a set of values where one value is expected")
                return unknown(span)
        raise AssertionError(f"no expression {type(node).__name__}")

    def call(self, node: ast.Call) -> ir.Expr:
        """Defined by the layer above."""
        raise NotImplementedError

    # ---- constants

    def _int_literal(self, node: ast.IntLiteral) -> ir.Expr:
        if node.width is None:
            return ir.Const(ty.INT, node.span, node.value)
        if node.width == 0 or (node.signed and node.width < 1):
            self.sink.error(node.span, "a number of width 0", "a width of at least 1")
            return unknown(node.span)
        type_ = ty.Bits(node.width, node.signed)
        return self.fitted(node.value, type_, node.span)

    def constant_int(self, node: ast.Expr, what: str) -> int | None:
        value = self.expr(node)
        if value.type == ty.UNKNOWN:
            return None
        if isinstance(value, ir.Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
            return value.value
        self.sink.error(node.span, f"{what} is not a compile-time integer (it has type {value.type})")
        return None

    def _cast(self, node: ast.Cast) -> ir.Expr:
        to = self.resolve(node.type)
        operand = self.expr(node.operand, to if not isinstance(to, ty.TypeVar) else None)
        return self.cast(operand, to, node.span)

    # ---- names and members

    def _name(self, node: ast.Name) -> ir.Expr:
        symbol = self.lookup(node.name, node.is_global)
        match symbol:
            case ir.Variable():
                return ir.Var(symbol.type, node.span, symbol)
            case ir.Expr():  # a constant
                return replace(symbol, span=node.span)
            case ir.Instance():
                return ir.InstanceRef(symbol.type, node.span, symbol)
            case ir.ValueSet():
                return ir.ValueSetRef(ty.SetOf(symbol.type), node.span, symbol)
            case None if node.name in self.match_kinds:
                return ir.Const(ty.MATCH_KIND, node.span, node.name)
            case None:
                self.sink.error(node.span, f"unknown name '{node.name}'", self.suggest(node.name))
            case FunctionSet() | ir.Action():
                self.sink.error(node.span, f"'{node.name}' is {self.describe(symbol)}: it can only be called")
            case _:
                self.sink.error(node.span, f"'{node.name}' is {self.describe(symbol)}, not a value")
        return unknown(node.span)

    def _member(self, node: ast.Member) -> ir.Expr:
        if isinstance(node.base, ast.TypeExpr):
            return self._type_member(node, self.resolve(node.base.type))
        if isinstance(node.base, ast.Name):
            symbol = self.lookup(node.base.name, node.base.is_global)
            if isinstance(symbol, (TypeName, GenericType)):
                named = ast.NamedType(node.base.span, node.base.name, node.base.is_global)
                return self._type_member(node, self.resolve(named))
        base = self.expr(node.base)
        return self.member_of(base, node)

    def _type_member(self, node: ast.Member, type_: ty.Type) -> ir.Expr:
        name = node.name
        if type_ == ty.ERROR:
            if name in self.errors:
                return ir.Const(ty.ERROR, node.span, name)
            self.sink.error(node.span, f"unknown error '{name}'", "one declared in an error { } block")
        elif isinstance(type_, ty.EnumType):
            if name in type_.members:
                value: int | str = type_.value(name) if type_.underlying else name
                return ir.Const(type_, node.span, value)
            self.sink.error(node.span, f"enum {type_} has no member '{name}'", ", ".join(type_.members[:8]))
        elif type_ != ty.UNKNOWN:
            self.sink.error(node.span, f"'{type_}' has no member '{name}'", "an enum or error before '.'")
        return unknown(node.span)

    def member_of(self, base: ir.Expr, node: ast.Member) -> ir.Expr:
        """A field, or a part of a stack."""
        type_, name, span = base.type, node.name, node.span
        match type_:
            case ty.Record():
                found = type_.field_type(name)
                if found is not None:
                    return self._constant_field(ir.Field(found, span, base, name), type_)
                names = ", ".join(n for n, _ in type_.fields[:8])
                self.sink.error(
                    span, f"{type_.kind} {type_} has no field '{name}'", names or "no field: it has none"
                )
            case ty.Stack():
                return self._stack_part(base, type_, name, span)
            case ty.ApplyResult():
                if name in ("hit", "miss"):
                    return ir.Field(ty.BOOL, span, base, name)
                if name == "action_run":
                    return ir.Field(ty.ActionRun(type_.table), span, base, name)
                self.sink.error(span, f"apply() gives no '{name}'", "hit, miss or action_run")
            case _ if type_ != ty.UNKNOWN:
                self.sink.error(span, f"{type_} has no member '{name}'")
        return unknown(span)

    @staticmethod
    def _constant_field(field: ir.Field, record: ty.Record) -> ir.Expr:
        if isinstance(field.base, ir.Aggregate):
            at = [n for n, _ in record.fields].index(field.name)
            item = field.base.items[at]
            if isinstance(item, (ir.Const, ir.Aggregate)):
                return replace(item, span=field.span)
        return field

    def _stack_part(self, base: ir.Expr, type_: ty.Stack, name: str, span: Span) -> ir.Expr:
        if name == "size":
            return ir.Const(ty.Bits(32), span, type_.size)
        if name in ("next", "last", "lastIndex"):
            if self.context not in ("parser", "state"):
                self.sink.error(span, f"'{name}' of a header stack outside a parser")
            if name == "lastIndex":
                return ir.StackPart(ty.Bits(32), span, base, name)
            return ir.StackPart(type_.element, span, base, name)
        self.sink.error(
            span, f"a header stack has no '{name}'", "next, last, lastIndex, size, push_front or pop_front"
        )
        return unknown(span)

    def _index(self, node: ast.Index) -> ir.Expr:
        base, index = self.expr(node.base), self.expr(node.index)
        span = node.span
        if ty.UNKNOWN in (base.type, index.type):
            return unknown(span)
        index_type = base_of(index.type)
        if isinstance(index_type, ty.EnumType) and index_type.underlying:
            index = self.convert(index, index_type.underlying, "an index")
        elif not isinstance(index_type, ty.Bits) and index_type != ty.INT:
            self.sink.error(node.index.span, f"an index of type {index.type}", "an integer")
            return unknown(span)
        at = index.value if isinstance(index, ir.Const) else None
        match base.type:
            case ty.Stack(element, size):
                if isinstance(at, int) and not 0 <= at < size:
                    self.sink.error(node.index.span, f"index {at} of a stack of {size}", f"0 to {size - 1}")
                    return unknown(span)
                if index.type == ty.INT:
                    index = self.convert(index, ty.Bits(32), "an index")
                return ir.Item(element, span, base, index)
            case ty.Tuple(items):
                if not isinstance(at, int) or not 0 <= at < len(items):
                    self.sink.error(node.index.span, "index of a tuple", f"a constant, 0 to {len(items) - 1}")
                    return unknown(span)
                if isinstance(base, ir.Aggregate):
                    return replace(base.items[at], span=span)
                return ir.Item(items[at], span, base, index)
            case ty.ListOf(element):
                if isinstance(base, ir.Aggregate) and isinstance(at, int) and 0 <= at < len(base.items):
                    return replace(base.items[at], span=span)
                return ir.Item(element, span, base, index)
        self.sink.error(span, f"{base.type} cannot be indexed", "a header stack or a tuple")
        return unknown(span)

    # ---- lists and records

    def _list(self, node: ast.ListExpr, expected: ty.Type | None) -> ir.Expr:
        wanted = base_of(expected) if expected is not None else None
        if isinstance(wanted, (ty.Record, ty.Stack, ty.Tuple, ty.ListOf)) and not ty.has_type_vars(wanted):
            return self._shaped_list(node, wanted)
        items = tuple(self.expr(i) for i in node.items)
        if any(i.type == ty.UNKNOWN for i in items):
            return unknown(node.span)
        return ir.Aggregate(ty.Tuple(tuple(i.type for i in items)), node.span, items)

    def _shaped_list(self, node: ast.ListExpr, wanted: ty.Type) -> ir.Expr:
        types = self.item_types(wanted, len(node.items))
        given = list(node.items)
        dots = bool(given) and isinstance(given[-1], ast.DefaultExpr)
        if dots and types is not None and len(given) - 1 <= len(types):
            given.pop()
        count_ok = types is not None and (len(given) == len(types) or (dots and len(given) <= len(types)))
        if isinstance(wanted, ty.Stack) and len(given) <= wanted.size:
            count_ok, dots = True, True
        if types is None or not count_ok:
            many = "no list" if types is None else f"{len(types)} values"
            self.sink.error(node.span, f"a list of {len(node.items)} values for {wanted}", many)
            return unknown(node.span)
        items = [self.value(g, t, "an item of the list") for g, t in zip(given, types, strict=False)]
        items += [ir.Default(t, node.span) for t in types[len(items) :]]
        return ir.Aggregate(wanted, node.span, tuple(items))

    def _record(self, node: ast.RecordExpr, expected: ty.Type | None) -> ir.Expr:
        names = [n for n, _ in node.fields]
        for name in names:
            if names.count(name) > 1:
                self.sink.error(node.span, f"field '{name}' is given twice")
                return unknown(node.span)
        wanted = base_of(expected) if expected is not None else None
        if isinstance(wanted, ty.Record) and not ty.has_type_vars(wanted):
            return self._shaped_record(node, wanted)
        if node.has_default:
            self.sink.error(node.span, "'...' where the type is not known", "a cast: (T){ ... }")
            return unknown(node.span)
        items = tuple(self.expr(v) for _, v in node.fields)
        if any(i.type == ty.UNKNOWN for i in items):
            return unknown(node.span)
        fields = tuple((n, i.type) for n, i in zip(names, items, strict=True))
        return ir.Aggregate(ty.Record("struct", "", (), fields), node.span, items)

    def _shaped_record(self, node: ast.RecordExpr, wanted: ty.Record) -> ir.Expr:
        given = dict(node.fields)
        if wanted.kind == "header_union":
            self.sink.error(
                node.span, f"header union {wanted} from a list of fields", "{#}, or assign one member"
            )
            return unknown(node.span)
        for name in given:
            if wanted.field_type(name) is None:
                self.sink.error(
                    node.span,
                    f"{wanted.kind} {wanted} has no field '{name}'",
                    ", ".join(n for n, _ in wanted.fields[:8]),
                )
                return unknown(node.span)
        items = []
        for name, type_ in wanted.fields:
            if name in given:
                items.append(self.value(given[name], type_, f"field '{name}'"))
            elif node.has_default:
                items.append(ir.Default(type_, node.span))
            else:
                self.sink.error(
                    node.span, f"field '{name}' of {wanted} is not given", "it, or '...' for the rest"
                )
                return unknown(node.span)
        return ir.Aggregate(wanted, node.span, tuple(items))

    def _invalid(self, span: Span, expected: ty.Type | None) -> ir.Expr:
        if expected is None:
            return ir.Default(ty.DONT_CARE, span)
        if not (isinstance(expected, ty.Record) and expected.kind in ("header", "header_union")):
            if expected != ty.UNKNOWN:
                self.sink.error(span, f"'{{#}}' for {expected}", "a header or a header union")
            return unknown(span)
        return ir.Default(expected, span)
