"""All tests of this folder need p4c and simple_switch_grpc, and are skipped where they are not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from p4.targets.bmv2 import Bmv2, missing_tools
from tests.p4.programs.conftest import atp, switchgnn, switchml

__all__ = ["atp", "switchgnn", "switchml"]  # the programs' libraries, as fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing_tools()
    for item in items:
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def bmv2(tmp_path: Path) -> Iterator[Callable[..., Bmv2]]:
    """`bmv2(text or path, ...)`: a fresh simple_switch_grpc with that program."""
    made: list[Bmv2] = []

    def make(program: str | Path, **options: object) -> Bmv2:
        if isinstance(program, str):
            path = tmp_path / f"program{len(made)}.p4"
            path.write_text(program)
            program = path
        made.append(Bmv2(program, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for switch in made:
        switch.close()
