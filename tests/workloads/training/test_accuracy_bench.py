"""What the accuracy bench runs in one process is what a cluster runs, and a bench that was cut goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from workloads.partition import partition_graph
from workloads.training.data import training_data
from workloads.training.options import TrainOptions
from workloads.training.prepare import make_jobs

BENCHES = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benches(monkeypatch):
    """Its modules can be imported."""
    monkeypatch.syspath_prepend(str(BENCHES))


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("jknet", {"system": "dgl", "dropout": 0.5}),
        ("gcnii", {"system": "sylvie", "bits": "32", "gap": 2}),
    ],
)
def test_workers_folded_into_one_train_as_the_cluster(model, options, debian_part, run, benches):
    from folded import train_folded

    options = {"model": model, "layers": 3, "hidden": 8, "epochs": 20, "precision": "float64", **options}
    cluster = run(debian_part, 3, **options, eval_every=5)
    chosen = TrainOptions(**options, eval_every=5)
    jobs = make_jobs(debian_part, partition_graph(debian_part, 3), training_data(debian_part, 1), chosen)
    folded = train_folded(jobs)
    if model == "gcnii":
        assert {row["mode"] for row in cluster.epochs} == {"synchronous", "asynchronous"}
    for one, other in zip(cluster.epochs, folded.rows, strict=True):
        np.testing.assert_allclose(one["loss"], other["loss"], rtol=1e-8)
        exact = ("mode", "forced_sync", "test_score", "embeddings_bytes", "gradients_bytes", "weights_bytes")
        for name in exact:
            np.testing.assert_equal(one[name], other[name])
        assert one["counted_comm_s"] >= other["counted_comm_s"]  # the busiest worker, the mean one


def test_quantised_messages_of_folded_workers_have_the_clusters_sizes(debian_part, run, benches):
    from folded import train_folded

    options = {"model": "gcn", "hidden": 8, "epochs": 3, "system": "sylvie", "bits": "2", "mode": "sync"}
    cluster = run(debian_part, 3, **options)
    chosen = TrainOptions(**options, precision="float64")
    jobs = make_jobs(debian_part, partition_graph(debian_part, 3), training_data(debian_part, 1), chosen)
    for one, other in zip(cluster.epochs, train_folded(jobs).rows, strict=True):
        for name in ("embeddings_bytes", "gradients_bytes", "scales_bytes"):
            assert one[name] == other[name]
        np.testing.assert_allclose(one["loss"], other["loss"], rtol=0.1)  # another draw of the rounding


def test_a_bench_that_was_cut_goes_on(tmp_path, monkeypatch, capsys, benches):
    import bench_accuracy

    ran = []
    real = bench_accuracy.trained
    monkeypatch.setattr(bench_accuracy, "trained", lambda what: ran.append(what["variant"]) or real(what))
    place = tmp_path / "runs.csv"
    command = ["bench", "--graph", "karate", "--models", "gcn", "--layers", "2", "--epochs", "2"]
    command += ["--variants", "dgl,1 bit sync", "--seeds", "1", "--results", str(place)]
    monkeypatch.setattr(sys, "argv", [*command, "--minutes", "0"])
    assert bench_accuracy.main() == 3
    assert "2 runs left" in capsys.readouterr().err and not ran
    monkeypatch.setattr(sys, "argv", command)
    assert bench_accuracy.main() == 0
    first = capsys.readouterr().out
    assert ran == ["dgl", "1 bit sync"] and "| karate | GCN | 2 x 32, 2 epochs" in first
    place.write_text(place.read_text()[:-20])  # the second run's line was cut
    assert bench_accuracy.main() == 0
    assert ran == ["dgl", "1 bit sync", "1 bit sync"] and capsys.readouterr().out == first
