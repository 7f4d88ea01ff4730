"""Plans keep their promises: every edge once, every block fits, sums exact, same seed same plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.workloads.plan.drawing import (
    SHAPES,
    alone,
    clique,
    graph_of,
    pairs,
    partitioned_graphs,
    placed,
    star,
)
from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.oracle import cross_sums, plan_sums, validate_plan
from workloads.partition import Partition, partition_graph
from workloads.plan import make_plan, split
from workloads.plan.capacity import AGGREGATOR_BYTES, P4_ACCOUNTING, aggregators_for, block_capacity
from workloads.plan.derived import host_sends
from workloads.plan.split import LevelSplitter


@st.composite
def recipes(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of make_plan with memory for 2 to 12 vertices, in every mode."""
    chunks, room = draw(st.integers(1, 3)), draw(st.integers(2, 12))
    per_vertex, per_edge = draw(st.sampled_from([(0, 0), P4_ACCOUNTING, (0, 100)]))
    return {
        "width": 30 * chunks,
        "memory_bytes": room * (chunks * AGGREGATOR_BYTES + per_vertex) + 2 * per_edge,
        "blocks": draw(st.sampled_from(["multilevel", "multilevel", "single", "none"])),
        "order": draw(st.sampled_from(["gamr", "degree", "random"])),
        "residual": draw(st.sampled_from(["none", "host"])),
        "per_vertex_bytes": per_vertex,
        "per_edge_bytes": per_edge,
        "seed": draw(st.integers(0, 2**40 - 1)),
    }


@settings(max_examples=250, deadline=None)
@given(case=partitioned_graphs(), recipe=recipes())
def test_any_plan_keeps_every_promise(case: tuple[Graph, Partition], recipe: dict[str, Any]) -> None:
    graph, partition = case
    plan = make_plan(graph, partition, **recipe)
    validate_plan(plan, graph, partition)
    assert make_plan(graph, partition, **recipe).digest == plan.digest
    if recipe["blocks"] == "none":
        assert plan.num_blocks == 0
    elif recipe["residual"] == "none":
        assert len(plan.residual_adj) == 0
    # Every boundary vertex is uploaded exactly in the blocks where it is a source.
    sources = np.zeros(plan.num_boundary, dtype=int)
    for b in range(plan.num_blocks):
        entries = plan.block_vertices[plan.block_ptr[b] : plan.block_ptr[b + 1]]
        inside = plan.adj_ptr[plan.block_ptr[b] : plan.block_ptr[b + 1] + 1]
        heard = np.unique(plan.adj[inside[0] : inside[-1]])
        assert heard.tolist() == list(range(len(entries)))
        sources[entries] += 1
    assert np.array_equal(sources, np.bincount(plan.block_vertices, minlength=plan.num_boundary))


