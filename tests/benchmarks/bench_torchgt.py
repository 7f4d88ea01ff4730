"""Graph-transformer attention and TorchGT: `python tests/benchmarks/bench_torchgt.py [--help]`.

Without arguments, in one run: time and peak memory of an attention layer, forward and backward, against the
sequence length, of GP-RAW, GP-FLASH, GP-SPARSE and TorchGT, with the exponents that fit them; the longest
sequence of each within a given memory; epochs of the models, graphormer-large among them; the paper's tables
V to VIII. Precisions are apart throughout. `--quick` is the same with shorter sequences. `--convergence`:
accuracy of TorchGT, its baselines and its ingredients switched off, over seeds.

Every figure is measured in a process of its own, so that peaks are its own; times are CPU time. Figures are
kept in `--keep` as they come: the same command again goes on where it was ended; `--fresh` starts again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

KINDS = {"torchgt": "cluster", "gp-sparse": "sparse", "gp-flash": "flash", "gp-raw": "dense"}
HEADS, WIDTH = 8, 8
MOST_FULL = 10_000  # vertices up to which full layers are interleaved
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


def one(kind: str, n: int, precision: str, patience_s: int, ordering: str) -> dict[str, float]:
    """In a process of its own: seconds and bytes of an attention layer on planted:N, after one to warm up.
    patience_s: of the attention, without what prepares it.
    """
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
        order = make_order(graph, ordering, 8, 1)
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
    used = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + patience_s, used + patience_s + 1))

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


def _data() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(what: Callable[[], dict[str, float]], memory: int, patience_s: int) -> dict[str, float] | str:
    """what() in a forked child whose memory and CPU time are limited; or why there is no figure."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            most = _data() + memory  # what torch takes before it does anything does not count
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            resource.setrlimit(resource.RLIMIT_CPU, (patience_s, patience_s + 1))
            with os.fdopen(write_end, "w") as stream:
                stream.write(json.dumps(what()))
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
        return "too slow"
    if status:
        return "no memory" if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 3 else "failed"
    found: dict[str, float] = json.loads(answer)
    return found


