"""Where something stands in the source, and what is said about it: spans, diagnostics, the collector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_ERRORS = 50


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One source text as read: its path as shown to the user, and its lines without line ends."""

    path: str
    lines: tuple[str, ...] = field(repr=False)


class Span(NamedTuple):
    """A place in a source file: 1-based line and column, and the column after its last character."""

    file: SourceFile
    line: int
    col: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.file.path}:{self.line}:{self.col}"


@dataclass(frozen=True)
class Diagnostic:
    """One complaint: the place, what is wrong, and (where it helps) what was expected."""

    span: Span | None
    message: str
    expected: str = ""
    severity: str = "error"

    def render(self) -> str:
        """The text shown to a user: ``file:line:col: error: ...``, the source line, a caret, the hint."""
        if self.span is None:
            return f"{self.severity}: {self.message}" + (
                f"\n  expected {self.expected}" if self.expected else ""
            )
        out = [f"{self.span}: {self.severity}: {self.message}"]
        lines = self.span.file.lines
        if 0 < self.span.line <= len(lines):
            text = lines[self.span.line - 1]
            number = str(self.span.line)
            # Tabs are kept in the padding, so the caret stands under its character whatever the tab width.
            pad = "".join(c if c == "\t" else " " for c in text[: self.span.col - 1])
            mark = "^" + "~" * (max(1, min(self.span.end_col, len(text) + 1) - self.span.col) - 1)
            out.append(f"  {number} | {text}")
            out.append(f"  {' ' * len(number)} | {pad}{mark}")
        if self.expected:
            out.append(f"    expected {self.expected}")
        return "\n".join(out)


class P4Error(Exception):
    """A program that cannot be used: carries every diagnostic found, in source order of discovery."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(d.render() for d in diagnostics))


class TooManyErrorsError(Exception):
    """Raised by the collector when more errors would no longer help anyone."""


@dataclass
class Collector:
    """Gathers diagnostics of all passes; the same message at the same place is kept once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, int, int, str]] = field(default_factory=set)

    def error(self, span: Span | None, message: str, expected: str = "") -> None:
        self._add(Diagnostic(span, message, expected))
        if len(self.errors) >= MAX_ERRORS:
            raise TooManyErrorsError

    def warning(self, span: Span | None, message: str) -> None:
        self._add(Diagnostic(span, message, severity="warning"))

    def _add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        key = (
            (span.file.path, span.line, span.col, diagnostic.message)
            if span
            else ("", 0, 0, diagnostic.message)
        )
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "warning"]

    def raise_if_errors(self) -> None:
        """Raise P4Error with all that was gathered, if any of it is an error."""
        if self.errors:
            raise P4Error(self.errors)
