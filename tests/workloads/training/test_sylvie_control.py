"""SYLVIE's decisions: importance and masks, node bits, the LDR controller, the epochs' plans."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.training.controller import Controller
from workloads.training.extractor import (
    SHARES,
    boundary_pool,
    extract_mask,
    mask_levels,
    node_bits,
    percentile_rank,
)
from workloads.training.options import TrainOptions
from workloads.training.systems import Fixed, Sylvie, make_system


def test_importance_of_an_example_with_ties():
    assert percentile_rank(np.array([5, 1, 3, 3, 9])).tolist() == [0.75, 0.0, 0.5, 0.5, 1.0]
    assert percentile_rank(np.array([4])).tolist() == [1.0]
    assert percentile_rank(np.array([2, 2])).tolist() == [1.0, 1.0]
    assert len(percentile_rank(np.array([], dtype=np.int64))) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.randoms())
def test_importance_is_one_at_the_top_equal_for_ties_and_blind_to_order(degrees, random):
    degrees = np.array(degrees)
    rank = percentile_rank(degrees)
    assert (rank[degrees == degrees.max()] == 1).all()
    assert ((rank >= 0) & (rank <= 1)).all()
    for degree in np.unique(degrees):
        assert len(set(rank[degrees == degree])) == 1
    assert (np.diff(rank[np.argsort(degrees, kind="stable")]) >= 0).all()
    order = list(range(len(degrees)))
    random.shuffle(order)
    assert percentile_rank(degrees[order]).tolist() == rank[order].tolist()


def test_the_mask_uses_degrees_of_the_whole_graph_and_only_boundary_vertices():
    graph = load_graph("debian")
    partition = partition_graph(graph, 8)
    mask = extract_mask(graph, partition, "degree", 1)
    pool, sends = boundary_pool(graph, partition)
    assert sends.sum() == partition.stats(graph)["host_sends"]
    assert len(pool) == partition.stats(graph)["boundary_vertices"]
    outside = np.setdiff1d(np.arange(graph.num_vertices), pool)
    assert not mask.levels[outside].any()
    top = pool[np.argmax(graph.degrees[pool])]
    assert mask.levels[top] == 3
    degrees, levels = graph.degrees[pool], mask.levels[pool].astype(int)
    order = np.argsort(degrees)
    assert (np.diff(levels[order]) >= 0).all()
    for level, share in enumerate(SHARES, 1):
        assert 0.8 * share < sends[levels >= level].sum() / sends.sum() <= share
    shuffled = extract_mask(graph, partition, "shuffled", 1)
    assert np.bincount(shuffled.levels[pool]).tolist() == np.bincount(levels).tolist()
    assert (shuffled.levels[pool] != levels).any()
    assert not extract_mask(graph, partition, "uniform", 1).levels.any()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 7)), min_size=1, max_size=200))
def test_protected_vertices_never_send_more_than_their_share(pool):
    degrees, sends = (np.array(column) for column in zip(*pool, strict=True))
    levels = mask_levels(percentile_rank(degrees), sends)
    assert levels.dtype == np.uint8
    for degree in np.unique(degrees):
        assert len(set(levels[degrees == degree])) == 1
    for level, share in enumerate(SHARES, 1):
        above = degrees[levels >= level]
        assert sends[levels >= level].sum() <= share * sends.sum()
        if len(above) < len(degrees):  # the next group of equal degree would have been too much
            lowest = degrees[levels < level].max()
            assert sends[degrees >= lowest].sum() > share * sends.sum()
    for base in (1, 2):
        mean = (sends * node_bits(base, levels)).sum() / sends.sum()
        assert mean <= 32 / 15


def test_node_bits_of_the_papers_example():
    levels = np.array([0, 2, 1, 3, 0], dtype=np.uint8)
    assert node_bits(1, levels).tolist() == [1, 4, 2, 8, 1]
    assert node_bits(2, levels).tolist() == [2, 8, 4, 8, 2]
    assert node_bits(8, levels).tolist() == [8] * 5


def feed(controller: Controller, losses: list[float], seconds: float = 1.0) -> list[tuple[int, bool]]:
    states = []
    for loss in losses:
        controller.observe(loss, seconds)
        states.append((controller.base, controller.synchronous))
    return states


def test_ldr_by_hand():
    controller = Controller(smoothing=0.5, gap=1)
    controller.observe(4.0, 2.0)
    controller.observe(2.0, 2.0)
    controller.observe(2.0, 0.5)
    assert controller.smoothed == [4.0, 3.0, 2.5]
    assert controller.rates == [0.0, 0.5, 1.0]


def test_nothing_moves_until_the_gap_has_passed():
    controller = Controller(smoothing=0.0, gap=3)
    assert feed(controller, [10, 9, 8, 7]) == [(1, True)] * 4  # epochs 0..3: t <= delta


def test_a_slower_descent_doubles_the_width_and_refreshes_up_to_eight_bits():
    controller = Controller(smoothing=0.0, gap=1)
    losses = [100.0, 90.0, 81.0, 73.0, 66.0, 60.0, 55.0]  # falls by 10, 9, 8, 7, 6, 5
    states = feed(controller, losses)
    assert states[2:] == [(2, True), (4, True), (8, True), (8, True), (8, True)]


def test_a_descent_no_slower_halves_the_width_and_runs_asynchronously_down_to_one_bit():
    controller = Controller(smoothing=0.0, gap=1, base=8)
    states = feed(controller, [100.0, 99.0, 97.0, 94.0, 90.0, 85.0])  # falls by 1, 2, 3, 4, 5
    assert states[2:] == [(4, False), (2, False), (1, False), (1, False)]
    controller = Controller(smoothing=0.0, gap=1, base=4)
    assert feed(controller, [10.0, 9.0, 8.0])[2] == (2, False)  # an equal rate counts as no worse


def test_a_slowing_descent_looks_faster_at_first_and_a_warm_up_waits_until_it_does_not():
    """An exponential decay slows from its first epoch on; F's lag behind it makes LDR rise for a while."""
    losses = [math.exp(-epoch / 40) for epoch in range(60)]
    states = feed(Controller(smoothing=0.9, gap=5), losses)
    late = [epoch for epoch, (_, synchronous) in enumerate(states) if not synchronous]
    assert late == list(range(6, 21))  # decided after these epochs
    assert all(base == 1 for base, _ in states[:21]) and states[-1] == (8, True)
    states = feed(Controller(smoothing=0.9, gap=5, warmup=25), losses)
    assert states[:26] == [(1, True)] * 26
    assert states[26:29] == [(2, True), (4, True), (8, True)]


