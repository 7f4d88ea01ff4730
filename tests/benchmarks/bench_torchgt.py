"""Graph-transformer attention and TorchGT: `python tests/benchmarks/bench_torchgt.py [--help]`.

Without arguments: time and peak memory of an attention layer, forward and backward, against the sequence
length, of GP-RAW, GP-FLASH, GP-SPARSE and TorchGT in one run, and the longest sequence of each within a given
memory; then the paper's tables V to VIII, precision by precision. `--convergence`: accuracy of TorchGT, its
baselines and its ingredients switched off, over seeds. Every attention is timed in a process of its own, so
that peaks are its own; times are CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

KINDS = {"torchgt": "cluster", "gp-sparse": "sparse", "gp-flash": "flash", "gp-raw": "dense"}
HEADS, WIDTH = 8, 8
VARIANTS: dict[str, dict[str, Any]] = {
    "gp-raw": {"system": "gp-raw"},
    "gp-flash": {"system": "gp-flash"},
    "gp-sparse": {"system": "gp-sparse"},
    "torchgt": {},
    "beta 1 fixed": {"beta": 1.0},
    "beta 10 fixed": {"beta": 10.0},
    "beta 1000 fixed": {"beta": 1000.0},
    "reform off": {"reform": False},
    "interleave off": {"interleave": "never"},
    "order random": {"order": "random"},
    "pattern full": {"pattern": "full"},
}


def one(kind: str, n: int, precision: str) -> dict[str, float]:
    """In a process of its own: seconds and bytes of an attention layer on planted:N, after one to warm up."""
    import numpy as np
    import torch

    from workloads.graphs import load_graph
    from workloads.training.transformer import attention
    from workloads.training.transformer.layout import permuted, topology
    from workloads.training.transformer.measure import attention_ns, pays_from
    from workloads.training.transformer.order import make_order
    from workloads.training.transformer.reform import density, reformed
    from workloads.training.transformer.structure import CLASSES, distance_classes

    torch.set_num_threads(1)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]
    graph = load_graph(f"planted:{n}")
    pairs = topology(graph)
    start = time.perf_counter()
    layout: Any = pairs
    if kind == "cluster":
        order = make_order(graph, "metis", 8, 1)
        whole = permuted(pairs, order.order)
        least = pays_from(
            16, WIDTH, attention_ns(whole, WIDTH, torch.device("cpu")) / whole.pairs, torch.device("cpu")
        )
        layout = reformed(whole, order.starts, side=16, beta=10 * density(whole), least=least)
    prepared_s = time.perf_counter() - start
    classes = None
    if kind == "dense":
        every = distance_classes(pairs.indptr, pairs.indices, pairs.classes)
        classes = torch.from_numpy(every.astype(np.int32))
    states = [torch.randn(HEADS, n, WIDTH).to(dtype).requires_grad_() for _ in range(3)]
    table = torch.zeros(HEADS, CLASSES, requires_grad=True)
    del graph, pairs
    before = _resident()

    def step() -> None:
        if kind == "dense":
            result = attention.dense(*states, classes, table.to(dtype))
        elif kind == "flash":
            result = attention.flash(*states)
        elif kind == "sparse":
            result = attention.sparse(*states, layout, table)
        else:
            result = attention.cluster(*states, layout, table)
        result.float().sum().backward()

    step()
    start = time.thread_time()
    step()
    seconds = time.thread_time() - start
    count = n * n if kind in ("dense", "flash") else layout.pairs
    return {"seconds": seconds, "peak": _peak(), "before": before, "pairs": count, "prepared_s": prepared_s}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(kind: str, n: int, precision: str, memory: int, patience_s: int) -> dict[str, float] | str:
    """`one` in a forked child whose memory and CPU time are limited; or why there is no figure."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CPU, (patience_s, patience_s + 1))
            with os.fdopen(write_end, "w") as stream:
                stream.write(json.dumps(one(kind, n, precision)))
            status = 0
        except (MemoryError, RuntimeError) as error:  # torch raises the latter
            status = 3 if "memory" in f"{type(error).__name__} {error}".lower() else 1
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        answer = stream.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return f"over {patience_s} s of CPU time"
    if status:
        return "no memory" if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 3 else "failed"
    found: dict[str, float] = json.loads(answer)
    return found


def scaling(lengths: list[int], precisions: list[str], memory: int, patience_s: int) -> None:
    """The tables of time, memory and longest sequence."""
    import workloads.training.transformer.measure  # noqa: F401  # torch and the kernels, once for all children

    print(
        f"one attention layer, {HEADS} heads of {WIDTH}, planted:N (mean degree 20), forward and backward, "
        f"one core; processes limited to {memory / 1e9:g} GB\n"
    )
    print("| attention | precision | N | pairs | ms | ns a pair | MB above the input | preparation s |")
    print("|---|---|---|---|---|---|---|---|")
    longest: dict[tuple[str, str], str] = {}
    for precision in precisions:
        for name, kind in KINDS.items():
            ended = "longer than tried"
            last = 0
            for n in lengths:
                found = measured(kind, n, precision, memory, patience_s)
                if isinstance(found, str):
                    ended = f"{found} at {n:,}"
                    break
                last = n
                extra = (found["peak"] - found["before"]) / 1e6
                count, seconds = found["pairs"], found["seconds"]
                print(
                    f"| {name} | {precision} | {n:,} | {count:,.0f} | {1e3 * seconds:.1f} | "
                    f"{1e9 * seconds / count:.1f} | {extra:.1f} | {found['prepared_s']:.2f} |",
                    flush=True,
                )
            longest[name, precision] = f"{last:,} ({ended})"
    print(f"\nlongest sequence tried that fits in {memory / 1e9:g} GB:\n")
    print("| attention | " + " | ".join(precisions) + " |\n|---|" + "---|" * len(precisions))
    for name in KINDS:
        print(f"| {name} | " + " | ".join(longest[name, precision] for precision in precisions) + " |")


