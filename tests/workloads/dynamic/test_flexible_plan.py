"""The plan of flexible communication against sets made by brute force, and against what training counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workloads.errors import InputError
from workloads.graphs.dynamic import load_dynamic_graph
from workloads.partition.dynamic import partition_dynamic
from workloads.plan.directed import directed_plan
from workloads.plan.dynamic import (
    Knobs,
    communicating_windows,
    merge_boundary,
    merge_ends,
    most_important,
    needed_ends,
    sends,
    training_windows,
)
from workloads.plan.windows import end_steps, input_step, placed_steps, row_steps, sum_steps

P = 3


@pytest.fixture(scope="module", params=["traffic:60:20", "contacts:60:15"])
def graph(request):
    return load_dynamic_graph(request.param)


@pytest.fixture(scope="module")
def partition(graph):
    return partition_dynamic(graph, P)


def needed(graph, parts, t):
    """{(reader, vertex)} of a snapshot, edge by edge."""
    rows = range(graph.num_vertices)
    near = ((v, int(u)) for v in rows for u in graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]])
    return {(int(parts[v]), u) for v, u in near if parts[v] != parts[u]}


def test_the_merged_boundary_holds_every_snapshots_pairs_once(graph, partition):
    boundary = merge_boundary(graph, partition)
    pairs = list(zip(boundary.reader.tolist(), boundary.vertex.tolist(), strict=True))
    wanted = [needed(graph, partition.parts, t) for t in range(graph.num_snapshots)]
    assert len(pairs) == len(set(pairs)) and set(pairs) == set().union(*wanted)
    assert (partition.parts[boundary.vertex] == boundary.owner).all()
    for t, rows in enumerate(boundary.rows):
        assert {pairs[row] for row in rows} == wanted[t] and (np.diff(rows) > 0).all()
        degree = 1 + np.diff(graph.indptr[t])
        for row, weight in zip(rows, boundary.weights[t], strict=True):
            reader, u = pairs[row]
            near = graph.indices[t][graph.indptr[t][u] : graph.indptr[t][u + 1]]
            near = near[partition.parts[near] == reader]
            assert weight == pytest.approx(float((1 / np.sqrt(degree[u] * degree[near])).sum()), rel=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 1e-6])
@pytest.mark.parametrize("choose", ["importance", "weight", "random"])
def test_a_window_sends_the_share_of_every_pair_of_workers(graph, partition, share, choose):
    boundary = merge_boundary(graph, partition)
    knobs = Knobs(share=share, choose=choose)
    [windows] = sends(graph, boundary, knobs, 1)
    assert [window.last for window in windows] == training_windows(graph).tolist()
    for window in windows:
        for position, rows in enumerate(window.rows):
            t = window.last - graph.window + 1 + position
            assert set(rows) <= set(boundary.rows[t])
            for reader in range(P):
                for owner in range(P):

                    def count(numbers, reader=reader, owner=owner):
                        return int(
                            ((boundary.reader[numbers] == reader) & (boundary.owner[numbers] == owner)).sum()
                        )

                    assert count(rows) == math.ceil(share * count(boundary.rows[t]))


def test_importance_takes_turns(graph, partition):
    """With a half per turn, two windows of one cache set in turn leave no row behind that was never sent."""
    boundary = merge_boundary(graph, partition)
    knobs = Knobs(share=0.5, cache_windows=1)
    [windows] = sends(graph, boundary, knobs, 1)
    first, second = windows[0], windows[1]
    for position in range(graph.window):
        t = second.last - graph.window + 1 + position
        never = np.setdiff1d(boundary.rows[t], first.rows[position])
        sent = second.rows[position]
        for pair in {(boundary.reader[r], boundary.owner[r]) for r in never}:
            mine = [r for r in never if (boundary.reader[r], boundary.owner[r]) == pair]
            taken = [r for r in sent if (boundary.reader[r], boundary.owner[r]) == pair]
            assert len(set(mine) & set(taken)) == min(len(mine), len(taken))


def test_which_windows_and_epochs_communicate():
    assert communicating_windows(Knobs(), 0, 5) == [0, 1, 2, 3, 4]
    assert communicating_windows(Knobs(interval=3), 1, 5) == []
    assert communicating_windows(Knobs(interval=3, windows=2), 3, 5) == [0, 3]
    assert communicating_windows(Knobs(windows=2, when="first"), 0, 5) == [0, 1]
    drawn = communicating_windows(Knobs(windows=3, when="random"), 2, 9)
    assert len(set(drawn)) == 3 and set(drawn) <= set(range(9))


def test_most_important_first_those_never_sent_then_weight_times_age():
    weight = np.array([1, 5, 2, 9], dtype=np.float32)
    last = np.array([3, -1, 1, 9])
    order = [
        most_important(weight, last, c / 4, 10, how="importance", seed=[1]).tolist() for c in (1, 2, 3, 4)
    ]
    # 1 was never sent; then 2 * 9 = 18 > 9 * 1 = 9 > 1 * 7 = 7
    assert order == [[1], [1, 2], [1, 2, 3], [0, 1, 2, 3]]
    assert most_important(weight, last, 0.5, 10, how="weight", seed=[1]).tolist() == [1, 3]


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_rows_steps_add_up_what_was_chosen_and_nothing_else(graph, partition, share):
    boundary, n, parts = merge_boundary(graph, partition), graph.num_vertices, partition.parts
    [windows] = sends(graph, boundary, Knobs(share=share), 1)
    window = windows[3]
    forward, backward = row_steps(graph, partition, boundary, window)
    wanted = set()
    for position, rows in enumerate(window.rows):
        t = window.last - graph.window + 1 + position
        sent = {(boundary.reader[r], boundary.vertex[r]) for r in rows}
        for v in range(n):
            for u in graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]]:
                if (parts[v], u) in sent:
                    wanted.add((position * n + int(u), position * n + v))
    assert set(zip(forward.sources.tolist(), forward.targets.tolist(), strict=True)) == wanted
    assert forward.rows == backward.rows == window.count == len(backward.sources)
    assert (forward.owner[forward.sources] != forward.owner[forward.targets]).all()
    assert (backward.owner[backward.sources] != backward.owner[backward.targets]).all()


def test_a_summing_switch_gets_whole_sums(graph, partition):
    boundary, n, parts = merge_boundary(graph, partition), graph.num_vertices, partition.parts
    [windows] = sends(graph, boundary, Knobs(share=0.3), 1)
    forward, backward = sum_steps(graph, partition, Knobs(share=0.3), windows[2], 2)
    assert set(forward.sources) == set(backward.targets) and len(forward.sources) == len(backward.sources)
    for target in np.unique(forward.targets):
        position, v = divmod(int(target), n)
        t = windows[2].last - graph.window + 1 + position
        near = graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]]
        mine = forward.sources[forward.targets == target] - position * n
        assert sorted(mine) == sorted(near[parts[near] != parts[v]].tolist())


@pytest.mark.parametrize("source", ["traffic:60:20", "contacts:60:15", "social:60:15"])
def test_bytes_equal_those_of_the_trainers_formula(source):
    pytest.importorskip("torch")
    from workloads.training.dynamic.options import make_options
    from workloads.training.dynamic.plan import planned_bytes
    from workloads.training.dynamic.task import make_task

    graph = load_dynamic_graph(source)
    task = make_task(graph, 1)
    for system, share, placing in (
        ("swash", 0.3, "light-metis"), ("full", 1.0, "metis-union"), ("chunk", 1.0, "chunk"), ("snapshot",
        1.0, "snapshot"),
    ):  # fmt: skip
        made = partition_dynamic(graph, P, method=placing)
        knobs = Knobs(windows=4 if system == "swash" else 0, share=share)
        asked = {"system": system, "model": "tgcn", "layers": 3, "hidden": 8}
        options = make_options(asked | ({"p": share, "s": 4} if system == "swash" else {}))
        lasts = training_windows(graph)
        talking = dict.fromkeys(communicating_windows(knobs, 0, len(lasts)), share)
        told = planned_bytes(graph, task, made, options, epochs=[talking], parameters=0)
        ours = dict.fromkeys(("features", "embeddings", "gradients", "states"), 0)
        boundary = merge_boundary(graph, made) if made.fixed else None
        ends = merge_ends(graph, made, task.pairs) if made.fixed and task.pairs else None
        planned = next(sends(graph, boundary, knobs, 1, ends)) if boundary else [None] * len(lasts)
        for window, last in zip(planned, lasts.tolist(), strict=True):
            steps = row_steps(graph, made, boundary, window) if boundary else placed_steps(graph, made, last)
            for step in steps:
                blocks = 3 if step.kind == "states" else 2
                ours[step.kind] += blocks * step.rows * 8 * 4
            if task.pairs:
                if ends:
                    reader, vertex = ends.reader[window.ends], ends.vertex[window.ends]
                else:
                    keys, _ = needed_ends(made.temporal[last].astype(np.int64), task.pairs[last][0])
                    reader, vertex = keys // graph.num_vertices, keys % graph.num_vertices
                for step in end_steps(made, last, reader, vertex):
                    assert step.pairs and step.rows == len(vertex)
                    ours[step.kind] += step.rows * 8 * 4
            if options.inputs == "each":
                ours["features"] += input_step(graph, made, last).rows * graph.feature_width * 4
        told = {kind: told[kind] for kind in ours}
        if options.inputs != "each":
            ours["features"] = told["features"]
        assert ours == told, system


def test_copies_of_the_simulation_are_the_trainers():
    pytest.importorskip("torch")
    from workloads.compute_dynamic import copied_vertices
    from workloads.training.dynamic.options import make_options
    from workloads.training.dynamic.prepare import place
    from workloads.training.dynamic.task import make_task

    graph = load_dynamic_graph("social:150:15")
    made, task = partition_dynamic(graph, P, method="metis-union"), make_task(graph, 1)
    ends = merge_ends(graph, made, task.pairs)
    for layers in (1, 2, 3):
        placed = place(graph, task, make_options({"system": "dynahb", "layers": layers}), made)
        copies = copied_vertices(graph, made, layers - 1, (ends.reader, ends.vertex))
        assert [np.flatnonzero(mine).tolist() for mine in copies] == [own.tolist() for own in placed.copies]


@pytest.mark.parametrize("in_switch", [False, True])
def test_directed_plans_hold_every_edge_once(in_switch):
    random = np.random.default_rng(2)
    owner = random.integers(0, 4, 30).astype(np.int32)
    pairs = np.unique(random.integers(0, 30, (80, 2)), axis=0)
    pairs = pairs[owner[pairs[:, 0]] != owner[pairs[:, 1]]]
    plan = directed_plan(
        pairs[:, 0],
        pairs[:, 1],
        owner,
        workers=4,
        width=8,
        values_per_packet=30,
        name="x",
        in_switch=in_switch,
    )
    if in_switch:
        node = plan.boundary[plan.block_vertices]
        to = np.repeat(node, np.diff(plan.adj_ptr))
        found = set(zip(node[plan.adj].tolist(), to.tolist(), strict=True))
    else:
        source = np.repeat(plan.boundary, np.diff(plan.residual_ptr))
        found = set(zip(source.tolist(), plan.boundary[plan.residual_adj].tolist(), strict=True))
    assert found == {tuple(pair) for pair in pairs.tolist()}


def test_bad_knobs_are_one_line(graph):
    for given, told in (({"interval": 0}, "interval"), ({"share": 0.0}, "share"), ({"share": float("nan")},
    "share"),
                        ({"choose": "luck"}, "choose"), ({"windows": -1}, "windows")):  # fmt: skip
        with pytest.raises(InputError, match=told):
            Knobs(**given)
    with pytest.raises(InputError, match="vertices change workers"):
        merge_boundary(graph, partition_dynamic(graph, P, method="chunk"))
