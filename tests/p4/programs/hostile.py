"""Packets that are nearly right, into a program under AddressSanitizer and UBSan.

`python hostile.py PROGRAM FOLDER SEED`, run by test_programs_sanitized.py in a process of its own.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.targets import Engine
from tests.p4.programs.frames import Protocol

SMALL = {"AGGREGATORS": "64", "BLOCKS": "8", "ENTRIES": "64", "EDGES": "256", "SLOTS": "8", "WORKERS": "8"}
PROTOCOLS = {
    "switchgnn": Protocol("wire.p4", "aggregation_t", 9000),
    "atp": Protocol("atp.p4", "atp_t", 9001),
    "switchml": Protocol("switchml.p4", "switchml_t", 9002),
}
SERVER = 0x0A000002


def set_up(engine: Engine, name: str, rng: random.Random) -> None:
    """Job 1, and for switchgnn.p4 an adjacency of small random numbers."""
    engine.multicast_group(1, [(1, 1), (2, 2)])
    engine.clone_session(1, port=510)
    engine.insert("ipv4_lpm", {"dst": (0x0A000000, 8)}, "forward", [3, 4])
    if name == "atp":
        engine.insert("job", {"job": 1}, "aggregate", [1, 1, SERVER, 50])
        return
    engine.insert("worker", {"job": 1, "worker": 0}, "to_worker", [1, 2, 3])
    if name == "switchml":
        engine.insert("job", {"job": 1}, "set_job", [0, 8, 3, 1])
        return
    engine.insert("job", {"job": 1}, "set_job", [3, 4, 1])
    engine.insert("memory", {"job": 1}, "set_memory", [0, 8, 0, 64, 0, 256, 0, 64, 0])
    arrays = {"block_size": 9, "entry_degree": 5, "entry_expected": 4, "entry_owner": 1, "edge_slot": 9}
    for array, most in arrays.items():
        words = engine.register_array(array)
        words[:] = [rng.randrange(most) for _ in words]


def packet(name: str, at: int, rng: random.Random) -> bytes:
    """Mostly a right frame with small fields; sometimes a wild field, a cut, noise."""
    protocol = PROTOCOLS[name]
    fields = {}
    for field, bits in protocol.layout:
        wild = rng.random() < 0.03
        fields[field] = rng.getrandbits(bits) if wild else rng.choice((0, 0, 0, 1, 2)) & ((1 << bits) - 1)
    fields["job"] = 1 if rng.random() < 0.95 else rng.randrange(256)
    if name == "switchgnn":
        fields["type"] = rng.choice((1, 1, 1, 2, 6, 8, rng.randrange(12)))
        fields |= {"bypass": 0, "pull": 0, "count": 1 if rng.random() < 0.9 else rng.randrange(40)}
        fields |= {"round": at // 50, "level": 0, "resend": 0, "worker": int(rng.random() < 0.1)}
    elif name == "atp" and rng.random() < 0.8:
        fields |= {"bitmap0": 1, "bitmap1": 1 << rng.randrange(3), "fan_in0": 1, "fan_in1": 3, "level": 1}
        fields |= {"collision": 0}
    elif name == "switchml" and rng.random() < 0.8:
        fields |= {"slot": 0, "chunk": at // 40 * 8, "version": at // 40 % 2}
        fields |= {"worker": rng.randrange(3), "result": 0}
    values = [rng.randint(-(2**31), 2**31 - 1) for _ in range(30)]
    if name == "switchgnn" and fields["type"] == 8:
        values = [rng.randrange(4) for _ in range(30)]  # words that still make an adjacency
    data = protocol.frame(
        fields, values, src=rng.choice((SERVER, 0x0A000001)), dst=SERVER, ecn=rng.randrange(4)
    )
    if rng.random() < 0.1:
        data = data[: rng.randrange(len(data))]
    if rng.random() < 0.1:
        data = rng.randbytes(rng.randrange(300))
    return data


def main() -> None:
    name, folder, rng = sys.argv[1], Path(sys.argv[2]), random.Random(int(sys.argv[3]))
    sanitize = "--plain" not in sys.argv  # without, to try the packets alone
    program = load_program(Path(__file__).parents[3] / "p4" / "programs" / f"{name}.p4", defines=SMALL)
    engine = Engine(build(generate(program), folder=folder, sanitize=sanitize))
    set_up(engine, name, rng)
    for at in range(3000):
        engine.now_us = at
        engine.send(rng.randrange(512), packet(name, at, rng))
        engine.receive()
    counted = [engine.counter_read("events", n)[0] for n in range(8)]
    assert counted[0] > 100, counted  # packets got as far as an aggregator
    assert counted[6] > 100, counted  # and others were refused
    engine.close()
    print("survived")


if __name__ == "__main__":
    main()
