"""Permutation, structural encoding, reformation, conditions and tuner, each by itself."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import Provenance, load_graph
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import make_graph
from workloads.training.data import training_data
from workloads.training.transformer.conditions import check_conditions
from workloads.training.transformer.graph_set import all_pairs, families, with_virtual
from workloads.training.transformer.layout import PairLayout, from_pairs, permuted, topology
from workloads.training.transformer.measure import reform_error
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.order import make_order, restored
from workloads.training.transformer.prepare import laplacian_places, prepare_graph
from workloads.training.transformer.records import restored_scores
from workloads.training.transformer.reform import cluster_densities, density, reformed
from workloads.training.transformer.structure import (
    FIRST_EDGE,
    OUTSIDE,
    SELF,
    TWO,
    UNREACHABLE,
    VIRTUAL,
    common_neighbours,
    distance_classes,
)
from workloads.training.transformer.tuner import LADDER, Tuner


def graph_of(drawn: nx.Graph):
    ends = np.array(list(drawn.edges), dtype=np.int32).reshape(-1, 2)
    csr = build_csr(drawn.number_of_nodes(), ends[:, 0], ends[:, 1])
    return make_graph("drawn", csr, Provenance("generated", "networkx"))


# Permutation


@pytest.mark.parametrize("kind", ["metis", "random", "natural"])
def test_everything_moves_together_and_comes_back(debian_part, kind):
    options = TransformerOptions(order=kind, clusters=4, sub_block=8, model="gt")
    data = training_data(debian_part, 1)
    prepared = prepare_graph(debian_part, data, options, 2, torch.device("cpu"))
    order = prepared.order.order
    assert np.array_equal(np.sort(order), np.arange(400))
    places = laplacian_places(debian_part)
    for name, original in (
        ("features", data.features),
        ("labels", data.labels),
        ("split", data.split),
        ("degrees", debian_part.degrees),
        ("places", places),
    ):
        tokens = np.concatenate([getattr(job.train[0], name) for job in prepared.jobs])
        assert np.array_equal(tokens, original[order]), name
        assert np.array_equal(restored(tokens, order), original), name
    # Each pair keeps the class that it has by its vertices' own numbers.
    plain, moved = topology(debian_part), prepared.jobs[0].train[0].topology
    known = {(r, c): k for r, c, k in zip(*plain.ends(), plain.classes, strict=True)}
    row, column = moved.ends()
    found = {(order[r], order[c]): k for r, c, k in zip(row, column, moved.classes, strict=True)}
    assert found == known


def shuffled_labels(prepared) -> None:
    tokens = prepared.jobs[0].train[0]
    random = np.random.default_rng(1)
    object.__setattr__(tokens, "labels", random.permutation(tokens.labels))


def shuffled_classes(prepared) -> None:
    layout = prepared.jobs[0].train[0].topology
    object.__setattr__(layout, "classes", np.roll(layout.classes, 7))


def test_labels_permuted_differently_show_in_the_metrics(digits, run_threads):
    """Scores are put back in the graph's order and held against its own labels."""
    options = {"epochs": 15, "precision": "float32", "lr": 0.005, "eval_every": 15, "interleave": "never"}
    found = {}
    for name, change in (("right", None), ("wrong", shuffled_labels)):
        prepared, [training] = run_threads(digits, 1, change, **options)

        run = SimpleNamespace(weights={"predictions": [training.predictions()]})
        _, scores = restored_scores(run, prepared, training_data(digits, 1))
        found[name] = scores["last_train_score"]
        inside = training.rows[-1]["train_score"]
        assert (abs(inside - found[name]) < 1e-9) == (name == "right")
    assert found["right"] > 0.9 and found["wrong"] < 0.5


def test_classes_permuted_differently_show_in_the_loss(karate, run_threads):
    """The order of tokens must not matter; with B in another order it does."""
    common = {"epochs": 4, "lr": 0.05, "beta": 0.0, "interleave": "never"}
    _, [natural] = run_threads(karate, 1, order="natural", **common)
    _, [metis] = run_threads(karate, 1, order="metis", **common)
    _, [wrong] = run_threads(karate, 1, shuffled_classes, order="metis", **common)
    own, same, other = ([row["loss"] for row in t.rows] for t in (natural, metis, wrong))
    np.testing.assert_allclose(same, own, rtol=1e-9)
    assert abs(other[-1] - own[-1]) > 1e-4


