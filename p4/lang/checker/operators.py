"""Operators: the types they take, the constants they fold."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker import fold
from p4.lang.checker.conversions import ConversionChecker, base_of, unknown
from p4.lang.diagnostics import Span

_COMPARISONS = ("<", ">", "<=", ">=")


class OperatorChecker(ConversionChecker):
    """Unary, binary and ternary operators, and slices."""

    def unary_node(self, node: ast.Unary) -> ir.Expr:
        operand = self.expr(node.operand)
        span, op = node.span, node.op
        if operand.type == ty.UNKNOWN:
            return unknown(span)
        type_ = self._arithmetic_type(operand)
        if op == "!":
            if type_ != ty.BOOL:
                self.sink.error(span, f"'!' of {operand.type}", "bool")
                return unknown(span)
            return (
                ir.Const(ty.BOOL, span, not operand.value)
                if isinstance(operand, ir.Const)
                else ir.Unary(ty.BOOL, span, op, operand)
            )
        if not isinstance(type_, ty.Bits) and (type_ != ty.INT or op == "~"):
            wanted = "bit<> or int<>" if op == "~" else "an integer"
            self.sink.error(span, f"'{op}' of {operand.type}", wanted)
            return unknown(span)
        operand = self.convert(operand, type_, f"operand of '{op}'") if operand.type != type_ else operand
        if isinstance(operand, ir.Const):
            value = int(operand.value)
            result = {"-": -value, "~": ~value, "+": value}[op]
            return ir.Const(type_, span, fold.fit(result, type_))
        return operand if op == "+" else ir.Unary(type_, span, op, operand)

    @staticmethod
    def _arithmetic_type(value: ir.Expr) -> ty.Type:
        """What the value counts as in arithmetic: a serializable enum is its bits."""
        if isinstance(value.type, ty.EnumType) and value.type.underlying is not None:
            return value.type.underlying
        return value.type

    def binary_node(self, node: ast.Binary) -> ir.Expr:
        # Long sums lean left: go down the left side in a loop.
        chain: list[ast.Binary] = []
        inner: ast.Expr = node
        while isinstance(inner, ast.Binary):
            chain.append(inner)
            inner = inner.left
        left = self.expr(inner)
        for step in reversed(chain):
            left = self.binary(step.op, left, self.expr(step.right, left.type), step.span)
        return left

    def binary(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        """One operator applied to typed operands."""
        if ty.UNKNOWN in (left.type, right.type):
            return unknown(span)
        if op in ("&&", "||"):
            return self._logical(op, left, right, span)
        if op in ("==", "!="):
            return self._equality(op, left, right, span)
        if op in ("<<", ">>"):
            return self._shift(op, left, right, span)
        if op == "++":
            return self._concatenate(left, right, span)
        left_type, right_type = self._arithmetic_type(left), self._arithmetic_type(right)
        if isinstance(left_type, ty.Bits) and right_type in (left_type, ty.INT):
            common: ty.Type = left_type
        elif isinstance(right_type, ty.Bits) and left_type == ty.INT:
            common = right_type
        elif left_type == right_type == ty.INT:
            common = ty.INT
        else:
            return self._mismatch(op, left, right, span)
        if op in ("/", "%") and any(isinstance(v, ir.Const) and int(v.value) < 0 for v in (left, right)):
            self.sink.error(span, f"'{op}' with a negative operand", "operands >= 0")
            return unknown(span)
        left = self.convert(left, common, f"left of '{op}'")
        right = self.convert(right, common, f"right of '{op}'")
        if common == ty.INT and op in ("|+|", "|-|"):
            self.sink.error(span, f"'{op}' of int, which has no width", "operands of type bit<> or int<>")
            return unknown(span)
        if op in ("/", "%"):
            if isinstance(common, ty.Bits) and common.signed:
                self.sink.error(
                    span, f"'{op}' of {common}", "bit<> or int: division of signed values is not defined"
                )
                return unknown(span)
            if isinstance(right, ir.Const) and right.value == 0:
                self.sink.error(span, "division by zero")
                return unknown(span)
            if not (self.is_compile_time(left) and self.is_compile_time(right)):
                self.sink.warning(
                    span, f"'{op}' of values known only at run time: p4c and hardware refuse it"
                )
        if op in _COMPARISONS:
            if isinstance(left, ir.Const) and isinstance(right, ir.Const):
                return ir.Const(ty.BOOL, span, fold.compare(op, left.value, right.value))
            return ir.Binary(ty.BOOL, span, op, left, right)
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            try:
                return ir.Const(common, span, fold.arithmetic(op, int(left.value), int(right.value), common))
            except fold.FoldError as error:
                self.sink.error(span, str(error))
                return unknown(span)
        return ir.Binary(common, span, op, left, right)

    def _mismatch(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        hint = "integers of the same width and sign"
        if isinstance(left.type, ty.NewType) or isinstance(right.type, ty.NewType):
            hint += " (a value of a `type` must be cast to its base first)"
        self.sink.error(span, f"'{op}' of {left.type} and {right.type}", hint)
        return unknown(span)

    def _logical(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        if left.type != ty.BOOL or right.type != ty.BOOL:
            self.sink.error(span, f"'{op}' of {left.type} and {right.type}", "bool and bool")
            return unknown(span)
        if isinstance(left, ir.Const):
            decided = bool(left.value) == (op == "||")
            return ir.Const(ty.BOOL, span, bool(left.value)) if decided else right
        return ir.Binary(ty.BOOL, span, op, left, right)

    def _equality(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        if isinstance(left.type, ty.EnumType) and not left.type.underlying and left.type != right.type:
            return self._mismatch(op, left, right, span)
        if left.type != right.type:
            if ty.unify(left.type, right.type, {}):
                right = self.convert(right, left.type, f"right of '{op}'")
            elif ty.unify(right.type, left.type, {}):
                left = self.convert(left, right.type, f"left of '{op}'")
            else:
                self.sink.error(span, f"'{op}' of {left.type} and {right.type}", "operands of the same type")
                return unknown(span)
        objects = (ty.Block, ty.Extern, ty.ApplyResult, ty.ActionRun, ty.SetOf, ty.TypeVar)
        if isinstance(left.type, objects) or left.type == ty.VOID:
            self.sink.error(span, f"'{op}' of {left.type}", "values, not objects")
            return unknown(span)
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            return ir.Const(ty.BOOL, span, fold.compare(op, left.value, right.value))
        return ir.Binary(ty.BOOL, span, op, left, right)

    def _shift(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        left_type, right_type = self._arithmetic_type(left), self._arithmetic_type(right)
        if not (isinstance(left_type, ty.Bits) or left_type == ty.INT):
            return self._mismatch(op, left, right, span)
        is_bits = isinstance(right_type, ty.Bits) and (not right_type.signed or isinstance(right, ir.Const))
        if not is_bits and right_type != ty.INT:
            self.sink.error(span, f"'{op}' by {right.type}", "an unsigned amount: bit<> or a constant")
            return unknown(span)
        if isinstance(right, ir.Const) and int(right.value) < 0:
            self.sink.error(span, f"'{op}' by {right.value}", "an amount >= 0")
            return unknown(span)
        left = self.convert(left, left_type, f"left of '{op}'")
        right = self.convert(right, right_type, f"right of '{op}'")
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            try:
                return ir.Const(left_type, span, fold.shift(op, int(left.value), int(right.value), left_type))
            except fold.FoldError as error:
                self.sink.error(span, str(error))
                return unknown(span)
        if left_type == ty.INT and not self.is_compile_time(right):
            self.sink.error(
                span,
                f"'{op}' of int, which has no width, by an amount known only at run time",
                "a left operand with a width, e.g. 32w1",
            )
            return unknown(span)
        if isinstance(right, ir.Const) and right.type == ty.INT:
            # Any amount beyond the width gives the same, so it fits 32 bits.
            right = ir.Const(ty.Bits(32), right.span, min(int(right.value), 0xFFFFFFFF))
        return ir.Binary(left_type, span, op, left, right)

    def _concatenate(self, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        if (
            left.type == right.type == ty.STRING
            and isinstance(left, ir.Const)
            and isinstance(right, ir.Const)
        ):
            return ir.Const(ty.STRING, span, str(left.value) + str(right.value))
        left_type, right_type = self._arithmetic_type(left), self._arithmetic_type(right)
        if not isinstance(left_type, ty.Bits) or not isinstance(right_type, ty.Bits):
            self.sink.error(
                span, f"'++' of {left.type} and {right.type}", "operands with a width: bit<> or int<>"
            )
            return unknown(span)
        left = self.convert(left, left_type, "left of '++'")
        right = self.convert(right, right_type, "right of '++'")
        type_ = ty.Bits(left_type.width + right_type.width, left_type.signed)
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            low = int(right.value) & ((1 << right_type.width) - 1)
            return ir.Const(type_, span, fold.wrap((int(left.value) << right_type.width) | low, type_))
        return ir.Binary(type_, span, "++", left, right)

    def ternary_node(self, node: ast.Ternary, expected: ty.Type | None) -> ir.Expr:
        condition = self.value(node.condition, ty.BOOL, "the condition of '?:'")
        yes, no = self.expr(node.yes, expected), self.expr(node.no, expected)
        span = node.span
        if ty.UNKNOWN in (yes.type, no.type):
            return unknown(span)
        if yes.type != no.type:
            if yes.type == ty.INT or not ty.unify(yes.type, no.type, {}):
                yes = self.convert(yes, no.type, "the first branch of '?:'")
            else:
                no = self.convert(no, yes.type, "the second branch of '?:'")
        if isinstance(condition, ir.Const):
            return yes if condition.value else no
        if yes.type == ty.INT and expected is not None and isinstance(expected, ty.Bits):
            yes, no = (self.convert(v, expected, "a branch of '?:'") for v in (yes, no))
        if yes.type == ty.INT and not self.is_compile_time(condition):
            self.sink.error(span, "'?:' of two constants without a width", "a width on one of them, e.g. 8w1")
            return unknown(span)
        return ir.Ternary(yes.type, span, condition, yes, no)

    def slice_node(self, node: ast.Slice) -> ir.Expr:
        base = self.expr(node.base)
        if node.is_width:
            start = self.expr(node.high)
            if not isinstance(start, ir.Const) and isinstance(base_of(start.type), ty.Bits):
                return self._slice_at(node, base, start)
        high = self.constant_int(node.high, "the bound of a slice")
        low = self.constant_int(node.low, "the bound of a slice")
        span = node.span
        if high is None or low is None or base.type == ty.UNKNOWN:
            return unknown(span)
        if node.is_width:
            high, low = high + low - 1, high
        type_ = base_of(base.type)
        if isinstance(type_, ty.EnumType) and type_.underlying is not None:
            base = self.convert(base, type_.underlying, "a slice")
            type_ = type_.underlying
        if not isinstance(type_, ty.Bits) and not (type_ == ty.INT and isinstance(base, ir.Const)):
            self.sink.error(span, f"a slice of {base.type}", "bit<> or int<>")
            return unknown(span)
        width = type_.width if isinstance(type_, ty.Bits) else max(high + 1, 1)
        if not 0 <= low <= high < width or high > fold.MAX_CONSTANT_BITS:
            self.sink.error(span, f"slice [{high}:{low}] of {base.type}", f"{width - 1} >= high >= low >= 0")
            return unknown(span)
        result = ty.Bits(high - low + 1)
        if isinstance(base, ir.Const):
            assert isinstance(base.value, int)
            return ir.Const(result, span, (base.value >> low) & ((1 << result.width) - 1))
        return ir.Slice(result, span, base, high, low)

    def _slice_at(self, node: ast.Slice, base: ir.Expr, start: ir.Expr) -> ir.Expr:
        """``base[start +: width]`` at a position known only at run time."""
        width = self.constant_int(node.low, "the width of a slice")
        if width is None or base.type == ty.UNKNOWN:
            return unknown(node.span)
        type_ = base_of(base.type)
        start_type = base_of(start.type)
        if not isinstance(type_, ty.Bits) or (isinstance(start_type, ty.Bits) and start_type.signed):
            what = f"a slice of {base.type} at {start.type}"
            self.sink.error(node.span, what, "bit<> or int<> at a bit<>")
            return unknown(node.span)
        if not 0 < width <= type_.width:
            self.sink.error(node.low.span, f"a slice of {width} bits of {base.type}", f"1 to {type_.width}")
            return unknown(node.span)
        return ir.SliceAt(ty.Bits(width), node.span, base, start)
