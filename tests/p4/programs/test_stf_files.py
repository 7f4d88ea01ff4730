"""Every program has an STF file beside it, which passes, and which notices a difference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import FOLDER, IPV4
from p4.targets import Engine
from p4.targets.stf import run_stf, run_stf_text

PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.p4"))


@pytest.fixture(scope="session")
def ipv4(libraries: Path) -> Path:
    return build(generate(load_program(IPV4)), folder=libraries)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_stf_file_passes(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.stf"
    with Engine(request.getfixturevalue(name)) as switch:
        report = run_stf(switch, path)
    assert report.failures == []
    assert report.matched == len(re.findall("^expect ", path.read_text(), re.MULTILINE)) > 2
    assert report.sent > report.matched  # it also says what must be dropped


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_digit_is_noticed(name: str, request: pytest.FixtureRequest) -> None:
    """Each expected packet in turn with its last digit changed."""
    text = (FOLDER / f"{name}.stf").read_text()
    for line in re.findall("^expect .*$", text, re.MULTILINE):
        digit = line[-3]
        wrong = text.replace(line, line[:-3] + ("0" if digit != "0" else "1") + " $", 1)
        with Engine(request.getfixturevalue(name)) as switch:
            assert len(run_stf_text(switch, wrong).failures) == 1
