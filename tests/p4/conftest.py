# ruff: noqa: E501 - the frame stays on one line a block
"""Programs for the engine's tests: a frame around the lines under test, built once a session."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from p4.codegen import generate
from p4.codegen.build import build, cache_folder
from p4.lang import check_text
from p4.targets import Engine

FRAME = """
#include <core.p4>
#include <v1model.p4>
%(types)s
struct meta_t { %(meta)s }
struct headers_t { %(headers)s }
parser parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { %(parser)s }
control check(inout headers_t h, inout meta_t m) { apply { %(verify)s } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { %(locals)s apply { %(ingress)s } }
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { %(egress_locals)s apply { %(egress)s } }
control compute(inout headers_t h, inout meta_t m) { apply { %(compute)s } }
control deparse(packet_out p, in headers_t h) { apply { %(deparser)s } }
V1Switch(parse(), check(), ingress(), egress(), compute(), deparse()) main;
"""
DEFAULTS = {
    "types": "", "meta": "", "headers": "", "parser": "state start { transition accept; }", "verify": "", "locals": "",
    "ingress": "", "egress_locals": "", "egress": "", "compute": "", "deparser": "",
}  # fmt: skip


def v1model(**parts: str) -> str:
    """A v1model program with these parts, the others empty."""
    return FRAME % {**DEFAULTS, **parts}


@pytest.fixture(scope="session")
def libraries() -> Path:
    """Where all tests, and the tests' commands, keep compiled programs. A library is named by all that goes
    into it, compiler and flags included: what has changed is compiled again.
    """
    return cache_folder()


@pytest.fixture(scope="session")
def compiled(libraries: Path) -> Callable[[str], Path]:
    """P4 text to a library, once for each text."""

    def make(text: str) -> Path:
        return build(generate(check_text(text)), folder=libraries)

    return make


@pytest.fixture
def engine(compiled: Callable[[str], Path]) -> Iterator[Callable[..., Engine]]:
    """`engine(headers=..., ingress=...)`: a fresh switch with that program."""
    made: list[Engine] = []

    def make(text: str | None = None, **parts: str) -> Engine:
        made.append(Engine(compiled(text if text is not None else v1model(**parts))))
        return made[-1]

    yield make
    for switch in made:
        switch.close()
