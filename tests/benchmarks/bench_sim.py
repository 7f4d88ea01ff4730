"""Packet-hops per second and bytes per packet in flight: netfold's models beside ns-3's own point-to-point.

Both run the same star with the same packets on one core, one after the other, in processes of their own:
`ring`, where host i sends to host i+1 at line rate (speed), and `incast`, where all send to one host
(memory: nearly everything sent is in flight at once). `python tests/benchmarks/bench_sim.py [--quick]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

PAYLOAD_VALUES = 30  # a 186-byte frame, as an upload is
FRAME_BYTES = 186
STOCK_PAYLOAD_BYTES = FRAME_BYTES - 2  # ns-3's PPP header has 2 bytes


def build_stock(folder: Path) -> Path:
    """Compile the yardstick against the ns3 wheel."""
    spec = importlib.util.find_spec("ns3")
    assert spec is not None and spec.submodule_search_locations
    wheel = Path(next(iter(spec.submodule_search_locations)))
    target = folder / "stock_star"
    libraries = [f"-lns3.44-{name}" for name in ("core", "network", "point-to-point")]
    subprocess.run(
        [
            *("g++", "-O3", "-std=c++20", str(Path(__file__).with_name("stock_star.cc")), "-o", str(target)),
            *(f"-I{wheel / 'include'}", f"-L{wheel / 'lib64'}", f"-Wl,-rpath,{wheel / 'lib64'}"),
            *("-Wl,--allow-shlib-undefined", *libraries),
        ],
        check=True,
    )
    return target


def run_stock(program: Path, hosts: int, packets: int, pattern: str) -> dict[str, Any]:
    """One run of the yardstick."""
    command = [
        "taskset",
        "-c",
        "0",
        str(program),
        str(hosts),
        str(packets),
        pattern,
        str(STOCK_PAYLOAD_BYTES),
    ]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def run_ours(hosts: int, packets: int, pattern: str) -> dict[str, Any]:
    """One run of netfold's models, in a fresh process."""
    command = ["taskset", "-c", "0", sys.executable, __file__, "--child", str(hosts), str(packets), pattern]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return dict(
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    )


def star_plan(hosts: int, packets: int, pattern: str) -> Any:
    """A host-based plan in which each host's vertices go to one other host, one packet each.

    A plan's edges are symmetric, so vertices lie in pairs: every vertex of host i has one neighbour at the
    receiver, and the receiver's neighbours are sent back. `ring`: half the packets to either side. `incast`:
    one vertex at host 0 neighbours all of a host's, so that what comes back is a single packet per host.
    """
    import numpy as np

    from workloads.plan.plan import freeze_plan

    if pattern == "ring":
        per_side = packets // 2
        owner = np.repeat(
            np.arange(hosts), 2 * per_side
        )  # first half faces the next host, second the previous
        index = np.arange(len(owner)).reshape(hosts, 2, per_side)
        partner = np.empty_like(index)
        partner[:, 0] = np.roll(index[:, 1], -1, axis=0)
        partner[:, 1] = np.roll(index[:, 0], 1, axis=0)
        residual_ptr = np.arange(len(owner) + 1)
        residual_adj = partner.reshape(-1)
    else:
        hubs = hosts - 1
        owner = np.concatenate([np.zeros(hubs, dtype=np.int64), np.repeat(np.arange(1, hosts), packets)])
        degree = np.concatenate([np.full(hubs, packets), np.ones(hubs * packets, dtype=np.int64)])
        residual_ptr = np.concatenate([[0], np.cumsum(degree)])
        leaves = hubs + np.arange(hubs * packets)
        residual_adj = np.concatenate([leaves, np.repeat(np.arange(hubs), packets)])
    empty32, one64 = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
    scalars: dict[str, Any] = {
        **{"num_workers": hosts, "width": PAYLOAD_VALUES, "values_per_packet": 30, "chunks": 1, "seed": 1},
        **{"aggregators": 0, "memory_bytes": 0, "aggregator_bytes": 128},
        **{"per_vertex_bytes": 0, "per_edge_bytes": 0},
        **{"order": "random", "blocks_mode": "none", "residual_mode": "host"},
        **{"graph_name": f"{pattern} of packets", "graph_digest": "", "partition_digest": ""},
    }
    arrays = {
        **{"boundary": np.arange(len(owner), dtype=np.int32), "owner": owner.astype(np.int32)},
        **{name: empty32.copy() for name in ("block_level", "block_vertices", "adj")},
        **{name: one64.copy() for name in ("block_ptr", "adj_ptr")},
        **{"residual_ptr": residual_ptr.astype(np.int64), "residual_adj": residual_adj.astype(np.int32)},
    }
    return freeze_plan(**scalars, **arrays)


