# ruff: noqa: E501 - programs and packets stay on one line
"""Any text gives a program or diagnostics: never another exception."""

import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from p4.lang import P4Error, check_text
from p4.lang.tokens import PUNCTUATION
from p4.lang.words import KEYWORDS

PROGRAM = """header h_t { bit<8> a; varbit<16> v; }
struct s_t { h_t h; h_t[2] s; }
parser p(packet_in k, out s_t h) { state start { k.extract(h.h, 8); transition select(h.h.a) { 1 &&& 3: start; default: accept; } } }
control c(inout s_t h, inout bit<8> x) {
    action a(bit<8> n) { x = n |+| 1; h.h.setValid(); }
    table t { key = { h.h.a: ternary; } actions = { a; } const entries = { 1 &&& 3: a(2); } default_action = a(1); }
    apply { if (t.apply().hit) { x = (bit<8>)(h.h.a ++ x)[9:2]; } else { switch (x) { 1: { exit; } } } }
}
"""
WORDS = sorted(KEYWORDS) + list(PUNCTUATION) + ["x", "h_t", "apply", "key", "1", "8w255", '"s"', "@a", "\n#if 1\n", "\n#define x x x\n"]  # fmt: skip


def survives(text: str) -> None:
    try:
        check_text("#include <core.p4>\n" + text)
    except P4Error as error:
        assert error.diagnostics
        assert all(d.render() for d in error.diagnostics)


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(WORDS), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_sequence_of_words(words: list[str]) -> None:
    survives(" ".join(words))


@given(st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=250, deadline=None)
def test_a_program_with_pieces_missing_doubled_or_swapped(rng: random.Random, changes: int) -> None:
    pieces = PROGRAM.replace("(", " ( ").replace(")", " ) ").replace(";", " ; ").split(" ")
    for _ in range(changes):
        at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(at, pieces[other])
            case 2:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces.insert(at, rng.choice(WORDS))
    survives(" ".join(pieces))


def test_every_prefix_of_our_architecture_files() -> None:
    include = Path(__file__).parents[3] / "p4" / "lang" / "include"
    for path in sorted(include.glob("*.p4")):
        text = path.read_text()
        for end in range(0, len(text), len(text) // 12):
            survives(text[:end])
