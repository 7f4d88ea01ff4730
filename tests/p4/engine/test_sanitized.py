# ruff: noqa: E501 - the driver's lines
"""The generated C++ under AddressSanitizer and UBSan: hostile packets through our programs, in a process of its own."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from p4.codegen.build import compiler

DRIVER = """
import random, sys
from pathlib import Path
from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import check_text, load_program
from p4.targets import Engine

program, folder, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
text = Path(program).read_text()
checked = load_program(Path(program)) if program.endswith("switchgnn.p4") else check_text(text)
engine = Engine(build(generate(checked), folder=folder, sanitize=True))
engine.multicast_group(1, [(1, 1), (2, 2)])
engine.clone_session(1, port=510)
if "switchgnn" in program:
    engine.insert("job", {"job": 1}, "set_job", [3, 2, 1])
    engine.insert("memory", {"job": 1}, "set_memory", [0, 4096, 0, 262144, 0, 4194304, 0, 65536, 0])
    engine.insert("worker", {"job": 1, "worker": 0}, "to_worker", [1, 2, 3])
head = bytes.fromhex("0000000000fe0000000000010800450000a8000000004011" + "0000" + "0a0000010a000002" + "15b3232800940000")
rng = random.Random(seed)
for _ in range(3000):
    data = bytearray(head + bytes([rng.randrange(10), rng.choice((0, 0, rng.randrange(256))), 1, 0]) + rng.randbytes(136))
    if rng.random() < 0.7:  # a right checksum lets the packet through to the rest
        data[24:26] = b"\\0\\0"
        total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(14, 34, 2))
        total = (total & 0xFFFF) + (total >> 16)
        data[24:26] = ((total & 0xFFFF) + (total >> 16) ^ 0xFFFF).to_bytes(2, "big")
    if rng.random() < 0.6:
        data[42 + 8 : 42 + 18] = bytes(10)
    if rng.random() < 0.3:
        data = data[: rng.randrange(len(data))]
    if rng.random() < 0.2:
        data = bytearray(rng.randbytes(rng.randrange(300)))
    engine.send(rng.randrange(512), bytes(data))
    engine.receive()
engine.close()
print("survived")
"""


def preloads() -> str:
    """What must be loaded before Python: ASan's runtime, and libstdc++, whose throw it wraps."""
    names = ("libasan.so", "libstdc++.so")
    found = (
        subprocess.run([compiler()[0], f"-print-file-name={n}"], capture_output=True, text=True, check=True)
        for n in names
    )
    return " ".join(f.stdout.strip() for f in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["switchgnn", "parsing"])
def test_hostile_packets(name: str, libraries: Path, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    if name == "switchgnn":
        program = root / "p4" / "programs" / "switchgnn.p4"
    else:
        parts = runpy.run_path(str(Path(__file__).with_name("test_parsing.py")))["PARTS"]
        frame = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))["v1model"]
        program = tmp_path / "parsing.p4"
        program.write_text(frame(**parts))
    environment = {
        **os.environ, "LD_PRELOAD": preloads(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(root),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(program), str(libraries), "11"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "survived", done.stderr[-3000:]
