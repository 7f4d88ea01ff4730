"""Memory ordering of rings, pools and links, under ThreadSanitizer, which does not depend on luck."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "emulator" / "native"
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2): ThreadSanitizer wants memory where it expects it


def test_every_access_is_ordered(tmp_path):
    program = tmp_path / "stress"
    sources = [
        HERE / "stress.cpp",
        *(NATIVE / f"{name}.cpp" for name in ("ring", "pool", "port", "shm_port")),
    ]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-I{NATIVE}"]
    compiler = os.environ.get("CXX", "g++")
    subprocess.run(
        [compiler, *flags, *map(str, sources), "-o", str(program)], check=True, stderr=subprocess.PIPE
    )
    done = subprocess.run(
        [str(program)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
