"""Time and memory of planning the Reddit stand-in: `python tests/benchmarks/bench_plan.py`.

Prints a table with a row per step and plan: seconds and CPU seconds without METIS, METIS's own seconds, the
peak of the memory held by this process and METIS's child together (proportional set size, so that shared
pages count once), levels, blocks, uploads.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.table import Table

from workloads.graphs import load_graph
from workloads.partition import make as partition_make
from workloads.partition import partition_graph
from workloads.plan import make_plan, split


class PeakMemory:
    """Samples the memory of this process and its children while a step runs; `peak_gb` afterwards."""

    def __init__(self) -> None:
        self.peak_gb = 0.0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.done.wait(0.1):
            self.peak_gb = max(self.peak_gb, sum(map(_pss_kb, [os.getpid(), *_children()])) / 1e6)


def _children() -> list[int]:
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(pid) for file in lists for pid in file.read_text().split()]


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


class MetisClock:
    """Counts the seconds spent in METIS, by standing in for `metis_split` in the two modules that call it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        original = partition_make.metis_split

        def timed(*args: Any, **options: Any) -> Any:
            start = time.monotonic()
            answer = original(*args, **options)
            self.seconds += time.monotonic() - start
            return answer

        partition_make.metis_split = timed
        split.metis_split = timed


def main() -> None:
    """Run the steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--graph", default="reddit")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--memory-mb", type=float, nargs="+", default=[100.0])
    args = parser.parse_args()
    clock = MetisClock()
    table = Table(title=f"{args.graph}, scale {args.scale:g}, {args.workers} workers, {args.width} values")
    columns = (
        "step",
        "s",
        "CPU s",
        "METIS s",
        "peak GB",
        "levels",
        "blocks",
        "uploads/vertex",
        "sends/vertex",
        "bytes/host",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "step" else "right")

    def step(name: str, run: Callable[[], Any]) -> Any:
        before, start, cpu = clock.seconds, time.monotonic(), time.process_time()
        with PeakMemory() as memory:
            answer = run()
        seconds, metis = time.monotonic() - start, clock.seconds - before
        cpu = time.process_time() - cpu
        shape = answer.shape() if hasattr(answer, "shape") else None
        outcome = ["", "", "", "", ""]
        if shape:
            outcome = [
                f"{shape['num_levels']}",
                f"{shape['num_blocks']}",
                f"{shape['uploads_per_boundary_vertex']:.2f}",
                f"{shape['residual_sends'] / max(1, shape['boundary_vertices']):.2f}",
                f"{shape['bytes_ratio']:.3f}",
            ]
        table.add_row(
            name, f"{seconds - metis:.1f}", f"{cpu:.1f}", f"{metis:.1f}", f"{memory.peak_gb:.2f}", *outcome
        )
        return answer

    graph = step("load or generate the graph", lambda: load_graph(args.graph, scale=args.scale))
    with tempfile.TemporaryDirectory() as empty_cache:
        cache = Path(empty_cache)
        partition = step("partition", lambda: partition_graph(graph, args.workers, cache=cache))
        for memory_mb in args.memory_mb:
            for residual in ("none", "host"):
                step(
                    f"plan, {memory_mb:g} MB, residual {residual}",
                    lambda memory_mb=memory_mb, residual=residual: make_plan(
                        graph,
                        partition,
                        width=args.width,
                        memory_bytes=int(memory_mb * 1e6),
                        residual=residual,
                        cache=cache,
                    ),
                )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
