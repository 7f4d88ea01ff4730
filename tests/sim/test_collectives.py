"""Collectives in the simulation: exact sums in the switch, lower bounds, groups, extrapolation, the cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.collectives import ADDING, ALGORITHMS, axis_groups, lower_bound_ns, switch_window, time_collective
from sim.collectives_boundary import boundary_curve
from sim.collectives_model import best_algorithm, collective_curve
from sim.collectives_plans import all_to_all_plan, clique_plan, ring_plan
from sim.engine import simulate
from sim.scenario import Scenario
from sim.scenario_io import load_scenario
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.parallel.curve import Curve, make_curve
from workloads.partition import partition_graph
from workloads.systems import SYSTEMS

EVERY = [(kind, algorithm) for kind, algorithms in ALGORITHMS.items() for algorithm in algorithms]


def cluster(workers: int, topology: str = "star", **settings: object) -> Scenario:
    given = {"cluster.workers": workers, "cluster.topology": topology, "congestion.control": "none"}
    return load_scenario(None, given | {name.replace("__", "."): value for name, value in settings.items()})


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
@pytest.mark.parametrize(("workers", "topology"), [(2, "star"), (5, "star"), (16, "leaf-spine:4x4")])
def test_no_collective_beats_its_lower_bound_and_large_ones_come_near(kind, algorithm, workers, topology):
    scenario = cluster(workers, topology)
    for size in (1_000, 40_000, 2_000_000):
        timed = time_collective(scenario, kind, algorithm, axis_groups([workers], 0), size)
        bound = lower_bound_ns(scenario, kind, algorithm, workers, size)
        assert timed.time_ns > bound
        # One-way delay of a packet through the cluster, once per step of the longest algorithm.
        steps = 2 * (workers - 1)
        # In-network packets of 120 bytes carry 66 bytes of headers and gap 20: 1.72 times the payload.
        assert timed.time_ns < 1.75 * bound * (1.3 if topology != "star" else 1.0) + steps * 7_000


def test_all_reduce_in_the_switch_gives_every_worker_the_sum_of_the_others():
    workers, packets, per_packet = 5, 7, 30
    plan = clique_plan(workers, [list(range(workers))], packets, per_packet)
    values = np.random.default_rng(3).integers(-1000, 1000, (plan.num_boundary, per_packet)).astype(np.int32)
    idle = np.zeros(workers, dtype=np.int64)
    run = simulate(
        cluster(workers), ADDING, {30: plan}, [Phase(1, "forward", 30, idle, idle)], features={30: values}
    )
    sums = values.reshape(packets, workers, per_packet).sum(axis=1, keepdims=True, dtype=np.int64)
    whole = run.results[0] + values
    assert np.array_equal(whole.reshape(packets, workers, per_packet), np.broadcast_to(sums, (7, 5, 30)))
    assert run.summary["up_upload_frames"] == workers * packets  # every worker sends its vector once
    assert run.summary["results"] == workers * packets


def test_messages_of_plans_reach_whom_they_should():
    groups = [[0, 2], [1, 3]]
    plan = all_to_all_plan(4, groups, 10, 30)
    pairs = {(int(plan.owner[v]), int(plan.owner[plan.residual_adj[v]])) for v in range(plan.num_boundary)}
    assert pairs == {(0, 2), (2, 0), (1, 3), (3, 1)}
    plan = ring_plan(5, [[4, 1, 3]], 10, 30)
    pairs = {(int(plan.owner[v]), int(plan.owner[plan.residual_adj[v]])) for v in range(plan.num_boundary)}
    assert pairs == {(4, 1), (1, 4), (1, 3), (3, 1), (3, 4), (4, 3)}
    for made in (plan, all_to_all_plan(6, [[0, 1, 2], [3, 4, 5]], 1, 30)):  # an edge is a swap
        assert np.array_equal(made.residual_adj[made.residual_adj], np.arange(made.num_boundary))


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_bytes_on_the_wire_are_those_of_the_formula(algorithm):
    size, workers = 3_000_000, 6
    timed = time_collective(cluster(workers), "all-reduce", algorithm, axis_groups([workers], 0), size)
    payload = workers * 2 * (workers - 1) / workers * size
    assert payload < timed.sent_bytes < 1.06 * payload  # 66 bytes of headers on 1,448 and the last packets


def test_groups_along_either_axis_of_a_grid():
    assert axis_groups([2, 3], 1) == [[0, 1, 2], [3, 4, 5]]
    assert axis_groups([2, 3], 0) == [[0, 3], [1, 4], [2, 5]]
    scenario = cluster(16, "leaf-spine:4x4")
    near = time_collective(scenario, "all-reduce", "direct", axis_groups([4, 4], 1), 500_000)
    far = time_collective(scenario, "all-reduce", "direct", axis_groups([4, 4], 0), 500_000)
    assert near.time_ns < far.time_ns  # inside the racks nothing crosses the fabric


@pytest.mark.parametrize("axis", [0, 1])
def test_in_network_groups_inside_and_across_racks(axis):
    scenario = cluster(16, "leaf-spine:4x4")
    timed = time_collective(scenario, "all-reduce", "in-network", axis_groups([4, 4], axis), 120_000)
    bound = lower_bound_ns(scenario, "all-reduce", "in-network", 4, 120_000)
    assert bound < timed.time_ns < 2.5 * bound


def test_two_tiers_are_no_faster_than_one_star_and_no_slower_than_unreplicated_sums():
    """The same all-reduce, once as two joined tiers, once on a star, once in the simulator's own leaf-spine,
    whose leaves send one sum per receiver and not one for all.
    """
    groups, size = axis_groups([8], 0), 60_000
    tiers = time_collective(cluster(8, "leaf-spine:2x2"), "all-reduce", "in-network", groups, size)
    star = time_collective(cluster(8), "all-reduce", "in-network", groups, size)
    plan = clique_plan(8, groups, size // 120, 30)
    idle = np.zeros(8, dtype=np.int64)
    whole = simulate(cluster(8, "leaf-spine:2x2"), ADDING, {30: plan}, [Phase(1, "forward", 30, idle, idle)])
    assert star.time_ns < tiers.time_ns < whole.summary["epoch_time_ns"]


def test_little_switch_memory_is_a_window_and_slows_the_sum_down():
    groups = axis_groups([4], 0)
    plenty = time_collective(cluster(4), "all-reduce", "in-network", groups, 240_000)
    little = cluster(4, switch__memory_bytes="4KB")
    share = switch_window(little)
    assert 0.05 < share < 0.5
    slow = time_collective(little, "all-reduce", "in-network", groups, 240_000)
    assert slow.time_ns == pytest.approx(plenty.time_ns / share, abs=1)
    assert switch_window(cluster(4, switch__memory_bytes="unlimited")) == 1


def test_simulating_a_collective_twice_gives_the_same_time():
    groups = axis_groups([16], 0)
    first, second = (
        time_collective(cluster(16, "leaf-spine:4x4"), "all-to-all", "direct", groups, 300_000) for _ in "ab"
    )
    assert first == second


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
def test_extrapolation_is_as_good_as_it_says(tmp_path, kind, algorithm):
    scenario = cluster(8)
    curve = collective_curve(scenario, kind, algorithm, axis_groups([8], 0), cache=tmp_path)
    size = int(2 * curve.sizes[-1])
    assert not curve.simulated(size)
    timed = time_collective(scenario, kind, algorithm, axis_groups([8], 0), size)
    assert curve.time_ns(size) == pytest.approx(timed.time_ns, rel=max(2 * curve.error, 0.02))


def test_curves_come_from_the_cache_and_damage_is_repaired(tmp_path):
    told: list[str] = []
    scenario = cluster(4)
    curves = [
        collective_curve(
            scenario, "all-to-all", "direct", axis_groups([4], 0), cache=tmp_path, progress=told.append
        )
        for _ in range(2)
    ]
    assert curves[0] == curves[1] and len(told) == 1
    [file] = (tmp_path / "collectives").iterdir()
    file.write_text("{")
    again = collective_curve(
        scenario, "all-to-all", "direct", axis_groups([4], 0), cache=tmp_path, progress=told.append
    )
    assert again == curves[0] and len(told) == 2
    faster = replace(scenario, cluster=replace(scenario.cluster, host_link_bps=400_000_000_000))
    other = collective_curve(faster, "all-to-all", "direct", axis_groups([4], 0), cache=tmp_path)
    assert other.time_ns(1e6) < curves[0].time_ns(1e6)


@given(
    st.floats(0, 1e6), st.floats(0, 100), st.lists(st.integers(1, 10**9), min_size=3, max_size=6, unique=True)
)
@settings(max_examples=50, deadline=None)
def test_a_curve_of_a_straight_line_is_that_line(alpha, beta, sizes):
    sizes.sort()
    curve = make_curve(sizes, [alpha + beta * size for size in sizes])
    for size in (sizes[0], (sizes[0] + sizes[-1]) / 2, 3 * sizes[-1]):
        assert curve.time_ns(size) == pytest.approx(alpha + beta * size, rel=1e-6, abs=1e-3)
    assert curve.error == pytest.approx(0, abs=1e-6)
    assert curve.time_ns(sizes[0] / 2) == pytest.approx(alpha + beta * sizes[0], rel=1e-6, abs=1e-3)


def test_the_best_algorithm_changes_with_the_size():
    curves = {"quick": Curve((1, 10), (5, 50), 0), "steady": Curve((1, 10), (20, 25), 0)}
    assert best_algorithm(curves, 2) == "quick"
    assert best_algorithm(curves, 100) == "steady"


@pytest.mark.parametrize("system", ["host", "presum"])
def test_boundary_exchange_of_a_real_partition(tmp_path, system):
    scenario, graph = cluster(4), load_graph("karate")
    partition = partition_graph(graph, 4)
    curve = boundary_curve(scenario, graph, partition, system, cache=tmp_path)
    assert curve.time_ns(240) > curve.time_ns(30) > 0
    sends = partition.stats(graph)["host_sends"]
    if system == "host":  # the busiest worker sends at least the mean
        assert curve.time_ns(240) > sends / 4 * 240 * 4 * 8e9 / scenario.cluster.host_link_bps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "gossip"}, "allowed: all-to-all"),
        ({"algorithm": "tree"}, "allowed: direct"),
        ({"size": 0}, "at least 1"),
        ({"groups": [[0, 1], [2]]}, "equally large"),
        ({"groups": [[0, 1], [1, 2]]}, "two of them"),
        ({"groups": [[0, 9]]}, "cluster.workers is 4"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_one_line(change, words):
    given = {"kind": "all-to-all", "algorithm": "direct", "groups": [[0, 1, 2, 3]], "size": 10} | change
    with pytest.raises(InputError, match=words) as caught:
        time_collective(cluster(4), **given)
    assert "\n" not in str(caught.value)


def test_boundary_exchange_refuses_other_partitions_and_systems(tmp_path):
    graph = load_graph("karate")
    with pytest.raises(InputError, match="3 parts given"):
        boundary_curve(cluster(4), graph, partition_graph(graph, 3), "host", cache=tmp_path)
    with pytest.raises(InputError, match="allowed: host, presum"):
        boundary_curve(cluster(4), graph, partition_graph(graph, 4), "g3", cache=tmp_path)
    assert SYSTEMS["presum"].presum  # the recipe that the switch adds in one pass
