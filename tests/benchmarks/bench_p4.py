"""Packets a second through the embedded P4 engine: `python tests/benchmarks/bench_p4.py` prints a table.

Packets per second of CPU time, in process, in batches of numpy arrays, the copy out included. Where BMv2 is
installed it runs some of the programs too, from pcap files and without a log, and is measured twice: by the
times at which its first and its last packet came out, and by the CPU time of all its threads.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import load_program
from p4.programs import ATP, IPV4, SWITCHGNN, SWITCHML
from p4.targets import Engine
from p4.targets.bmv2 import Bmv2, missing_tools
from p4.targets.engine import Batch
from p4.targets.pcap import read_pcap
from p4.targets.target import Target

REFERENCE = Path("/work/shared/reference/agg30.p4")
ROUNDS = 5
CHUNKS = 1


def batch(frames: np.ndarray) -> Batch:
    """Frames of one size, a row each, all into port 1."""
    count, size = frames.shape
    ends = np.arange(1, count + 1, dtype=np.uint64) * size
    return Batch(frames.ravel(), ends, np.ones(count, np.uint32), np.arange(count, dtype=np.uint32))


def agg30(count: int) -> tuple[Engine, Batch]:
    """30 values into 30 registers of 65536, random slots."""
    rng = np.random.default_rng(1)
    frames = np.zeros((count, 138), np.uint8)
    frames[:, 12:14] = (0x88, 0xB5)
    frames[:, 14:18] = rng.integers(0, 65536, count).astype(">u4").view(np.uint8).reshape(count, 4)
    frames[:, 18:] = rng.integers(0, 256, (count, 120))
    return Engine.load(REFERENCE), batch(frames)


def with_checksum(frames: np.ndarray) -> None:
    """The IPv4 header's checksum, in place."""
    words = frames[:, 14:34].reshape(len(frames), 10, 2).astype(np.uint32)
    total = (words[:, :, 0] * 256 + words[:, :, 1]).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    frames[:, 24], frames[:, 25] = total >> 8, total & 0xFF


def ip_frames(count: int, size: int) -> np.ndarray:
    frames = np.zeros((count, size), np.uint8)
    frames[:, 12:15] = (0x08, 0x00, 0x45)
    frames[:, 16:18] = divmod(size - 14, 256)
    frames[:, 22:24] = (64, 17)
    return frames


def forwarder(count: int) -> tuple[Engine, Batch]:
    """64-byte packets over 1000 prefixes of length 24, checksum verified and updated."""
    rng = np.random.default_rng(2)
    frames = ip_frames(count, 64)
    net = rng.integers(0, 1000, count)
    frames[:, 30], frames[:, 31], frames[:, 32] = 10, net >> 8, net & 0xFF
    frames[:, 33] = rng.integers(0, 256, count)
    with_checksum(frames)
    engine = Engine.load(IPV4)
    add_routes(engine)
    return engine, batch(frames)


def add_routes(switch: Target) -> None:
    for n in range(1000):
        switch.insert("ipv4_lpm", {"dst": (10 << 24 | n << 8, 24)}, "forward", {"port": n % 4, "mac": n})


def switchgnn(count: int) -> tuple[Engine, Batch]:
    """Partial sums, one pass each: every third completes a sum and leaves as a result."""
    engine = Engine(build(generate(load_program(SWITCHGNN))))
    slots = count // 3
    engine.insert("job", {"job": 1}, "set_job", {"chunks": CHUNKS, "workers": 64, "group": 1})
    memory = {"blocks": 1, "entries": slots, "edges": 0, "aggregators": slots}
    begins = {f"{name}_at": 0 for name in (*memory, "workers")}
    engine.insert("memory", {"job": 1}, "set_memory", {**begins, **memory})
    engine.insert("worker", {"job": 1, "worker": 0}, "to_worker", {"port": 7, "mac": 7, "ip": 7})
    engine.register_array("block_size")[0] = slots
    engine.register_array("entry_expected")[:slots] = 3
    frames = ip_frames(count, 182)
    frames[:, 36:38] = (9000 >> 8, 9000 & 0xFF)
    frames[:, 42], frames[:, 44] = 2, 1  # a partial of job 1
    frames[:, 50:54] = np.tile(np.arange(slots), 3).astype(">u4").view(np.uint8).reshape(-1, 4)
    frames[:, 57] = np.repeat(np.arange(3), slots)  # the sender
    frames[:, 61] = 1
    frames[:, 62:] = np.random.default_rng(3).integers(0, 256, (count, 120))
    with_checksum(frames)
    return engine, batch(frames)


def big_endian(numbers: np.ndarray, size: int) -> np.ndarray:
    """A row of bytes for each number."""
    return numbers.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - size :]


