"""Accuracy against traffic of dynamic training: `python tests/benchmarks/bench_swash_training.py --help`.

Prints a Markdown row per graph, model and variant: the task's metric on the test windows at the best
validation value, mean and deviation over the seeds, with boundary bytes (embeddings and their gradients,
features, states, summaries) and weights beside it. A variant is a system and its knobs, `swash,s=0,p=0.2`.
Workers are threads of this process, mailboxes their sockets, which gives the same numbers as `netfold
train-dynamic`. Beside each metric stands the mean difference to the first variant, seed by seed, with its
95 % confidence interval. After --limit seconds the program stops with exit code 3, and the same command goes
on (tests/benchmarks/kept.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, add_arguments
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

GRAPHS = "traffic:1000:30,contacts:2000:40,social:1000:30"
VARIANTS = "full;swash,s=0,p=0.2"
BOUNDARY = ("features", "embeddings", "gradients", "states", "topk")


def cell(source: str, workers: int, method: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """One run: metrics at the best validation value, bytes of all workers over the run, staleness."""
    from tests.workloads.training.threads import train_dynamic
    from workloads.graphs.dynamic import load_dynamic_graph
    from workloads.partition.dynamic import partition_dynamic
    from workloads.training.dynamic.cli import PARTITIONS
    from workloads.training.dynamic.counted import KINDS
    from workloads.training.dynamic.metrics import best_row
    from workloads.training.dynamic.options import make_options
    from workloads.training.dynamic.prepare import make_dynamic_jobs
    from workloads.training.dynamic.task import METRICS

    options = make_options(given)
    graph = load_dynamic_graph(source, seed=options.seed)
    # Where not told otherwise, the rivals' vertices lie as swash's, so that only what is sent differs.
    method = method or PARTITIONS.get(options.system, "light-metis")
    partition = partition_dynamic(graph, workers, method=method, seed=options.seed)
    start, cpu = time.perf_counter(), time.process_time()
    made = train_dynamic(make_dynamic_jobs(graph, partition, options), timeout_s=600)
    rows = made[0].rows
    best = best_row(graph.task, rows)
    used = max(1, sum(row[f"{name}_rows"] for row in rows for name in ("fresh", "cached", "missing")))
    return {
        "metrics": {name: best[f"test_{name}"] for name in METRICS[graph.task]},
        "best_epoch": best["epoch"],
        "loss": rows[-1]["loss"],
        "bytes": {kind: sum(row[f"{kind}_bytes"] for row in rows) for kind in KINDS},
        "missing": sum(row["missing_rows"] for row in rows) / used,
        "cached": sum(row["cached_rows"] for row in rows) / used,
        "wall_s": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
    }


def main() -> None:
    """Train what the command line names and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--models", default="tgcn")
    parser.add_argument("--variants", default=VARIANTS, help="separated by ;")
    for flag, standard in (
        ("--workers", 2),
        ("--layers", 2),
        ("--hidden", 16),
        ("--epochs", 16),
        ("--seeds", 5),
        ("--eval-every", 4),
    ):
        parser.add_argument(flag, type=int, default=standard)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--partition")
    add_arguments(parser, "swash-training.jsonl")
    args = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    kept = Kept(args.log, args.limit)
    shape = {n: getattr(args, n) for n in ("layers", "hidden", "epochs", "lr", "eval_every")}
    for source in args.graphs.split(","):
        for model in args.models.split(","):
            baseline = None
            for variant in args.variants.split(";"):
                runs = []
                for seed in range(1, args.seeds + 1):
                    key = [source, args.workers, args.partition, variant, model, seed, shape]
                    given = {"model": model, "seed": seed, **shape, **options_of(variant)}
                    runs.append(kept.get(key, partial(cell, source, args.workers, args.partition, given)))
                baseline = baseline or runs
                print(row(source, model, variant, runs, baseline), flush=True)


def options_of(variant: str) -> dict[str, Any]:
    """A system and its knobs, from text such as `swash,s=0,p=0.2`."""
    system, *knobs = variant.split(",")
    given: dict[str, Any] = {"system": system}
    for name, value in (knob.split("=") for knob in knobs):
        given[name] = value if name in ("choose", "when") else json.loads(value)
    return given


def row(source: str, model: str, variant: str, runs: list[Any], baseline: list[Any]) -> str:
    """A Markdown row; the baseline's traffic over this one's."""
    told = []
    for name in runs[0]["metrics"]:
        values = np.array([run["metrics"][name] for run in runs])
        spread = values.std(ddof=1) if len(values) > 1 else 0.0
        text = f"{name} {values.mean():.4f} ± {spread:.4f}"
        if runs is not baseline and len(runs) == len(baseline) > 1:
            apart = values - np.array([run["metrics"][name] for run in baseline])
            within = stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5
            text += f" ({apart.mean():+.4f} ± {within:.4f})"
        told.append(text)

    def sent(of: list[Any], kinds: tuple[str, ...]) -> float:
        return float(np.mean([sum(run["bytes"][kind] for kind in kinds) for run in of])) / 1e6

    boundary, hidden = sent(runs, BOUNDARY), sent(runs, ("embeddings", "gradients", "states", "topk"))
    ratio, hidden_ratio = (
        sent(baseline, kinds) / max(mine, 1e-12)
        for kinds, mine in ((BOUNDARY, boundary), (BOUNDARY[1:], hidden))
    )
    missing = 100 * np.mean([run["missing"] for run in runs])
    cells = [
        source,
        model,
        variant,
        ", ".join(told),
        f"{boundary:.2f}",
        f"{ratio:.1f}",
        f"{hidden_ratio:.1f}",
    ]
    cells += [f"{sent(runs, ('weights',)):.1f}", f"{missing:.1f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
