"""Accuracy of the training systems, as in SYLVIE's table: `python tests/benchmarks/bench_accuracy.py --help`.

Prints a Markdown row per model and system: test accuracy at the best validation score, mean and deviation
over the seeds, with main and scale bytes beside it. Each cell is `--seeds` whole runs; workers
are threads of this process, mailboxes their sockets, which gives the same numbers as `netfold train`.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

VARIANTS: dict[str, dict[str, Any]] = {
    "dgl": {"system": "dgl"},
    "sylvie": {"system": "sylvie"},
    "sylvie sync": {"system": "sylvie", "mode": "sync"},
    "1 bit sync": {"system": "sylvie", "bits": "1", "mask": "uniform", "mode": "sync"},
    "32 bit async": {"system": "sylvie", "bits": "32", "mode": "async"},
    "1 bit async": {"system": "sylvie", "bits": "1", "mask": "uniform", "mode": "async"},
    "mask shuffled": {"system": "sylvie", "mask": "shuffled"},
    "sar": {"system": "sar"},
    "pipegcn": {"system": "pipegcn"},
    "bns-gcn 0.1": {"system": "bns-gcn", "share": 0.1},
}


def digits() -> Any:
    """scikit-learn's 1,797 handwritten digits, each joined to its 8 nearest."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    from workloads.graphs import Provenance
    from workloads.graphs.csr import build_csr
    from workloads.graphs.graph import make_graph

    data = load_digits()
    near = kneighbors_graph(data.data, 8).tocoo()
    csr = build_csr(len(data.target), near.row.astype(np.int32), near.col.astype(np.int32))
    return make_graph(
        "digits",
        csr,
        Provenance("real", "scikit-learn digits, 8 nearest neighbours"),
        feature_width=64,
        num_classes=10,
        features=(data.data / 16).astype(np.float32),
        labels=data.target.astype(np.int32),
    )


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


def figures(workers: list[Any]) -> dict[str, float]:
    """The test score where the validation score was best; bytes per epoch; bits of main data per value."""
    rows, epochs = workers[0].rows, len(workers[0].rows)
    best = max(
        (row for row in rows if row["validation_score"] == row["validation_score"]),
        key=lambda row: row["validation_score"],
    )
    traffic = [record for worker in workers for record in worker.exchange.traffic]
    main = sum(record.main_bytes for record in traffic)
    return {
        "test_score": best["test_score"],
        "main_bytes": main / epochs,
        "scale_bytes": sum(record.scale_bytes for record in traffic) / epochs,
        "bits": 8 * main / sum(record.values for record in traffic),
        "forced_syncs": sum(row["forced_sync"] for row in rows),
        "asynchronous": sum(row["mode"] == "asynchronous" for row in rows) / epochs,
    }


def train(jobs: list[Any]) -> Any:
    """A whole run with a thread per worker; worker 0's rows and every worker's traffic."""
    import torch

    from workloads.training.wire import Wire
    from workloads.training.worker import Training

    class Mailboxes(Wire):
        def __init__(self, rank: int, boxes: dict[tuple[int, int], Any]) -> None:
            super().__init__(rank, len(jobs))
            self._boxes = boxes

        def swap(self, message: Any, to: int, arriving: Any, source: int) -> None:
            if message.numel():
                self._boxes[self.rank, to].put(message.clone())
            if arriving.numel():
                arriving.copy_(self._boxes[source, self.rank].get(timeout=600))

    ranks = range(len(jobs))
    groups = [{(a, b): queue.Queue() for a in ranks for b in ranks} for _ in range(3)]
    workers = [
        Training(job, torch.device("cpu"), [Mailboxes(rank, boxes) for boxes in groups])
        for rank, job in enumerate(jobs)
    ]

    def work(worker: Any) -> None:
        for epoch in range(worker.job.options.epochs):
            worker.epoch(epoch, False)
        worker.exchange.close()
        worker.evaluation.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, workers))
    return workers


def main() -> None:
    """Train what the command line names and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--graph", default="digits", help="digits, neighbours:N, or as `netfold train --graph`"
    )
    parser.add_argument("--models", default="gcn,gcnii")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    for flag, standard in (
        ("--workers", 4),
        ("--layers", 8),
        ("--hidden", 32),
        ("--epochs", 80),
        ("--seeds", 5),
        ("--eval-every", 2),
    ):
        parser.add_argument(flag, type=int, default=standard)
    for flag, real in (("--dropout", 0.0), ("--lr", 0.01), ("--link-gbps", 1.0)):
        parser.add_argument(flag, type=float, default=real)
    parser.add_argument("--partition", default="metis")
    parser.add_argument("--json", action="store_true", help="a JSON object per cell instead of a table")
    args = parser.parse_args()

    import torch

    from workloads.graphs import load_graph
    from workloads.partition import partition_graph
    from workloads.training.data import training_data
    from workloads.training.options import TrainOptions
    from workloads.training.prepare import make_jobs

    torch.set_num_threads(1)
    kind, _, count = args.graph.partition(":")
    if kind == "digits":
        graph = digits()
    elif kind == "neighbours":
        graph = neighbours(int(count))
    else:
        graph = load_graph(args.graph, features=True)
    shaping = ("layers", "hidden", "epochs", "dropout", "lr", "eval_every")
    shape = {name: getattr(args, name) for name in shaping}
    for model in args.models.split(","):
        for variant in args.variants.split(","):

            def cell(seed: int, model: str = model, variant: str = variant) -> dict[str, float]:
                options = TrainOptions(
                    model=model, seed=seed, link_gbps=args.link_gbps, **shape, **VARIANTS[variant]
                )
                partition = partition_graph(graph, args.workers, method=args.partition, seed=seed)
                jobs = make_jobs(graph, partition, training_data(graph, seed), options)
                return figures(train(jobs))

            # One after the other: on few cores, runs side by side only get in each other's way.
            cells = [cell(seed) for seed in range(1, args.seeds + 1)]
            scores = 100 * np.array([found["test_score"] for found in cells])
            main_mb = np.mean([found["main_bytes"] for found in cells]) / 1e6
            scales_mb = np.mean([found["scale_bytes"] for found in cells]) / 1e6
            found = {
                "graph": graph.name,
                "model": model,
                "variant": variant,
                "mean": round(float(scores.mean()), 2),
                "deviation": round(float(scores.std(ddof=1)), 2) if len(scores) > 1 else 0.0,
                "main_mb": round(float(main_mb), 4),
                "scales_mb": round(float(scales_mb), 4),
                "bits": round(float(np.mean([found["bits"] for found in cells])), 2),
                "forced_syncs": float(np.mean([found["forced_syncs"] for found in cells])),
                "asynchronous": round(float(np.mean([found["asynchronous"] for found in cells])), 2),
            }
            if args.json:
                print(json.dumps(found | shape | {"workers": args.workers}), flush=True)
            else:
                told = f"{found['mean']:.2f} ± {found['deviation']:.2f} %"
                print(f"| {model} | {variant} | {told} | {main_mb:.3f} | {scales_mb:.3f} |", flush=True)


if __name__ == "__main__":
    main()
