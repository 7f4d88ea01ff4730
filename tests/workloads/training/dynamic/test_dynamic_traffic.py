"""What the wire counted is what the plan's formula says, kind by kind, for every system."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workloads.training.dynamic.cache import PositionCache
from workloads.training.dynamic.choose import Chooser
from workloads.training.dynamic.local import make_locals
from workloads.training.dynamic.metrics import window_loss
from workloads.training.dynamic.options import DynamicOptions
from workloads.training.dynamic.placement import Placement
from workloads.training.dynamic.plan import planned_bytes
from workloads.training.dynamic.task import make_task

CASES = [
    {"system": "full", "model": "tgcn"},
    {"system": "dynagraph", "model": "gclstm"},
    {"system": "snapshot", "model": "tgcn"},
    {"system": "snapshot", "model": "gclstm", "layers": 1},
    {"system": "snapshot", "model": "evolvegcn"},
    {"system": "chunk", "model": "gclstm"},
    {"system": "chunk", "model": "evolvegcn", "layers": 1},
    {"system": "swash", "model": "tgcn", "p": 0.3, "s": 0},
    {"system": "swash", "model": "gclstm", "p": 0.01, "s": 2},
    {"system": "swash", "model": "evolvegcn", "layers": 3, "p": 0.6, "s": 1, "cache_windows": 1},
    {"system": "swash", "model": "tgcn", "k": 2, "inputs": "each", "when": "random", "choose": "random"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_bytes_on_the_wire_are_the_plans(case, go, graphs, split):
    graph = graphs["link" if case["model"] == "tgcn" else "regression"]
    case = {"precision": "float32", **case}
    workers = go(graph, 3, **case)
    job = workers[0].job
    exact = not job.options.flexible
    epochs = []
    for epoch in range(job.options.epochs):
        told = [row for row in workers[0].window_rows if row["epoch"] == epoch and row["communicates"]]
        share = 1.0 if exact else workers[0].rows[epoch]["share"]
        epochs.append({row["window"]: share for row in told})
    planned = planned_bytes(
        graph,
        make_task(graph, 1),
        split(graph, 3, case["system"]),
        job.options,
        epochs=epochs,
        parameters=sum(p.numel() for p in workers[0].model.parameters()),
    )
    counted = {kind: sum(worker.wire.sent[kind] for worker in workers) for kind in planned}
    assert counted == planned
    rows = {kind: sum(row[f"{kind}_bytes"] for row in workers[0].rows) for kind in planned}
    assert rows == planned
    control = sum(worker.wire.sent["control"] for worker in workers)
    assert control == sum(row["control_bytes"] for row in workers[0].rows)


def test_a_quarter_of_the_rows_is_about_a_quarter_of_the_bytes(go, graphs):
    full = go(graphs["link"], 2, system="dynagraph")[0].rows[0]
    swash = go(graphs["link"], 2, p=0.25, s=0)[0].rows[0]
    assert 0.25 <= swash["embeddings_bytes"] / full["embeddings_bytes"] < 0.35
    assert swash["features_bytes"] == full["features_bytes"]


def test_pairs_whose_ends_were_sent_stand_for_those_whose_ends_were_not(go, graphs, monkeypatch):
    """A worker's pairs weigh in its loss as many as they are, though few of the remote ones are scored."""
    scored, weights = [], []

    def noted(kind, predicted, wanted, weight):
        scored.append(len(wanted))
        weights.append(float(weight.sum()))
        return window_loss(kind, predicted, wanted, weight)

    monkeypatch.setattr("workloads.training.dynamic.worker.window_loss", noted)
    workers = go(graphs["link"], 3, p=0.3, s=0, epochs=1)
    targets = [made.job.local.targets[last] for made in workers for last in made.job.windows[0]]
    pairs = sorted(len(target.values) for target in targets)
    assert sorted(weights) == pytest.approx(pairs)
    assert sum(scored) < 0.8 * sum(pairs)


WINDOWS = 6


def chooser(graph, how):
    parts = np.arange(graph.num_vertices, dtype=np.int32) % 2
    whole = np.broadcast_to(parts, (graph.num_snapshots, graph.num_vertices))
    task = make_task(graph, 1)
    pair = make_locals(graph, task, Placement(2, whole, whole), summed_output=False)
    indices = [local.index for local in pair]
    cache = PositionCache(1, WINDOWS, 1, 0, torch.device("cpu"))
    return indices, [Chooser(index, cache, WINDOWS, how, seed=3) for index in indices]


@pytest.mark.parametrize("how", ["importance", "weight", "random"])
def test_both_ends_choose_the_same_rows_window_after_window(how, graphs):
    graph = graphs["link"]
    (zero, one), choosers = chooser(graph, how)
    everything = zero.route(3).send[1]
    sent = []
    for time in range(WINDOWS):
        parts = [
            side.part(index.route(3), 0, share=0.3, time=time)
            for index, side in zip((zero, one), choosers, strict=True)
        ]
        mine = np.flatnonzero(np.arange(graph.num_vertices) % 2 == 0)[parts[0].send[1]]
        assert list(one.halo[parts[1].received[0]]) == list(mine)
        assert len(mine) == -(-3 * len(everything) // 10)
        rest = len(parts[1].cached) + len(parts[1].received[0])
        assert rest == len(one.numbers(3))
        sent.append(frozenset(mine))
    if how == "weight":
        assert len(set(sent)) == 1
    else:
        assert len(frozenset.union(*sent)) > len(sent[0])
    if how == "importance":  # whoever was never sent goes first: all are there after four of 30 %
        assert len(frozenset.union(*sent[:4])) == len(everything)


def test_the_merged_index_gives_every_snapshots_own_neighbours(graphs):
    graph = graphs["regression"]
    (zero, _), _ = chooser(graph, "weight")
    for t in range(graph.num_snapshots):
        expected = set()
        for v in range(0, graph.num_vertices, 2):
            near = graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]]
            expected |= {int(u) for u in near if u % 2}
        assert list(zero.halo[zero.numbers(t)]) == sorted(expected)
    assert DynamicOptions().flexible
