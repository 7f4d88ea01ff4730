"""Arithmetic of compile-time constants, as P4 defines it: wrap, saturate, arbitrary precision."""

from __future__ import annotations

from p4.lang.types import BOOL, INT, Bits, Type

MAX_CONSTANT_BITS = 65536


class FoldError(Exception):
    """The operation has no value: division by zero, a shift by a negative amount."""


def wrap(value: int, type_: Bits) -> int:
    """`value` modulo 2^width, as the type represents it."""
    value &= (1 << type_.width) - 1
    if type_.signed and type_.width and value >> (type_.width - 1):
        value -= 1 << type_.width
    return value


def bounds(type_: Bits) -> tuple[int, int]:
    """The smallest and the largest value."""
    if type_.signed:
        return -(1 << (type_.width - 1)), (1 << (type_.width - 1)) - 1
    return 0, (1 << type_.width) - 1


def fit(value: int, type_: Type) -> int:
    return wrap(value, type_) if isinstance(type_, Bits) else value


def divide(op: str, left: int, right: int) -> int:
    """Towards zero, as C does."""
    if right == 0:
        raise FoldError("division by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - right * quotient


def shift(op: str, left: int, amount: int, type_: Type) -> int:
    if amount < 0:
        raise FoldError("shift by a negative amount")
    if op == ">>":
        return left >> min(amount, MAX_CONSTANT_BITS)
    if isinstance(type_, Bits):
        return wrap(left << amount, type_) if amount < type_.width else 0
    if amount > MAX_CONSTANT_BITS:
        raise FoldError(f"shift by more than {MAX_CONSTANT_BITS} bits")
    return left << amount


def arithmetic(op: str, left: int, right: int, type_: Type) -> int:
    """A binary operation of two values of `type_` (bits or int)."""
    match op:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case "/" | "%":
            value = divide(op, left, right)
        case "&":
            value = left & right
        case "|":
            value = left | right
        case "^":
            value = left ^ right
        case "|+|" | "|-|":
            assert isinstance(type_, Bits)
            low, high = bounds(type_)
            value = left + right if op == "|+|" else left - right
            return max(low, min(high, value))
        case _:
            raise AssertionError(op)
    if type_ == INT and value.bit_length() > MAX_CONSTANT_BITS:
        raise FoldError(f"constant of more than {MAX_CONSTANT_BITS} bits")
    return fit(value, type_)


def compare(op: str, left: int | bool | str, right: int | bool | str) -> bool:
    if op == "==":
        return left == right
    if op == "!=":
        return left != right
    assert isinstance(left, int) and isinstance(right, int)
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[op]


def convert(value: int | bool | str, source: Type, to: Type) -> int | bool | str:
    """An explicit cast of a constant between bool, bits and int."""
    if to == BOOL:
        return bool(value)
    if source == BOOL:
        return int(value)
    assert isinstance(value, int)
    return fit(value, to)
