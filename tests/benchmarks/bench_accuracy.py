"""Accuracy of the training systems, as in SYLVIE's table: `python tests/benchmarks/bench_accuracy.py --help`.

Each cell is `--seeds` whole runs, scored on the test vertices at the epoch of the best validation score; the
table has mean and deviation, and each system's difference to `dgl` seed by seed, with its 95 % interval. A
run is a line of `--results` as soon as it is over, and what is there is not run again: stop it whenever you
like. All workers of a run are one process here (tests/benchmarks/folded.py).
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

VARIANTS: dict[str, dict[str, Any]] = {
    "dgl": {"system": "dgl"},
    "sylvie": {"system": "sylvie"},
    "sylvie sync": {"system": "sylvie", "mode": "sync"},
    "32 bit async": {"system": "sylvie", "bits": "32", "mode": "async"},
    "sylvie warm-up 25": {"system": "sylvie", "warmup": 25},
    "32 bit adaptive": {"system": "sylvie", "bits": "32"},
    "mask shuffled": {"system": "sylvie", "mask": "shuffled"},
    "sar": {"system": "sar"},
    "pipegcn": {"system": "pipegcn"},
    "bns-gcn 0.1": {"system": "bns-gcn", "share": 0.1},
}
for _bits in ("8", "4", "2", "1"):
    VARIANTS[f"{_bits} bit sync"] = {"system": "sylvie", "bits": _bits, "mask": "uniform", "mode": "sync"}
    VARIANTS[f"{_bits} bit async"] = {"system": "sylvie", "bits": _bits, "mask": "uniform", "mode": "async"}

# Of a run: what one may choose, as `netfold train` calls it, with this bench's standards.
SHAPE: dict[str, Any] = {
    "workers": 8,
    "partition": "metis",
    "layers": 8,
    "hidden": 32,
    "epochs": 120,
    "dropout": 0.5,
    "lr": 0.01,
    "gap": 5,
    "eval_every": 10,
}
KEYS = ("graph", "model", "variant", "seed", *SHAPE)
FIGURES = (
    "test_score",
    "best_epoch",
    "loss",
    "main_bytes",
    "scale_bytes",
    "bits",
    "forced_syncs",
    "asynchronous",
    "cpu_s",
)
# Settings were chosen on dgl, with a seed that the table has not (6) and one worker: those where the
# validation score has stopped rising before the end. In brackets it is after a quarter, half, three quarters
# and all of the epochs. 2,000 epochs for GraphSAGE and GCN and 800 for JKNet are the paper's; dropout 0.5 is
# that of its Reddit, 0.1 that of Amazon. On Debian's whole graph JKNet and GraphSAGE still learn after the
# 240 epochs that were affordable.
BOTH = ("dgl", "sylvie")
TABLE: list[dict[str, Any]] = [
    {"graph": "digits", "model": "gcnii", "epochs": 600},  # (98.1 98.9 98.6 98.6 of 800)
    {"graph": "digits", "model": "jknet", "epochs": 800},  # (98.3 98.6 98.3 98.1)
    # Best after 180 of 1,000 epochs (98.6 98.9 98.6 98.9).
    {"graph": "digits", "model": "sage", "layers": 4, "epochs": 300, "workers": 4, "variants": BOTH},
    # Best after 120 of 2,000 epochs on planted:3000 (98.3 97.3 98.0 98.5).
    {"graph": "planted:1000", "model": "sage", "layers": 4, "epochs": 300, "workers": 4, "variants": BOTH},
    {"graph": "planted:3000", "model": "jknet", "epochs": 800},  # (98.0 98.3 98.5 97.8)
    # Width 32 needs 1,600 epochs (96.5 97.8 98.2 98.3), 64 half of them (94.8 98.3 98.3 98.5 of 800).
    {"graph": "planted:3000", "model": "gcnii", "hidden": 64, "epochs": 600, "variants": BOTH},
    {"graph": "debian:8000", "model": "jknet", "epochs": 800},  # (57.1 60.8 60.5 59.8 on debian:4000)
    # With dropout 0.5 and width 32 it still learns after 2,000 epochs; so it does not (53.9 56.5 56.4 56.8 of
    # 1,000, on debian:4000).
    {
        "graph": "debian:8000",
        "model": "sage",
        "layers": 4,
        "hidden": 64,
        "epochs": 800,
        "dropout": 0.1,
        "variants": BOTH,
    },
    {"graph": "debian:16000", "model": "dagnn", "epochs": 240, "dropout": 0.1},  # (55.3 58.8 59.1 58.8)
    # Added when the row above had missed, and sylvie was seen: dgl does as well at a third of that rate (best
    # 51.1: 49.9 50.2 50.2 49.1) as at the whole (best 50.6: 50.6 48.5 48.4 48.2).
    {
        "graph": "debian:4000",
        "model": "dagnn",
        "epochs": 800,
        "dropout": 0.1,
        "lr": 0.003,
        "variants": (*BOTH, "32 bit async"),
    },
    {"graph": "neighbours:4000", "model": "jknet", "epochs": 800, "dropout": 0.1},  # (64.8 66.5 65.6 64.0)
    # As the first row, where nearly all edges cross.
    {"graph": "digits", "model": "gcnii", "epochs": 600, "partition": "random"},
    # Added last, without pilots, and trained with these two systems alone.
    {
        "graph": "debian",
        "model": "sage",
        "layers": 2,
        "hidden": 64,
        "epochs": 400,
        "dropout": 0.1,
        "variants": BOTH,
    },
    {"graph": "digits", "model": "gcn", "layers": 4, "epochs": 800, "variants": BOTH},
    {"graph": "planted:3000", "model": "gcn", "layers": 4, "epochs": 800, "variants": BOTH},
]
NAMES = {
    "gcn": "GCN",
    "sage": "GraphSAGE",
    "gcnii": "GCNII",
    "jknet": "JKNet",
    "dagnn": "DAGNN",
    "sgc": "SGC",
}


def neighbours(count: int) -> Any:
    """A stand-in where the values of messages matter: no vertex's own features tell its class, which is the
    fifth of all vertices that the mean of its neighbours' hidden numbers falls into. The hidden number is the
    smallest of 8 normal features, whose deviations go up to 5 times its own.

    Six neighbours a vertex: half of all edges go to one of the next ten vertices, the others anywhere, so
    that a partition cuts many.
    """
    from workloads.graphs import Provenance
    from workloads.graphs.csr import build_csr
    from workloads.graphs.graph import make_graph

    draw = np.random.default_rng(7)
    source = draw.integers(0, count, 3 * count)
    near, far = (source + draw.integers(1, 11, len(source))) % count, draw.integers(0, count, len(source))
    target = np.where(draw.random(len(source)) < 0.5, near, far)
    apart = source != target
    csr = build_csr(count, source[apart].astype(np.int32), target[apart].astype(np.int32))
    indptr, indices = csr[0], csr[1]
    features = draw.standard_normal((count, 8)) * 5 ** np.linspace(-1, 0, 8)
    totals = np.concatenate([[0.0], np.cumsum(features[indices, 0])])
    means = (totals[indptr[1:]] - totals[indptr[:-1]]) / np.maximum(1, np.diff(indptr))
    labels = np.searchsorted(np.quantile(means, (0.2, 0.4, 0.6, 0.8)), means)
    return make_graph(
        f"neighbours:{count}",
        csr,
        Provenance("generated", "random graph, classes by the neighbours' mean", 7),
        feature_width=8,
        num_classes=5,
        features=features.astype(np.float32),
        labels=labels.astype(np.int32),
    )


@cache
def graph_named(name: str) -> Any:
    """digits, neighbours:N, debian:N (a part), or as `netfold train --graph` (NAME@SCALE for a stand-in)."""
    from tests.workloads.training.labelled import connected_part, handwritten_digits
    from workloads.graphs import load_graph

    kind, _, count = name.partition(":")
    if kind == "digits":
        return handwritten_digits()
    if kind == "neighbours":
        return neighbours(int(count))
    if kind == "debian" and count:
        return connected_part(load_graph("debian"), int(count))
    plain, _, scale = name.partition("@")
    return load_graph(plain, scale=float(scale or 1), features=True)


def figures(training: Any) -> dict[str, float]:
    """The test score where the validation score was best; bytes per epoch; bits of main data per value."""
    rows, traffic, epochs = training.rows, training.exchange.traffic, len(training.rows)
    best = max(
        (row for row in rows if row["validation_score"] == row["validation_score"]),
        key=lambda row: row["validation_score"],
    )
    main = sum(record.main_bytes for record in traffic)
    return {
        "test_score": best["test_score"],
        "best_epoch": best["epoch"],
        "loss": rows[-1]["loss"],
        "main_bytes": main / epochs,
        "scale_bytes": sum(record.scale_bytes for record in traffic) / epochs,
        "bits": 8 * main / sum(record.values for record in traffic),
        "forced_syncs": sum(row["forced_sync"] for row in rows),
        "asynchronous": sum(row["mode"] == "asynchronous" for row in rows) / epochs,
    }


def trained(what: dict[str, Any]) -> dict[str, float]:
    """One whole run. what: graph, model, variant, seed, workers, partition and fields of TrainOptions."""
    from folded import train_folded

    from workloads.partition import partition_graph
    from workloads.training.data import training_data
    from workloads.training.options import TrainOptions
    from workloads.training.prepare import make_jobs

    graph, seed = graph_named(what["graph"]), what["seed"]
    other = ("graph", "variant", "variants", "workers", "partition")
    given = {name: value for name, value in what.items() if name not in other}
    options = TrainOptions(**given, **VARIANTS[what["variant"]])
    partition = partition_graph(graph, what["workers"], method=what["partition"], seed=seed)
    start = time.process_time()
    found = figures(train_folded(make_jobs(graph, partition, training_data(graph, seed), options)))
    return found | {"cpu_s": round(time.process_time() - start, 2)}


def cells(chosen: list[dict[str, Any]], variants: list[str]) -> Iterator[dict[str, Any]]:
    """Every run of the table but for its seed. A row may name the variants that it is for."""
    for row in chosen:
        for variant in (name for name in variants if name in row.get("variants", variants)):
            yield {"graph": row["graph"], "model": row["model"], "variant": variant, **row}


def key(what: dict[str, Any]) -> tuple[str, ...]:
    """What tells two runs apart, as text."""
    return tuple(f"{name}={what[name]}" for name in KEYS)


def kept(place: Path) -> dict[tuple[str, ...], dict[str, float]]:
    """The runs that are there; a line that was cut is not."""
    runs: dict[tuple[str, ...], dict[str, float]] = {}
    if place.exists():
        with place.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                if line.get(FIGURES[-1]):
                    runs[tuple(f"{n}={line[n]}" for n in KEYS)] = {n: float(line[n]) for n in FIGURES}
    return runs


def append(place: Path, what: dict[str, Any], found: dict[str, float]) -> None:
    """Add a run."""
    place.parent.mkdir(parents=True, exist_ok=True)
    before = place.read_bytes() if place.exists() else b""
    with place.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if before and not before.endswith(b"\n"):
            file.write("\n")
        if not before:
            writer.writerow([*KEYS, *FIGURES])
        writer.writerow([*(what[name] for name in KEYS), *(found[name] for name in FIGURES)])


def interval(differences: np.ndarray) -> str:
    """Mean and half the 95 % interval (Student's t) of paired differences."""
    from scipy.stats import t

    n, mean = len(differences), round(differences.mean(), 2) + 0.0  # no -0.00
    if n < 2:
        return f"{mean:+.2f}"
    half = t.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n)
    return f"{mean:+.2f} ± {half:.2f}"


