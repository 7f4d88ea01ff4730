"""With everything sent, any number of workers and every exact system is the single-process trajectory."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from workloads.training.dynamic.models import MODELS
from workloads.training.dynamic.options import MODEL_NAMES
from workloads.training.dynamic.task import make_task

_spec = importlib.util.spec_from_file_location("dense_dynamic", Path(__file__).with_name("dense_dynamic.py"))
assert _spec is not None and _spec.loader is not None
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

TASKS = ("regression", "classification", "link")
EVERYTHING = {"k": 1, "s": 0, "p": 1.0, "cache_windows": 0}
LAYERS, EPOCHS, LR, HIDDEN = 2, 2, 0.01, 6


def starting_weights(graph, task, model):
    torch.manual_seed(1)
    made = MODELS[model](graph.feature_width, HIDDEN, task.outputs, LAYERS).to(torch.float64)
    return {name: value.detach().clone() for name, value in made.named_parameters()}


def losses(workers):
    return [row["loss"] for row in workers[0].rows]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_swash_sending_everything_is_the_dense_single_process_trajectory(model, task, go, graphs):
    graph = graphs[task]
    prepared = make_task(graph, 1)
    expected, weights = reference.trajectory(
        graph,
        prepared,
        model,
        starting_weights(graph, prepared, model),
        layers=LAYERS,
        epochs=EPOCHS,
        lr=LR,
    )
    assert abs(expected[1] - expected[0]) > 1e-4  # it does train
    for workers in (1, 2, 4):
        got = go(graph, workers, system="swash", model=model, epochs=EPOCHS, lr=LR, **EVERYTHING)
        np.testing.assert_allclose(losses(got), expected, rtol=1e-9)
        for worker in got:
            for name, value in worker.model.named_parameters():
                np.testing.assert_allclose(value.detach().numpy(), weights[name], rtol=1e-6, atol=1e-9)


RIVALRIES = (("regression", "gclstm"), ("classification", "evolvegcn"), ("link", "tgcn"))


@pytest.fixture(scope="module")
def alone(go, graphs):
    """Single-process runs, by task."""
    return {task: go(graphs[task], 1, system="full", model=model) for task, model in RIVALRIES}


@pytest.mark.parametrize("system", ["full", "dynagraph", "dynahb", "snapshot", "chunk"])
def test_the_rivals_change_what_travels_and_not_what_is_learned(system, go, graphs, alone):
    for task, model in RIVALRIES:
        one = alone[task]
        three = go(graphs[task], 3, system=system, model=model)
        np.testing.assert_allclose(losses(three), losses(one), rtol=1e-9)
        metrics = {name: value for name, value in one[0].rows[-1].items() if name.startswith("test_")}
        assert all(0 <= value < 10 for value in metrics.values())
        for name, value in metrics.items():
            assert three[0].rows[-1][name] == pytest.approx(value, rel=1e-9)
        sent = {kind: sum(row[f"{kind}_bytes"] for row in three[0].rows) for kind in ("embeddings", "states")}
        assert (sent["states"] > 0) == (system in ("snapshot", "chunk") and model != "evolvegcn")
        assert (sent["embeddings"] == 0) == (
            system == "dynahb" or (system == "snapshot" and model == "evolvegcn")
        )


def test_a_cache_that_is_not_needed_changes_nothing(go, graphs):
    graph = graphs["regression"]
    off = go(graph, 3, **EVERYTHING)
    on = go(graph, 3, **(EVERYTHING | {"cache_windows": 4}))
    assert losses(on) == losses(off)
    assert all(row["cached_rows"] == 0 for row in on[0].rows)


def test_one_layer_models_train_alike_on_workers(go, graphs):
    for model in MODEL_NAMES:
        one = go(graphs["classification"], 1, model=model, layers=1, **EVERYTHING)
        three = go(graphs["classification"], 3, model=model, layers=1, **EVERYTHING)
        np.testing.assert_allclose(losses(three), losses(one), rtol=1e-9)


def test_equal_scores_choose_the_same_rows_on_any_number_of_workers(go, graphs):
    """Contacts have 0/1 features: most rows tie in the first layer's top-k."""
    graph = graphs["classification"]
    assert len(np.unique(graph.features[0], axis=0)) < graph.num_vertices / 3
    one = go(graph, 1, model="evolvegcn", precision="float32", **EVERYTHING)
    four = go(graph, 4, model="evolvegcn", precision="float32", **EVERYTHING)
    np.testing.assert_allclose(losses(four), losses(one), rtol=1e-5)
