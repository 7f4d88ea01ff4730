"""Time and memory that graphs take: `python tests/benchmarks/bench_graphs.py [NAME ...]` prints a table.

Each step runs in a process of its own, so that its peak memory is its own. With no name, the full-size reddit
stand-in (the one with a limit: 3 minutes, 8 GB) and the shipped Debian graph.
"""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

DEFAULT = ("debian", "reddit")


def measure(source: str, cache: str, label: str) -> None:
    """Print one row for loading `source`; called in a child process."""
    from workloads.graphs import load_graph  # the parent must not pay the import

    start = time.perf_counter()
    graph = load_graph(source, cache=Path(cache))
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak_gb, cpu = used.ru_maxrss * 1024 / 1e9, used.ru_utime + used.ru_stime
    size = f"{graph.num_vertices:>10,} {graph.num_edges:>13,}"
    print(f"{graph.name:34} {label:10} {size} {seconds:>8.2f} {cpu:>7.2f} {peak_gb:>7.2f}", flush=True)


def main() -> None:
    """Measure every named graph, made and then read back from the cache."""
    if sys.argv[1:2] == ["--child"]:
        measure(*sys.argv[2:])
        return
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(
        f"{'graph':34} {'step':10} {'vertices':>10} {'edges':>13} {'seconds':>8} {'CPU s':>7} {'peak GB':>7}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as cache:
        for source in sys.argv[1:] or DEFAULT:
            for label in ("make", "from cache"):
                command = [sys.executable, __file__, "--child", source, cache, label]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
