"""Our programs, compiled once a session with small memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import ATP, SWITCHGNN, SWITCHML
from tests.p4.programs.switchgnn_net import DEFINES

pytest.register_assert_rewrite("tests.p4.programs.alike")


@pytest.fixture(scope="session")
def switchgnn(libraries: Path) -> Path:
    return build(generate(load_program(SWITCHGNN, defines=DEFINES)), folder=libraries)


@pytest.fixture(scope="session")
def atp(libraries: Path) -> Path:
    """With eight aggregators: collisions are common."""
    return build(generate(load_program(ATP, defines={"AGGREGATORS": "8"})), folder=libraries)


@pytest.fixture(scope="session")
def switchml(libraries: Path) -> Path:
    return build(generate(load_program(SWITCHML, defines={"SLOTS": "16"})), folder=libraries)
