"""The C preprocessor as P4 uses it: includes, macros, conditionals; tokens keep their own file:line:col."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from p4.lang.conditions import evaluate_condition
from p4.lang.diagnostics import Collector, SourceFile, TooManyErrorsError
from p4.lang.tokens import EOF, ID, INT, NEWLINE, PUNCT, STRING, Token, tokenize

MAX_INCLUDE_DEPTH = 64
MAX_EXPANDED_TOKENS = 500_000


@dataclass(frozen=True)
class Macro:
    """``params`` is None for an object-like macro."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]


@dataclass
class _Condition:
    """One open #if: whether its text counts, whether a branch was already taken, and the directive."""

    active: bool
    taken: bool
    opened: Token
    seen_else: bool = False


class Preprocessor:
    """Turns a file and all it includes into one list of tokens."""

    def __init__(
        self, sink: Collector, search_paths: Sequence[Path], defines: Mapping[str, str] | None = None
    ) -> None:
        self.sink = sink
        self.search_paths = list(search_paths)
        self.macros: dict[str, Macro] = {}
        self.files: list[Path] = []
        self.missed: list[Path] = []  # include files that were looked for there, and found elsewhere
        self.out: list[Token] = []
        self.expanded = 0
        for name, value in (defines or {}).items():
            source = SourceFile("<command line>", (value,))
            body = [t for t in tokenize(source, value, sink) if t.kind not in (EOF, NEWLINE)]
            self.macros[name] = Macro(name, None, tuple(body))

    def run(self, text: str, path: str, folder: Path | None) -> list[Token]:
        """Tokens of `text` (shown as `path`, quoted includes relative to `folder`), closed by EOF."""
        tokens = self._file(text, path, folder, 0)
        return [*self.out, tokens[-1]]

    def _file(self, text: str, path: str, folder: Path | None, depth: int) -> list[Token]:
        source = SourceFile(path, tuple(text.split("\n")))
        tokens = tokenize(source, text, self.sink)
        conditions: list[_Condition] = []
        pending: list[Token] = []  # ordinary tokens since the last directive; macro calls may span lines
        at = 0
        while tokens[at].kind != EOF:
            end = at
            while tokens[end].kind not in (NEWLINE, EOF):
                end += 1
            line = tokens[at:end]
            if line and line[0].text == "#" and line[0].kind == PUNCT:
                self._flush(pending)
                self._directive(line, conditions, folder, depth)
            elif all(c.active for c in conditions):
                pending.extend(line)
            at = end if tokens[end].kind == EOF else end + 1
        self._flush(pending)
        for condition in conditions:
            self.sink.error(condition.opened.span, "conditional is never closed", "'#endif'")
        return tokens

    def _flush(self, pending: list[Token]) -> None:
        self.out.extend(self._expand(pending, frozenset()))
        pending.clear()

    # ---- directives

    def _directive(
        self, line: list[Token], conditions: list[_Condition], folder: Path | None, depth: int
    ) -> None:
        if len(line) == 1:
            return
        word, rest = line[1], line[2:]
        if word.text in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self._conditional(word, rest, conditions)
            return
        if not all(c.active for c in conditions):
            return
        if word.text == "include":
            self._include(word, rest, folder, depth)
        elif word.text == "define":
            self._define(word, rest)
        elif word.text == "undef":
            if len(rest) != 1 or rest[0].kind != ID:
                self.sink.error(word.span, "malformed #undef", "one macro name")
            else:
                self.macros.pop(rest[0].text, None)
        elif word.text in ("error", "warning"):
            message = " ".join(t.text for t in rest)
            if word.text == "error":
                self.sink.error(word.span, f"#error {message}")
            else:
                self.sink.warning(word.span, f"#warning {message}")
        elif word.text not in ("pragma", "line"):
            self.sink.error(
                word.span,
                f"unknown directive '#{word.text}'",
                "include, define, undef, if, ifdef, ifndef, elif, else, endif, error, warning or pragma",
            )

    def _conditional(self, word: Token, rest: list[Token], conditions: list[_Condition]) -> None:
        outer_active = all(c.active for c in conditions)
        if word.text in ("if", "ifdef", "ifndef"):
            value = outer_active and self._condition_value(word, rest)
            conditions.append(_Condition(value, value or not outer_active, word))
            return
        if not conditions:
            self.sink.error(word.span, f"'#{word.text}' without an open '#if'")
            return
        current = conditions[-1]
        if word.text == "endif":
            conditions.pop()
        elif current.seen_else:
            self.sink.error(word.span, f"'#{word.text}' after '#else'", "'#endif'")
        elif word.text == "else":
            current.seen_else = True
            current.active, current.taken = not current.taken, True
        else:
            current.active = not current.taken and self._condition_value(word, rest)
            current.taken = current.taken or current.active

    def _condition_value(self, word: Token, rest: list[Token]) -> bool:
        if word.text in ("ifdef", "ifndef"):
            if len(rest) != 1 or rest[0].kind != ID:
                self.sink.error(word.span, f"malformed #{word.text}", "one macro name")
                return False
            return (rest[0].text in self.macros) == (word.text == "ifdef")
        tokens: list[Token] = []
        at = 0
        while at < len(rest):  # `defined X` is answered before macros expand
            if rest[at].text == "defined" and rest[at].kind == ID:
                names = [t for t in rest[at + 1 : at + 4] if t.kind == ID][:1]
                parenthesised = at + 1 < len(rest) and rest[at + 1].text == "("
                if not names:
                    self.sink.error(rest[at].span, "malformed 'defined'", "defined(NAME) or defined NAME")
                    return False
                tokens.append(replace(rest[at], kind=INT, text="1" if names[0].text in self.macros else "0"))
                at += 4 if parenthesised else 2
            else:
                tokens.append(rest[at])
                at += 1
        return evaluate_condition(word, self._expand(tokens, frozenset()), self.sink) != 0

    def _include(self, word: Token, rest: list[Token], folder: Path | None, depth: int) -> None:
        if rest and rest[0].kind == ID:
            rest = self._expand(rest, frozenset())
        if len(rest) == 1 and rest[0].kind == STRING:
            name, places = rest[0].text[1:-1], ([folder] if folder else []) + self.search_paths
        elif len(rest) >= 3 and rest[0].text == "<" and rest[-1].text == ">":
            name, places = "".join(t.text for t in rest[1:-1]), self.search_paths
        else:
            self.sink.error(word.span, "malformed #include", '#include "file" or #include <file>')
            return
        if depth >= MAX_INCLUDE_DEPTH:
            self.sink.error(
                rest[0].span,
                f"includes nested deeper than {MAX_INCLUDE_DEPTH}: does '{name}' include itself?",
            )
            return
        for place in places:
            path = place / name
            if path.is_file():
                try:
                    text = path.read_text(encoding="utf-8", errors="replace")
                except OSError as error:
                    self.sink.error(rest[0].span, f"cannot read '{path}': {error.strerror}")
                    return
                self.files.append(path)
                self._file(text, str(path), path.parent, depth + 1)
                return
            self.missed.append(path)
        looked = ", ".join(str(p) for p in places) or "nowhere"
        self.sink.error(rest[0].span, f"cannot find include file '{name}'", f"it in one of: {looked}")

    def _define(self, word: Token, rest: list[Token]) -> None:
        if not rest or rest[0].kind != ID:
            self.sink.error(word.span, "malformed #define", "#define NAME body or #define NAME(params) body")
            return
        name, body = rest[0], rest[1:]
        params: tuple[str, ...] | None = None
        if body and body[0].text == "(" and body[0].glued:
            close = next((i for i, t in enumerate(body) if t.text == ")"), None)
            inner = body[1:close] if close is not None else []
            names = [t.text for t in inner[::2]]
            well_formed = all(t.kind == ID for t in inner[::2]) and all(t.text == "," for t in inner[1::2])
            if (
                close is None
                or not well_formed
                or (inner and len(inner) % 2 == 0)
                or len(set(names)) < len(names)
            ):
                self.sink.error(
                    body[0].span, f"malformed parameters of macro '{name.text}'", "distinct names: (a, b)"
                )
                return
            params, body = tuple(names), body[close + 1 :]
        self.macros[name.text] = Macro(name.text, params, tuple(body))

    # ---- macro expansion

    def _spend(self, token: Token, count: int) -> None:
        """Counts the tokens that macros make; ends the run when a program has macros for a bomb."""
        self.expanded += count
        if self.expanded > MAX_EXPANDED_TOKENS:
            self.sink.error(token.span, f"macro expansion exceeds {MAX_EXPANDED_TOKENS} tokens")
            raise TooManyErrorsError

    def _expand(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            macro = self.macros.get(token.text) if token.kind == ID and token.text not in hidden else None
            if macro is None:
                out.append(token)
                at += 1
                continue
            if macro.params is None:
                body, at = list(macro.body), at + 1
            else:
                arguments, after = self._arguments(tokens, at + 1)
                if arguments is None:
                    out.append(token)  # a function-like macro without '(' is an ordinary name
                    at += 1
                    continue
                if macro.params == () and arguments == [[]]:
                    arguments = []
                if len(arguments) != len(macro.params):
                    self.sink.error(
                        token.span,
                        f"macro '{macro.name}' called with {len(arguments)} arguments",
                        f"{len(macro.params)}",
                    )
                    return out
                body, at = self._substitute(macro, arguments, hidden), after
            self._spend(token, len(body))
            # What comes out of a macro stands where the macro was used.
            placed = [replace(t, span=token.span, glued=t.glued and i > 0) for i, t in enumerate(body)]
            out.extend(self._expand(self._paste(placed), hidden | {macro.name}))
        return out

    @staticmethod
    def _arguments(tokens: Sequence[Token], at: int) -> tuple[list[list[Token]] | None, int]:
        """The arguments of a call whose '(' should be at `at`, and the place after its ')'."""
        if at >= len(tokens) or tokens[at].text != "(":
            return None, at
        arguments: list[list[Token]] = [[]]
        depth = 0
        for index in range(at, len(tokens)):
            token = tokens[index]
            if token.text == "(" and token.kind == PUNCT:
                depth += 1
                if depth == 1:
                    continue
            elif token.text == ")" and token.kind == PUNCT:
                depth -= 1
                if depth == 0:
                    return arguments, index + 1
            elif token.text == "," and depth == 1:
                arguments.append([])
                continue
            arguments[-1].append(token)
        return None, at

    def _substitute(self, macro: Macro, arguments: list[list[Token]], hidden: frozenset[str]) -> list[Token]:
        assert macro.params is not None
        bound = dict(zip(macro.params, arguments, strict=True))
        body: list[Token] = []
        for index, token in enumerate(macro.body):
            previous = macro.body[index - 1].text if index else ""
            following = macro.body[index + 1].text if index + 1 < len(macro.body) else ""
            if token.text == "#" and following in bound:
                continue
            if token.kind != ID or token.text not in bound:
                body.append(token)
            elif previous == "#":
                text = " ".join(t.text for t in bound[token.text]).replace("\\", "\\\\").replace('"', '\\"')
                body.append(replace(token, kind=STRING, text=f'"{text}"'))
            elif "##" in (previous, following):
                body.extend(bound[token.text])
            else:
                body.extend(self._expand(bound[token.text], hidden))
        return body

    def _paste(self, tokens: list[Token]) -> list[Token]:
        if not any(t.text == "##" for t in tokens):
            return tokens
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            if tokens[at].text == "##" and out and at + 1 < len(tokens):
                left, right = out.pop(), tokens[at + 1]
                text = left.text + right.text
                made = tokenize(SourceFile(left.span.file.path, ()), text, Collector())
                if len(made) != 2:
                    self.sink.error(left.span, f"'##' does not give one token: '{text}'")
                out.extend(replace(t, span=left.span) for t in made[:-1])
                at += 2
            else:
                out.append(tokens[at])
                at += 1
        return out