# Structural encoding


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.floats(0, 1), st.integers(0, 10**6))
def test_common_neighbours_are_those_of_the_squared_matrix(n, share, seed):
    graph = graph_of(nx.gnp_random_graph(n, share, seed=seed))
    matrix = np.zeros((n, n), dtype=np.int64)
    row = np.repeat(np.arange(n), graph.degrees)
    matrix[row, graph.indices] = 1
    assert np.array_equal(common_neighbours(graph), (matrix @ matrix)[row, graph.indices])


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 30), st.floats(0, 0.4), st.integers(0, 10**6))
def test_distance_classes_are_shortest_paths(n, share, seed):
    drawn = nx.gnp_random_graph(n, share, seed=seed)
    layout = topology(graph_of(drawn))
    classes = distance_classes(layout.indptr, layout.indices, layout.classes)
    lengths = dict(nx.all_pairs_shortest_path_length(drawn))
    for a in range(n):
        for b in range(n):
            steps = lengths[a].get(b)
            found = classes[a, b]
            if steps is None:
                assert found == UNREACHABLE
            elif steps == 0:
                assert found == SELF
            elif steps == 1:
                assert FIRST_EDGE <= found < TWO
            else:
                assert found == TWO + min(steps, 5) - 2


def test_the_layout_with_b_is_linear_in_edges():
    sizes = {n: topology(load_graph(f"planted:{n}")) for n in (500, 4000)}
    for n, layout in sizes.items():
        assert layout.nbytes == 8 * (n + 1) + 5 * layout.pairs
    assert OUTSIDE not in sizes[500].classes


def test_edge_kinds_given_with_the_data_are_kept():
    graph = load_graph("ring:10")
    kinds = np.arange(20) % 4
    layout = topology(graph, kinds)
    edges = layout.classes[layout.classes != SELF]
    assert np.array_equal(np.sort(edges), np.sort(FIRST_EDGE + kinds))


def test_a_virtual_vertex_reaches_all_of_its_graph():
    layout = with_virtual(load_graph("ring:6"))
    row, column = layout.ends()
    virtual = (row == 6) ^ (column == 6)
    assert virtual.sum() == 12 and set(layout.classes[virtual]) == {VIRTUAL}
    every = all_pairs(layout)
    assert every.pairs == 49 and np.count_nonzero(every.classes == VIRTUAL) == 12
    assert every.classes.reshape(7, 7)[0, 3] == TWO + 1  # three steps around the ring, not two over the top


# Reformation


def blocks(graph, k: int = 4, seed: int = 1) -> tuple[PairLayout, np.ndarray]:
    order = make_order(graph, "metis", k, seed)
    return permuted(topology(graph), order.order), order.starts


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8), st.sampled_from([8, 16]), st.floats(0, 20))
def test_reformation_moves_pairs_of_sparse_clusters_alone(seed, k, side, multiple):
    graph = graph_of(nx.gnp_random_graph(120, 0.05, seed=seed))
    layout, starts = blocks(graph, k)
    beta = multiple * density(layout)
    result = reformed(layout, starts, side=side, beta=beta, least=4)
    after = result.as_pairs()
    assert after.pairs == layout.pairs
    assert np.array_equal(np.bincount(after.classes), np.bincount(layout.classes))
    before_share, after_share = (cluster_densities(part, starts) for part in (layout, after))
    np.testing.assert_allclose(after_share, before_share)  # a pair never leaves its cluster
    row, column = after.ends()
    assert len(np.unique(row * 120 + column)) == after.pairs
    back = {(r, c): kind for r, c, kind in zip(row, column, after.classes, strict=True)}
    assert all(back[c, r] == kind for (r, c), kind in back.items())
    # What is dense enough, and the diagonal, keeps its places.
    own_row, own_column = layout.ends()
    a, b = (np.searchsorted(starts, end, side="right") - 1 for end in (own_row, own_column))
    stays = (a == b) | (before_share[a, b] >= beta)
    assert all((r, c) in back for r, c in zip(own_row[stays], own_column[stays], strict=True))
    # Where a pair stays its class does too.
    known = {(r, c): kind for r, c, kind in zip(own_row, own_column, layout.classes, strict=True)}
    assert all(back[place] == kind for place, kind in known.items() if place in back)
    kept = sum((r, c) in back for r, c in zip(own_row, own_column, strict=True))
    assert layout.pairs - kept <= result.moved <= layout.pairs


