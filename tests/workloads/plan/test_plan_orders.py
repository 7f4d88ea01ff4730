"""Upload orders and the completion model: GAMR's priority walk, the star, the ring, and the clock
itself.
"""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.plan.drawing import alone, clique, graph_of, partitioned_graphs, ring, star
from workloads.graphs import Graph, load_graph
from workloads.partition import Partition, partition_graph
from workloads.plan import Plan, make_plan
from workloads.plan.completion import completion_by_port, completion_time, star_expectation


def one_block(graph: Graph, partition: Partition, order: str, seed: int = 1) -> Plan:
    """The plan of one block with all boundary vertices."""
    return make_plan(graph, partition, width=30, memory_bytes=None, order=order, seed=seed)


def is_priority_walk(graph: Graph, order: list[int]) -> bool:
    """Whether each vertex is, when uploaded, of highest degree among those found, or a new root when none
    is.
    """
    found: set[int] = set()
    done: set[int] = set()
    degrees = graph.degrees
    for v in order:
        waiting = found - done
        if waiting and (v not in waiting or degrees[v] < max(degrees[u] for u in waiting)):
            return False
        done.add(v)
        found.update(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist())
    return True


@settings(max_examples=100, deadline=None)
@given(case=partitioned_graphs(), seed=st.integers(0, 1000))
def test_gamr_is_a_priority_walk(case: tuple[Graph, Partition], seed: int) -> None:
    graph = case[0]
    plan = one_block(graph, alone(graph), "gamr", seed)
    order = plan.boundary[plan.block_vertices].tolist()
    assert sorted(order) == np.flatnonzero(graph.degrees).tolist()
    assert is_priority_walk(graph, order)


def test_gamr_agrees_with_a_heap_written_down() -> None:
    graph = graph_of(9, [(0, 1), (0, 2), (0, 3), (3, 4), (3, 5), (3, 6), (4, 5), (7, 8)])
    plan = one_block(graph, alone(graph), "gamr", seed=4)
    order = plan.block_vertices.tolist()
    expected: list[int] = []
    queued: set[int] = set()
    for root in order:
        if root in queued:
            continue
        heap, count = [(-int(graph.degrees[root]), 0, root)], 1
        queued.add(root)
        while heap:
            v = heapq.heappop(heap)[2]
            expected.append(v)
            for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist():
                if u not in queued:
                    queued.add(u)
                    heapq.heappush(heap, (-int(graph.degrees[u]), count, u))
                    count += 1
    assert order == expected


def test_roots_and_random_orders_depend_on_the_seed() -> None:
    graph = graph_of(50, ring(50))
    for order in ("gamr", "random"):
        firsts = {int(one_block(graph, alone(graph), order, seed).block_vertices[0]) for seed in range(40)}
        assert len(firsts) > 15


def test_degree_order_is_descending() -> None:
    graph = graph_of(30, [*star(20), *clique(6), (20, 21), (22, 20)])
    plan = one_block(graph, alone(graph), "degree")
    assert (np.diff(np.diff(plan.adj_ptr)) <= 0).all()


@settings(max_examples=100, deadline=None)
@given(case=partitioned_graphs(), order=st.sampled_from(["gamr", "random", "degree"]), k=st.integers(1, 9))
def test_the_clock_by_hand(case: tuple[Graph, Partition], order: str, k: int) -> None:
    """The closed form of completion_time against slot-by-slot play, and each port's against its own queue."""
    graph, partition = case
    plan = one_block(graph, partition, order)
    n = plan.num_uploads
    neighbours = [set(row.tolist()) for row in np.split(plan.adj, plan.adj_ptr[1:-1])][:n]
    uploaded: set[int] = set()
    waiting, slot, backlog, done = 0, 0, 0, [False] * n
    while len(uploaded) < n or waiting:
        slot += 1
        waiting -= min(k, waiting)
        uploaded.update(range((slot - 1) * k, min(n, slot * k)))
        for v in range(n):
            if not done[v] and neighbours[v] <= uploaded:
                done[v] = True
                waiting += 1
        backlog = max(backlog, waiting)
    modelled = completion_time(plan.adj_ptr, plan.adj, np.arange(n), k)
    assert (modelled.slots, modelled.backlog) == (slot, backlog)

    owner = plan.owner[plan.block_vertices]
    queues = {int(w): [v for v in range(n) if owner[v] == w] for w in np.unique(owner)}
    egress = dict.fromkeys(queues, 0)
    uploaded, slot, backlog, done = set(), 0, 0, [False] * n
    while any(queues.values()) or any(egress.values()):
        slot += 1
        for worker, mine in queues.items():
            egress[worker] -= min(1, egress[worker])
            if mine:
                uploaded.add(mine.pop(0))
        for v in range(n):
            if not done[v] and neighbours[v] <= uploaded:
                done[v] = True
                egress[int(owner[v])] += 1
        backlog = max(backlog, *egress.values())
    if n:
        by_port = completion_by_port(plan.adj_ptr, plan.adj, np.arange(n), owner)
        assert (by_port.slots, by_port.backlog) == (slot, backlog)


