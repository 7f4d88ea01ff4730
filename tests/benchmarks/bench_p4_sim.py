"""switchgnn.p4 in the simulation: passes a second, its price against the native model, 64 switches in a run.

The price twice: of the default run as a user starts it, `netfold run --system switchgnn` (both kinds of
recirculation, side by side on two cores; wall time, with reading, planning, set up and output), and of the
simulator alone. For that every run is a process of its own on one core, and times are its CPU time in the
event loop; compiling the program, loading its tables and adjacency and reading the graph are beside it, as
set up. `python tests/benchmarks/bench_p4_sim.py [--quick]`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# An addition touches one aggregator: 136 bytes of registers, three or four cache lines, of which the first
# is a miss wherever the aggregators outgrow the cache; the packet is parsed and written each time round.
PASS_BYTES = {"registers": 136, "packet in": 182, "packet out": 182}
MUST_PASSES_PER_S, MUST_SLOWDOWN = 0.7e6, 4.0
DEFAULT = ("leaf-spine:8x8", 128, "debian", 256)


def measure(model: str, case: tuple[str, int, str, int], phases: int) -> dict[str, Any]:
    """One run, in a fresh process pinned to a core."""
    given = [model, *(str(part) for part in case), str(phases)]
    command = ["taskset", "-c", "0", sys.executable, __file__, "--child", *given]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return dict(json.loads(done.stdout))


def command_s(model: str) -> float:
    """Wall time of the default run of one system."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "netfold", "run", "--system", "switchgnn"]
        started = time.perf_counter()
        subprocess.run(
            [*command, "--set", f"switch.model={model}", "-o", f"{folder}/run"],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[2],
        )
        return time.perf_counter() - started


def child(model: str, case: tuple[str, int, str, int], phases: int) -> None:
    """The measured process. case: topology, workers, graph, width."""
    import numpy as np

    from sim import _native
    from sim.engine import simulate
    from sim.scenario_io import load_scenario
    from workloads.compute import Phase
    from workloads.graphs import load_graph
    from workloads.partition import partition_graph
    from workloads.plan import make_plan
    from workloads.systems import SYSTEMS

    topology, workers, graph, width = case
    named = {"switch.model": model, "cluster.topology": topology, "cluster.workers": workers}
    scenario = load_scenario(None, named)
    system = SYSTEMS["switchgnn"]
    loaded = load_graph(graph)
    partition = partition_graph(loaded, workers, seed=1)
    recipe: Any = {"blocks": system.blocks, "order": system.order, "residual": "none", "seed": 1}
    plan = make_plan(loaded, partition, width=width, memory_bytes=scenario.switch.memory_bytes, **recipe)
    zero = np.zeros(workers, np.int64)
    steps = [Phase(layer, "forward", width, zero, zero) for layer in range(phases)]
    spent = [0.0]
    plain = _native.Simulation.run

    def timed(self: Any, progress: Any) -> None:
        started = time.process_time()
        plain(self, progress)
        spent[0] = time.process_time() - started

    _native.Simulation.run = timed
    started = time.process_time()
    summary = simulate(scenario, system, {width: plan}, steps).summary
    total = time.process_time() - started
    kept = ("passes", "p4_passes", "packet_hops", "p4_load_packets", "p4_load_ns")
    print(json.dumps({"seconds": spent[0], "total": total, **{k: summary.get(k, 0) for k in kept}}))


def show(name: str, run: dict[str, Any]) -> None:
    """One line of the table."""
    engine = run["p4_passes"] / run["seconds"] / 1e6
    print(
        f"{name:>26} {run['seconds']:>8.2f} s {run['packet_hops'] / run['seconds'] / 1e6:>7.2f} M/s "
        f"{run['passes'] / run['seconds'] / 1e6:>7.2f} M/s {f'{engine:.2f} M/s' if engine else '-':>10} "
        f"{run['total'] - run['seconds']:>8.2f} s"
    )


def main() -> None:
    """Print the table and whether it holds what the issue asks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="one propagation instead of the epoch's six")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        model, topology, workers, graph, width, phases = args.child
        child(model, (topology, int(workers), graph, int(width)), int(phases))
        return
    phases = 1 if args.quick else 6
    print(f"bytes a pass: {', '.join(f'{name} {size}' for name, size in PASS_BYTES.items())}")
    print(
        f"{'':>26} {'CPU':>10} {'hops':>11} {'additions':>11} {'passes':>10} {'set up':>10}\n"
        "(additions: into aggregators, one each time round; passes: through the program's ingress or egress)"
    )
    native = measure("native", DEFAULT, phases)
    show("native, default cluster", native)
    p4 = measure("p4", DEFAULT, phases)
    show("switchgnn.p4, the same", p4)
    many = measure("p4", ("leaf-spine:32x32", 128, "rmat:10", 30), 1)
    show("64 switches of it", many)
    rate, slowdown = p4["p4_passes"] / p4["seconds"], p4["seconds"] / native["seconds"]
    print(f"passes/s {rate / 1e6:.2f} M (must be >= {MUST_PASSES_PER_S / 1e6} M)")
    print(f"the simulator alone, recirculation free: {slowdown:.1f}x the native model's CPU time")
    print(
        f"loading, not simulated: {p4['p4_load_packets']} packets, {p4['p4_load_ns'] / 1e3:.0f} us a switch"
    )
    if args.quick:
        return
    # By turns, and the fastest: the first one may find the program not compiled yet.
    turns = [(command_s("native"), command_s("p4")) for _ in range(3)]
    whole = [min(turn[at] for turn in turns) for at in (0, 1)]
    print(
        f"netfold run --system switchgnn: native {whole[0]:.1f} s, switchgnn.p4 {whole[1]:.1f} s, "
        f"slowdown {whole[1] / whole[0]:.1f}x (must be <= {MUST_SLOWDOWN:g}x)"
    )


if __name__ == "__main__":
    main()
