"""Schemes: which there are, and that every one of them trains as a single worker does, to float tolerance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.parallel.measure import measure_pairs
from workloads.parallel.pieces import (
    Balance,
    balance_weights,
    check_sequences,
    closure,
    divide,
    induced,
    network_pieces,
)
from workloads.parallel.scheme import AXES, GNN_AXES, TRANSFORMER_AXES, Scheme, schemes
from workloads.parallel.task import Task, model_spec, set_task
from workloads.parallel.training import Training, check_scheme
from workloads.training.data import training_data
from workloads.training.transformer.graph_set import families


@pytest.fixture(scope="module")
def karate():
    graph = load_graph("karate", features=True)
    return graph, training_data(graph, 1)


def task(karate, name: str, **change: object) -> Task:
    graph, data = karate
    options = {"precision": "float64", "lr": 0.02} | change
    sizes = {key: options.pop(key) for key in ("layers", "hidden", "attention") if key in options}
    spec = model_spec(name, **({"hidden": 24} | sizes))
    if graphs := options.pop("graphs", 0):
        return set_task(families(f"families:{graphs}", 1), spec, **options)
    return Task(graph, data, spec, **options)


@given(st.integers(1, 64), st.sampled_from([GNN_AXES, TRANSFORMER_AXES]))
@settings(max_examples=40, deadline=None)
def test_schemes_are_all_factorisations_once(workers, axes):
    found = schemes(workers, axes, turns=(1,), checkpoints=False)
    assert len(set(found)) == len(found)
    assert all(scheme.workers == workers for scheme in found)
    brute = sum(
        a * b * (workers // (a * b)) == workers
        for a in range(1, workers + 1)
        for b in range(1, workers + 1)
        if workers % (a * b) == 0
    )
    assert len(found) == brute


@given(st.tuples(*[st.integers(1, 3)] * 4))
@settings(max_examples=30, deadline=None)
def test_groups_of_an_axis_cover_all_workers_and_meet_in_one_place(grid):
    scheme = Scheme(*grid)
    for axis in AXES:
        groups = {scheme.group(rank, (axis,)) for rank in range(scheme.workers)}
        assert sorted(rank for group in groups for rank in group) == list(range(scheme.workers))
        assert all(len(group) == getattr(scheme, axis) for group in groups)
    assert scheme.group(0, AXES) == tuple(range(scheme.workers))


CASES = {
    2: [
        ("gcn", {}),
        ("sage", {}),
        ("jknet", {}),
        ("gat", {}),
        ("graphormer-slim", {"layers": 2, "sequence_length": 16}),
        ("gcn", {"graphs": 40}),
        ("gt", {"layers": 1, "graphs": 40}),
    ],
    3: [  # 34 rows and 8 heads that three workers do not divide
        ("graphormer-slim", {"layers": 1, "attention": "dense"}),
        ("gt", {"layers": 1, "attention": "topk"}),
        ("gat", {}),
        ("graphormer-slim", {"layers": 1, "attention": "dense", "graphs": 20}),
    ],
    4: [("gcn", {}), ("gt", {"layers": 1, "sequence_length": 8})],
}


def alone(made: Task, scheme: Scheme, steps: int) -> tuple[list[float], int]:
    """(losses, kept bytes) of one worker, in this process."""
    training = Training(made, scheme, 0)
    taken = [training.step(measure=True) for _ in range(steps)]
    training.close()
    return [step.loss for step in taken], max(step.kept_bytes for step in taken)


@pytest.mark.parametrize("workers", list(CASES))
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_scheme_trains_as_one_worker(karate, workers, every):
    """Checkpoints only on two workers, and not in turns, where `every` is off."""
    turns = (1, 2) if workers == 2 or every else (1,)
    tasks = [task(karate, name, **change) for name, change in CASES[workers]]
    pairs = [
        (made, scheme)
        for made in tasks
        for scheme in schemes(workers, made.model.axes, turns=turns)
        if every or not scheme.checkpoint or (workers == 2 and scheme.accumulate == 1)
    ]
    expected = {id(made): alone(made, Scheme(), 4)[0] for made in tasks}
    axes: dict[int, set[str]] = {}
    for (made, scheme), one in zip(pairs, measure_pairs(pairs, rounds=1), strict=True):
        if one.failure:
            assert any(words in one.failure for words in ("allowed", "shares of", "set of graphs"))
            continue
        assert one.losses == pytest.approx(expected[id(made)], rel=1e-9), (made.model.name, scheme.name)
        wide = {axis for axis, size in zip(AXES, scheme.grid, strict=True) if size > 1}
        axes[id(made)] = axes.get(id(made), set()) | wide
    for made in tasks:
        alone_in_step = made.sequences == 1 and made.model.transformer and made.graphs is None
        missing = {"data"} if alone_in_step else set()
        missing |= {"partition"} if made.graphs is not None else set()
        assert axes[id(made)] == set(made.model.axes) - missing


def test_checkpoints_and_turns_keep_less(karate):
    made = task(karate, "graphormer-slim", layers=3, sequence_length=8)
    losses, kept = alone(made, Scheme(), 2)
    for scheme in (Scheme(accumulate=4), Scheme(checkpoint=True)):
        same, less = alone(made, scheme, 2)
        assert less < 0.5 * kept
        assert same == pytest.approx(losses, rel=1e-9)


def test_sequence_all_to_alls_carry_the_papers_formula(karate):
    """TorchGT, III-C: 4 S d / P values per worker before and after attention, of which (P-1)/P travel; the
    backward pass as many again.
    """
    workers, layers, hidden = 2, 2, 24
    graph = karate[0]
    made = task(karate, "graphormer-slim", layers=layers)
    halves = replace(made, sequence_length=17)
    one, data = measure_pairs([(made, Scheme(sequence=workers)), (halves, Scheme(data=workers))], rounds=1)
    swapped = 2 * layers * 4 * graph.num_vertices * hidden / workers * (workers - 1) / workers * workers
    assert one.sent_bytes - data.sent_bytes == 8 * swapped  # beside the gradients, which both add up


def test_closures_compute_what_the_whole_graph_would(karate):
    graph = karate[0]
    near = closure(graph, np.array([16]), 1)
    assert set(near) == {16, *graph.indices[graph.indptr[16] : graph.indptr[17]]}
    assert len(closure(graph, np.array([16]), 0)) == 1
    inside = induced(graph, near)
    assert inside.num_vertices == len(near)
    ends = {
        (int(near[a]), int(near[b]))
        for a in range(len(near))
        for b in inside.indices[slice(*inside.indptr[a : a + 2])]
    }
    assert ends == {
        (a, b) for a in near for b in near if b in graph.indices[graph.indptr[a] : graph.indptr[a + 1]]
    }
    pieces = [
        piece
        for rank in range(2)
        for piece in network_pieces(task(karate, "gcn"), Scheme(data=2, accumulate=2), rank, Balance())
    ]
    counted = np.concatenate([piece.vertices[piece.targets] for piece in pieces])
    assert np.array_equal(np.sort(counted), task(karate, "gcn").targets)  # every target once


def test_the_profiles_weights_reach_metis():
    graph = load_graph("rmat:10:8")
    edges, ones = graph.degrees.astype(float), np.ones(graph.num_vertices)
    for balance, even in (
        (Balance(0.0, 1.0), edges),
        (Balance(1.0, 0.0), ones),
        (Balance(10.0, 1.0), 10 + edges),
    ):
        parts = divide(graph, 4, balance, 1)
        sums = np.bincount(parts, weights=even)
        assert sums.max() / sums.mean() < 1.15
    shared = divide(graph, 2, Balance(1.0, 0.0, shares=(0.75, 0.25)), 1)
    assert np.bincount(shared)[0] == pytest.approx(0.75 * graph.num_vertices, rel=0.08)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
@settings(max_examples=50, deadline=None)
def test_balance_weights_are_positive_and_grow_with_the_degree(alpha, beta):
    weights = balance_weights(np.arange(100), Balance(alpha, beta))
    assert weights.min() >= 1 and weights.max() <= 1_000_000 and np.all(np.diff(weights) >= 0)


@pytest.mark.parametrize(
    ("name", "scheme", "words"),
    [
        ("gcn", Scheme(sequence=2), "not for gcn"),
        ("gt", Scheme(partition=2), "not for gt"),
        ("sgc", Scheme(data=2, checkpoint=True), "checkpoints: not for sgc"),
        ("graphormer-slim", Scheme(data=2), "2 shares of 1 sequence"),
    ],
)
def test_schemes_that_cannot_be_say_so(karate, name, scheme, words):
    with pytest.raises(InputError, match=words) as caught:
        check_scheme(task(karate, name), scheme)
        check_sequences(task(karate, name), scheme)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "bert"}, "allowed: gcn"),
        ({"name": "gcn", "layers": 0}, "layers: 0 given"),
        ({"name": "gt", "attention": "full"}, "allowed: sparse"),
        ({"name": "gt", "hidden": 100}, "need a multiple of 8"),
        ({"name": "gt", "topk": 99}, "topk: 99"),
    ],
)
def test_models_that_cannot_be_say_so(change, words):
    with pytest.raises(InputError, match=words):
        model_spec(**change)