def star_slots(n: int, order: np.ndarray) -> int:
    """Completion of the star of n with the leaves awaited, as in the paper."""
    graph = graph_of(n, star(n))
    return completion_time(graph.indptr, graph.indices, order, awaited=np.arange(n) > 0).slots


@pytest.mark.parametrize("n", [2, 3, 10, 57])
def test_a_star_takes_n_with_the_hub_first_and_the_mean_of_a_random_order_is_exact(n: int) -> None:
    hub_first = np.arange(n)
    assert star_slots(n, hub_first) == n
    # Leaves are alike, so a random order is a uniform position of the hub.
    slots = [star_slots(n, np.insert(np.arange(1, n), p, 0)) for p in range(n)]
    assert slots == [n + p for p in range(n)]
    assert np.mean(slots) == star_expectation(n) == (3 * n - 1) / 2


def test_a_star_by_simulation() -> None:
    n, runs = 40, 4000
    random = np.random.default_rng(5)
    slots = [star_slots(n, random.permutation(n)) for _ in range(runs)]
    # z = n + p - 1 with p uniform on 1..n: standard deviation sqrt((n^2 - 1)/12).
    error = np.sqrt((n**2 - 1) / 12 / runs)
    assert abs(np.mean(slots) - star_expectation(n)) < 5 * error


def test_gamr_on_a_star_is_within_one_slot_of_n_whatever_the_root() -> None:
    n = 30
    graph = graph_of(n, star(n))
    for seed in range(30):
        plan = one_block(graph, alone(graph), "gamr", seed)
        assert star_slots(n, plan.block_vertices) - n in (0, 1)
        whole = completion_time(graph.indptr, graph.indices, plan.block_vertices)
        assert whole.slots - n in (1, 2)


def test_on_a_ring_the_orders_are_closer_than_on_a_star() -> None:
    """GAMR takes about n; at random 2t/n results complete in slot t, which leaves n/4 queued at the end."""
    n, runs = 400, 20
    graph = graph_of(n, ring(n))
    slots = {
        order: [
            completion_time(
                graph.indptr, graph.indices, one_block(graph, alone(graph), order, s).block_vertices
            )
            for s in range(runs)
        ]
        for order in ("gamr", "random")
    }
    assert max(c.slots for c in slots["gamr"]) <= n + 3
    at_random = np.mean([c.slots for c in slots["random"]])
    assert at_random == pytest.approx(1.25 * n, rel=0.02)
    assert at_random / n < star_expectation(n) / n - 0.2


def test_gamr_ends_sooner_than_random_on_a_skewed_graph() -> None:
    graph = load_graph("debian")
    for workers in (8, 32):
        partition = partition_graph(graph, workers)
        by_port, pooled = {}, {}
        for order in ("gamr", "random"):
            plan = one_block(graph, partition, order)
            uploads, owner = np.arange(plan.num_uploads), plan.owner[plan.block_vertices]
            by_port[order] = completion_by_port(plan.adj_ptr, plan.adj, uploads, owner).slots
            pooled[order] = completion_time(plan.adj_ptr, plan.adj, uploads, workers).slots
        assert by_port["gamr"] < by_port["random"]
        assert pooled["gamr"] < pooled["random"]