def told(row: dict[str, Any]) -> str:
    """A row's settings: layers x width, epochs, dropout, partition."""
    text = f"{row['layers']} x {row['hidden']}, {row['epochs']} epochs, dropout {row['dropout']:g}"
    text += "" if row["lr"] == SHAPE["lr"] else f", lr {row['lr']:g}"
    return f"{text}, {row['partition']} over {row['workers']}"


def table(chosen: list[dict[str, Any]], variants: list[str], seeds: int, runs: dict[Any, Any]) -> str:
    """Markdown: a line per row; of each variant the mean, the deviation and, in brackets, the difference to
    dgl over the seeds that both have. Bits a value and late epochs are of the adaptive system.
    """
    named = [name for name in variants if any(name in row.get("variants", variants) for row in chosen)]
    head = ("graph", "model", "settings", *named, "bits a value", "late epochs %", "seeds")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in chosen:
        exact: dict[int, float] = {}
        found: dict[str, dict[int, Any]] = {}
        texts: dict[str, str] = {}
        for cell in cells([row], variants):
            keys = {seed: key(cell | {"seed": seed}) for seed in range(1, seeds + 1)}
            mine = found[cell["variant"]] = {seed: runs[k] for seed, k in keys.items() if k in runs}
            if not mine:
                continue
            scores = {seed: 100 * run["test_score"] for seed, run in mine.items()}
            exact = scores if cell["variant"] == "dgl" else exact
            pairs = np.array([scores[seed] - exact[seed] for seed in scores if seed in exact])
            values = np.array(list(scores.values()))
            text = f"{values.mean():.2f} ± {values.std(ddof=1) if len(values) > 1 else 0:.2f}"
            texts[cell["variant"]] = (
                text if scores is exact or not len(pairs) else f"{text} ({interval(pairs)})"
            )
        adaptive = list(found.get("sylvie", {}).values())
        lines.append(
            "| "
            + " | ".join(
                (
                    row["graph"],
                    NAMES.get(row["model"], row["model"]),
                    told(row),
                    *(texts.get(name, "") for name in named),
                    f"{np.mean([run['bits'] for run in adaptive]):.1f}" if adaptive else "",
                    f"{100 * np.mean([run['asynchronous'] for run in adaptive]):.0f}" if adaptive else "",
                    str(max(len(mine) for mine in found.values())),
                )
            )
            + " |"
        )
    return "\n".join(lines)