def published() -> None:
    """The paper's tables, one precision or setting a row."""
    from analysis.published.values import published_frame

    frame = published_frame("torchgt")
    frame = frame[frame["place"].str.fullmatch("table (V|VI|VII|VIII)")]
    given = frame["setting"].str.extract("(BF16|FP32)")[0]
    # FlashAttention takes no FP32, so GP-FLASH always is BF16; TorchGT is FP32 where nothing else is said.
    frame["precision"] = given.fillna(frame["system"].map({"gp-flash": "BF16"})).fillna("FP32")
    print("\npublished (TorchGT, its machines), precisions apart:\n")
    columns = ["place", "precision", "system", "graph", "setting", "metric", "value", "unit"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    ordered = frame[columns].fillna("").sort_values(["precision", "place"], kind="stable")
    for row in ordered.itertuples(index=False):
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def trained(graph: Any, options: dict[str, Any]) -> dict[str, float]:
    """A whole run of one worker in this process."""
    import numpy as np
    import torch

    from workloads.training.data import training_data
    from workloads.training.transformer.options import TransformerOptions
    from workloads.training.transformer.prepare import prepare_graph
    from workloads.training.transformer.worker import TransformerTraining
    from workloads.training.wire import Wire

    chosen = TransformerOptions(**options)
    cpu = torch.device("cpu")
    start = time.perf_counter()
    prepared = prepare_graph(graph, training_data(graph, chosen.seed), chosen, 1, cpu)
    preparation_s = time.perf_counter() - start
    training = TransformerTraining(prepared.jobs[0], cpu, Wire(0, 1))
    start = time.thread_time()
    for epoch in range(chosen.epochs):
        training.epoch(epoch, False)
    seconds = time.thread_time() - start
    rows = [row for row in training.rows if row["validation_score"] == row["validation_score"]]
    best = max(rows, key=lambda row: row["validation_score"])
    moved = [row.get("moved_share", 0.0) for row in training.rows]
    work = [row["attention_work"] for row in training.rows]
    return {
        "test": 100 * best["test_score"],
        "loss": training.rows[-1]["loss"],
        "epoch_s": seconds / chosen.epochs,
        "preparation_s": preparation_s,
        "moved": 100 * float(np.mean(moved)),
        "work": float(np.mean(work)),
        "dense": 100 * training.dense_layers / training.layers_run,
    }


def first_digits(source: str) -> Any:
    """`digits`, or `digits:N`, the first N, joined to their 8 nearest among them."""
    import numpy as np
    from bench_accuracy import digits
    from sklearn.neighbors import kneighbors_graph

    from workloads.graphs.csr import build_csr
    from workloads.graphs.graph import make_graph

    whole = digits()
    if source == "digits":
        return whole
    n = int(source.partition(":")[2])
    features = whole.features[:n].copy()
    near = kneighbors_graph(features, 8).tocoo()
    csr = build_csr(n, near.row.astype(np.int32), near.col.astype(np.int32))
    labels = whole.labels[:n].copy()
    shape = {"feature_width": whole.feature_width, "num_classes": whole.num_classes}
    return make_graph(source, csr, whole.provenance, features=features, labels=labels, **shape)


def convergence(args: argparse.Namespace) -> None:
    """Mean and deviation of the test accuracy at the best validation score."""
    import numpy as np
    import torch

    from workloads.graphs import load_graph

    torch.set_num_threads(1)
    print(
        "| graph | variant | test % | last loss | CPU s an epoch | moved % | dense layers % | preparation s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for source in args.graphs.split(","):
        graph = first_digits(source) if source.startswith("digits") else load_graph(source)
        for variant in args.variants.split(","):
            runs = []
            for seed in range(1, args.seeds + 1):
                common = {"seed": seed, "epochs": args.epochs, "lr": args.lr, "eval_every": args.eval_every}
                fixed = {"precision": args.precision, "model": args.model, "dense_every": args.dense_every}
                runs.append(trained(graph, {**common, **fixed, **VARIANTS[variant]}))
            mean = {name: np.mean([run[name] for run in runs]) for name in runs[0]}
            spread = np.std([run["test"] for run in runs], ddof=1) if len(runs) > 1 else 0.0
            cells = (
                f"{mean['test']:.2f} ± {spread:.2f}",
                f"{mean['loss']:.4f}",
                f"{mean['epoch_s']:.3f}",
                f"{mean['moved']:.1f}",
                f"{mean['dense']:.2f}",
                f"{mean['preparation_s']:.2f}",
            )
            print(f"| {source} | {variant} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", default="1000,2000,4000,8000,16000,32000,64000,128000,256000")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--memory-gb", type=float, default=2.0, help="limit of each process (default 2)")
    parser.add_argument("--patience", type=int, default=60, help="CPU seconds for one figure (default 60)")
    parser.add_argument("--convergence", action="store_true")
    parser.add_argument("--graphs", default="digits,planted:2000")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    for flag, standard in (("--seeds", 3), ("--epochs", 40), ("--eval-every", 4), ("--dense-every", 10)):
        parser.add_argument(flag, type=int, default=standard)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--model", default="graphormer-slim")
    parser.add_argument("--precision", default="float32")
    args = parser.parse_args()
    if args.convergence:
        convergence(args)
    else:
        lengths = [int(n) for n in args.lengths.split(",")]
        scaling(lengths, args.precisions.split(","), int(args.memory_gb * 1e9), args.patience)
        published()


if __name__ == "__main__":
    main()