@settings(max_examples=60, deadline=None)
@given(case=partitioned_graphs(), room=st.integers(2, 12), width=st.integers(1, 400))
def test_residual_host_never_moves_more_than_blocks_alone_or_hosts_alone(
    case: tuple[Graph, Partition], room: int, width: int
) -> None:
    graph, partition = case
    memory = room * -(-width // 30) * AGGREGATOR_BYTES
    mixed = make_plan(graph, partition, width=width, memory_bytes=memory, residual="host").shape()
    blocks = make_plan(graph, partition, width=width, memory_bytes=memory).shape()
    assert mixed["total_bytes"] <= min(blocks["total_bytes"], blocks["host_bytes"])
    assert mixed["host_bytes"] == blocks["host_bytes"]
    assert mixed["levels"] == blocks["levels"][: mixed["num_levels"]]


@settings(max_examples=60, deadline=None)
@given(case=partitioned_graphs())
def test_host_sends_are_the_distinct_remote_workers(case: tuple[Graph, Partition]) -> None:
    graph, partition = case
    plan = make_plan(graph, partition, width=30, memory_bytes=None, blocks="none")
    sends = host_sends(plan)
    expected = [
        sorted(
            {int(plan.owner[u]) for u in plan.residual_adj[plan.residual_ptr[v] : plan.residual_ptr[v + 1]]}
        )
        for v in range(plan.num_boundary)
    ]
    found = [w.tolist() for w in np.split(sends.send_workers, sends.send_ptr[1:-1])] if expected else []
    assert found == expected
    received = [
        [v for v in range(plan.num_boundary) if worker in expected[v]] for worker in range(plan.num_workers)
    ]
    assert [r.tolist() for r in np.split(sends.receive_vertices, sends.receive_ptr[1:-1])] == received
    assert plan.shape()["host_sends"] == sum(map(len, expected))


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("room", [2, 3, 7, 63, 64])
def test_worst_cases_at_small_and_exact_capacity(shape: str, room: int) -> None:
    graph = graph_of(64, SHAPES[shape](64))
    partition = alone(graph)
    plan = make_plan(graph, partition, width=30, memory_bytes=room * AGGREGATOR_BYTES)
    validate_plan(plan, graph, partition)
    assert np.diff(plan.block_ptr).max() <= room


def test_a_star_takes_its_hub_through_the_levels() -> None:
    graph = graph_of(41, star(41))
    plan = make_plan(graph, alone(graph), width=30, memory_bytes=11 * AGGREGATOR_BYTES)
    assert plan.num_blocks == 4
    assert np.diff(plan.block_ptr).tolist() == [11, 11, 11, 11]
    assert plan.block_level.tolist() == [0, 1, 2, 3]


def test_components_that_fit_need_one_level() -> None:
    graph = graph_of(200, pairs(200))
    plan = make_plan(graph, alone(graph), width=30, memory_bytes=2 * AGGREGATOR_BYTES)
    assert plan.num_blocks == 100
    assert plan.block_level.max() == 0


def test_one_cross_edge() -> None:
    graph = graph_of(4, [(0, 1), (1, 2), (2, 3)])
    plan = make_plan(graph, placed(graph, [0, 0, 1, 1]), width=1, memory_bytes=2 * AGGREGATOR_BYTES)
    assert plan.boundary.tolist() == [1, 2]
    assert plan.adj.tolist() == [1, 0]
    assert plan.num_uploads == 2


def test_no_cross_edge_is_an_empty_plan() -> None:
    graph = graph_of(4, [(0, 1), (2, 3)])
    plan = make_plan(graph, placed(graph, [0, 0, 1, 1]), width=8, memory_bytes=1000)
    validate_plan(plan, graph, placed(graph, [0, 0, 1, 1]))
    assert plan.num_boundary == plan.num_blocks == 0
    assert plan.shape()["isolated_workers"] == 2
    assert plan.shape()["bytes_ratio"] == 1.0


def test_a_limited_debian_plan() -> None:
    graph = load_graph("debian")
    partition = partition_graph(graph, 16)
    plan = make_plan(graph, partition, width=64, memory_bytes=2_000_000)
    validate_plan(plan, graph, partition)
    assert plan.shape()["num_levels"] > 1


def test_every_mode_of_splitting_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """METIS, streaming alone (as on large levels) and packing alone give plans that hold."""
    graph = load_graph("karate")
    partition = partition_graph(graph, 4)
    recipe = {"width": 30, "memory_bytes": 9 * AGGREGATOR_BYTES}
    for name, value in (("LARGE_LEVEL_EDGES", 1), ("METIS_WORTH", 1e9), ("METIS_SMALLEST_PART", 10**6)):
        monkeypatch.setattr(split, name, value)
        validate_plan(make_plan(graph, partition, seed=value.__hash__() % 1000, **recipe), graph, partition)


def test_metis_is_asked_again_only_while_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LARGE_LEVEL_EDGES", 1)
    monkeypatch.setattr(split, "METIS_WORTH", 1e9)
    asked = []
    original = split.metis_split
    monkeypatch.setattr(split, "metis_split", lambda *a, **o: asked.append(1) or original(*a, **o))
    graph = graph_of(60, clique(60))
    splitter = LevelSplitter(block_capacity(20 * AGGREGATOR_BYTES, 1))
    for _ in range(3):
        splitter.split(graph.indptr, graph.indices, 1)
    assert len(asked) == 1


@example(vertices=64, budget=64)
@given(vertices=st.integers(1, 200), budget=st.integers(2, 300))
def test_capacity_counts_whole_aggregators(vertices: int, budget: int) -> None:
    capacity = block_capacity(budget * AGGREGATOR_BYTES + 127, 1)
    assert capacity.aggregators == budget
    assert capacity.fits(vertices, 10**9) == (vertices <= budget)
    assert capacity.most_vertices == budget


def test_the_papers_budgets_and_the_programs_own_memory() -> None:
    assert aggregators_for(10_000_000) == 78_125
    assert aggregators_for(100_000_000) == 781_250
    paper = block_capacity(100_000_000, 9)
    honest = block_capacity(
        100_000_000, 9, per_vertex_bytes=P4_ACCOUNTING[0], per_edge_bytes=P4_ACCOUNTING[1]
    )
    assert paper.most_vertices == 86_805
    assert not honest.fits(paper.most_vertices, 0)
    assert honest.fits(80_000, 1_800_000) and not honest.fits(80_000, 2_000_000)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"memory_bytes": 255}, "two joined vertices of 1 aggregators each, takes 256 B"),
        ({"memory_bytes": 256, "per_edge_bytes": 1}, "takes 258 B"),
        ({"memory_bytes": 0}, "switch memory: 0 B given"),
        ({"memory_bytes": 1 << 60}, "allowed: 1 B to 1 PiB"),
        ({"width": 0}, "width: 0 values"),
        ({"width": 1 << 40}, "width: 1099511627776 values"),
        ({"values_per_packet": 0}, "values per packet: 0"),
        ({"aggregator_bytes": 0}, "aggregator bytes: 0"),
        ({"per_vertex_bytes": -1}, "per-vertex and per-edge bytes: -1 and 0"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 1 << 70}, "seed: "),
        ({"blocks": "many"}, "allowed: multilevel, single, none"),
        ({"order": "sorted"}, "allowed: gamr, random, degree"),
        ({"residual": "some"}, "allowed: none, host"),
    ],
)
def test_bad_input(arguments: dict[str, object], says: str) -> None:
    graph = graph_of(4, [(0, 1), (1, 2)])
    with pytest.raises(InputError, match=says):
        make_plan(graph, alone(graph), **{"width": 30, "memory_bytes": 10_000, **arguments})


