"""Generated expressions: the engine against Python's big integers, widths 1 to 200, signed and unsigned."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4.targets import Engine

WIDTHS = (1, 7, 8, 13, 16, 32, 33, 48, 64, 65, 128, 200)
INPUT_PADDING = 8 - 4 * sum(WIDTHS) % 8  # to whole bytes
Env = dict[str, int]


class Type(NamedTuple):
    signed: bool
    width: int

    @property
    def p4(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    def wrap(self, value: int) -> int:
        value &= (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value

    @property
    def bounds(self) -> tuple[int, int]:
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1


TYPES = [Type(signed, width) for width in WIDTHS for signed in (False, True)]


class Expr(NamedTuple):
    """An expression both ways: P4 text, and its value by P4's rules."""

    text: str
    value: Callable[[Env], int]


def field(name: str, t: Type) -> str:
    return f"{name}_{'s' if t.signed else 'u'}{t.width}"


def generate(rng: random.Random, t: Type, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return leaf(rng, t)
    make = rng.choice((binary, binary, binary, unary, shift, ternary, cast, concat, cut, cut_at, divide))
    made = make(rng, t, depth - 1)
    return made if made is not None else binary(rng, t, depth - 1)


def leaf(rng: random.Random, t: Type) -> Expr:
    if rng.random() < 0.25:
        low, high = t.bounds
        value = rng.choice((0, 1 if high else 0, low, high, rng.randint(low, high)))
        pattern = value & ((1 << t.width) - 1)
        return Expr(f"(({t.p4}){t.width}w{pattern})", lambda env: value)
    name = field(rng.choice("xy"), t)
    return Expr(f"h.i.{name}", lambda env: env[name])


def binary(rng: random.Random, t: Type, depth: int) -> Expr:
    op = rng.choice(("+", "-", "*", "&", "|", "^", "|+|", "|-|"))
    a, b = generate(rng, t, depth), generate(rng, t, depth)

    def value(env: Env) -> int:
        x, y = a.value(env), b.value(env)
        low, high = t.bounds
        match op:
            case "|+|":
                return max(low, min(high, x + y))
            case "|-|":
                return max(low, min(high, x - y))
        return t.wrap({"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[op])

    return Expr(f"({a.text} {op} {b.text})", value)


def unary(rng: random.Random, t: Type, depth: int) -> Expr:
    op, a = rng.choice("~-"), generate(rng, t, depth)
    return Expr(f"({op}{a.text})", lambda env: t.wrap(-a.value(env) if op == "-" else ~a.value(env)))


def shift(rng: random.Random, t: Type, depth: int) -> Expr:
    op, a = rng.choice(("<<", ">>")), generate(rng, t, depth)
    if rng.random() < 0.5:
        constant = rng.choice((0, 1, t.width - 1, t.width, t.width + 5))
        by = Expr(str(constant), lambda env: constant)
    else:
        by = generate(rng, Type(False, rng.choice((7, 8, 65))), 0)
    return Expr(
        f"({a.text} {op} {by.text})",
        lambda env: t.wrap(
            a.value(env) << min(by.value(env), 300) if op == "<<" else a.value(env) >> by.value(env)
        ),
    )


def ternary(rng: random.Random, t: Type, depth: int) -> Expr:
    other = rng.choice(TYPES)
    op = rng.choice(("<", "<=", ">", ">=", "==", "!="))
    p, q = generate(rng, other, depth - 1 if depth else 0), generate(rng, other, 0)
    a, b = generate(rng, t, depth), generate(rng, t, depth)

    def value(env: Env) -> int:
        x, y = p.value(env), q.value(env)
        holds = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[op]
        return (a if holds else b).value(env)

    return Expr(f"({p.text} {op} {q.text} ? {a.text} : {b.text})", value)


def cast(rng: random.Random, t: Type, depth: int) -> Expr:
    source = Type(not t.signed, t.width) if rng.random() < 0.5 else Type(t.signed, rng.choice(WIDTHS))
    a = generate(rng, source, depth)
    return Expr(f"(({t.p4}){a.text})", lambda env: t.wrap(a.value(env)))


def concat(rng: random.Random, t: Type, depth: int) -> Expr | None:
    pairs = [(a, t.width - a) for a in WIDTHS if t.width - a in WIDTHS]
    if not pairs:
        return None
    high, low = rng.choice(pairs)
    a, b = generate(rng, Type(t.signed, high), depth), generate(rng, Type(rng.random() < 0.5, low), depth)
    return Expr(
        f"({a.text} ++ {b.text})",
        lambda env: t.wrap((a.value(env) << low) | (b.value(env) & ((1 << low) - 1))),
    )


def cut(rng: random.Random, t: Type, depth: int) -> Expr | None:
    wider = [w for w in WIDTHS if w >= t.width]
    if t.signed or not wider:
        return None
    source = Type(rng.random() < 0.5, rng.choice(wider))
    low = rng.randint(0, source.width - t.width)
    a = generate(rng, source, depth)
    if not a.text.startswith("h."):
        a = leaf(rng, source)
    return Expr(
        f"({a.text}[{low + t.width - 1}:{low}])", lambda env: (a.value(env) >> low) & ((1 << t.width) - 1)
    )


def cut_at(rng: random.Random, t: Type, depth: int) -> Expr | None:
    """A slice at a position known only at run time; beyond the width there are zeros."""
    wider = [w for w in WIDTHS if w >= t.width]
    if t.signed or not wider:
        return None
    source = Type(rng.random() < 0.5, rng.choice(wider))
    a, low = leaf(rng, source), field(rng.choice("xy"), Type(False, 8))

    def value(env: Env) -> int:
        pattern = a.value(env) & ((1 << source.width) - 1)
        return pattern >> env[low] & ((1 << t.width) - 1)

    return Expr(f"({a.text}[h.i.{low} +: {t.width}])", value)


def divide(rng: random.Random, t: Type, depth: int) -> Expr | None:
    if t.signed:
        return None
    op, a = rng.choice("/%"), generate(rng, t, depth)
    by = rng.randint(1, (1 << t.width) - 1)
    return Expr(
        f"({a.text} {op} {t.width}w{by})", lambda env: a.value(env) // by if op == "/" else a.value(env) % by
    )


def parts(expressions: list[tuple[Type, Expr]]) -> dict[str, str]:
    """The program that puts each expression's value into a field of header `o`."""
    inputs = [f"{t.p4} {field(n, t)};" for t in TYPES for n in "xy"]
    inputs.append(f"bit<{INPUT_PADDING}> pad;")
    outputs = [f"{t.p4} r{i};" for i, (t, _) in enumerate(expressions)]
    padding = -sum(t.width for t, _ in expressions) % 8
    if padding:
        outputs.append(f"bit<{padding}> pad;")
    return {
        "types": f"header i_t {{ {' '.join(inputs)} }} header o_t {{ {' '.join(outputs)} }}",
        "headers": "i_t i; o_t o;",
        "parser": "state start { p.extract(h.i); transition accept; }",
        "ingress": "h.o.setValid(); s.egress_spec = 1;\n"
        + "".join(f"h.o.r{i} = {e.text};\n" for i, (_, e) in enumerate(expressions)),
        "deparser": "p.emit(h.o);",
    }


def encode(env: Env) -> bytes:
    bits = 0
    total = 0
    for t in TYPES:
        for n in "xy":
            bits = (bits << t.width) | (env[field(n, t)] & ((1 << t.width) - 1))
            total += t.width
    bits, total = bits << INPUT_PADDING, total + INPUT_PADDING
    return bits.to_bytes(total // 8, "big")


def decode(data: bytes, types: list[Type]) -> list[int]:
    bits, left = int.from_bytes(data, "big"), 8 * len(data)
    out = []
    for t in types:
        left -= t.width
        out.append(t.wrap(bits >> left))
    return out


def environment(draw: Callable[[Type], int]) -> Env:
    return {field(n, t): draw(t) for t in TYPES for n in "xy"}


def edge_value(rng: random.Random, t: Type) -> int:
    low, high = t.bounds
    return rng.choice(
        (low, high, 0, min(1, high), max(-1, low), rng.randint(low, high), rng.randint(low, high))
    )


def check(engine: Engine, expressions: list[tuple[Type, Expr]], env: Env) -> None:
    engine.send(0, encode(env))
    [packet] = engine.receive()
    got = decode(packet.data, [t for t, _ in expressions])
    for (t, e), value in zip(expressions, got, strict=True):
        assert value == e.value(env), f"{t.p4}: {e.text} with {env}"


@pytest.mark.parametrize("seed", [1, 2])
def test_generated_expressions(seed: int, engine: Callable[..., Engine]) -> None:
    rng = random.Random(seed)
    expressions = [(t, generate(rng, t, 3)) for t in TYPES for _ in range(2)]
    switch = engine(**parts(expressions))

    @given(st.integers(0, 2**64))
    @settings(max_examples=150, deadline=None)
    def agrees(value_seed: int) -> None:
        values = random.Random(value_seed)
        check(switch, expressions, environment(lambda t: edge_value(values, t)))

    agrees()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_many_more_generated_expressions(seed: int, engine: Callable[..., Engine]) -> None:
    rng = random.Random(seed)
    expressions = [(t, generate(rng, t, 5)) for t in TYPES for _ in range(4)]
    switch = engine(**parts(expressions))
    for _ in range(300):
        check(switch, expressions, environment(lambda t: edge_value(rng, t)))
