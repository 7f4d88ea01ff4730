"""Tokens to syntax tree: runs the LALR grammar on one top-level declaration after another.

A syntax error spoils only its own declaration, so one run reports the errors of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, UnexpectedInput
from lark import Token as LarkToken
from lark.lexer import Lexer

from p4.lang import ast
from p4.lang.builder import TreeBuilder
from p4.lang.diagnostics import Collector
from p4.lang.names import NameClassifier, Terminal
from p4.lang.tokens import Token
from p4.lang.words import TERMINALS

_SHOWN = {terminal: text for text, terminal in reversed(TERMINALS.items())} | {
    "ID": "a name",
    "TYPE_ID": "a type",
    "INT_LITERAL": "a number",
    "STRING_LITERAL": "a string",
    "ANNOTATION": "'@'",
    "_LANGLE": "<",
    "_RANGLE": ">",
    "_PREFIX_DOT": ".",
    "OP_ASSIGN": "a compound assignment",
    "DONTCARE": "_",
    "VALUESET": "value_set",
    "$END": "the end of the declaration",
    "HASH": "#",
}
_TYPE_STARTS = {"BOOL", "BIT", "INT", "VARBIT", "TUPLE", "STRING", "TYPE_ID"}
_EXPR_STARTS = {"INT_LITERAL", "TRUE", "FALSE", "ID", "_LPAREN", "MINUS"}
_OPERATORS = {"OR", "AND", "EQ", "NE", "LT", "GT", "BITOR", "BITAND", "PLUS", "MINUS", "MUL"}


class _TerminalStream(Lexer):
    """Lark's lexer interface over terminals made by names.py. A token's `line` is its index."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, data: Any) -> Iterator[LarkToken]:  # type: ignore[override]
        first, terminals = data.text if hasattr(data, "text") else data
        for index, terminal in enumerate(terminals, first):
            yield LarkToken(
                terminal.type,
                terminal.token.text,
                start_pos=index,
                line=index,
                column=1,
                end_line=index,
                end_column=1,
                end_pos=index,
            )


@cache
def _lalr() -> Lark:
    """The parser tables, made once a process (about half a second)."""
    grammar = files("p4.lang").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer=_TerminalStream, start="declaration", propagate_positions=True)


def parse_tokens(tokens: list[Token], sink: Collector) -> list[ast.Declaration]:
    """The program's declarations; syntax errors go to `sink`."""
    terminals = NameClassifier(tokens, sink).classify()
    builder = TreeBuilder(terminals, sink)
    declarations: list[ast.Declaration] = []
    for first, last in _split(terminals):
        try:
            tree = _lalr().parse((first, terminals[first:last]))
        except UnexpectedInput as error:
            _report(error, terminals, first, last, sink)
            continue
        try:
            declarations.append(builder.declaration(tree))
        except RecursionError:
            sink.error(terminals[first].token.span, "declaration is nested too deeply")
    return declarations


def _split(terminals: list[Terminal]) -> Iterator[tuple[int, int]]:
    """[first, after last) of each top-level declaration, by brackets and semicolons."""
    first = depth = 0
    assigns = False
    for index, terminal in enumerate(terminals):
        kind = terminal.type
        if kind in ("_LBRACE", "_LPAREN", "_LBRACKET"):
            depth += 1
        elif kind in ("_RBRACE", "_RPAREN", "_RBRACKET"):
            depth = max(0, depth - 1)
        elif kind == "ASSIGN" and depth == 0:
            assigns = True
        ends = kind == "_SEMI" or (kind == "_RBRACE" and not assigns)
        if depth == 0 and ends:
            if not (kind == "_SEMI" and first == index):  # a stray ';' is allowed
                yield first, index + 1
            first, assigns = index + 1, False
    if first < len(terminals):
        yield first, len(terminals)


def _report(
    error: UnexpectedInput, terminals: list[Terminal], first: int, last: int, sink: Collector
) -> None:
    index = getattr(getattr(error, "token", None), "line", None)
    expected: set[str] = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    if index is None or getattr(error.token, "type", "") == "$END":  # type: ignore[attr-defined]
        place = terminals[last - 1].token.span
        sink.error(place, "the declaration ends here unfinished", _describe(expected))
        return
    token = terminals[index].token
    kind = terminals[index].type
    what = f"unexpected '{token.text}'" + (" (a type)" if kind == "TYPE_ID" else "")
    hint = _describe(expected)
    before = terminals[index - 1] if index > first else None
    if kind in ("ID", "TYPE_ID") and before is not None and before.type == "ID":
        hint += f" (is '{before.token.text}' a type that was not declared?)"
    sink.error(token.span, what, hint)


def _describe(expected: set[str]) -> str:
    """A short list of what could stand there, groups named as one."""
    parts: list[str] = []
    for group, name in (
        (_EXPR_STARTS, "an expression"),
        (_TYPE_STARTS, "a type"),
        (_OPERATORS, "an operator"),
    ):
        if group <= expected:
            parts.append(name)
            members = set(group)
            if name == "an expression":
                members |= {
                    "NOT",
                    "TILDE",
                    "PLUS",
                    "STRING_LITERAL",
                    "DOTS",
                    "_PREFIX_DOT",
                    "_LBRACE",
                } | _TYPE_STARTS
                members |= {"ERROR", "VOID", "MATCH_KIND", "LIST"}
            if name == "a type":
                members |= {"ERROR", "VOID", "MATCH_KIND", "LIST", "_PREFIX_DOT"}
            if name == "an operator":
                members |= {
                    "LE",
                    "GE",
                    "SHL",
                    "SHR",
                    "BITXOR",
                    "CONCAT",
                    "PLUS_SAT",
                    "MINUS_SAT",
                    "DIV",
                    "MOD",
                    "NE",
                    "_QUESTION",
                    "_MASK",
                    "_RANGE",
                }
            expected = expected - members
    for terminal in sorted(expected):
        shown = _SHOWN.get(terminal, terminal.lower())
        parts.append(shown if " " in shown or shown.startswith("'") else f"'{shown}'")
    if len(parts) > 8:
        parts = [*parts[:8], "..."]
    return ", ".join(dict.fromkeys(parts))
