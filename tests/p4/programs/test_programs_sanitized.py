"""The programs under AddressSanitizer and UBSan, with packets that are nearly right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.p4.engine.test_sanitized import preloads

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["switchgnn", "atp", "switchml"])
def test_hostile_packets(name: str, libraries: Path) -> None:
    environment = {
        **os.environ, "LD_PRELOAD": preloads(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("hostile.py")), name, str(libraries), "11"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "survived", done.stderr[-3000:]
