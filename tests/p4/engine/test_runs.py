# ruff: noqa: E501 - programs stay on one line a statement
"""What the generated code does in one go: runs of statements, fields that share bytes, checksums, ports at once."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.codegen.runs import RunWriter
from p4.lang import check_text, load_program
from p4.programs import SWITCHGNN
from p4.targets import Engine
from tests.p4.conftest import v1model
from tests.p4.passes import Passes
from tests.p4.programs.frames import internet_checksum

COUNT = 11  # values: not a multiple of any vector's length
SIZE = 5  # elements of each register


def each(text: str) -> str:
    """`text` for each value, N its number and NEXT the one after."""
    return " ".join(text.replace("NEXT", str(n + 1)).replace("N", str(n)) for n in range(COUNT))


HEADERS = f"header k_t {{ bit<32> at; {each('int<32> vN;')} int<32> last; }}"
REGISTERS = each("register<bit<32>>(5) rN;")
ADD = each(
    "rN.read(word, h.k.at); held = (int<32>)word; sum = held |+| h.k.vN;"
    "hit = sum != held + h.k.vN ? 8w7 : hit; rN.write(h.k.at, (bit<32>)sum); h.k.vN = sum;"
)


def program(body: str, registers: str = REGISTERS) -> str:
    return v1model(
        types=HEADERS,
        headers="k_t k;",
        parser="state start { p.extract(h.k); transition accept; }",
        deparser="p.emit(h.k);",
        locals=registers,
        ingress=f"s.egress_spec = 1; bit<32> word; int<32> held; int<32> sum = 3; bit<8> hit = 0; {body}"
        "h.k.last = h.k.last + (int<32>)(bit<32>)hit + sum;",
    )


def is_loop(text: str) -> bool:
    return f"k_ < {COUNT}" in generate(check_text(text)).source


@pytest.fixture(scope="module")
def pair(libraries: Path) -> tuple[Engine, Engine]:
    """The same program with its run as a loop, and as it is written."""
    text = program(ADD)
    looped = Engine(build(generate(check_text(text)), folder=libraries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunWriter, "rerolls", False)
        assert not is_loop(text)
        plain = Engine(build(generate(check_text(text)), folder=libraries))
    return looped, plain


ENDS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**30, -(2**30)])
VALUES = st.lists(ENDS | st.integers(-(2**31), 2**31 - 1), min_size=COUNT + 1, max_size=COUNT + 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from([0, 1, 4, 5, 2**32 - 1]), VALUES), min_size=1, max_size=6))
def test_a_run_as_a_loop_does_what_its_statements_do(
    pair: tuple[Engine, Engine], packets: list[tuple[int, list[int]]]
) -> None:
    for at, numbers in packets:
        data = at.to_bytes(4, "big") + b"".join(n.to_bytes(4, "big", signed=True) for n in numbers)
        got = []
        for switch in pair:
            switch.send(0, data)
            got.append(switch.receive())
        assert got[0] == got[1] and len(got[0]) == 1
    for n in range(COUNT):
        for at in range(SIZE):
            assert pair[0].register_read(f"ingress.r{n}", at) == pair[1].register_read(f"ingress.r{n}", at)


def test_the_values_of_switchgnn_are_added_in_a_loop() -> None:
    assert "k_ < 30" in generate(load_program(SWITCHGNN)).source
    assert is_loop(program(ADD))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (each("rN.read(word, h.k.at); h.k.vN = (int<32>)word; h.k.at = h.k.at + 1;"), "the index moves"),
        (each("rN.read(word, (bit<32>)h.k.v0); h.k.vN = (int<32>)word;"), "the index is one of the values"),
        (
            each("rN.read(word, h.k.at); h.k.vNEXT = h.k.vN + (int<32>)word;").replace("v11", "last"),
            "one feeds the next",
        ),
        (
            each("r0.read(word, h.k.at); h.k.vN = h.k.vN + (int<32>)word; r0.write(h.k.at, word);"),
            "one register for all",
        ),
        (each("rN.write(h.k.at, (bit<32>)h.k.vN); h.k.vN = h.k.v3;"), "all read one that is written"),
    ],
)
def test_what_a_loop_would_do_differently_is_none(
    engine: Callable[..., Engine], libraries: Path, body: str, why: str
) -> None:
    text = program(body)
    assert not is_loop(text), why


def test_registers_that_do_not_lie_side_by_side_are_no_run() -> None:
    others = " ".join(f"register<bit<32>>({5 + n % 2}) r{n};" for n in range(COUNT))
    assert not is_loop(program(ADD, others))
    between = REGISTERS.replace(
        "register<bit<32>>(5) r4;", "register<bit<32>>(5) r4; register<bit<32>>(5) other;"
    )
    assert not is_loop(program("other.read(word, h.k.at);" + ADD, between))
    assert is_loop(program(ADD, between))  # never read there, so it lies elsewhere
    signed = REGISTERS.replace(
        "register<bit<32>>(5) r4;", "register<bit<32>>(5) r4; register<bit<64>>(5) other;"
    )
    wide = "bit<64> wide; other.read(wide, h.k.at);"
    assert is_loop(program(wide + ADD, signed))  # aligned otherwise, so it lies elsewhere


# ---- fields that share bytes, and the checksum of any of them

WIDTHS = (
    4,
    4,
    6,
    2,
    3,
    13,
    1,
    1,
    1,
    1,
    4,
    48,
    7,
    9,
    12,
    20,
    24,
    40,
    5,
    3,
    16,
    16,
    16,
    16,
    16,
    64,
    32,
    32,
    32,
    32,
    1,
    63,
    128,
    11,
    5,
)
DECLARED = " ".join(f"{'int' if w in (5, 13) else 'bit'}<{w}> f{n};" for n, w in enumerate(WIDTHS))
LISTED = ", ".join(f"h.k.f{n}" for n in range(len(WIDTHS)))
ODD = {
    "types": f"header k_t {{ {DECLARED} bit<16> sum; }}",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "ingress": f"s.egress_spec = 1; {' '.join(f'h.k.f{n} = h.k.f{n} + 1;' for n in range(len(WIDTHS)))}",
    "compute": f"update_checksum(h.k.isValid(), {{ {LISTED} }}, h.k.sum, HashAlgorithm.csum16);",
}


@pytest.fixture(scope="module")
def odd(compiled: Callable[[str], Path]) -> Engine:
    return Engine(compiled(v1model(**ODD)))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_fields_of_any_width_keep_their_bits_and_their_checksum(odd: Engine, seed: int, ones: bool) -> None:
    rng = random.Random(seed)
    fields = [2**w - 1 if ones and rng.random() < 0.7 else rng.getrandbits(w) for w in WIDTHS]

    def packed(numbers: list[int]) -> bytes:
        whole = 0
        for width, number in zip(WIDTHS, numbers, strict=True):
            whole = whole << width | number
        return whole.to_bytes(sum(WIDTHS) // 8, "big")

    odd.send(0, packed(fields) + b"\x12\x34payload")
    [out] = odd.receive()
    expected = packed([(f + 1) % 2**w for f, w in zip(fields, WIDTHS, strict=True)])
    assert out.data == expected + internet_checksum(expected).to_bytes(2, "big") + b"payload"


# ---- ports whose packets pass at once

ROUND = {
    "types": "header k_t { bit<8> left; bit<8> turns; }",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
    "ingress": """if (h.k.left == 0) { s.egress_spec = 1; }
        else { if (h.k.left == 3) { clone(CloneType.I2E, 1); } h.k.left = h.k.left - 1; s.egress_spec = 9; }""",
    "egress": "if (s.egress_port == 9) { h.k.turns = h.k.turns + 1; recirculate_preserving_field_list(0); }",
}


def test_a_port_at_once_gives_what_its_passes_one_by_one_give(engine: Callable[..., Engine]) -> None:
    found, calls, turns = [], [], []
    for at_once in (False, True):
        switch = engine(**ROUND)
        switch.clone_session(1, port=2)
        passes = Passes(switch)
        passes.pass_at_once(9, yes=at_once)
        left, count = passes.run(3, bytes([5, 0, 77]))
        found.append(sorted(left))
        calls.append(count)
        turns.append(passes.turns(9))
    assert found[0] == found[1] and [p.port for p in found[0]] == [1, 2]
    assert found[0][0].data == bytes([0, 5, 77])
    assert calls[1] < calls[0]
    assert turns == [(0, 0), (5, 5 * 3)]
