"""Speed of training's parts on one core: `python tests/benchmarks/bench_train.py` prints two tables.

The quantiser: GB of float32 input per second of CPU time, native beside the same in plain torch operations,
in the same run. Message passing: the weighted sum over neighbours on Debian's graph by torch's kernels.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import embedding_bag

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from workloads import _kernels
from workloads.graphs import Graph, load_graph
from workloads.training.message import decode, encode
from workloads.training.quantise import WIDTHS, dequantise, pack, quantise, unpack

ROWS, WIDTH, REPEATS = 4000, 256, 9


def seconds(step: Callable[[], object], repeats: int = REPEATS) -> float:
    """The fastest of some turns, in CPU time of this thread: other processes do not count."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        step()
        times.append(time.thread_time() - start)
    return min(times)


def quantiser_row(bits: int, rows: torch.Tensor) -> str:
    """Rates at one width."""
    widths = torch.full((ROWS,), bits, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1)
    message = encode(rows, widths, 1)
    levels, meta = quantise(rows, bits, generator)
    packed = pack(levels, bits)
    native = seconds(lambda: encode(rows, widths, 1))
    plain = seconds(lambda: pack(quantise(rows, bits, generator)[0], bits))
    back = seconds(lambda: decode(message, ROWS, WIDTH, widths, torch.float32))
    plain_back = seconds(lambda: dequantise(unpack(packed, bits, WIDTH), meta))
    there, plainly, again, plainly_again = (rows.nbytes / 1e9 / t for t in (native, plain, back, plain_back))
    return (
        f"{bits:>4} {there:>8.2f} {plainly:>8.2f} {plain / native:>6.1f}x | "
        f"{again:>8.2f} {plainly_again:>8.2f} {plain_back / back:>6.1f}x"
    )


def passing_row(width: int, graph: Graph, ends: tuple[torch.Tensor, torch.Tensor]) -> str:
    """Milliseconds of each kernel at one width."""
    rows, columns = ends
    n, values = graph.num_vertices, torch.rand(graph.num_vertices, width)
    offsets, weights = torch.from_numpy(graph.indptr.astype(np.int32)), torch.rand(graph.num_edges)
    matrix = torch.sparse_csr_tensor(offsets, columns, weights, (n, n), check_invariants=False)

    def bag() -> torch.Tensor:
        return embedding_bag(
            columns, values, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )

    def gathered() -> torch.Tensor:
        return values[columns] * weights[:, None]

    steps = (
        bag,
        lambda: matrix @ values,
        lambda: torch.zeros(n, width).index_add_(0, rows, gathered()),
        lambda: torch.segment_reduce(gathered(), "sum", offsets=offsets.long(), axis=0),
    )
    times = [1000 * seconds(step, 3) for step in steps]
    return f"{width:>5} {times[0]:>14.1f} {times[1]:>11.1f} {times[2]:>10.1f} {times[3]:>15.1f}"


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Sparse")
    print(f"quantiser, {ROWS} x {WIDTH} float32, {_kernels.quantiser()}: GB/s of input per core, and back")
    print(f"{'bits':>4} {'native':>8} {'torch':>8} {'faster':>7} | {'native':>8} {'torch':>8} {'faster':>7}")
    rows = torch.randn(ROWS, WIDTH)
    for bits in WIDTHS:
        print(quantiser_row(bits, rows), flush=True)
    graph = load_graph("debian")
    print(f"message passing, {graph.name}, {graph.num_edges} edges: ms of CPU time per sum")
    print(f"{'width':>5} {'embedding_bag':>14} {'sparse CSR':>11} {'index_add':>10} {'segment_reduce':>15}")
    row = np.repeat(np.arange(graph.num_vertices, dtype=np.int32), graph.degrees)
    ends = torch.from_numpy(row), torch.from_numpy(graph.indices.astype(np.int32))
    for width in (16, 64, 256):
        print(passing_row(width, graph, ends), flush=True)


if __name__ == "__main__":
    main()