def test_a_graph_without_edges_and_a_foreign_partition() -> None:
    empty, path = graph_of(3, []), graph_of(4, [(0, 1)])
    with pytest.raises(InputError, match="no edges"):
        make_plan(empty, alone(path), width=30, memory_bytes=None)
    with pytest.raises(InputError, match="it has 3 vertices, graph drawn has 4"):
        make_plan(path, alone(empty), width=30, memory_bytes=None)


def test_the_oracle_is_plain_sums() -> None:
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    partition = placed(graph, [0, 0, 1, 1, 1])
    x = np.array([[1, -1], [10, 0], [100, 2**40], [1000, 5], [10000, 7]])
    assert cross_sums(graph, partition, x).tolist() == [[10000, 7], [100, 2**40], [10, 0], [1, -1]]


def test_the_check_catches_a_damaged_plan() -> None:
    graph = graph_of(6, clique(6))
    partition = alone(graph)
    plan = make_plan(graph, partition, width=30, memory_bytes=None)
    x = np.arange(6)
    assert np.array_equal(plan_sums(plan, x), cross_sums(graph, partition, x))
    plan.adj.flags.writeable = True
    plan.adj[0], plan.adj[1] = plan.adj[1], plan.adj[0]
    with pytest.raises(AssertionError, match="ascending"):
        validate_plan(plan, graph, partition)