def child(hosts: int, packets: int, pattern: str) -> None:
    """The measured process: builds the plan, then times the simulation alone."""
    import numpy as np

    from sim.engine import simulate
    from sim.scenario import ClusterSection, CongestionSection, ReliabilitySection, Scenario
    from workloads.compute import Phase
    from workloads.systems import SYSTEMS

    plan = star_plan(hosts, packets, pattern)
    scenario = Scenario(
        # an MTU that holds one vertex a packet, so that packets are as large as uploads
        cluster=ClusterSection(workers=hosts, topology="star", mtu_bytes=176),
        congestion=CongestionSection(control="none"),
        reliability=ReliabilitySection(rto_ns=10**12),
    )
    zero = np.zeros(hosts, dtype=np.int64)
    system = replace(SYSTEMS["host"], pipeline_bins=1)
    started = time.perf_counter()
    run = simulate(
        scenario, system, {PAYLOAD_VALUES: plan}, [Phase(1, "forward", PAYLOAD_VALUES, zero, zero)]
    )
    seconds = time.perf_counter() - started
    summary = run.summary
    print(
        json.dumps(
            {
                "hops": summary["packet_hops"],
                "seconds": seconds,
                "events": summary["events"],
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "in_flight": summary["backlog_max_bytes"] // (FRAME_BYTES + 20),
                "queue_memory_bytes": summary["queue_memory_bytes"],
            }
        )
    )


def main() -> None:
    """Print the three tables of the issue: speed, memory per packet in flight, growth with hosts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the packets")
    parser.add_argument("--child", nargs=3, metavar=("HOSTS", "PACKETS", "PATTERN"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(int(args.child[0]), int(args.child[1]), args.child[2])
        return
    packets = 400 if args.quick else 4000
    with tempfile.TemporaryDirectory() as folder:
        program = build_stock(Path(folder))
        print("packet-hops per second, star, each host sends at line rate to its neighbours, one core")
        print(f"{'hosts':>6} {'packets':>9} {'stock ns-3':>12} {'netfold':>12} {'ratio':>7}")
        for hosts in (16, 32, 64, 128, 256):
            best: dict[str, float] = {"stock": 0.0, "ours": 0.0}
            for _ in range(3):  # alternately, so that a busy moment of the machine hits both; the best counts
                stock = run_stock(program, hosts, packets, "ring")
                ours = run_ours(hosts, packets, "ring")
                best["stock"] = max(best["stock"], stock["hops"] / stock["seconds"])
                best["ours"] = max(best["ours"], ours["hops"] / ours["seconds"])
            assert abs(stock["hops"] - ours["hops"]) <= 0.02 * stock["hops"], (stock["hops"], ours["hops"])
            print(
                f"{hosts:>6} {hosts * packets:>9} {best['stock'] / 1e6:>10.2f} M "
                f"{best['ours'] / 1e6:>10.2f} M {best['ours'] / best['stock']:>6.1f}x"
            )
        print(
            "\nbytes of memory per packet in flight, incast of 127 hosts "
            "(growth from a small to a large run over growth of the packets in flight)"
        )
        for name, run in (
            ("stock ns-3", lambda count: run_stock(program, 128, count, "incast")),
            ("netfold queues", lambda count: run_ours(128, count, "incast")),
        ):
            small, large = run(packets // 8), run(packets)
            if name == "stock ns-3":
                grown = large["peak_rss_bytes"] - small["peak_rss_bytes"]
            else:  # the plan grows with the packets too, so the queues' own account is what compares
                grown = large["queue_memory_bytes"] - small["queue_memory_bytes"]
            print(f"{name:>16}: {grown / (large['in_flight'] - small['in_flight']):8.1f} B")


if __name__ == "__main__":
    main()
