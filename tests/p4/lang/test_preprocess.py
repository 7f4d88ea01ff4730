# ruff: noqa: E501 - programs and packets stay on one line
"""Includes, macros and conditionals, and that every token keeps the place where it was written."""

from pathlib import Path

import pytest

from p4.lang import P4Error, check_text
from p4.lang.diagnostics import Collector
from p4.lang.preprocess import Preprocessor


def expand(text: str, folder: Path | None = None, **defines: str) -> tuple[str, Collector]:
    sink = Collector()
    tokens = Preprocessor(sink, [folder] if folder else [], defines).run(text, "t.p4", folder)
    return " ".join(t.text for t in tokens if t.text), sink


def clean(text: str, **defines: str) -> str:
    out, sink = expand(text, **defines)
    assert not sink.diagnostics
    return out


def test_object_and_function_like_macros() -> None:
    assert clean("#define N 8\n#define SUM(a, b) ((a) + (b))\nbit<N> x = SUM(N, 1);") == (
        "bit < 8 > x = ( ( 8 ) + ( 1 ) ) ;"
    )


def test_a_macro_does_not_expand_inside_itself() -> None:
    assert clean("#define f(x) g(f(x))\nf(1)") == "g ( f ( 1 ) )"


def test_a_function_like_macro_without_parentheses_is_a_name() -> None:
    assert clean("#define f(x) x\nf;") == "f ;"


def test_a_call_may_span_lines() -> None:
    assert clean("#define add(a, b) a + b\nadd(1,\n  2)") == "1 + 2"


def test_pasting_and_quoting() -> None:
    assert clean("#define V(n) v ## n\n#define S(x) #x\nV(3) S(a b) ;") == 'v3 "a b" ;'


def test_continued_lines_and_comments_in_a_macro() -> None:
    assert clean("#define A 1 /* one */ + \\\n 2 // two\nA") == "1 + 2"


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("1", True), ("0", False), ("defined(X)", True), ("defined Y", False), ("!defined(Y) && X == 3", True),
        ("X > 3 || X << 1 == 6", True), ("(X + 1) * 2 != 8", False), ("UNKNOWN", False), ("X ? 0 : 1", False),
        ("-X < 0 && ~0 == -1", True), ("0x10 >> 2 == 4 && 7 % 4 == 3 && 7 / 2 == 3", True),
    ],
)  # fmt: skip
def test_conditions(condition: str, taken: bool) -> None:
    assert clean(f"#if {condition}\nyes\n#else\nno\n#endif", X="3") == ("yes" if taken else "no")


def test_elif_takes_the_first_true_branch_only() -> None:
    text = "#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif"
    assert clean(text) == "b"


def test_nothing_inside_a_false_branch_counts() -> None:
    assert clean("#if 0\n#error never\n#include <nowhere>\n#if 1\nx\n#else\ny\n#endif\n#endif\nz") == "z"


def test_undef_and_ifndef() -> None:
    assert clean("#define A\n#undef A\n#ifndef A\nyes\n#endif") == "yes"


def test_include_in_place_with_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("\nmiddle")
    sink = Collector()
    tokens = Preprocessor(sink, []).run('first\n#include "inner.p4"\nlast', "outer.p4", tmp_path)
    places = [(t.text, Path(t.span.file.path).name, t.span.line) for t in tokens if t.text]
    assert places == [("first", "outer.p4", 1), ("middle", "inner.p4", 2), ("last", "outer.p4", 3)]


def test_what_comes_out_of_a_macro_stands_where_it_is_used() -> None:
    sink = Collector()
    tokens = Preprocessor(sink, []).run("#define N 1 + 2\nab N;", "t.p4", None)
    assert [(t.text, t.span.line, t.span.col) for t in tokens[:4]] == [
        ("ab", 2, 1), ("1", 2, 4), ("+", 2, 4), ("2", 2, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#error out of luck", "#error out of luck"),
        ("#include <missing.p4>", "cannot find include file 'missing.p4'"),
        ("#include missing", "malformed #include"),
        ("#if 1", "conditional is never closed"),
        ("#endif", "without an open '#if'"),
        ("#if 1\n#else\n#else\n#endif", "after '#else'"),
        ("#if (1\n#endif", "expected ')'"),
        ("#if 1 / 0\n#endif", "division by zero"),
        ("#frobnicate", "unknown directive"),
        ("#define F(a, a) a", "malformed parameters"),
        ("#define F(a) a\nF(1, 2)", "called with 2 arguments"),
        ("/* never", "comment is never closed"),
        ('"never', "string is never closed"),
        ("8w", "malformed number '8w'"),
    ],
)
def test_mistakes_are_reported(text: str, message: str) -> None:
    _, sink = expand(text)
    assert any(message in d.message for d in sink.errors), [d.message for d in sink.errors]


def test_a_file_that_includes_itself_is_reported_not_followed_forever(tmp_path: Path) -> None:
    (tmp_path / "loop.p4").write_text('#include "loop.p4"\n')
    _, sink = expand('#include "loop.p4"', tmp_path)
    assert "nested deeper" in sink.errors[0].message


def test_a_macro_bomb_is_stopped() -> None:
    doubling = "#define A0 x x\n" + "".join(f"#define A{i} A{i - 1} A{i - 1}\n" for i in range(1, 40))
    with pytest.raises(P4Error, match="macro expansion exceeds"):
        check_text(doubling + "A39")
