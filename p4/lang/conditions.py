"""Evaluates the expression of an #if line. Undefined names count as 0, as in C."""

from __future__ import annotations

import operator
from collections.abc import Callable

from p4.lang.diagnostics import Collector, Span
from p4.lang.tokens import ID, INT, Token, parse_number

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << min(b, 64) if b >= 0 else 0),
    ">>": (8, lambda a, b: a >> min(b, 64) if b >= 0 else 0),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, lambda a, b: int(a / b)),
    "%": (10, lambda a, b: a - b * int(a / b)),
}
_MAX_DEPTH = 100


class _MalformedError(Exception):
    def __init__(self, span: Span, message: str) -> None:
        self.span = span
        super().__init__(message)


class _Condition:
    def __init__(self, word: Token, tokens: list[Token]) -> None:
        self.word = word
        self.tokens = self._join_shifts(tokens)
        self.at = 0
        self.depth = 0

    @staticmethod
    def _join_shifts(tokens: list[Token]) -> list[tuple[str, str, Span]]:
        out: list[tuple[str, str, Span]] = []
        for token in tokens:
            if token.text == ">" and token.glued and out and out[-1][1] == ">":
                out[-1] = (token.kind, ">>", out[-1][2])
            else:
                out.append((token.kind, token.text, token.span))
        return out

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def place(self) -> Span:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else self.word.span

    def expect(self, text: str) -> None:
        if self.peek() != text:
            raise _MalformedError(self.place(), f"expected '{text}' in the condition")
        self.at += 1

    def ternary(self) -> int:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _MalformedError(self.place(), f"condition nested deeper than {_MAX_DEPTH}")
        value = self.binary(1)
        if self.peek() == "?":
            self.at += 1
            yes = self.ternary()
            self.expect(":")
            no = self.ternary()
            value = yes if value else no
        self.depth -= 1
        return value

    def binary(self, level: int) -> int:
        value = self.unary()
        while self.peek() in _BINARY and _BINARY[self.peek()][0] >= level:
            place = self.place()
            strength, function = _BINARY[self.peek()]
            self.at += 1
            right = self.binary(strength + 1)
            try:
                value = function(value, right)
            except (ZeroDivisionError, OverflowError):
                raise _MalformedError(place, "division by zero or overflow in the condition") from None
        return value

    def unary(self) -> int:
        if self.at >= len(self.tokens):
            raise _MalformedError(self.word.span, f"'#{self.word.text}' needs an expression")
        kind, text, span = self.tokens[self.at]
        self.at += 1
        if text in ("!", "-", "+", "~"):
            value = self.unary_operand()
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[text]
        if text == "(":
            value = self.ternary()
            self.expect(")")
            return value
        if kind == INT:
            return parse_number(text)[0]
        if kind == ID:
            return {"true": 1}.get(text, 0)
        raise _MalformedError(span, f"unexpected '{text}' in the condition")

    def unary_operand(self) -> int:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _MalformedError(self.place(), f"condition nested deeper than {_MAX_DEPTH}")
        value = self.unary()
        self.depth -= 1
        return value


def evaluate_condition(word: Token, tokens: list[Token], sink: Collector) -> int:
    """The value of the expression after directive `word`; a malformed one is reported and counts as 0."""
    condition = _Condition(word, tokens)
    try:
        value = condition.ternary()
        if condition.at < len(condition.tokens):
            raise _MalformedError(condition.place(), f"unexpected '{condition.peek()}' after the condition")
    except _MalformedError as error:
        sink.error(error.span, str(error))
        return 0
    return value
