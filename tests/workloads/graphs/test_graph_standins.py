"""The synthetic stand-ins: published shape, heavy tail, homophily, determinism, and what is said of them."""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.graphs.csr import check_csr
from workloads.graphs.standins import (
    TABLE,
    expected_degrees,
    exponent_for_share,
    least_degree,
    shapes,
    stand_in,
)
from workloads.graphs.stats import top_share


def homophily(graph: Graph) -> float:
    assert graph.labels is not None
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    return float((graph.labels[rows] == graph.labels[graph.indices]).mean())


def test_every_value_of_the_table_has_a_source() -> None:
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    for name, row in table.items():
        if name != "rules":
            sourced = set(row) - {"sources", "multi_label"} | {"homophily"}
            assert sourced == set(row["sources"]), name


@pytest.mark.parametrize("name", ["reddit", "yelp", "ogbn-products", "amazon"])
def test_a_scaled_stand_in_keeps_mean_degree_and_says_what_it_is(name: str) -> None:
    shape = shapes()[name]
    graph = load_graph(name, scale=0.01)
    check_csr((graph.indptr, graph.indices))
    assert graph.num_vertices == round(shape.vertices * 0.01)
    assert graph.num_edges / graph.num_vertices == pytest.approx(
        shape.directed_edges / shape.vertices, rel=0.01
    )
    assert "synthetic stand-in" in graph.name and graph.provenance.kind == "synthetic stand-in"
    assert (graph.feature_width, graph.num_classes) == (shape.feature_width, shape.classes)
    assert graph.features is None and graph.split is not None
    assert np.bincount(graph.split, minlength=3) / graph.num_vertices == pytest.approx(shape.split, abs=0.002)


def test_edges_and_homophily_are_the_published_ones_where_the_blocks_can_hold_them() -> None:
    graph = stand_in("ogbn-products", scale=0.02)
    assert abs(graph.num_edges - graph.num_vertices * 123_718_280 / 2_449_029) < 3
    assert homophily(graph) == pytest.approx(0.808, abs=0.001)
    assert "mean degree" not in graph.provenance.notes


def test_a_scale_too_small_for_the_mean_degree_says_so() -> None:
    graph = stand_in("reddit", scale=0.001)
    assert graph.num_edges / graph.num_vertices < 100
    assert "instead of 492.0" in graph.provenance.notes


def test_the_tail_is_heavy() -> None:
    degrees = stand_in("yelp", scale=0.05).degrees
    assert degrees.max() > 30 * np.median(degrees)
    assert top_share(degrees) > 0.5


def test_the_seed_alone_decides() -> None:
    one, same, other = (stand_in("amazon", scale=0.001, seed=seed).digest for seed in (1, 1, 2))
    assert one == same != other


def test_features_are_made_on_demand_and_tell_the_blocks_apart() -> None:
    bare, full = stand_in("reddit", scale=0.001), stand_in("reddit", scale=0.001, features=True)
    assert bare.features is None and full.features is not None and full.labels is not None
    assert full.features.shape == (233, 602) and full.features.dtype == np.float32
    assert bare.indices.tolist() == full.indices.tolist() and bare.digest != full.digest
    assert full.features.std() == pytest.approx(1, abs=0.05)
    centres = np.stack([full.features[full.labels == block].mean(axis=0) for block in np.unique(full.labels)])
    nearest = np.argmin(((full.features[:, None] - centres) ** 2).sum(axis=2), axis=1)
    assert (nearest == full.labels).mean() > 0.99


@pytest.mark.parametrize("scale", [0, -1, 1.5, 1e-9, math.nan, math.inf])
def test_an_impossible_scale_is_one_line(scale: float) -> None:
    with pytest.raises(InputError, match="scale"):
        load_graph("reddit", scale=scale)


def test_the_power_law_has_the_asked_mean_and_share() -> None:
    low = least_degree(2.5, 50, 11_000)
    sample = expected_degrees(shapes()["ogbn-products"], 200_000, 50)
    assert sample.mean() == pytest.approx(50, rel=0.01) and sample.min() == pytest.approx(low, abs=1.5)
    exponent = exponent_for_share(0.8, 492, 10_706)
    degrees = expected_degrees(shapes()["reddit"], 232_965, 114_615_892 / 232_965)
    assert 1.5 < exponent < 1.75
    assert top_share(degrees) == pytest.approx(0.8, abs=0.01)
    assert degrees.mean() == pytest.approx(492, rel=0.01)


def test_a_saturated_block_model_stops_and_gives_what_fits() -> None:
    weights, block = np.ones(6, np.int64), np.array([0, 0, 0, 1, 1, 1], np.int32)
    indptr, indices, inside = _kernels.block_model(weights, block, 2, 1000, 900, 1)
    assert len(indices) == 30 and inside == 6 and indptr[-1] == 30


def test_an_interrupt_or_error_in_the_progress_call_comes_out() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stand_in("yelp", scale=0.01, progress=stop)


@pytest.mark.slow
def test_full_reddit_has_the_published_size() -> None:
    graph = stand_in("reddit")
    assert graph.num_vertices == 232_965
    assert graph.num_edges == pytest.approx(114_615_892, rel=0.001)
    assert homophily(graph) == pytest.approx(0.756, abs=0.001)
