"""Modelled compute times: the epoch's phases, the roofline's arithmetic, and measured tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import compute
from workloads.background import flow_size_cdf, mean_flow_bytes
from workloads.compute import (
    Device,
    allreduce_phase,
    compute_table,
    count_work,
    load_device,
    propagation_widths,
)
from workloads.compute_table import load_compute_table, measured_phases
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.partition import Partition, partition_graph


@dataclass(frozen=True)
class Model:
    layers: int = 4
    hidden: int = 256
    use_pp: bool = True


# One flop and one byte per nanosecond: times equal whichever of the two is larger.
SLOW = Device("slow", "test device", 1e9, 1e9, "made up")


@pytest.fixture
def split(tmp_path: Path) -> tuple[Graph, Partition]:
    graph = replace(load_graph("karate"), feature_width=11)
    return graph, partition_graph(graph, 4, method="contiguous", cache=tmp_path)


def naive_counts(graph: Graph, parts: np.ndarray, workers: int) -> dict[str, list[int]]:
    counts = {name: [0] * workers for name in ("vertices", "boundary", "local_edges", "cross_edges", "halo")}
    halo: list[set[int]] = [set() for _ in range(workers)]
    for vertex in range(graph.num_vertices):
        own = parts[vertex]
        counts["vertices"][own] += 1
        others = graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]]
        crossing = [int(other) for other in others if parts[other] != own]
        counts["local_edges"][own] += len(others) - len(crossing)
        counts["cross_edges"][own] += len(crossing)
        counts["boundary"][own] += bool(crossing)
        halo[own] |= set(crossing)
    counts["halo"] = [len(one) for one in halo]
    return counts


@pytest.mark.parametrize(("edges", "cells"), [(4_000_000, 32_000_000), (7, 32_000_000), (50, 12), (1, 1)])
def test_counts_equal_a_plain_loop_whatever_the_chunks(
    split: tuple[Graph, Partition], monkeypatch: pytest.MonkeyPatch, edges: int, cells: int
) -> None:
    graph, partition = split
    monkeypatch.setattr(compute, "CHUNK_EDGES", edges)
    monkeypatch.setattr(compute, "CHUNK_CELLS", cells)
    counts = count_work(graph, partition)
    for name, expected in naive_counts(graph, partition.parts, 4).items():
        assert getattr(counts, name).tolist() == expected, name


def test_isolated_vertices_and_hubs_are_counted(tmp_path: Path) -> None:
    graph = load_graph("star:50")
    partition = partition_graph(graph, 5, method="random", seed=3, cache=tmp_path)
    counts = count_work(graph, partition)
    for name, expected in naive_counts(graph, partition.parts, 5).items():
        assert getattr(counts, name).tolist() == expected, name


def test_phases_of_the_papers_model(split: tuple[Graph, Partition]) -> None:
    graph, partition = split
    phases = compute_table(graph, partition, Model(), SLOW)
    assert [(phase.layer, phase.direction, phase.width) for phase in phases] == [
        (1, "forward", 0), (2, "forward", 256), (3, "forward", 256), (4, "forward", 256),
        (4, "backward", 256), (3, "backward", 256), (2, "backward", 256), (1, "backward", 0),
    ]  # fmt: skip
    assert propagation_widths(Model(), graph) == [256]


def test_without_pp_the_input_layer_propagates_features(split: tuple[Graph, Partition]) -> None:
    graph, partition = split
    phases = compute_table(graph, partition, Model(layers=2, hidden=16, use_pp=False), SLOW)
    assert [phase.width for phase in phases] == [graph.feature_width, 16, 16, 0]
    assert propagation_widths(Model(2, 16, False), graph) == sorted({graph.feature_width, 16})


def test_one_layer_with_pp_propagates_nothing(split: tuple[Graph, Partition]) -> None:
    graph, partition = split
    assert [phase.width for phase in compute_table(graph, partition, Model(layers=1), SLOW)] == [0, 0]
    assert propagation_widths(Model(layers=1), graph) == []


def test_a_layer_by_hand(split: tuple[Graph, Partition]) -> None:
    """Last layer backward on the test device: every kernel's larger side, written out."""
    graph, partition = split
    work = count_work(graph, partition)
    phase = compute_table(graph, partition, Model(layers=2, hidden=8), SLOW)[2]
    assert (phase.layer, phase.direction) == (2, "backward")
    n, b, classes = work.vertices, work.boundary, graph.num_classes
    elementwise = 4 * n * classes * 3
    gemm = np.maximum(2 * n * 8 * classes, 4 * (n * (8 + classes) + 8 * classes))
    gather = 4 * b * 8 * 2
    assert phase.pre_ns.tolist() == (elementwise + 2 * gemm + gather).tolist()
    edges = work.local_edges + work.cross_edges
    assert phase.post_ns.tolist() == (4 * (edges * 9 + n * 10)).tolist()


def test_who_sums_cross_edges_pays_for_them(split: tuple[Graph, Partition]) -> None:
    graph, partition = split
    by_place = {
        place: compute_table(graph, partition, Model(), SLOW, cross_sum=place)[1]
        for place in ("receiver", "switch", "sender")
    }
    assert (by_place["receiver"].post_ns >= by_place["switch"].post_ns).all()
    assert by_place["receiver"].post_ns.sum() > by_place["switch"].post_ns.sum()
    assert (by_place["sender"].pre_ns > by_place["switch"].pre_ns).all()
    assert by_place["sender"].post_ns.tolist() == by_place["switch"].post_ns.tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 300), st.booleans())