def atp(count: int) -> tuple[Engine, Batch]:
    """Three workers and the server's acknowledgment, one sequence number after another: no collisions."""
    engine = Engine(build(generate(load_program(ATP))))
    server, number = 0x0A0000FE, np.arange(count)
    entry = {"level": 1, "group": 1, "server": server, "idle_us": 2**32 - 1}
    engine.insert("job", {"job": 1}, "aggregate", entry)
    engine.insert("ipv4_lpm", {"dst": (server, 32)}, "forward", {"port": 9, "mac": 9})
    engine.multicast_group(1, [(w, w) for w in range(3)])
    frames = ip_frames(count, 178)
    is_ack = number % 4 == 3
    frames[:, 26:30] = np.where(is_ack[:, None], big_endian(np.array([server]), 4), 1)
    frames[:, 30:34] = big_endian(np.array([server]), 4)
    frames[:, 36:38] = (9001 >> 8, 9001 & 0xFF)
    frames[:, 42] = 1
    frames[:, 43:46] = big_endian(number // 4, 3)
    frames[:, 49] = 1  # bitmap0, and bitmap1 at 53
    frames[:, 53] = np.where(is_ack, 7, 1 << number % 4)
    frames[:, 54:57] = (1, 3, 1)  # fan-in of the two levels; level
    frames[:, 57] = np.where(is_ack, 0x80, 0)
    frames[:, 58:] = np.random.default_rng(4).integers(0, 256, (count, 120))
    with_checksum(frames)
    return engine, batch(frames)


def switchml(count: int) -> tuple[Engine, Batch]:
    """Three workers, 1000 slots: every third packet becomes the result, multicast to all."""
    engine = Engine(build(generate(load_program(SWITCHML))))
    add_switchml_job(engine)
    chunk, worker = np.divmod(np.arange(count), 3)
    frames = ip_frames(count, 172)
    frames[:, 36:38] = (9002 >> 8, 9002 & 0xFF)
    frames[:, 42] = 1
    frames[:, 43] = worker
    frames[:, 44:46] = big_endian(chunk % 1000, 2)
    frames[:, 46:50] = big_endian(chunk, 4)
    frames[:, 50] = (chunk // 1000 % 2) << 7
    frames[:, 52:] = np.random.default_rng(5).integers(0, 256, (count, 120))
    with_checksum(frames)
    return engine, batch(frames)


def add_switchml_job(switch: Target) -> None:
    switch.insert("job", {"job": 1}, "set_job", {"first_slot": 0, "slots": 1000, "workers": 3, "group": 1})
    switch.multicast_group(1, [(w, w) for w in range(3)])


BMV2_PACKETS = 12_000


def cpu_seconds(pid: int) -> float:
    """User and system time of a process's threads (proc(5): fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def on_bmv2(program: Path, control: Callable[[Target], None], packets: Batch) -> tuple[float, float]:
    """(packets a second, packets a CPU second) of simple_switch for the first packets of a batch."""
    size = int(packets.ends[0])
    with Bmv2(program, ports=range(4), kind="pcap", log_level="off", quiet_s=1.0) as switch:
        control(switch)
        for at in range(BMV2_PACKETS):
            switch.send(1, packets.data[at * size : (at + 1) * size].tobytes())
        before = cpu_seconds(switch.pid)
        out = len(switch.receive())
        spent = cpu_seconds(switch.pid) - before
        # A port that nothing left by has a file without even a header.
        files = [f for f in switch.folder.glob("p*_out.pcap") if f.stat().st_size]
        times = [r.time_us for f in files for r in read_pcap(f)]
        assert out == len(times) > 0
    return BMV2_PACKETS / (max(times) - min(times)) * 1e6, BMV2_PACKETS / spent


def next_round(name: str, frames: np.ndarray, round_: int) -> None:
    """New numbers for the same packets, so that they are not copies."""
    if name == "switchgnn":
        frames[:, 49] = round_  # of the propagation
    elif name == "atp":
        frames[:, 43] = round_  # the sequence number's high byte
    elif name == "switchml":
        chunks = len(frames) // 3
        frames[:, 46:50] = big_endian(np.arange(len(frames)) // 3 + chunks * round_, 4)


def main() -> None:
    """One row for each program: the median of several rounds."""
    machine = platform.processor() or platform.machine()
    print(f"{machine}, Python {platform.python_version()}, one core, by CPU time")
    print(f"{'program':12} {'bytes':>6} {'in M/s':>8} {'passes M/s':>11} {'out/in':>7} {'build s':>8}")
    makers = [
        ("ipv4", forwarder, 300_000),
        ("switchgnn", switchgnn, 150_000),
        ("atp", atp, 150_000),
        ("switchml", switchml, 150_000),
    ]
    on_both: dict[str, tuple[Path, Callable[[Target], None]]] = {
        "agg30": (REFERENCE, lambda switch: None),
        "ipv4": (IPV4, add_routes),
        "switchml": (SWITCHML, add_switchml_job),
    }
    if REFERENCE.exists():
        makers.insert(0, ("agg30", agg30, 200_000))
    for name, make, count in makers:
        start = time.perf_counter()
        engine, packets = make(count)
        built = time.perf_counter() - start
        rates, out, passes = [], 0, 0
        for round_ in range(ROUNDS):
            next_round(name, packets.data.reshape(count, -1), round_)
            before = engine.statistics()["passes"]
            start = time.process_time()
            out = len(engine.run(packets).ports)
            rates.append(count / (time.process_time() - start) / 1e6)
            passes = engine.statistics()["passes"] - before
        rate = float(np.median(rates))
        size = packets.data.size // count
        figures = f"{rate:>8.2f} {rate * passes / count:>11.2f} {out / count:>7.2f} {built:>8.1f}"
        print(f"{name:12} {size:>6} {figures}", flush=True)
        if name in on_both and not missing_tools():
            wall, cpu = on_bmv2(*on_both[name], packets)
            print(
                f"{'  on BMv2':12} {size:>6} {wall / 1e6:>8.4f} by wall clock, {cpu / 1e6:.4f} by CPU time: "
                f"the engine's is {rate * 1e6 / wall:.0f} and {rate * 1e6 / cpu:.0f} times that",
                flush=True,
            )
        engine.close()
    if missing_tools():
        print(missing_tools())


if __name__ == "__main__":
    main()
