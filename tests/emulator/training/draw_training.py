"""Trains through the switch and alone, and draws the loss curves, for the README.

python tests/emulator/training/draw_training.py FOLDER [digits] [standin] [debian]

Results are kept in FOLDER, and all that lie there are drawn.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.cluster.topology import Topology
from emulator.cluster.virtual import VirtualCluster
from emulator.propagation import ExactCluster, LocalSum, SwitchSum
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing
from emulator.training import Shape, train
from workloads.graphs import Graph, load_graph
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Provenance, make_graph
from workloads.oracle import cross_matrix
from workloads.partition import partition_graph
from workloads.plan import make_plan
from workloads.training.data import training_data

WORKERS = 8
FIGURE = Path("docs/figures/training-through-the-switch.png")


def digits(neighbours: int = 10) -> Graph:
    """The k nearest neighbours of scikit-learn's 1,797 handwritten digits."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    found = load_digits()
    near = (
        NearestNeighbors(n_neighbors=neighbours + 1).fit(found.data).kneighbors(return_distance=False)[:, 1:]
    )
    rows = np.repeat(np.arange(len(near)), neighbours)
    return make_graph(
        f"digits, {neighbours} nearest neighbours",
        build_csr(len(near), rows.astype(np.int64), near.reshape(-1).astype(np.int64)),
        Provenance("real", "scikit-learn's load_digits"),
        feature_width=64,
        num_classes=10,
        features=(found.data / 16).astype(np.float32),
        labels=found.target.astype(np.int32),
    )


def through_switch(graph: Graph, shape: Shape, rules: list[str], virtual: bool) -> dict[str, Any]:
    """One training run through the switch: its history and what it took."""
    data = training_data(graph, shape.seed)
    partition = partition_graph(graph, WORKERS)
    plans, job_of = {}, {}
    for number, width in enumerate(shape.widths(data), 1):
        plans[number] = make_plan(graph, partition, width=width, memory_bytes=10_000_000)
        job_of[width] = number
    topology = Topology(WORKERS)
    settings = Settings(Timing(1_000_000, 1_000_000_000, 60_000_000_000), DcqcnConfig())
    made = VirtualCluster if virtual else ProcessCluster
    started = time.perf_counter()
    with made(topology, plans, parse_faults(rules, topology), settings) as cluster:
        cluster.load()
        sums = SwitchSum(graph, partition, cluster, job_of)
        history = train(graph, data, sums, shape)
        measured = cluster.measured()
    total = {name: sum(w.get(name, 0) for w in measured.workers) for name in ("uploads", "results", "pulls")}
    return {
        "losses": history.losses, "scores": history.scores, "propagations": len(sums.steps),
        "saturated": sums.saturated, "wall_s": time.perf_counter() - started, "faults": measured.faults,
        **total,
    }  # fmt: skip


def main() -> None:
    graphs: dict[str, tuple[Any, Shape]] = {
        "digits": (digits, Shape(epochs=40, hidden=16, lr=0.02)),
        "standin": (lambda: load_graph("reddit", scale=0.005, features=True), Shape(epochs=12, hidden=16)),
        "debian": (lambda: load_graph("debian", features=True), Shape(epochs=60, hidden=16, lr=0.02)),
    }
    results = Path(sys.argv[1])
    for name in sys.argv[2:]:
        load, shape = graphs[name]
        graph = load()
        data = training_data(graph, shape.seed)
        alone = train(graph, data, LocalSum(graph), shape)
        partition = partition_graph(graph, WORKERS)
        exact = ExactCluster(cross_matrix(graph, partition))
        job_of = {width: number for number, width in enumerate(shape.widths(data), 1)}
        same = train(graph, data, SwitchSum(graph, partition, exact, job_of), shape)
        told = {"graph": graph.name, "alone": {"losses": alone.losses, "scores": alone.scores}}
        for rules, label in (([], "no fault"), (["*: loss=0.01"], "1 % loss")):
            told[label] = through_switch(graph, shape, rules, virtual=True)
            gap = float(np.max(np.abs(np.array(told[label]["losses"]) - alone.losses)))
            equal = told[label]["losses"] == same.losses
            print(f"{graph.name}, {label}: largest difference of a loss {gap:.1e};", flush=True)
            print(f"equal to the same fixed point in one process, bit for bit: {equal}", flush=True)
        results.mkdir(parents=True, exist_ok=True)
        (results / f"{name}.json").write_text(json.dumps(told))
    draw([json.loads(path.read_text()) for path in sorted(results.glob("*.json"))])


def draw(runs: list[dict[str, Any]]) -> None:
    """The loss curves of every graph that has been trained on."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(runs), figsize=(5 * len(runs), 3.8), squeeze=False)
    for axis, run in zip(axes[0], runs, strict=True):
        axis.plot(run["alone"]["losses"], color="black", lw=4, alpha=0.25, label="one process")
        axis.plot(run["no fault"]["losses"], "-", lw=1.5, label="through the switch")
        axis.plot(run["1 % loss"]["losses"], ":", lw=2.5, label="through the switch, 1 % loss")
        score = ", ".join(
            f"{100 * run[name]['scores'][-1]:.1f}" for name in ("alone", "no fault", "1 % loss")
        )
        axis.set_title(f"{run['graph']}\ntest accuracy {score} %", fontsize=9)
        axis.set_xlabel("epoch")
        axis.set_ylabel("training loss")
        axis.legend(fontsize=7)
    figure.suptitle("4-layer GCN, 8 workers, emulated in virtual time\nthrough switchgnn.p4", fontsize=9)
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


if __name__ == "__main__":
    main()
