# ruff: noqa: E501 - the driver's lines
"""The generated C++ under AddressSanitizer and UBSan: hostile packets through our programs, in a process of its own.

Whole packets with egress queues on some ports, and the passes one by one under a traffic manager that drops, reorders
and asks for items that are not there.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from p4.codegen.build import compiler

DRIVER = """
import ctypes as c, random, sys
from pathlib import Path
from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.targets import Engine

program, folder, seed, packets = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
checked = load_program(Path(program))
engine = Engine(build(generate(checked), folder=folder, sanitize=True))
engine.multicast_group(1, [(1, 1), (2, 2), (510, 3)])
engine.clone_session(1, port=510)
if "switchgnn" in program:
    engine.insert("job", {"job": 1}, "set_job", [3, 2, 1])
    engine.insert("memory", {"job": 1}, "set_memory", [0, 8, 0, 64, 0, 256, 0, 192, 0])
    for worker in range(2):
        engine.insert("worker", {"job": 1, "worker": worker}, "to_worker", [1 + worker, 2, 3])
    engine.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", [3, 4])
    engine.set_default("ecn", "mark", [1])
head = bytes.fromhex("0000000000fe0000000000010800450000a8000000004011" + "0000" + "0a0000010a000002" + "15b3232800940000")
rng = random.Random(seed)


class Descriptor(c.Structure):
    _fields_ = [("item", c.c_uint64), ("next", c.c_uint32), ("port", c.c_uint32), ("priority", c.c_uint32), ("bytes", c.c_uint32)]


library, handle, next_ = engine._library, engine._handle, c.c_void_p()
waiting = []


def note(count):
    if count:
        waiting.extend(d.item for d in (Descriptor * count).from_address(next_.value))


def by_hand(port, data):
    note(library.nf_ingress(handle, port, data, len(data), engine.now_ns, 0, c.byref(next_)))
    for _ in range(rng.randrange(6)):
        item = waiting.pop(rng.randrange(len(waiting))) if waiting and rng.random() < 0.9 else rng.randrange(1 << 40)
        if rng.random() < 0.2:
            library.nf_discard(handle, item)
        else:
            note(library.nf_pass(handle, item, engine.now_ns, rng.randrange(engine.now_ns + 1), rng.randrange(1 << 32), rng.randrange(1 << 32), c.byref(next_)))


def hostile():
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
        data = bytearray(rng.randbytes(rng.choice((0, 1, rng.randrange(300), 9000))))
    return bytes(data)


for number in range(packets):
    if number == packets // 3:
        for port in (1, 2, 510):
            engine.egress_queue(port, rate_pps=rng.choice((1, 1000, 10**6)), depth=rng.choice((0, 1, 5)))
    engine.now_ns += rng.choice((0, 0, 1, 1000, 10**6))
    if rng.random() < 0.2:
        by_hand(rng.randrange(512), hostile())
    else:
        engine.send(rng.randrange(512), hostile())
    if rng.random() < 0.5:
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


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["switchgnn", "parsing", pytest.param("atp", marks=SLOW), pytest.param("switchml", marks=SLOW)]
)
def test_hostile_packets(name: str, libraries: Path, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    if name != "parsing":
        program = root / "p4" / "programs" / f"{name}.p4"
    else:
        parts = runpy.run_path(str(Path(__file__).with_name("test_parsing.py")))["PARTS"]
        frame = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))["v1model"]
        program = tmp_path / "parsing.p4"
        program.write_text(frame(**parts))
    environment = {
        **os.environ, "LD_PRELOAD": preloads(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(root),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(program), str(libraries), "11", "1500"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "survived", done.stderr[-3000:]