def test_a_reformed_cluster_fills_as_few_tiles_as_hold_it():
    """Two clusters of 32 joined by 40 scattered pairs: in tiles of 8 x 8 one full tile's worth."""
    random = np.random.default_rng(1)
    spots = random.choice(32 * 32, 40, replace=False)
    row, column = spots // 32, 32 + spots % 32
    own = np.arange(64)
    ends = np.concatenate([row, column, own]), np.concatenate([column, row, own])
    layout = from_pairs(64, 64, ends, np.full(144, 2, dtype=np.uint8))
    starts = np.array([0, 32, 64])
    before = reformed(layout, starts, side=8, beta=0.0, least=10)
    after = reformed(layout, starts, side=8, beta=1.0, least=10)
    assert before.moved == 0 and after.moved > 0
    off = [
        int(c)
        for block in range(4)
        for c in after.tile_columns[after.tile_ptr[block] : after.tile_ptr[block + 1]]
        if c >= 4
    ]
    assert len(off) == 1 and after.rest.pairs == 64  # all 40 in one tile, the diagonal one by one
    changed, everywhere = reform_error(layout, after, 8)
    assert 0 < everywhere <= changed < 2
    assert reform_error(layout, before, 8) == (0.0, 0.0)


def test_errors_of_every_step_are_recorded(debian_part, run_threads):
    prepared, [training] = run_threads(debian_part, 1, epochs=1)
    rows = prepared.reformations
    assert [row["beta_multiple"] for row in rows] == list(LADDER)
    assert rows[0]["moved_pairs"] == 0 and rows[0]["error"] == 0.0
    assert rows[-1]["moved_pairs"] > 0 and rows[-1]["error"] > 0
    moved = [row["moved_pairs"] for row in rows]
    assert moved == sorted(moved)
    assert 0 < rows[-1]["reformed_share"] <= 1 and rows[0]["reformed_share"] == 0
    assert training.rows[0]["moved_pairs"] == rows[1]["moved_pairs"]  # training starts at beta_G
    assert set(prepared.costs) == {
        "structure_s",
        "order_and_tiling_s",
        "conditions_s",
        "reformation_errors_s",
    }


# Conditions


@pytest.mark.parametrize(
    ("drawn", "layers", "held"),
    [
        (nx.complete_graph(6), 1, (True, True, True)),
        (nx.complete_bipartite_graph(5, 5), 2, (True, True, True)),
        (nx.complete_bipartite_graph(5, 5), 1, (True, True, False)),
        (nx.path_graph(5), 4, (True, False, True)),
        (nx.path_graph(5), 3, (True, False, False)),
        (nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(4)), 9, (True, False, False)),
    ],
)
def test_the_three_conditions(drawn, layers, held):
    found = check_conditions(topology(graph_of(drawn)), layers)
    assert (found.self_attention, found.hamiltonian_path, found.all_pairs_reach) == held
    assert found.hold == all(held)


def test_without_self_loops_the_first_condition_fails():
    layout = topology(load_graph("ring:5"))
    row, column = layout.ends()
    edges = row != column
    bare = from_pairs(5, 5, (row[edges], column[edges]), layout.classes[edges])
    assert not check_conditions(bare, 4).self_attention


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.floats(0.02, 0.5), st.integers(0, 10**6), st.integers(1, 8))
def test_reach_is_the_diameter(n, share, seed, layers):
    drawn = nx.gnp_random_graph(n, share, seed=seed)
    right = nx.is_connected(drawn) and nx.diameter(drawn) <= layers
    assert check_conditions(topology(graph_of(drawn)), layers).all_pairs_reach == right


