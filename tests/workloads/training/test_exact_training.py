"""dgl on any number of workers is the single-process trajectory, and the models are the papers' formulas."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from workloads.training.options import MODEL_NAMES, SYSTEM_NAMES

_spec = importlib.util.spec_from_file_location(
    "dense_reference", Path(__file__).with_name("dense_reference.py")
)
assert _spec is not None and _spec.loader is not None
dense = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dense)

LAYERS, HIDDEN, EPOCHS = 3, 8, 5


def losses(trained) -> list[float]:
    return [row["loss"] for row in trained.epochs]


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_every_model_on_workers_follows_dense_matrices(model, debian_part, run):
    expected, weights = dense.trajectory(debian_part, model, layers=LAYERS, hidden=HIDDEN, epochs=EPOCHS)
    assert expected[-1] < expected[0]
    for workers, method in ((1, "metis"), (2, "metis"), (4, "random")):
        got = run(debian_part, workers, method, model=model, layers=LAYERS, hidden=HIDDEN, epochs=EPOCHS)
        np.testing.assert_allclose(losses(got), expected, rtol=1e-9)
        for name, value in weights.items():
            np.testing.assert_allclose(got.weights[name], value.detach().numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("system", "model"),
    list(zip(SYSTEM_NAMES, ("gcn", "gat", "gcnii", "sage", "dagnn"), strict=True)),
)
def test_threads_and_processes_train_alike(system, model, debian_part, run, on_processes):
    """What the tests on threads show holds of the cluster: every row, byte and weight."""
    options = {"system": system, "hidden": HIDDEN, "epochs": 12, "gap": 2, "share": 0.5, "dropout": 0.3}
    options |= {"model": model, "precision": "float32", "eval_every": 4}
    one, other = (train(debian_part, 3, **options) for train in (run, on_processes))
    assert repr(one.epochs) == repr(other.epochs)  # NaN compares unequal, so not ==
    assert one.exchanges == other.exchanges
    for name, value in one.weights.items():
        assert value.tobytes() == other.weights[name].tobytes()


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_every_model_with_dropout_does_not_depend_on_the_workers(model, debian_part, run):
    options = {"model": model, "layers": LAYERS, "hidden": HIDDEN, "epochs": EPOCHS, "dropout": 0.4}
    one = run(debian_part, 1, **options)
    off = {"system": "sylvie", "bits": "32", "mode": "sync"}
    for got in (run(debian_part, 4, "random", **options), run(debian_part, 3, **options, **off)):
        np.testing.assert_allclose(losses(got), losses(one), rtol=1e-9)
        for name, value in one.weights.items():
            np.testing.assert_allclose(got.weights[name], value, rtol=1e-6, atol=1e-9)
    undropped = run(debian_part, 1, **{**options, "dropout": 0.0})
    assert np.abs(np.subtract(losses(undropped), losses(one))).max() > 1e-4


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_digits_in_float32_with_dropout_do_not_depend_on_the_workers(model, digits, run):
    options = {"model": model, "hidden": 16, "epochs": 5, "dropout": 0.4, "precision": "float32"}
    one = run(digits, 1, **options)
    for workers, method in ((2, "random"), (4, "metis")):
        np.testing.assert_allclose(losses(run(digits, workers, method, **options)), losses(one), rtol=1e-4)
    undropped = run(digits, 1, **{**options, "dropout": 0.0})
    assert np.abs(np.subtract(losses(undropped), losses(one))).max() > 2e-3


def test_the_labels_do_matter_and_training_learns_digits(digits, run):
    trained = run(digits, 2, model="sage", hidden=32, epochs=30, precision="float32")
    assert trained.epochs[-1]["test_score"] > 0.9
    assert trained.epochs[0]["loss"] > 2


def test_several_labels_per_vertex_train_alike_on_workers(debian_part, run):
    several = np.stack([debian_part.labels % 3 == 0, debian_part.labels % 2 == 0], axis=1).astype(np.int32)
    graph = replace(debian_part, labels=several, num_classes=2)
    one = run(graph, 1, model="sage", hidden=8, epochs=4, eval_every=1)
    three = run(graph, 3, model="sage", hidden=8, epochs=4, eval_every=1)
    np.testing.assert_allclose(losses(three), losses(one), rtol=1e-9)
    scores = [row["test_score"] for row in one.epochs]
    assert [row["test_score"] for row in three.epochs] == scores
    assert all(0 < score < 1 for score in scores)
