"""tna/switchgnn.p4 in tests: switches with the jobs of switchgnn_net.py, the same addresses and ports."""

from __future__ import annotations

from pathlib import Path

from p4.targets import Engine
from tests.p4.programs.switchgnn_net import CHUNKS, GROUP, UPLINK, add_routes, add_workers

RECIRCULATE_PORT, MIRROR_SESSION, SLOTS = 68, 1, 512
DEFINES = {"AGGREGATORS": "1024", "ENTRIES": "1024", "EDGES": "8192", "WORKERS": "64"}


def _switch(library: Path, job: int = 1) -> Engine:
    switch = Engine(library)
    switch.clone_session(MIRROR_SESSION, port=RECIRCULATE_PORT)
    for chunk in range(CHUNKS):
        switch.insert("chunk", {"job": job, "chunk": chunk}, "set_chunk", {"base": SLOTS * chunk})
    return switch


def add_sources(switch: Engine, workers: range, leaves: int, job: int = 1) -> None:
    """Who may report here: workers on level 0, leaves on level 1, each with a bit of its own."""
    senders = [(0, w) for w in workers] + [(1, n) for n in range(leaves)]
    for number, (level, worker) in enumerate(senders):
        data = {"number": number, "one_bit": 1 << number}
        switch.insert("source", {"job": job, "level": level, "worker": worker}, "set_source", data)


def make_star(library: Path, workers: int = 4) -> Engine:
    switch = _switch(library)
    switch.insert("job", {"job": 1}, "set_job", {"workers": workers, "group": GROUP + 1})
    add_sources(switch, range(workers), 0)
    add_workers(switch, 1, workers)
    add_routes(switch, lambda w: 10 + w, workers)
    switch.multicast_group(GROUP + 1, [(10 + w, w) for w in range(workers)])
    return switch


def make_leaf(library: Path, number: int, racks: list[range]) -> Engine:
    switch = _switch(library)
    rack, workers = racks[number], racks[-1].stop
    entry = {"workers": len(rack), "group": GROUP, "up_port": UPLINK, "leaf": number}
    switch.insert("job", {"job": 1}, "set_leaf", entry)
    add_sources(switch, rack, len(racks))
    add_workers(switch, 1, workers, rack)
    add_routes(switch, lambda w: 10 + w if w in rack else UPLINK, workers)
    switch.multicast_group(GROUP, [(10 + w, w) for w in rack])
    return switch


def make_spine(library: Path, racks: list[range]) -> Engine:
    switch = _switch(library)
    switch.insert("job", {"job": 1}, "set_spine", {"leaves": len(racks), "group": GROUP})
    add_sources(switch, range(0), len(racks))
    for n in range(len(racks)):
        entry = {"port": n, "mac": 0x500 + n, "ip": 0x0A000200 + n}
        switch.insert("worker", {"job": 1, "worker": n}, "to_worker", entry)
    add_routes(switch, lambda w: next(n for n, rack in enumerate(racks) if w in rack), racks[-1].stop)
    switch.multicast_group(GROUP, [(n, n) for n in range(len(racks))])
    return switch