@pytest.mark.parametrize(
    ("interleave", "every", "share"), [("auto", 2, 3), ("never", 2, 0), ("always", 1, 6), ("auto", 6, 1)]
)
def test_dense_layers_are_interleaved_where_conditions_fail(karate, run_threads, interleave, every, share):
    prepared, [training] = run_threads(karate, 1, epochs=6, interleave=interleave, dense_every=every)
    assert not prepared.conditions.hold
    assert (training.dense_layers, training.layers_run) == (share, 24)
    assert sum(row["dense_layers"] for row in training.rows) == share


def test_no_dense_layer_where_the_conditions_hold(run_threads):
    drawn = graph_of(nx.complete_graph(60))
    labels = (np.arange(60) % 3).astype(np.int32)
    graph = make_graph("k60", (drawn.indptr, drawn.indices), drawn.provenance, num_classes=3, labels=labels)
    prepared, [training] = run_threads(graph, 1)
    assert prepared.conditions.hold and not prepared.dense and training.dense_layers == 0


# Tuner


def test_beta_rises_while_the_loss_falls_and_returns_when_it_stalls():
    tuner = Tuner(gap=2, smoothing=0.0)
    seen = []
    for loss in (100, 99, 97, 94, 90, 85, 79, 72, 72, 72, 72, 72):
        seen.append(tuner.multiple)
        tuner.observe(loss, 1.0)
    assert seen[0] == 1.0 and max(seen) == 10.0
    assert tuner.multiple < 10.0
    faster = Tuner(gap=2, smoothing=0.0)
    rates = [faster.observe(loss, seconds) for loss, seconds in ((10, 1), (9, 1), (8, 0.5))]
    assert rates == pytest.approx([0.0, 0.1, 2 / 9])  # a share of the loss per second


def test_beta_stays_high_while_the_loss_falls_by_equal_shares_and_ends_at_the_true_layout():
    tuner = Tuner()
    seen = []
    for epoch in range(100):
        seen.append(tuner.multiple)
        tuner.observe(0.05 + 2 * 0.93**epoch, 1.0)  # levels off at 0.05
    assert np.mean(np.array(seen[10:30]) == 10.0) > 0.8
    assert seen[-10:] == [0.0] * 10


def test_a_fixed_beta_stays():
    tuner = Tuner(fixed=7.0, gap=1, smoothing=0.0)
    for loss in range(20, 0, -1):
        tuner.observe(loss, 1.0)
    assert tuner.multiple == 7.0


def test_a_tuner_goes_on_where_another_stopped():
    whole, first, second = Tuner(gap=2), Tuner(gap=2), Tuner(gap=2)
    losses = np.random.default_rng(1).random(20)
    for loss in losses:
        whole.observe(loss, 1.0)
    for loss in losses[:11]:
        first.observe(loss, 1.0)
    second.restore(first.state())
    for loss in losses[11:]:
        second.observe(loss, 1.0)
    assert second.state() == whole.state()


# Sets of graphs


def test_families_have_their_degree_in_common():
    graphs = families("families:80", 1)
    degrees = [graph.num_edges / graph.num_vertices for graph in graphs.graphs]
    means = [
        np.mean([d for d, label in zip(degrees, graphs.labels, strict=True) if label == kind])
        for kind in range(4)
    ]
    assert max(means) < 1.25 * min(means)
    assert families("families:80", 1).digest == graphs.digest != families("families:80", 2).digest
    assert [int((graphs.split == part).sum()) for part in range(3)] == [48, 16, 16]


@pytest.mark.parametrize("text", ["", "x", "5", "-20", "1e3", "999999999", "٣٣"])
def test_a_wrong_count_of_graphs_is_one_line(text):
    with pytest.raises(InputError, match=r"whole number 20\.\.100000"):
        families(f"families:{text}", 1)