def test_times_are_whole_and_not_negative(layers: int, hidden: int, use_pp: bool) -> None:
    graph = load_graph("karate")
    partition = partition_graph(graph, 3, method="contiguous")
    for phase in compute_table(graph, partition, Model(layers, hidden, use_pp), load_device("rtx3090")):
        for times in (phase.pre_ns, phase.post_ns):
            assert times.dtype == np.int64
            assert times.shape == (3,)
            assert (times >= 0).all()


def test_allreduce_is_the_ring_formula(split: tuple[Graph, Partition]) -> None:
    graph, _ = split
    model = Model(layers=2, hidden=10)
    phase = allreduce_phase(model, graph, 4, link_bps=8e9, hop_ns=100)
    gradient_bytes = 4 * (graph.feature_width * 10 + 10 + 10 * graph.num_classes + graph.num_classes)
    assert phase.pre_ns[0] == round(6 * (gradient_bytes / 4 + 100))  # 8 Gb/s is a byte per ns
    assert phase.width == 0
    assert "modelled" in phase.name


def test_devices_have_sources() -> None:
    device = load_device("rtx3090")
    assert (device.flops_per_s, device.memory_bytes_per_s) == (35.6e12, 936e9)
    assert device.source
    with pytest.raises(InputError, match="h200"):
        load_device("tpu")


def full_table(phases: list[compute.Phase], workers: int, system: str = "*") -> pd.DataFrame:
    rows = [
        (system, phase.layer, phase.direction, part, worker, 1000 * phase.layer + worker)
        for phase in phases
        for part in ("pre", "post")
        for worker in range(workers)
    ]
    return pd.DataFrame(rows, columns=["system", "layer", "direction", "phase", "worker", "ns"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_measured_times_replace_modelled_ones(
    split: tuple[Graph, Partition], tmp_path: Path, suffix: str
) -> None:
    graph, partition = split
    phases = compute_table(graph, partition, Model(), SLOW)
    both = pd.concat([full_table(phases, 4), full_table(phases, 4, "g3").assign(ns=7)])
    path = tmp_path / f"times{suffix}"
    both.to_csv(path, index=False) if suffix == ".csv" else both.to_parquet(path)
    phases.append(allreduce_phase(Model(), graph, 4, link_bps=1e9, hop_ns=0))
    table = load_compute_table(path)
    measured = measured_phases(table, phases, "host")
    assert measured[1].pre_ns.tolist() == [2000, 2001, 2002, 2003]
    assert measured_phases(table, phases, "g3")[1].pre_ns.tolist() == [7] * 4
    assert measured[-1].pre_ns.tolist() == phases[-1].pre_ns.tolist()  # the all-reduce stays modelled


def test_incomplete_tables_name_what_is_missing(split: tuple[Graph, Partition], tmp_path: Path) -> None:
    graph, partition = split
    phases = compute_table(graph, partition, Model(), SLOW)
    table = full_table(phases, 4)
    path = tmp_path / "times.csv"
    table[table["worker"] != 2].to_csv(path, index=False)
    with pytest.raises(InputError, match="worker 2 is missing"):
        measured_phases(load_compute_table(path), phases, "host")
    table[table["layer"] != 3].to_csv(path, index=False)
    with pytest.raises(InputError, match="layer 3 forward pre: no rows"):
        measured_phases(load_compute_table(path), phases, "host")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a readable"),
        ("system,layer\n*,1\n", "lacks direction, phase, worker, ns"),
        ("system,layer,direction,phase,worker,ns\n*,1,forward,pre,0,-5\n", "row 1: ns is '-5'"),
        ("system,layer,direction,phase,worker,ns\n*,1,forward,pre,0,nan\n", "row 1: ns"),
        ("system,layer,direction,phase,worker,ns\n*,1.5,forward,pre,0,5\n", "row 1: layer"),
        ("system,layer,direction,phase,worker,ns\n*,x,forward,pre,0,5\n", "row 1: layer"),
        ("system,layer,direction,phase,worker,ns\n" + "*,1,forward,pre,0,5\n" * 2, "row 2 repeats"),
    ],
)
def test_bad_tables_are_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as error:
        load_compute_table(path)
    assert "\n" not in str(error.value)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([".csv", ".parquet"]))
def test_any_bytes_as_a_table(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / f"table{suffix}"
    path.write_bytes(data)
    try:
        load_compute_table(path)
    except InputError as error:
        assert "\n" not in str(error)


def test_hadoop_flow_sizes_are_a_distribution() -> None:
    size, share = flow_size_cdf("hadoop")
    assert (np.diff(size) > 0).all()
    assert (np.diff(share) >= 0).all()
    assert (share[0], share[-1]) == (0.0, 1.0)
    assert np.interp(0.5, share, size) == 700  # the median flow
    sampled = np.interp(np.random.default_rng(1).random(400_000), share, size).mean()
    assert mean_flow_bytes("hadoop") == pytest.approx(sampled, rel=0.03)


def test_graphs_without_features_or_classes_take_the_hidden_width() -> None:
    assert compute.layer_widths(Model(layers=2, hidden=16), load_graph("ring:30")) == [16, 16, 16]
