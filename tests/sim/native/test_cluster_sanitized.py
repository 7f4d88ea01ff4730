"""The cluster on P4 switches under sanitizers: codec, byte pool, node, traffic manager, compiled programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.sanitizing import run_sanitized

pytestmark = pytest.mark.slow  # builds the extension modules again, with sanitizers: minutes


def pytest_passes(tmp_path: Path, *arguments: str) -> None:
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/runs"]
    done = run_sanitized([*command, *arguments], tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_runs_with_losses_memories_buffers_marks_and_nonsense_in_headers(tmp_path: Path) -> None:
    pytest_passes(
        tmp_path, "-m", "not slow", "-k", "not random_graphs",
        "tests/sim/native/test_p4_equals_native.py", "tests/sim/native/test_p4_damaged_headers.py",
    )  # fmt: skip


def test_other_programs_64_switches_and_programs_without_an_end(tmp_path: Path) -> None:
    pytest_passes(tmp_path, "-m", "not slow", "tests/sim/native/test_p4_switches.py")


def test_random_graphs(tmp_path: Path) -> None:
    pytest_passes(tmp_path, "-k", "random_graphs", "tests/sim/native/test_p4_equals_native.py")


def test_the_command(tmp_path: Path) -> None:
    """`netfold run` and the process that it starts for each system."""
    done = run_sanitized(
        ["-m", "netfold", "run", "--graph", "karate", "--workers", "4", "--topology", "leaf-spine:2x2",
         "--system", "host,switchgnn", "--set", "switch.model=p4", "--set", "run.value_mode=true",
         "--no-plots", "-o", str(tmp_path / "out")],
        tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and "equal to the oracle" in done.stdout, done.stdout + done.stderr