def test_a_longer_epoch_makes_the_same_loss_change_worse():
    controller = Controller(smoothing=0.0, gap=1)
    for loss, seconds in ((10.0, 1.0), (9.0, 1.0), (8.0, 2.0)):
        controller.observe(loss, seconds)
    assert (controller.base, controller.synchronous) == (2, True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 8), st.floats(0, 0.99))
def test_the_width_stays_in_its_range_and_moves_one_step(losses, gap, smoothing):
    controller = Controller(smoothing=smoothing, gap=gap)
    previous = 1
    for loss in losses:
        controller.observe(loss, 0.5)
        assert controller.base in (1, 2, 4, 8)
        assert controller.base in (previous, 2 * previous, previous // 2)
        previous = controller.base


def test_sylvie_starts_synchronous_at_one_bit_goes_stale_and_is_forced_back():
    system = Sylvie(TrainOptions(system="sylvie", gap=1, smoothing=0.0), np.array([0, 3], dtype=np.uint8))
    plan = system.plan(0)
    assert not plan.stale and plan.bits.tolist() == [1, 8]
    seen = []
    for epoch, loss in enumerate([10.0, 9.0, 7.0, 4.0, 3.0, 2.9, 2.85]):
        plan = system.plan(epoch)
        log = system.observe(loss, 1.0)
        seen.append((log["base_bits"], plan.stale, log["forced_sync"]))
    assert seen == [
        (1, False, False),
        (1, False, False),
        (1, False, False),
        (1, True, False),  # after epoch 2 fell faster than epoch 1
        (1, True, False),
        (2, False, True),  # epoch 4 fell more slowly than epoch 3: refresh
        (4, False, False),
    ]


@pytest.mark.parametrize(
    ("options", "bits", "stale"),
    [
        ({"bits": "32", "mode": "sync"}, None, [False] * 4),
        ({"bits": "4", "mask": "uniform", "mode": "async"}, [4, 4], [False, True, True, True]),
        ({"bits": "8"}, [8, 8], [False] * 4),
        ({"mode": "sync"}, [1, 4], [False] * 4),
        ({"mode": "async"}, [1, 4], [False, True, True, True]),
        ({"mask": "uniform"}, [1, 1], [False] * 4),
    ],
)
def test_each_dimension_can_be_fixed(options, bits, stale):
    levels = np.zeros(2, dtype=np.uint8) if options.get("mask") == "uniform" else np.array([0, 2], np.uint8)
    system = Sylvie(TrainOptions(system="sylvie", **options), levels)
    plans = []
    for epoch in range(4):
        plans.append(system.plan(epoch))
        system.observe(5.0 - epoch, 1.0)
    assert [plan.stale for plan in plans] == stale
    assert all((plan.bits is None if bits is None else plan.bits.tolist() == bits) for plan in plans)


def test_what_sylvie_has_learnt_can_be_carried_over():
    losses = [10.0, 9.0, 7.0, 4.0, 3.0, 2.9, 2.85, 1.0, 0.9]
    options, levels = TrainOptions(system="sylvie", gap=1, smoothing=0.5), np.array([0, 3], dtype=np.uint8)
    whole = Sylvie(options, levels)
    logs = []
    for at in range(len(losses) + 1):
        first, second = Sylvie(options, levels), Sylvie(options, levels)
        got = []
        for epoch, loss in enumerate(losses):
            if epoch == at:
                second.restore(first.state())
            system = first if epoch < at else second
            plan = system.plan(epoch)
            got.append((plan.stale, plan.bits.tolist(), system.observe(loss, 1.0)))
        logs.append(got)
    assert all(got == logs[0] for got in logs)
    assert whole.plan(0).keep and not Sylvie(TrainOptions(system="sylvie", mode="sync"), levels).plan(0).keep


def test_the_other_systems_plans():
    levels = np.zeros(3, dtype=np.uint8)
    names = ("dgl", "sar", "pipegcn", "bns-gcn")
    kinds = {name: make_system(TrainOptions(system=name), levels) for name in names}
    assert kinds["sar"].plan(2).sequential and not kinds["dgl"].plan(2).sequential
    assert all(isinstance(system, Fixed) for system in kinds.values())
    assert [kinds["pipegcn"].plan(epoch).stale for epoch in range(3)] == [False, True, True]
    assert kinds["bns-gcn"].plan(3).share == 0.1
    assert kinds["dgl"].plan(1).share == 1 and kinds["dgl"].plan(1).bits is None
