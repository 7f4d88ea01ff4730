"""LightMetis beside METIS on all snapshots: CPU time to partition, and rows that travel when every window is
trained.

`python tests/benchmarks/bench_swash.py --help`. METIS on all snapshots merges the snapshots (each edge in as
many as it lives) and splits their union. CPU seconds are of this process and of the children that METIS may
run in, the least of --repeat in turn. Graph and partitions follow the seed. After --limit seconds the program
stops with exit code 3, and the same command goes on (tests/benchmarks/kept.py).
"""

from __future__ import annotations

import argparse
import resource
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, add_arguments

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

METHODS = ("metis-union", "light-metis")


def cpu() -> float:
    """Seconds of this process and its ended children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def main() -> int:
    """Measure what is missing, then print a line per set, size and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", default="traffic,contacts,social")
    parser.add_argument("--vertices", default="0,20000", help="several with commas; 0: the set's own number")
    parser.add_argument("--workers", default="4,8,16")
    parser.add_argument("--seeds", default="101,102,103,104,105")
    parser.add_argument("--repeat", type=int, default=2)
    add_arguments(parser, "swash-partitions.jsonl")
    args = parser.parse_args()
    kept = Kept(args.log, args.limit)
    sizes, workers, seeds = (
        [int(one) for one in text.split(",")] for text in (args.vertices, args.workers, args.seeds)
    )
    cases = [(name, n) for n in sizes for name in args.sets.split(",")]
    known = {
        (name, n, count, seed): kept.get(
            [name, n, count, seed], partial(measured, name, n, count, seed, args.repeat)
        )
        for name, n in cases
        for seed in seeds
        for count in workers
    }
    heads = ("set", "vertices", "workers", "METIS on all", "LightMetis", "faster", "rows against it")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, n in cases:
        for count in workers:
            runs = [known[name, n, count, seed] for seed in seeds]
            union, light = (np.array([run["cpu"][method] for run in runs]) for method in METHODS)
            rows = [run["rows"]["light-metis"] / run["rows"]["metis-union"] for run in runs]
            cells = [name, f"{n:,}" if n else "its own", str(count)]
            cells += [f"{1e3 * union.mean():.0f} ms", f"{1e3 * light.mean():.0f} ms"]
            cells += [
                f"{np.mean(union / light):.1f} ({(union / light).min():.1f} to {(union / light).max():.1f})"
            ]
            cells += [f"{np.mean(rows):.2f} ({min(rows):.2f} to {max(rows):.2f})"]
            print(f"| {' | '.join(cells)} |")
    return 0


def measured(name: str, n: int, workers: int, seed: int, repeat: int) -> dict[str, Any]:
    """CPU seconds and rows of both methods."""
    from workloads.partition.dynamic import _METHODS, partition_dynamic, travelling_rows
    from workloads.partition.light_metis import KEEP

    graph = loaded(f"{name}:{n}" if n else name, seed)
    best: dict[str, float] = {}
    for _ in range(repeat):
        for method in METHODS:
            start = cpu()
            _METHODS[method][1](graph, workers, KEEP, seed)
            best[method] = min(cpu() - start, best.get(method, float("inf")))
    placed = {method: partition_dynamic(graph, workers, method=method, seed=seed) for method in METHODS}
    rows = {method: travelling_rows(graph, one)["rows"] for method, one in placed.items()}
    return {"cpu": best, "rows": rows}


@lru_cache(maxsize=1)
def loaded(source: str, seed: int) -> Any:
    """The graph; all numbers of workers need it one after the other."""
    from workloads.graphs.dynamic import load_dynamic_graph

    return load_dynamic_graph(source, seed=seed)


if __name__ == "__main__":
    sys.exit(main())
