"""Partitions: every vertex on a worker, no worker empty, what is reported, the cache, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.plan.drawing import graph_of
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.partition import metis, partition_graph
from workloads.partition.make import fill_empty, vertex_weights


@st.composite
def drawn_graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(2, 40))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=120))
    first = draw(st.integers(1, n - 1))
    return graph_of(n, [(0, first), *edges])


@settings(max_examples=80, deadline=None)
@given(
    graph=drawn_graphs(),
    share=st.floats(0, 1),
    recipe=st.fixed_dictionaries(
        {
            "method": st.sampled_from(["metis", "random", "contiguous"]),
            "balance": st.sampled_from(["unit", "degree", "feature"]),
            "seed": st.integers(0, 2**31 - 1),
        }
    ),
)
def test_every_worker_has_a_vertex_and_the_cut_is_the_cut(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, share: float, recipe: dict[str, Any]
) -> None:
    workers = 1 + round(share * (graph.num_vertices - 1))
    cache = tmp_path_factory.mktemp("cache")
    made = partition_graph(graph, workers, cache=cache, **recipe)
    assert made.parts.shape == (graph.num_vertices,)
    assert set(np.unique(made.parts)) == set(range(workers))
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    cut = made.parts[rows] != made.parts[graph.indices]
    assert made.edge_cut * 2 == cut.sum()
    stats = made.stats(graph)
    assert stats["boundary_vertices"] == len(np.unique(rows[cut]))
    sends = {(int(u), int(made.parts[v])) for u, v in zip(rows[cut], graph.indices[cut], strict=True)}
    assert stats["host_sends"] == len(sends)
    assert stats["isolated_workers"] == workers - len(set(made.parts[rows[cut]].tolist()))
    again = partition_graph(graph, workers, cache=cache, **recipe)
    assert again.digest == made.digest


def test_metis_finds_the_two_cliques(tmp_path: Path) -> None:
    clique = [(a, b) for a in range(8) for b in range(a)]
    graph = graph_of(16, [*clique, *((a + 8, b + 8) for a, b in clique), (0, 8)])
    made = partition_graph(graph, 2, cache=tmp_path)
    assert made.edge_cut == 1
    assert made.stats(graph)["boundary_vertices"] == 2
    assert made.stats(graph)["replication_factor"] == 1.0


def test_as_many_workers_as_vertices(tmp_path: Path) -> None:
    graph = load_graph("ring:9")
    made = partition_graph(graph, 9, cache=tmp_path)
    assert sorted(made.parts.tolist()) == list(range(9))
    assert made.edge_cut == 9


def test_a_worker_without_cross_edges_is_reported(tmp_path: Path) -> None:
    graph = graph_of(6, [(0, 2), (1, 3), (4, 5)])
    made = partition_graph(graph, 3, method="contiguous", cache=tmp_path)
    assert made.parts.tolist() == [0, 0, 1, 1, 2, 2]
    assert made.stats(graph)["isolated_workers"] == 1


def test_balance_evens_out_what_it_names(tmp_path: Path) -> None:
    graph = load_graph("debian")
    even = {b: partition_graph(graph, 8, balance=b, cache=tmp_path).stats(graph) for b in ("unit", "degree")}
    assert even["unit"]["balance_vertices"] < 1.05
    assert even["degree"]["balance_edges"] < even["unit"]["balance_edges"]


def test_feature_weight_counts_the_transform_and_the_neighbours() -> None:
    graph = replace(graph_of(3, [(0, 1), (0, 2)]), feature_width=100)
    weights = vertex_weights(graph, "feature")
    assert weights is not None
    assert weights.tolist() == [102, 101, 101]
    assert vertex_weights(graph, "unit") is None


def test_empty_workers_take_from_the_largest() -> None:
    parts = np.array([0, 0, 0, 0, 2, 2], dtype=np.int32)
    filled = fill_empty(parts, 4, np.array([5, 1, 5, 5, 2, 2]))
    assert filled.tolist() == [3, 1, 0, 0, 2, 2]
    assert parts.tolist() == [0, 0, 0, 0, 2, 2]


def test_thinned_metis_finds_the_same_cliques() -> None:
    clique = [(a, b) for a in range(60) for b in range(a)]
    graph = graph_of(120, [*clique, *((a + 60, b + 60) for a, b in clique), (0, 60)])
    labels = metis.metis_split(graph.indptr, graph.indices, 2, most_edges=2000)
    assert len(set(labels[:60].tolist())) == len(set(labels[60:].tolist())) == 1
    assert labels[0] != labels[60]


def test_a_child_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(metis, "_part_graph", no_memory)
    graph = load_graph("ring:10")
    with pytest.raises(InputError, match="METIS"):
        metis.metis_split(graph.indptr, graph.indices, 2)


def test_metis_does_not_speak_on_our_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    graph = load_graph("karate")
    for parts in (7, 8, 33, 34):
        labels = metis.metis_split(graph.indptr, graph.indices, parts, weights=np.arange(1, 35) ** 3)
        assert labels.min() >= 0 and labels.max() < parts
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY junk", b"not an array"])
def test_a_damaged_cache_entry_is_made_again(tmp_path: Path, content: bytes) -> None:
    graph = load_graph("karate")
    made = partition_graph(graph, 4, cache=tmp_path)
    (file,) = (tmp_path / "partitions").glob("*.npy")
    file.write_bytes(content)
    assert partition_graph(graph, 4, cache=tmp_path).digest == made.digest
    np.save(file, np.full(graph.num_vertices, 9, dtype=np.int32))
    assert partition_graph(graph, 4, cache=tmp_path).digest == made.digest


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "partitions").write_text("a file where the folder should be")
    assert partition_graph(load_graph("karate"), 4, cache=tmp_path).k == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"workers": 35}, "35 given, but graph karate has only 34 vertices"),
        ({"workers": 0}, "allowed: 1 to 1024"),
        ({"workers": 10**9}, "allowed: 1 to 1024"),
        ({"workers": 4, "seed": -1}, "seed: -1 given"),
        ({"workers": 4, "method": "magic"}, "allowed: metis, random, contiguous"),
        ({"workers": 4, "balance": "magic"}, "allowed: unit, degree, feature"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        partition_graph(load_graph("karate"), cache=tmp_path, **arguments)


def test_a_graph_without_edges(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no edges"):
        partition_graph(graph_of(5, []), 2, cache=tmp_path)