class Kept:
    """Figures by what they are of, written after each, so that an ended run goes on."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        self.found: dict[str, Any] = {}
        if path.exists() and not fresh:
            self.found = json.loads(path.read_text())

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        """The figure that is kept under this name, or a new one."""
        if name not in self.found:
            self.found[name] = measure()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.path.with_suffix(".part")
            fresh.write_text(json.dumps(self.found, indent=0))
            fresh.replace(self.path)
        return self.found[name]


def layer(
    args: argparse.Namespace, kind: str, n: int, precision: str, *, memory: int, ordering: str = "metis"
) -> Any:
    """`measured`, kept."""
    name = f"layer {kind} {n} {precision} {memory} {args.patience} {ordering}"

    def measure() -> Any:
        return measured(lambda: one(kind, n, precision, args.patience, ordering), memory, 10 * args.patience)

    return args.kept.of(name, measure)


def exponent(points: list[tuple[float, float]]) -> str:
    """x of y ~ n^x by least squares over the longer half of the points, where constants weigh less."""
    import numpy as np

    used = [(n, y) for n, y in points[len(points) // 2 - (len(points) > 2) :] if y > 0]
    if len(used) < 2:
        return "-"
    n, y = np.log(np.array(used)).T
    return f"{np.polyfit(n, y, 1)[0]:.2f}"


def scaling(args: argparse.Namespace) -> None:
    """Time and memory of an attention layer against the sequence length."""
    memory = int(args.memory_gb * 1e9)
    print(
        f"one attention layer, {HEADS} heads of {WIDTH}, planted:N (mean degree 20), forward and backward, "
        f"one core; processes limited to {args.memory_gb:g} GB beside torch, 2 layers to {args.patience} s\n"
    )
    for precision in args.precisions.split(","):
        print("| attention | precision | N | pairs | ms | ns a pair | MB above the input | preparation s |")
        print("|---|---|---|---|---|---|---|---|")
        ended, fits = {}, {}
        for name, kind in KINDS.items():
            times, peaks = [], []
            ended[name] = "all of them"
            for n in (int(n) for n in args.lengths.split(",")):
                found = layer(args, kind, n, precision, memory=memory)
                if isinstance(found, str):
                    ended[name] = f"{found} at {n:,}"
                    break
                extra = (found["peak"] - found["before"]) / 1e6
                count, seconds = found["pairs"], found["seconds"]
                times.append((n, seconds))
                peaks.append((n, extra))
                print(
                    f"| {name} | {precision} | {n:,} | {count:,.0f} | {1e3 * seconds:.1f} | "
                    f"{1e9 * seconds / count:.1f} | {extra:.1f} | {found['prepared_s']:.2f} |",
                    flush=True,
                )
            fits[name] = f"{exponent(times)} | {exponent(peaks)}"
        print(f"\n{precision}: y ~ N^x, edges being 10 N:\n")
        print("| attention | x of time | x of memory | lengths done |\n|---|---|---|---|")
        for name in KINDS:
            print(f"| {name} | {fits[name]} | {ended[name]} |")
        print()


def longest(args: argparse.Namespace) -> None:
    """The longest sequence of each attention that trains within a given memory, to 1 part in 8. Tokens lie
    in the graph's own order: METIS, which runs before training, would take most of the time here.
    """
    memory = int(args.longest_gb * 1e9)
    print(
        f"longest sequence, forward and backward, of a process with {args.longest_gb:g} GB beside torch and "
        f"{args.patience} s for two layers:\n"
    )
    print("| attention | precision | longest N | ended by |\n|---|---|---|---|")
    for precision in args.precisions.split(","):
        for name, kind in KINDS.items():
            fits, fails, why = 0, 0, ""
            while not fails or fails > fits * 9 // 8 > 0:
                n = (fits + fails) // 2 if fails else max(500, 2 * fits)
                if n > args.most:
                    why = f"longest tried: {fits:,}"
                    break
                found = layer(args, kind, n, precision, memory=memory, ordering="natural")
                if isinstance(found, str):
                    fails, why = n, f"{found} at {n:,}"
                else:
                    fits = n
            print(f"| {name} | {precision} | {fits:,} | {why} |", flush=True)
    print()


def epochs(args: argparse.Namespace) -> None:
    """An epoch of each model and system in each precision: what tables V to VII show."""
    print(f"training on {args.train_on}, one worker, one core; tables V to VII on this machine:\n")
    print("| model | precision | system | s an epoch | TorchGT is faster by | MB in all | MB kept | loss |")
    print("|---|---|---|---|---|---|---|---|")
    memory = int(args.train_gb * 1e9)
    for model in args.models.split(","):
        # The large one's 42 million weights make Adam and products slow: a smaller graph.
        graph = args.large_on if model == "graphormer-large" else args.train_on
        for precision in args.precisions.split(","):
            rows = {}
            for system in KINDS:
                options = {"system": system, "model": model, "precision": precision, "eval_every": 100}
                if system == "torchgt":
                    options |= {"clusters": 8, "sub_block": 16, "beta": 10.0, "interleave": "never"}
                rows[system] = args.kept.of(
                    f"epochs {graph} {sorted(options.items())} {memory} {args.patience}",
                    lambda graph=graph, options=options: measured(
                        lambda: steady(graph, options), memory, 4 * args.patience
                    ),
                )
            ours = rows["torchgt"]
            for system, found in rows.items():
                where = f"{model} ({graph})"
                if isinstance(found, str):
                    print(f"| {where} | {precision} | {system} | {found} | | | | |", flush=True)
                    continue
                ratio = "" if isinstance(ours, str) else f"{found['epoch_s'] / ours['epoch_s']:.2f}"
                print(
                    f"| {where} | {precision} | {system} | {found['epoch_s']:.3f} | {ratio} | "
                    f"{found['peak'] / 1e6:.0f} | {found['saved'] / 1e6:.1f} | {found['loss']:.3f} |",
                    flush=True,
                )
    print()


def steady(source: str, options: dict[str, Any]) -> dict[str, float]:
    """In a process of its own: the second epoch of training, without evaluation."""
    import torch

    from workloads.graphs import load_graph
    from workloads.training.data import training_data
    from workloads.training.transformer.options import TransformerOptions
    from workloads.training.transformer.prepare import prepare_graph
    from workloads.training.transformer.worker import TransformerTraining
    from workloads.training.wire import Wire

    torch.set_num_threads(1)
    graph, cpu = load_graph(source), torch.device("cpu")
    chosen = TransformerOptions(**options)
    prepared = prepare_graph(graph, training_data(graph, 1), chosen, 1, cpu)
    training = TransformerTraining(prepared.jobs[0], cpu, Wire(0, 1))
    training.epoch(0, False)
    start = time.thread_time()
    row = training.epoch(1, False)[0]
    seconds = time.thread_time() - start
    return {"epoch_s": seconds, "peak": _peak(), "saved": training.saved_bytes, "loss": row["loss"]}


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


def trained(graph: Any, options: dict[str, Any]) -> dict[str, float] | str:
    """A whole run of one worker in this process; or why there cannot be one."""
    import numpy as np
    import torch

    from workloads.errors import InputError
    from workloads.training.data import training_data
    from workloads.training.transformer.options import TransformerOptions
    from workloads.training.transformer.prepare import prepare_graph
    from workloads.training.transformer.worker import TransformerTraining
    from workloads.training.wire import Wire

    chosen = TransformerOptions(**options)
    cpu = torch.device("cpu")
    start = time.perf_counter()
    try:
        prepared = prepare_graph(graph, training_data(graph, chosen.seed), chosen, 1, cpu)
    except InputError as error:
        return str(error)
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


def graph_of(source: str) -> Any:
    """`digits:N`, the first N of them, joined to their 8 nearest; all else as bench_accuracy.py names it."""
    import numpy as np
    from bench_accuracy import graph_named
    from sklearn.neighbors import kneighbors_graph

    from workloads.graphs.csr import build_csr
    from workloads.graphs.graph import make_graph

    name, _, count = source.partition(":")
    if name != "digits" or not count:
        return graph_named(source)
    whole, n = graph_named("digits"), int(count)
    features, labels = whole.features[:n].copy(), whole.labels[:n].copy()
    near = kneighbors_graph(features, 8).tocoo()
    csr = build_csr(n, near.row.astype(np.int32), near.col.astype(np.int32))
    shape = {"feature_width": whole.feature_width, "num_classes": whole.num_classes}
    return make_graph(source, csr, whole.provenance, features=features, labels=labels, **shape)


def convergence(args: argparse.Namespace) -> None:
    """Mean and deviation of the test accuracy at the best validation score."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    print(
        "| graph | variant | test % | last loss | CPU s an epoch | moved % | full layers % | preparation s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for source in args.graphs.split(","):
        graph = graph_of(source)
        for variant in args.variants.split(","):
            runs = []
            for seed in range(1, args.seeds + 1):
                common = {"seed": seed, "epochs": args.epochs, "lr": args.lr, "eval_every": args.eval_every}
                fixed = {"precision": args.precision, "model": args.model, "dropout": args.dropout}
                fixed |= {"bias_lr": args.bias_lr, "clusters": 8, "sub_block": 16}
                options = {**common, **fixed, **VARIANTS[variant]}
                if graph.num_vertices > MOST_FULL and "system" not in options:
                    options |= {"interleave": "never"}
                name = f"convergence {source} {sorted(options.items())}"
                runs.append(args.kept.of(name, lambda graph=graph, options=options: trained(graph, options)))
            if isinstance(runs[0], str):
                print(f"| {source} | {variant} | {runs[0]} | | | | | |", flush=True)
                continue
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


