"""Characters to tokens: the raw tokens that the preprocessor and the parser share.

A token keeps the place where it was written, so a diagnostic points at the user's own line whatever was
included or expanded in between. Keywords are not told apart here; `names.py` does that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from p4.lang.diagnostics import Collector, SourceFile, Span

ID, INT, STRING, PUNCT, NEWLINE, EOF = "ID", "INT", "STRING", "PUNCT", "NEWLINE", "EOF"

MAX_NUMBER_LENGTH = 4000  # below Python's own limit on decimal strings

# Longest first. ">>" is absent on purpose: in `bit<bit<8>>` it closes two lists; names.py joins it elsewhere.
PUNCTUATION = (
    "|+|=",
    "|-|=",
    "&&&",
    "...",
    "|+|",
    "|-|",
    "<<=",
    ">>=",
    "<<",
    "&&",
    "||",
    "==",
    "!=",
    "<=",
    ">=",
    "++",
    "..",
    "+:",
    "+=",
    "-=",
    "*=",
    "/=",
    "%=",
    "&=",
    "|=",
    "^=",
    "##",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "!",
    "<",
    ">",
    "=",
    "?",
    ":",
    ";",
    ",",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "@",
    "#",
)

_MASTER = re.compile(
    r"""(?P<space>(?:[ \t\r\f\v]|\\\r?\n)+)
      | (?P<newline>\n)
      | (?P<line_comment>//[^\n]*)
      | (?P<comment>/\*.*?\*/)
      | (?P<open_comment>/\*)
      | (?P<string>"(?:\\.|[^"\\])*")
      | (?P<number>\d\w*)
      | (?P<id>[A-Za-z_]\w*)
      | (?P<punct>"""
    + "|".join(re.escape(p) for p in PUNCTUATION)
    + r""")
      | (?P<bad>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NUMBER = re.compile(
    r"(?:(\d+)([ws]))?(?:0[xX](_*[0-9a-fA-F][0-9a-fA-F_]*)|0[bB](_*[01][01_]*)|0[oO](_*[0-7][0-7_]*)"
    r"|(?:0[dD])?(\d[\d_]*))"
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``glued`` says that no white space stands between it and the token before."""

    kind: str
    text: str
    span: Span
    glued: bool = False


def tokenize(source: SourceFile, text: str, sink: Collector) -> list[Token]:
    """All tokens of one file, line ends included (the preprocessor needs them), closed by an EOF token."""
    tokens: list[Token] = []
    line, line_start, glued = 1, 0, False
    for match in _MASTER.finditer(text):
        group = match.lastgroup
        piece = match.group()
        start = match.start()
        col = start - line_start + 1
        span = Span(source, line, col, col + len(piece))
        newlines = piece.count("\n") if group in ("space", "comment", "string") else 0
        if newlines:
            line += newlines
            line_start = start + piece.rindex("\n") + 1
        if group in ("space", "comment", "line_comment"):
            glued = False
            continue
        if group == "newline":
            tokens.append(Token(NEWLINE, "\n", span))
            line += 1
            line_start = match.end()
            glued = False
            continue
        if group == "open_comment":
            sink.error(span, "comment is never closed", "'*/'")
            break
        if group == "bad":
            if piece == '"':
                sink.error(span, "string is never closed", "a closing '\"'")
                continue
            group = "punct"  # an annotation may hold anything; names.py reports it elsewhere
        kind = {"string": STRING, "number": INT, "id": ID, "punct": PUNCT}[str(group)]
        if kind == INT and len(piece) > MAX_NUMBER_LENGTH:
            sink.error(span, f"number of {len(piece)} characters", f"at most {MAX_NUMBER_LENGTH}")
            piece = "0"
        elif kind == INT and not _NUMBER.fullmatch(piece):
            sink.error(span, f"malformed number '{piece}'", "e.g. 10, 0x1F, 8w0b101 or 4s7")
            piece = "0"
        tokens.append(Token(kind, piece, span, glued))
        glued = True
    end_col = max(1, len(text) - line_start + 1)
    tokens.append(Token(EOF, "", Span(source, line, end_col, end_col + 1)))
    return tokens


def parse_number(text: str) -> tuple[int, int | None, bool]:
    """(value, width or None, signed) of a number as tokenised, e.g. ``8w0xFF`` -> (255, 8, False)."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a P4 number: {text!r}")
    width, sign, hexa, binary, octal, decimal = match.groups()
    for digits, base in ((hexa, 16), (binary, 2), (octal, 8), (decimal, 10)):
        if digits is not None:
            return int(digits.replace("_", ""), base), int(width) if width else None, sign == "s"
    raise ValueError(f"not a P4 number: {text!r}")
