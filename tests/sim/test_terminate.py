"""A terminated run (SIGTERM, as batch systems send it) ends like one that was interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def test_terminated_run_leaves_nothing_half_written(tmp_path):
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "netfold",
        "run",
        "--graph",
        "rmat:15:16",
        "--workers",
        "64",
        "--topology",
    ]
    command += ["leaf-spine:8x4", "--no-plots", "-o", str(tmp_path / "out")]
    run = subprocess.Popen(
        command,
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NETFOLD_CACHE": str(tmp_path / "c")},
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".out.building-*")) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert run.poll() is None, run.stderr.read()
    run.send_signal(signal.SIGTERM)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "Traceback" not in error
    assert not list(tmp_path.glob(".out.*"))