QUICK = {"lengths": "1000,2000,4000,8000", "longest_gb": 0.3, "most": 64_000, "patience": 8}
QUICK |= {"train_on": "planted:600", "large_on": "planted:500", "precisions": "float32"}


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="shorter sequences, float32 alone: less than 2 minutes")
    add("--keep", type=Path, default=Path("results/bench_torchgt.json"), help="where figures are kept")
    add("--fresh", action="store_true", help="measure all again")
    add("--lengths", default="1000,4000,16000,64000")
    add("--precisions", default="float32,bfloat16")
    add("--memory-gb", type=float, default=2.0, help="limit of a process, for lengths (default 2)")
    add("--longest-gb", type=float, default=0.5, help="the same, for the longest sequence (default 0.5)")
    add("--train-gb", type=float, default=6.0, help="the same, for epochs (default 6)")
    add("--most", type=int, default=512_000, help="no longer sequence is tried (default 512,000)")
    add("--patience", type=int, default=20, help="CPU seconds for one figure (default 20)")
    add("--train-on", default="planted:2000")
    add("--large-on", default="planted:600", help="the same, for graphormer-large")
    add("--models", default="graphormer-slim,gt,graphormer-large")
    add("--convergence", action="store_true")
    add("--graphs", default="planted:300:5,digits:300,debian:300")
    add("--variants", default=",".join(VARIANTS))
    for flag, standard in (("--seeds", 3), ("--epochs", 100), ("--eval-every", 5)):
        add(flag, type=int, default=standard)
    add("--lr", type=float, default=0.003)
    add("--dropout", type=float, default=0.5)
    add("--bias-lr", type=float, default=30.0)
    add("--model", default="graphormer-slim")
    add("--precision", default="float32")
    args = parser.parse_args()
    args.kept = Kept(args.keep, fresh=args.fresh)
    if args.quick:
        vars(args).update(QUICK)
    if args.convergence:
        convergence(args)
        return
    import workloads.training.transformer.worker  # noqa: F401  # torch and the kernels, once for all children

    scaling(args)
    longest(args)
    epochs(args)
    published()


if __name__ == "__main__":
    main()
