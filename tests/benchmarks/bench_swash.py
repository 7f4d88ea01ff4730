"""LightMetis beside METIS on all snapshots: CPU time to partition, and rows that travel when every window is
trained.

`python tests/benchmarks/bench_swash.py --help`. METIS on all snapshots merges the snapshots (each edge in as
many as it lives) and splits their union. CPU seconds are of this process and of the children that METIS may
run in, the least of --repeat in turn. Graph and partitions follow the seed. --log keeps a JSON line per graph
and number of workers; those that it has are not made again, and after --limit seconds the program stops with
exit code 3, to go on by the same command.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

METHODS = ("metis-union", "light-metis")
UNFINISHED = 3


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
    parser.add_argument(
        "--log", type=Path, default=Path("swash-partitions.jsonl"), help="a file of JSON lines"
    )
    parser.add_argument("--limit", type=float, default=420, help="seconds, then stop (default %(default)s)")
    args = parser.parse_args()
    known: dict[str, Any] = {}
    if args.log.exists():
        for line in args.log.read_text().splitlines():
            found = json.loads(line)
            known[json.dumps(found["key"])] = found
    sizes, workers, seeds = (
        [int(one) for one in text.split(",")] for text in (args.vertices, args.workers, args.seeds)
    )
    start = time.monotonic()
    cases = [(name, n) for n in sizes for name in args.sets.split(",")]
    for name, n in cases:
        for seed in seeds:
            keys = [[name, n, count, seed] for count in workers]
            if all(json.dumps(key) in known for key in keys):
                continue
            if time.monotonic() - start > args.limit:
                print("not all yet; the same command goes on", file=sys.stderr)
                return UNFINISHED
            for found in measured(keys, args.repeat):
                known[json.dumps(found["key"])] = found
                with args.log.open("a") as log:
                    log.write(json.dumps(found) + "\n")
    heads = ("set", "vertices", "workers", "METIS on all", "LightMetis", "faster", "rows against it")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, n in cases:
        for count in workers:
            runs = [known[json.dumps([name, n, count, seed])] for seed in seeds]
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


def measured(keys: list[list[Any]], repeat: int) -> list[dict[str, Any]]:
    """CPU seconds and rows of both methods; keys: set, vertices, workers, seed, of one graph."""
    from workloads.graphs.dynamic import load_dynamic_graph
    from workloads.partition.dynamic import _METHODS, partition_dynamic, travelling_rows
    from workloads.partition.light_metis import KEEP

    name, n, _, seed = keys[0]
    graph = load_dynamic_graph(f"{name}:{n}" if n else name, seed=seed)
    made = []
    for key in keys:
        best: dict[str, float] = {}
        for _ in range(repeat):
            for method in METHODS:
                start = cpu()
                _METHODS[method][1](graph, key[2], KEEP, seed)
                best[method] = min(cpu() - start, best.get(method, float("inf")))
        placed = {name: partition_dynamic(graph, key[2], method=name, seed=seed) for name in METHODS}
        rows = {name: travelling_rows(graph, one)["rows"] for name, one in placed.items()}
        made.append({"key": key, "cpu": best, "rows": rows})
    return made


if __name__ == "__main__":
    sys.exit(main())
