"""The TNA pipeline's C++ under AddressSanitizer and UBSan, by the driver of the v1model programs' test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from p4.programs import TNA_SWITCHGNN
from tests.p4.engine.test_sanitized import DRIVER, preloads

SET_UP = """
engine.clone_session(1, port=68)
engine.clone_session(2, port=1, truncate=3)
engine.insert("job", {"job": 1}, "set_job", [2, 1])
for chunk in range(3):
    engine.insert("chunk", {"job": 1, "chunk": chunk}, "set_chunk", [chunk * 64])
for worker in range(2):
    engine.insert("source", {"job": 1, "level": 0, "worker": worker}, "set_source", [worker, 1 << worker])
    engine.insert("worker", {"job": 1, "worker": worker}, "to_worker", [1 + worker, 2, 3])
engine.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", [3, 4])
engine.insert("ecn", {"ecn": 2, "deq_qdepth": (1, 2**19 - 1)}, "mark", priority=1)
head = """


@pytest.mark.slow
def test_hostile_packets(libraries: Path) -> None:
    driver = re.sub(
        r'if "switchgnn" in program:.*?\nhead = ', lambda _: SET_UP.strip("\n"), DRIVER, flags=re.DOTALL
    )
    assert "set_chunk" in driver
    environment = {
        **os.environ, "LD_PRELOAD": preloads(), "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", driver, str(TNA_SWITCHGNN), str(libraries), "12", "1500"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "survived", done.stderr[-3000:]
