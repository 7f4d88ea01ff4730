"""Sets of values: what a select case or a table entry accepts."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.conversions import base_of
from p4.lang.checker.statements import StatementChecker
from p4.lang.diagnostics import Span


def flat(type_: ty.Type) -> list[ty.Type]:
    """The scalars that a value of this type consists of, in order."""
    match type_:
        case ty.Record(_, _, _, fields):
            return [t for _, f in fields for t in flat(f)]
        case ty.Tuple(items):
            return [t for i in items for t in flat(i)]
    return [type_]


class MatchChecker(StatementChecker):
    """`keyset` turns one keyset into one match per matched value."""

    def keyset(self, node: ast.Expr, types: list[ty.Type], what: str) -> tuple[ir.Match, ...] | None:
        """None (reported) if the number of parts is wrong."""
        if isinstance(node, ast.TupleSet | ast.ListExpr) and not (
            len(types) == 1 and isinstance(base_of(types[0]), (ty.Tuple, ty.Record))
        ):
            parts: tuple[ast.Expr, ...] = node.items
        else:
            parts = (node,)
        if len(parts) == 1 and isinstance(parts[0], ast.AnySet) and len(types) != 1:
            return tuple(ir.Match("any", node.span) for _ in types)
        if len(parts) == 1 and len(types) > 1:
            whole = self._whole(parts[0], types)
            if whole is not None:
                return whole
        if len(parts) != len(types):
            self.sink.error(node.span, f"{len(parts)} values in {what}", f"{len(types)}")
            return None
        return tuple(self.match(p, t) for p, t in zip(parts, types, strict=True))

    def _whole(self, node: ast.Expr, types: list[ty.Type]) -> tuple[ir.Match, ...] | None:
        """A value set (or a constant tuple) that stands for the whole selector."""
        if not isinstance(node, ast.Name):
            return None
        value = self.expr(node)
        if isinstance(value, ir.ValueSetRef):
            if flat(value.value_set.type) == types:
                return (ir.Match("set", node.span, value),)
            self.sink.error(node.span, f"value set of {value.value_set.type}", "one of the selector's types")
            return (ir.Match("any", node.span),) * len(types)
        if isinstance(value, ir.Aggregate) and len(value.items) == len(types):
            pairs = zip(value.items, types, strict=True)
            return tuple(ir.Match("exact", node.span, self.convert(i, t, "a value")) for i, t in pairs)
        return None

    def match(self, node: ast.Expr, type_: ty.Type) -> ir.Match:
        """One value's set."""
        span = node.span
        bits = base_of(type_)
        if isinstance(bits, ty.EnumType) and bits.underlying is not None:
            bits = bits.underlying
        match node:
            case ast.AnySet():
                return ir.Match("any", span)
            case ast.DefaultExpr():
                return ir.Match("any", span)
            case ast.MaskSet():
                self._need_bits(bits, "'&&&'", span)
                value = self._set_value(node.value, type_, bits)
                return ir.Match("mask", span, value, self._set_value(node.mask, bits, bits))
            case ast.RangeSet():
                self._need_bits(bits, "'..'", span)
                low, high = self._set_value(node.low, type_, bits), self._set_value(node.high, type_, bits)
                if (
                    isinstance(low, ir.Const)
                    and isinstance(high, ir.Const)
                    and int(low.value) > int(high.value)
                ):
                    self.sink.warning(span, "empty range: it never matches")
                return ir.Match("range", span, low, high)
        value = self.expr(node, type_)
        if isinstance(value, ir.ValueSetRef):
            if value.value_set.type not in (type_, bits) and flat(value.value_set.type) != [type_]:
                self.sink.error(span, f"value set of {value.value_set.type}", f"value set of {type_}")
            return ir.Match("set", span, value)
        return ir.Match("exact", span, self._as_set_value(value, type_, bits))

    def _need_bits(self, type_: ty.Type, what: str, span: Span) -> None:
        if not isinstance(type_, ty.Bits) and type_ not in (ty.UNKNOWN, ty.INT):
            self.sink.error(span, f"{what} for a value of type {type_}", "bit<> or int<>")

    def _set_value(self, node: ast.Expr, type_: ty.Type, bits: ty.Type) -> ir.Expr:
        return self._as_set_value(self.expr(node, type_), type_, bits)

    def _as_set_value(self, value: ir.Expr, type_: ty.Type, bits: ty.Type) -> ir.Expr:
        if value.type != type_ and isinstance(bits, ty.Bits) and value.type in (ty.INT, bits):
            # A constant for a `type`d or enum key: written as the bits beneath.
            return self.convert(value, bits, "a value of the set")
        return self.convert(value, type_, "a value of the set")
