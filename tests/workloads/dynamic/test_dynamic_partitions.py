"""LightMetis and what it is compared with: frequencies, kept originals, rows that travel, all by brute
force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs.dynamic import load_dynamic_graph
from workloads.partition.dynamic import METHODS, partition_dynamic, travelling_rows
from workloads.partition.light_metis import frequent_snapshots, merge_weighted, usage_frequency


@given(st.integers(1, 14), st.integers(1, 14), st.integers(1, 6))
def test_frequency_counts_windows_and_lives(snapshots, window, lifetime):
    window = min(window, snapshots)
    counted = np.zeros(snapshots, dtype=int)
    for start in range(snapshots - window + 1):
        for t in range(start, start + window):
            for original in range(max(0, t - lifetime + 1), t + 1):
                counted[original] += 1
    assert usage_frequency(snapshots, window, lifetime).tolist() == counted.tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.floats(0.01, 1))
def test_kept_originals_are_the_most_used(frequency, keep):
    frequency = np.array(frequency)
    kept = frequent_snapshots(frequency, keep)
    assert (
        len(set(kept.tolist()))
        == len(kept)
        == min(len(frequency), max(10, int(np.ceil(keep * len(frequency)))))
    )
    left = np.setdiff1d(np.arange(len(frequency)), kept)
    assert not len(left) or frequency[kept].min() >= frequency[left].max()


def test_merged_weights_add_up():
    graph = load_dynamic_graph("contacts:60:15")
    frequency = usage_frequency(15, graph.window, graph.lifetime)
    kept = np.array([3, 7, 8])
    dense = np.zeros((60, 60), dtype=int)
    for i in kept:
        for a, b in graph.arrivals[i]:
            dense[a, b] += frequency[i]
            dense[b, a] += frequency[i]
    assert np.array_equal(merge_weighted(graph, kept, frequency).toarray(), dense)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", ["traffic:60:20", "social:80:15"])
def test_every_method_places_all_and_counts_what_travels(source, method):
    graph = load_dynamic_graph(source)
    made = partition_dynamic(graph, 3, method=method)
    assert made.digest == partition_dynamic(graph, 3, method=method).digest
    assert np.unique(made.spatial).tolist() == [0, 1, 2]
    if method in ("light-metis", "metis-union", "metis-weighted", "random"):
        assert made.fixed and np.bincount(made.parts).max() <= 1.2 * graph.num_vertices / 3
    n, told = graph.num_vertices, travelling_rows(graph, made)
    neighbours = redistributed = states = 0
    for start in range(graph.num_windows):
        for t in range(start, start + graph.window):
            needed = set()
            for v in range(n):
                reader = made.spatial[t][v]
                for u in (v, *graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]]):
                    if made.temporal[t][u] != reader:
                        needed.add((reader, u))
            neighbours += len(needed)
            redistributed += sum(made.spatial[t][v] != made.temporal[t][v] for v in range(n))
            if t > start:
                states += sum(made.temporal[t][v] != made.temporal[t - 1][v] for v in range(n))
    assert (told["neighbour_rows"], told["redistributed_rows"], told["state_rows"]) == (
        neighbours, redistributed, states,
    )  # fmt: skip


@pytest.mark.parametrize("source", ["contacts:1000:40", "social:1000:40"])
def test_light_metis_moves_no_more_than_the_union_and_far_less_than_chance(source):
    graph = load_dynamic_graph(source)
    rows = {m: travelling_rows(graph, partition_dynamic(graph, 4, method=m))["rows"]
            for m in ("light-metis", "metis-union", "metis-snapshots", "snapshot", "random")}  # fmt: skip
    assert rows["light-metis"] <= 1.15 * rows["metis-union"]
    assert rows["light-metis"] < 0.5 * min(rows["random"], rows["snapshot"])
    assert rows["light-metis"] < rows["metis-snapshots"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "best"}, "partition method"),
        ({"workers": 0}, "workers: 0"),
        ({"workers": 61}, "1 to 60"),
        ({"keep": 0.0}, "keep: 0"),
        ({"keep": float("nan")}, "keep"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_partitions_are_one_line(given, told):
    graph = load_dynamic_graph("traffic:60:20")
    with pytest.raises(InputError, match=told):
        partition_dynamic(graph, **{"workers": 3, **given})


def test_a_small_graph_is_split_in_this_process_and_alike(monkeypatch):
    """A fork would take longer than METIS; the answer must not depend on where METIS runs."""
    from workloads.partition import metis

    graph = load_dynamic_graph("social:400:20")
    forks = []
    real = metis._in_child
    monkeypatch.setattr(metis, "_in_child", lambda split, n: forks.append(n) or real(split, n))
    here = {name: partition_dynamic(graph, 4, method=name) for name in ("light-metis", "metis-union")}
    assert not forks
    monkeypatch.setattr(metis, "_SMALL", 0)
    for name, made in here.items():
        assert partition_dynamic(graph, 4, method=name).digest == made.digest
    assert len(forks) == 2
