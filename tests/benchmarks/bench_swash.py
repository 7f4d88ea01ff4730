"""LightMetis beside METIS on all snapshots: seconds to partition, and rows that travel when every window is
trained.

`python tests/benchmarks/bench_swash.py [--quick]`: the three generated sets at 20,000 vertices (quick:
2,000), 8 workers. Each is made REPEAT times in turn, the fastest counts; METIS on all snapshots merges the
snapshots (each edge in as many as it lives) and splits their union. A vertex partition has no other
traffic.
"""

from __future__ import annotations

import sys

from workloads.graphs.dynamic import load_dynamic_graph
from workloads.partition.dynamic import partition_dynamic, travelling_rows

WORKERS, REPEAT = 8, 5
METHODS = ("metis-union", "light-metis", "metis-weighted")


def main() -> int:
    """Print a line per set and method."""
    vertices = 2_000 if "--quick" in sys.argv[1:] else 20_000
    print(f"{'set':<20}{'method':<16}{'seconds':>9}{'faster':>8}{'rows':>14}{'of union':>10}")
    for name in ("traffic", "contacts", "social"):
        graph = load_dynamic_graph(f"{name}:{vertices}")
        best: dict[str, float] = {}
        rows: dict[str, int] = {}
        for _ in range(REPEAT):
            for method in METHODS:
                made = partition_dynamic(graph, WORKERS, method=method)
                best[method] = min(made.made_s, best.get(method, made.made_s))
                rows[method] = rows.get(method) or travelling_rows(graph, made)["rows"]
        for method in METHODS:
            faster = best["metis-union"] / best[method]
            share = rows[method] / rows["metis-union"]
            print(
                f"{graph.name:<20}{method:<16}{best[method]:>9.3f}{faster:>7.1f}x{rows[method]:>14,}{share:>9.0%}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
