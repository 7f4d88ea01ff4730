"""Names, shapes and what is said when nothing of that name exists."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.graphs.csr import check_csr
from workloads.graphs.sources import catalogue


@given(st.integers(1, 200))
def test_a_star_joins_vertex_0_to_all_others(n: int) -> None:
    graph = load_graph(f"star:{n}")
    assert graph.degrees.tolist() == [n - 1] + [1] * (n - 1)
    assert graph.provenance.kind == "generated"


@given(st.integers(3, 200))
def test_a_ring_is_one_cycle(n: int) -> None:
    graph = load_graph(f"ring:{n}")
    assert (graph.degrees == 2).all()
    assert graph.indices[: graph.indptr[1]].tolist() == sorted({1, n - 1})


def test_rmat_is_simple_skewed_and_follows_its_seed() -> None:
    graph = load_graph("rmat:10:16", seed=3)
    check_csr((graph.indptr, graph.indices))
    assert graph.num_vertices == 1024
    assert 0.4 * 2 * 16 * 1024 < graph.num_edges < 2 * 16 * 1024
    assert graph.degrees.max() > 6 * graph.degrees.mean()
    assert load_graph("rmat:10:16", seed=4).digest != graph.digest
    assert load_graph("rmat:10", seed=3).digest == graph.digest


def test_random_shapes_are_the_same_on_every_machine() -> None:
    # Written down once: the counter-based generator must give these wherever and whenever it runs.
    assert load_graph("rmat:8:8", seed=1).digest[:16] == "c817ee769f49a27a"
    assert load_graph("yelp", scale=0.002, seed=1).digest[:16] == "d527bec2703a55c0"


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("karate", nx.karate_club_graph()),
        ("les-miserables", nx.les_miserables_graph()),
        ("davis", nx.davis_southern_women_graph()),
        ("florentine", nx.florentine_families_graph()),
    ],
)
def test_networkx_graphs_keep_their_vertices_and_edges(name: str, real: nx.Graph) -> None:
    graph = load_graph(name)
    assert graph.num_vertices == real.number_of_nodes()
    assert graph.num_edges == 2 * real.number_of_edges()
    assert sorted(graph.degrees.tolist()) == sorted(degree for _, degree in real.degree())
    assert graph.provenance.kind == "real"


def test_karate_has_its_two_clubs_as_labels() -> None:
    labels = load_graph("karate").labels
    assert labels is not None and np.bincount(labels).tolist() == [17, 17]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("redit", "did you mean reddit"),
        ("debain", "did you mean debian"),
        ("/no/such/file", "no such name, file or folder"),
        ("snap:/no/such/file", "no such file"),
        ("snap:" + "x" * 5000, "no such file"),
        ("snap:a\0b", "no such file"),
        ("snap:", "cannot be read"),
        ("ogb:", "edge.csv.gz"),
        ("x" * 5000, "no such name"),
        ("", "allowed are debian"),
        ("star:", "1..100000000"),
        ("star:-3", "1..100000000"),
        ("star:1e3", "1..100000000"),
        ("star:99999999999", "1..100000000"),
        ("ring:2", "3..100000000"),
        ("rmat:0", "1..26"),
        ("rmat:20:99999", "edge factor"),
        ("rmat:5:", "edge factor"),
        ("reddit:7", "no such name"),
        ("a\0b", "no such name"),
    ],
)
def test_a_source_that_does_not_exist_says_what_is_allowed(source: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_graph(source)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_gives_a_graph_or_one_line(source: str) -> None:
    if source.startswith(("star:", "ring:", "rmat:")) or Path(source.replace("\0", "")).exists():
        return
    try:
        load_graph(source, scale=1.0)
    except InputError as error:
        assert "\n" not in str(error)


def test_only_stand_ins_are_scaled_and_seeds_are_not_negative() -> None:
    with pytest.raises(InputError, match="scale"):
        load_graph("karate", scale=0.5)
    with pytest.raises(InputError, match="seed"):
        load_graph("rmat:5", seed=-1)


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("workloads.graphs.builtin.star", fail)
    with pytest.raises(InputError, match="more memory"):
        load_graph("star:5")


def test_a_graph_without_edges_loads() -> None:
    graph = load_graph("star:1")
    assert (graph.num_vertices, graph.num_edges) == (1, 0)


def test_the_catalogue_calls_every_stand_in_a_stand_in() -> None:
    kinds = {name: kind for name, kind, _ in catalogue()}
    assert {name for name, kind in kinds.items() if kind == "synthetic stand-in"} == {
        "reddit", "yelp", "ogbn-products", "amazon"
    }  # fmt: skip
