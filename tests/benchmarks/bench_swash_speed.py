"""Epoch times of dynamic training's systems: `python tests/benchmarks/bench_swash_speed.py --help`.

A row is one graph, system and link rate. Its parts: communication, *simulated* packet by packet (`netfold
run`, all workers on one switch); the weights' all-reduce, *computed* for the same links; and computing,
twice: what the busiest worker's training takes of this machine's CPU (*measured*: CPU time of an epoch,
workers being threads of one process, the systems taking turns epoch by epoch), and what a GPU would take
(*modelled*, the simulation's roofline). The last columns divide a system's epoch by swash's, with either
computing. After --limit seconds the program stops with exit code 3, and the same command goes on
(tests/benchmarks/kept.py).
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from kept import Kept, add_arguments

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

GRAPHS = "traffic:1000:30,contacts:300:30,social:1000:30"
SYSTEMS = "swash,full,dynagraph,dynahb,snapshot,chunk"
LAYERS, HIDDEN = 2, 30  # one packet a row of 30 values
S, P = 0.5, 0.25


def main() -> int:
    """Measure what is missing, then print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--systems", default=SYSTEMS, help="swash must be among them")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3, help="to measure; the first does not count")
    parser.add_argument("--links", default="1,100", help="Gb/s, several with commas")
    add_arguments(parser, "swash-speed.jsonl")
    args = parser.parse_args()
    kept = Kept(args.log, args.limit)
    graphs, systems = args.graphs.split(","), args.systems.split(",")
    links = [float(link) for link in args.links.split(",")]
    told: dict[Any, Any] = {}
    for graph in graphs:
        key = ["compute", graph, systems, args.workers, args.epochs]
        told[graph] = kept.get(key, partial(measured, graph, systems, args.workers, args.epochs))
        for system in systems:
            for link in links:
                key = ["sim", graph, system, args.workers, link]
                told[graph, system, link] = kept.get(
                    key, partial(simulated, graph, system, args.workers, link)
                )
    show(graphs, systems, links, told)
    return 0


def measured(graph: str, systems: list[str], workers: int, epochs: int) -> dict[str, float]:
    """CPU seconds of an epoch by system: of the busiest worker, the smallest over epochs but the first."""
    from tests.workloads.training.threads import dynamic_workers, in_threads
    from workloads.graphs.dynamic import load_dynamic_graph
    from workloads.partition.dynamic import partition_dynamic
    from workloads.training.dynamic.cli import PARTITIONS
    from workloads.training.dynamic.options import make_options
    from workloads.training.dynamic.prepare import make_dynamic_jobs

    loaded = load_dynamic_graph(graph)
    every = {}
    for system in systems:
        # One epoch more than are run: the last would be evaluated.
        given = {
            "system": system,
            "layers": LAYERS,
            "hidden": HIDDEN,
            "epochs": epochs + 1,
            "eval_every": 10**6,
        }
        if system == "swash":
            given |= {"s": S, "p": P}
        method = PARTITIONS.get(system, "metis-union")
        placed = partition_dynamic(loaded, workers, method=method)
        every[system] = dynamic_workers(make_dynamic_jobs(loaded, placed, make_options(given)), timeout_s=600)
    for made in every.values():
        in_threads(workers, lambda rank, made=made: made[rank].mix_once())
    for epoch, made in itertools.product(range(epochs), every.values()):
        in_threads(workers, lambda rank, epoch=epoch, made=made: made[rank].epoch(epoch, False))
    return {
        system: min(max(worker.times[epoch]["cpu_ns"] for worker in made) for epoch in range(1, epochs))
        * 1e-9
        for system, made in every.items()
    }


def simulated(graph: str, system: str, workers: int, gbps: float) -> dict[str, float]:
    """Seconds of an epoch as `netfold run` gives them: communication, all-reduce, computing, all of it; bytes
    sent.
    """
    from sim.dynamic import prepare_dynamic
    from sim.engine import simulate
    from sim.prepare import expand
    from sim.scenario_io import load_scenario
    from workloads.graphs.dynamic import load_dynamic_graph
    from workloads.plan import Plan
    from workloads.plan.dynamic import training_windows

    windows = math.ceil(S * len(training_windows(load_dynamic_graph(graph))))
    asked = load_scenario(None, {
        "graph.source": graph, "run.systems": system, "cluster.workers": workers, "cluster.topology": "star",
        "cluster.host_link_bps": int(gbps * 1e9), "model.layers": LAYERS, "model.hidden": HIDDEN,
        "dynamic.share": P, "dynamic.windows": windows,
    })  # fmt: skip
    [variant] = expand(asked)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        [job], failures, _ = prepare_dynamic(asked, [variant], work, stage=lambda _: None, cache=work)
        if failures:
            raise SystemExit(failures[variant.label])
        plans = {key: Plan.load(path) for key, path in job.plans.items()}
        told = simulate(variant.scenario, variant.system, plans, job.phases).summary
    # Phases of no layer are the all-reduces.
    reduce_ns = sum(int(phase.pre_ns.max()) for phase in job.phases if not phase.layer)
    return {
        "comm_s": told["comm_time_ns"] * 1e-9,
        "reduce_s": reduce_ns * 1e-9,
        "compute_s": (told["compute_time_ns"] - reduce_ns) * 1e-9,
        "epoch_s": told["epoch_time_ns"] * 1e-9,
        "bytes": told["up_bytes"],
    }


def show(graphs: list[str], systems: list[str], links: list[float], told: dict[Any, Any]) -> None:
    """The table, in Markdown."""
    heads = (
        "graph",
        "Gb/s",
        "system",
        "MB (simulated)",
        "communication (simulated)",
        "all-reduce (computed)",
    )
    heads += ("CPU (measured)", "GPU (modelled)", "swash faster: communication", "with CPU", "with GPU")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for graph in graphs:
        for link in links:
            rows = {}
            for system in systems:
                cpu, sim = told[graph][system], told[graph, system, link]
                way = sim["comm_s"] + sim["reduce_s"]
                rows[system] = (sim, cpu, (sim["comm_s"], way + cpu, sim["epoch_s"]))
            for system, (sim, cpu, sums) in rows.items():
                cells = [graph, f"{link:g}", system, f"{sim['bytes'] / 1e6:.2f}"]
                cells += [seconds(sim[name]) for name in ("comm_s", "reduce_s")]
                cells += [seconds(cpu), seconds(sim["compute_s"])]
                cells += [f"{mine / swash:.2f}" for mine, swash in zip(sums, rows["swash"][2], strict=True)]
                print(f"| {' | '.join(cells)} |")


def seconds(value: float) -> str:
    """With a unit."""
    return (
        f"{value:.2f} s"
        if value >= 1
        else f"{value * 1e3:.2f} ms"
        if value >= 1e-3
        else f"{value * 1e6:.0f} µs"
    )


if __name__ == "__main__":
    sys.exit(main())
