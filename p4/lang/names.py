"""Tells type names from other names, and type-argument brackets from comparisons, before the grammar runs.

P4's grammar needs both: `(T) - x` is a cast only if T is a type, and `f<T>(x)` is a generic call only if the
brackets are. P4 declares before use, so one pass with a stack of scopes is enough. A name misjudged costs
a syntax error, never a wrong program: the checker resolves every name again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from p4.lang.diagnostics import Collector
from p4.lang.tokens import EOF, ID, INT, PUNCT, STRING, Token
from p4.lang.words import DECLARES_TYPE, KEYWORDS, OPENS, TERMINALS, TYPE_KEYWORDS, TYPE_LIKE


@dataclass(slots=True)
class Terminal:
    """One input symbol of the grammar. An ANNOTATION holds its body's tokens."""

    type: str
    token: Token
    body: tuple[Token, ...] = ()


@dataclass(slots=True)
class _Scope:
    """`names` maps a name to True (a type) or False (anything else). A declaration's scope ends with it."""

    depth: int
    of_declaration: bool
    names: dict[str, bool] = field(default_factory=dict)


class NameClassifier:
    """One pass over a program's tokens; see `classify`."""

    def __init__(self, tokens: list[Token], sink: Collector) -> None:
        self.tokens = tokens
        self.sink = sink
        self.at = 0
        self.out: list[Terminal] = []
        self.scopes = [_Scope(-1, False)]
        self.depth = 0  # of all brackets
        self.brackets: list[tuple[str, bool]] = []  # open ones; for '[', whether it sizes a type
        self.angles: list[int] = []  # bracket depth of each open type-argument list
        self.type_ended = False  # the tokens so far end in a type

    def classify(self) -> list[Terminal]:
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.kind == EOF:
                break
            if token.kind == ID:
                self._identifier(token)
            elif token.kind in (INT, STRING):
                self._emit("INT_LITERAL" if token.kind == INT else "STRING_LITERAL", token)
            else:
                self._punctuation(token)
        return self.out

    def _emit(self, kind: str, token: Token, ends_type: bool = False) -> None:
        self.out.append(Terminal(kind, token))
        self.type_ended = ends_type

    def _ahead(self, offset: int = 0) -> Token:
        return self.tokens[min(self.at + offset, len(self.tokens) - 1)]

    def _before(self) -> str:
        return self.out[-1].token.text if self.out else ""

    def _is_type(self, name: str) -> bool:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return False

    def _declare(self, name: str, is_type: bool) -> None:
        self.scopes[-1].names[name] = is_type

    # ---- identifiers and keywords

    def _identifier(self, token: Token) -> None:
        text = token.text
        following = self._ahead()
        if self.out and self.out[-1].type == "_DOT":
            self._emit("ID", token)
        elif text == "_":
            self._emit("DONTCARE", token)
        elif text in KEYWORDS:
            self._keyword(token)
        elif self._contextual(text, following):
            self._emit({"value_set": "VALUESET"}.get(text, text.upper()), token)
        elif self.type_ended or (self.out and self.out[-1].type in ("ACTION", "TABLE", "STATE")):
            self._declared_object(token)
        elif self._is_type(text) or (
            following.kind == ID and following.text not in ("in",) and self._starts_type()
        ):
            self._emit("TYPE_ID", token, ends_type=True)
        else:
            self._emit("ID", token)

    def _starts_type(self) -> bool:
        """An unknown name before another name is a type (a type parameter not yet declared, or a mistake)."""
        return self._ahead().text not in KEYWORDS or self._ahead().text in TYPE_KEYWORDS

    def _declared_object(self, token: Token) -> None:
        """A name right after a type (or `action`, ...) is being declared, and may hide a type."""
        following = self._ahead().text
        if self._is_type(token.text) and following != "{":  # an enum's name also follows a type
            self._declare(token.text, False)
        if following in ("(", "<"):
            self.scopes.append(_Scope(self.depth, True))
        self._emit("ID", token)
        if following == "<":
            self._type_parameters()

    def _keyword(self, token: Token) -> None:
        text = token.text
        if text == "error" and self._ahead().text == "{":
            self._emit("ERROR", token)
        elif text == "match_kind" and self._ahead().text == "{":
            self._emit("MATCH_KIND", token)
        elif text == "extern" and self._ahead(1).text != "{" and not self._extern_with_parameters():
            self._emit("EXTERN_FUNCTION", token)
        else:
            self._emit(text.upper(), token, ends_type=text in TYPE_KEYWORDS)
        if text in DECLARES_TYPE:
            self._type_declaration(text)
        elif text in ("typedef",):
            self._alias()

    def _contextual(self, text: str, following: Token) -> bool:
        """Words that are keywords only where the grammar wants them."""
        after = self._ahead(1).text
        before = self._before()
        match text:
            case "apply":
                return following.text in ("{", "@")
            case "key" | "actions" | "entries":
                return following.text == "=" and after == "{"
            case "state":
                return following.kind == ID and after == "{" and not self.type_ended
            case "type":
                at_start = before in ("", ";", "}") or (self.out and self.out[-1].type == "ANNOTATION")
                if at_start and following.kind == ID:
                    self._alias()
                    return True
                return False
            case "priority":
                return (
                    following.text == "=" and before in ("{", ";", "const") and self._colon_before_semicolon()
                )
            case "abstract":
                return following.kind == ID and not self.type_ended
            case "list" | "value_set":
                return following.text == "<"
        return False

    def _colon_before_semicolon(self) -> bool:
        depth = 0
        for token in self.tokens[self.at :]:
            if token.text in OPENS:
                depth += 1
            elif token.text in (")", "]", "}"):
                depth -= 1
            elif token.text in {"?", ";"} or depth < 0:
                return False
            elif token.text == ":" and depth == 0:
                return True
        return False

    def _type_declaration(self, keyword: str) -> None:
        """After `header`, `parser`, ...: the next name is a type, perhaps with type parameters."""
        offset = 0
        if keyword == "enum" and self._ahead(1).text != "{":  # enum bit<8> Name {
            while self._ahead(offset + 1).text not in ("{", ";") and self._ahead(offset).kind != EOF:
                offset += 1
            if self._ahead(offset).kind == ID:
                self._declare(self._ahead(offset).text, True)
            return
        name = self._ahead()
        if name.kind != ID or name.text in KEYWORDS:
            return
        if self.out[-1].type == "EXTERN_FUNCTION":
            return
        self.at += 1
        self._declare(name.text, True)
        self.scopes.append(_Scope(self.depth, True))
        self._emit("TYPE_ID", name)
        if self._ahead().text == "<":
            self._type_parameters()

    def _extern_with_parameters(self) -> bool:
        offset = 1
        if self._ahead(offset).text != "<":
            return False
        while self._ahead(offset).text not in (">", ";", "{") and self._ahead(offset).kind != EOF:
            offset += 1
        return self._ahead(offset + 1).text == "{"

    def _alias(self) -> None:
        """`typedef ... Name;`: the last name before the semicolon. Declared when its ';' is reached."""
        offset = 0
        while self._ahead(offset).text not in (";", "{") and self._ahead(offset).kind != EOF:
            offset += 1
        name = self._ahead(offset - 1)
        if offset and name.kind == ID and name.text not in KEYWORDS:
            self.pending_alias = (self.at + offset, name.text)

    pending_alias: tuple[int, str] | None = None

    def _type_parameters(self) -> None:
        """At '<' after a declared name: declares the names up to '>' as types of the declaration's scope."""
        self._emit("_LANGLE", self._ahead())
        self.at += 1
        while self._ahead().text != ">":
            token = self._ahead()
            if token.kind == ID and token.text not in KEYWORDS:
                self._declare(token.text, True)
                self._emit("DONTCARE" if token.text == "_" else "TYPE_ID", token)
            elif token.text == ",":
                self._emit("_COMMA", token)
            else:
                return  # the grammar reports what stands here
            self.at += 1
        self._emit("_RANGLE", self._ahead())
        self.at += 1

    # ---- punctuation

    def _punctuation(self, token: Token) -> None:
        text = token.text
        if text == "@":
            self._annotation(token)
        elif text == "<":
            self._open_angle(token)
        elif text == ">":
            self._close_angle(token)
        elif text == "." and not self._after_operand():
            self._emit("_PREFIX_DOT", token)
        elif text in OPENS:
            self.brackets.append((text, self.type_ended))
            self.depth += 1
            if text == "{":
                self.scopes.append(_Scope(self.depth, False))
            self._emit(TERMINALS[text], token)
        elif text in (")", "]", "}"):
            self._close(token)
        elif text == ";":
            self._emit("_SEMI", token)
            if self.pending_alias and self.at - 1 >= self.pending_alias[0]:
                self._declare(self.pending_alias[1], True)
                self.pending_alias = None
            self._end_declaration()
        elif text in TERMINALS:
            self._emit(TERMINALS[text], token)
        else:
            self.sink.error(token.span, f"unexpected '{text}'")

    def _after_operand(self) -> bool:
        if not self.out:
            return False
        last = self.out[-1]
        return last.type in ("ID", "TYPE_ID", "_RPAREN", "_RBRACKET", "_RANGLE", "_RBRACE") or (
            last.type in ("ERROR", "MATCH_KIND")
        )

    def _open_angle(self, token: Token) -> None:
        last = self.out[-1].type if self.out else ""
        if last in ("BIT", "INT", "VARBIT", "TUPLE", "LIST", "VALUESET", "TYPE_ID") or (
            last == "ID" and self._looks_like_type_arguments()
        ):
            self.angles.append(self.depth)
            self._emit("_LANGLE", token)
        else:
            self._emit("LT", token)

    def _looks_like_type_arguments(self) -> bool:
        """From just after '<': only what types are made of up to its '>', and then a call's '('."""
        angles, rounds = 1, 0
        for index in range(self.at, min(self.at + 200, len(self.tokens))):
            token = self.tokens[index]
            if (token.kind == PUNCT and token.text not in TYPE_LIKE) or token.kind in (STRING, EOF):
                return False
            if token.text == "(":
                rounds += 1
            elif token.text == ")":
                rounds -= 1
                if rounds < 0:
                    return False
            elif token.text == "<":
                angles += 1
            elif token.text == ">" and rounds == 0:
                angles -= 1
                if angles == 0:
                    return self.tokens[index + 1].text == "("
        return False

    def _close_angle(self, token: Token) -> None:
        if self.angles and self.angles[-1] == self.depth:
            self.angles.pop()
            self._emit("_RANGLE", token, ends_type=True)
        elif self._ahead().text == ">" and self._ahead().glued:
            second = self._ahead()
            self.at += 1
            span = token.span._replace(end_col=second.span.end_col)
            self._emit("SHR", Token(PUNCT, ">>", span))
        else:
            self._emit("GT", token)

    def _close(self, token: Token) -> None:
        text = token.text
        opened, sized_type = self.brackets[-1] if self.brackets else ("", False)
        if OPENS.get(opened) != text:
            self._emit(TERMINALS[text], token)  # unbalanced: the grammar says so
            if not self.brackets:
                return
        self.brackets.pop()
        if text == "}":
            while len(self.scopes) > 1 and self.scopes[-1].depth >= self.depth:
                self.scopes.pop()
        self.depth -= 1
        while self.angles and self.angles[-1] > self.depth:
            self.angles.pop()
        if OPENS.get(opened) == text:
            self._emit(TERMINALS[text], token, ends_type=text == "]" and sized_type)
        if text == "}":
            self._end_declaration()

    def _end_declaration(self) -> None:
        while len(self.scopes) > 1 and self.scopes[-1].of_declaration and self.scopes[-1].depth >= self.depth:
            self.scopes.pop()

    def _annotation(self, at_sign: Token) -> None:
        name = self._ahead()
        if name.kind != ID:
            self.sink.error(at_sign.span, "malformed annotation", "a name after '@'")
            return
        self.at += 1
        body: list[Token] = []
        opened = self._ahead()
        if name.text == "pragma":  # the rest of the line is its body
            while self._ahead().kind != EOF and self._ahead().span.line == name.span.line:
                body.append(self._ahead())
                self.at += 1
        elif opened.text in ("(", "["):
            depth = 0
            while True:
                token = self._ahead()
                if token.kind == EOF:
                    self.sink.error(opened.span, f"annotation body of '@{name.text}' is never closed")
                    break
                self.at += 1
                depth += (token.text in OPENS) - (token.text in (")", "]", "}"))
                body.append(token)
                if depth == 0:
                    break
        ended = self.type_ended
        self.out.append(Terminal("ANNOTATION", name, tuple(body)))
        self.type_ended = ended