def main() -> int:
    """Train what the command line names and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="the table of docs/training.md, not --graph ...")
    parser.add_argument("--graph", default="digits", help=graph_named.__doc__)
    parser.add_argument("--models", default="gcn,gcnii")
    parser.add_argument("--variants", default="dgl,sylvie,1 bit sync,32 bit async", help=", ".join(VARIANTS))
    parser.add_argument("--seeds", type=int, default=5)
    for flag, standard in SHAPE.items():
        parser.add_argument(f"--{flag.replace('_', '-')}", type=type(standard), default=standard)
    parser.add_argument("--results", type=Path, default=Path("results/accuracy.csv"), help="%(default)s")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after so long")
    args = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    variants, end = args.variants.split(","), time.monotonic() + 60 * args.minutes
    unknown = [name for name in variants if name not in VARIANTS]
    if unknown:
        parser.error(f"variants: {unknown[0]!r} given; allowed: {', '.join(VARIANTS)}")
    shape = {name: getattr(args, name) for name in SHAPE}
    chosen = [shape | {"graph": args.graph, "model": model} for model in args.models.split(",")]
    if args.table:
        chosen = [SHAPE | row for row in TABLE]
    runs, left = kept(args.results), 0
    for seed in range(1, args.seeds + 1):  # a cut leaves whole seeds
        for cell in cells(chosen, variants):
            what = cell | {"seed": seed}
            if key(what) in runs:
                continue
            if time.monotonic() > end:
                left += 1
                continue
            runs[key(what)] = trained(what)
            append(args.results, what, runs[key(what)])
    print(table(chosen, variants, args.seeds, runs))
    if left:
        print(f"{left} runs left: the same command goes on", file=sys.stderr)
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())
