"""Casts, written and implicit; what is known at compile time; what can be assigned to."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker import fold
from p4.lang.checker.names import NameResolver
from p4.lang.diagnostics import Span


def unknown(span: Span) -> ir.Expr:
    """Stands for what was already reported."""
    return ir.Default(ty.UNKNOWN, span)


def base_of(type_: ty.Type) -> ty.Type:
    """Through `type` to what it is made of."""
    while isinstance(type_, ty.NewType):
        type_ = type_.base
    return type_


class ConversionChecker(NameResolver):
    """`convert` makes a value fit where it is used, `cast` does what a written cast asks."""

    def expr(self, node: ast.Expr, expected: ty.Type | None = None) -> ir.Expr:
        """The typed expression. Defined by a layer above."""
        raise NotImplementedError

    def value(self, node: ast.Expr, to: ty.Type, what: str) -> ir.Expr:
        """An expression that must have type `to`."""
        return self.convert(self.expr(node, to), to, what)

    def fitted(self, value: int, type_: ty.Bits, span: Span) -> ir.Const:
        wrapped = fold.wrap(value, type_)
        if wrapped != value:
            self.sink.warning(span, f"{value} does not fit {type_}: it becomes {wrapped}")
        return ir.Const(type_, span, wrapped)

    @staticmethod
    def is_compile_time(value: ir.Expr) -> bool:
        """Known before any packet: constants, constructor parameters, objects, and what is made of these."""
        check = ConversionChecker.is_compile_time
        match value:
            case ir.Const() | ir.Default() | ir.InstanceRef():
                return True
            case ir.Var():
                return value.variable.kind in ("ctor", "const")
            case ir.Aggregate():
                return all(map(check, value.items))
            case ir.Unary() | ir.Cast():
                return check(value.operand)
            case ir.Binary():
                return check(value.left) and check(value.right)
            case ir.Ternary():
                return check(value.condition) and check(value.yes) and check(value.no)
            case ir.Slice() | ir.Field():
                return check(value.base)
            case ir.Item():
                return check(value.base) and check(value.index)
            case ir.Call(target=ir.Construct()):
                return True
        return value.type == ty.UNKNOWN

    # ---- written casts

    def cast(self, operand: ir.Expr, to: ty.Type, span: Span) -> ir.Expr:
        """A written cast."""
        source = operand.type
        if ty.UNKNOWN in (source, to):
            return unknown(span)
        if source == to:
            return operand
        if isinstance(operand, ir.Default) and source == ty.DONT_CARE:
            return ir.Default(to, span)
        base, target = base_of(source), base_of(to)
        if isinstance(base, ty.EnumType) and base.underlying and base != target:
            operand = self._repaint(operand, base.underlying, span)
            base = base.underlying
        inner: ty.Type | None = target
        if isinstance(target, ty.EnumType):
            inner = target.underlying
        renamed = isinstance(source, ty.NewType) or isinstance(to, ty.NewType)
        if renamed and base != target and source != ty.INT:
            inner = None  # a `type` casts to what it is made of and back, no further in one step
        if inner is None or not self._castable(base, inner, operand):
            if isinstance(base, (ty.Tuple, ty.Record, ty.ListOf)) and isinstance(
                target, (ty.Tuple, ty.Record, ty.ListOf, ty.Stack)
            ):
                return self.convert(operand, to, "a cast")
            self.sink.error(span, f"cannot cast {source} to {to}", self._cast_hint(base, target))
            return unknown(span)
        if isinstance(operand, ir.Const) and base != target:
            return ir.Const(to, span, fold.convert(operand.value, base, inner))
        return self._repaint(operand, to, span)

    @staticmethod
    def _repaint(operand: ir.Expr, to: ty.Type, span: Span) -> ir.Expr:
        if isinstance(operand, ir.Const):
            return ir.Const(to, span, operand.value)
        return ir.Cast(to, span, operand)

    @staticmethod
    def _castable(source: ty.Type, to: ty.Type, operand: ir.Expr) -> bool:
        if source == to:
            return True
        match source, to:
            case ty.Bits(width, signed), ty.Bits(to_width, to_signed):
                return signed == to_signed or width == to_width
            case ty.Simple("int"), ty.Bits():
                return True
            case ty.Bits(), ty.Simple("int"):
                return isinstance(operand, ir.Const)
            case ty.Bits(1, False), ty.Simple("bool"):
                return True
            case ty.Simple("bool"), ty.Bits(1, False):
                return True
            case ty.Simple("int"), ty.Simple("bool"):
                return isinstance(operand, ir.Const) and operand.value in (0, 1)
        return False

    @staticmethod
    def _cast_hint(source: ty.Type, to: ty.Type) -> str:
        if isinstance(source, ty.Bits) and isinstance(to, ty.Bits):
            return f"two casts: change the width or the sign first, e.g. (int<{to.width}>)(bit<{to.width}>)x"
        if isinstance(to, ty.EnumType):
            return "a serializable enum: enum bit<N> { ... }"
        return ""

    # ---- implicit conversion

    def convert(self, value: ir.Expr, to: ty.Type, what: str) -> ir.Expr:
        """`value` as type `to`, the implicit cast written out; an error (about `what`) if there is none."""
        source = value.type
        if source == to and not isinstance(to, ty.Record):
            return value
        if ty.UNKNOWN in (source, to):
            return value
        if source == ty.DONT_CARE:
            return ir.Default(to, value.span)
        match source, to:
            case ty.Record(), ty.Record() if source == to and source.name:
                return value
            case ty.Simple("int"), ty.Bits():
                if isinstance(value, ir.Const):
                    return self.fitted(int(value.value), to, value.span)
                return ir.Cast(to, value.span, value)
            case ty.Bits(), ty.Simple("int") if isinstance(value, ir.Const):
                return ir.Const(ty.INT, value.span, value.value)
            case ty.EnumType(), ty.Bits() if source.underlying == to:
                return self._repaint(value, to, value.span)
            case ty.Tuple() | ty.Record() | ty.ListOf(), ty.Tuple() | ty.Record() | ty.ListOf() | ty.Stack():
                converted = self._reshape(value, to, what)
                if converted is not None:
                    return converted
            case ty.Block(), ty.Block() if ty.unify(to, source, {}):
                return value
            case ty.Extern(), ty.Extern() if ty.unify(to, source, {}):
                return value
        self.sink.error(value.span, f"{what} has type {source}", f"{to}")
        return unknown(value.span)

    def _reshape(self, value: ir.Expr, to: ty.Type, what: str) -> ir.Expr | None:
        """A list or record expression (or a tuple or anonymous struct value) as another structured type."""
        source = value.type
        if isinstance(source, ty.Record) and source.name and isinstance(to, ty.Record) and to.name:
            return None  # two declared types never convert
        if isinstance(source, ty.Record):
            if not isinstance(to, ty.Record) or to.kind == "header_union" or source.name:
                return None
            if sorted(n for n, _ in source.fields) != sorted(n for n, _ in to.fields):
                return None
            pairs = [(self._part_of(value, n), t) for n, t in to.fields]
        else:
            if not isinstance(value, ir.Aggregate) and not isinstance(to, ty.Tuple):
                return None  # only a list expression becomes a struct, header or stack
            count = len(source.items) if isinstance(source, ty.Tuple) else 0
            types = self.item_types(to, count)
            if isinstance(source, ty.ListOf):
                if not isinstance(value, ir.Aggregate):
                    return None
                count = len(value.items)
                types = self.item_types(to, count)
            if types is None or (len(types) != count and not isinstance(to, ty.Stack)) or count > len(types):
                return None
            pairs = [(self._part_at(value, i), t) for i, t in enumerate(types[:count])]
            rest = [ir.Default(t, value.span) for t in types[count:]]
            items = [self.convert(v, t, what) for v, t in pairs]
            return ir.Aggregate(to, value.span, (*items, *rest))
        return ir.Aggregate(to, value.span, tuple(self.convert(v, t, what) for v, t in pairs))

    @staticmethod
    def _part_of(value: ir.Expr, name: str) -> ir.Expr:
        assert isinstance(value.type, ty.Record)
        at = [n for n, _ in value.type.fields].index(name)
        if isinstance(value, ir.Aggregate):
            return value.items[at]
        return ir.Field(value.type.fields[at][1], value.span, value, name)

    @staticmethod
    def _part_at(value: ir.Expr, at: int) -> ir.Expr:
        if isinstance(value, ir.Aggregate):
            return value.items[at]
        assert isinstance(value.type, ty.Tuple)
        return ir.Item(value.type.items[at], value.span, value, ir.Const(ty.INT, value.span, at))

    @staticmethod
    def item_types(wanted: ty.Type, count: int) -> list[ty.Type] | None:
        match wanted:
            case ty.Record(kind, _, _, fields) if kind != "header_union":
                return [t for _, t in fields]
            case ty.Stack(element, size):
                return [element] * size
            case ty.Tuple(items):
                return list(items)
            case ty.ListOf(element):
                return [element] * count
        return None

    # ---- places

    def is_lvalue(self, value: ir.Expr) -> bool:
        """Whether something can be assigned to it."""
        match value:
            case ir.Var():
                variable = value.variable
                return variable.kind == "local" or (
                    variable.kind == "param" and variable.direction in ("out", "inout")
                )
            case ir.Field():
                return not isinstance(value.base.type, ty.ApplyResult) and self.is_lvalue(value.base)
            case ir.Item():
                return isinstance(value.base.type, (ty.Stack, ty.Tuple)) and self.is_lvalue(value.base)
            case ir.StackPart():
                return value.part != "lastIndex" and self.is_lvalue(value.base)
            case ir.Slice() | ir.SliceAt():
                return self.is_lvalue(value.base)
        return value.type == ty.UNKNOWN
