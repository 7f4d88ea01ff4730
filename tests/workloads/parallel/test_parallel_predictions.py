"""Profile, cost model, counts, predictions: against arithmetic, against what was really sent and kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.parallel import counts
from workloads.parallel.costs import CostModel, fit_costs, roofline_costs
from workloads.parallel.counts import count_parts, network_work, sequence_work
from workloads.parallel.kernels import (
    Sizes,
    attention_kernel,
    blocked,
    fused,
    kernel_of,
    random_local,
    spmm_kernel,
)
from workloads.parallel.local import KINDS, measure_local
from workloads.parallel.measure import measure_pairs
from workloads.parallel.pieces import Balance
from workloads.parallel.predict import Predictor, kernels_of
from workloads.parallel.profile import load_profile, save_profile, timed
from workloads.parallel.replan import Corrections, Observed, Watch, corrections
from workloads.parallel.scheme import Scheme, schemes
from workloads.parallel.shortlist import NEAR, shortlist
from workloads.parallel.task import Task, model_spec
from workloads.parallel.topk import ell_layout, topk_attention
from workloads.parallel.trace import trace_network
from workloads.parallel.training import Training
from workloads.training.adjacency import Adjacency
from workloads.training.data import training_data
from workloads.training.local_graph import local_graph
from workloads.training.transformer import attention
from workloads.training.transformer.layout import topology
from workloads.training.transformer.structure import CLASSES


@dataclass
class FlatNetwork:
    """alpha + beta * bytes for everything."""

    alpha_ns: float = 1e5
    beta: float = 1.0
    provenance: str = "made up"
    packed: bool = False

    def transfer_ns(self, kind, scheme, axes, size):
        return self.alpha_ns + self.beta * size

    def boundary_ns(self, scheme, width, size):
        return self.alpha_ns + self.beta * size

    def how(self, kind, scheme, axes, size):
        return ""


COSTS = roofline_costs(1e11, 2e10)


@pytest.fixture(scope="module")
def karate():
    graph = load_graph("karate", features=True)
    return graph, training_data(graph, 1)


@pytest.fixture(scope="module")
def blocks():
    graph = load_graph("reddit", scale=0.002, features=True)
    return graph, training_data(graph, 1)


def predictor(data, name: str, network=None, costs: CostModel = COSTS, **change) -> Predictor:
    sizes = {key: change.pop(key) for key in ("layers", "hidden", "attention") if key in change}
    limits = {key: change.pop(key) for key in ("memory_bytes", "worker_factors", "speeds") if key in change}
    task = Task(*data, model_spec(name, **sizes), **change)
    return Predictor(task, costs, network or FlatNetwork(), **limits)


@given(
    st.lists(st.floats(1, 1e4), min_size=4, max_size=4),
    st.sampled_from(["linear", "spmm/csr", "rows"]),
)
@settings(max_examples=30, deadline=None)
def test_a_cost_model_is_recovered_from_its_own_times(coefficients, kernel):
    model = CostModel({(kernel, "forward"): tuple(coefficients[: 2 if kernel == "rows" else 4])})
    rows = [
        {"kernel": kernel, "direction": "forward", "V": V, "E": E, "d": d, "out": d, "heads": 1, "keys": 1}
        for V, E, d in (
            (10, 40, 4),
            (100, 900, 8),
            (1000, 3000, 64),
            (50, 5000, 16),
            (4000, 9000, 2),
            (7, 7, 512),
        )
    ]
    for row in rows:
        sizes = Sizes(*(row[name] for name in ("V", "E", "d", "out", "heads", "keys")))
        row["ns"] = model.ns(kernel, "forward", sizes)
    fitted = fit_costs(pd.DataFrame(rows))
    between = Sizes(500, 2000, 32, 32)
    assert fitted.ns(kernel, "forward", between) == pytest.approx(
        model.ns(kernel, "forward", between), rel=0.01
    )
    assert fitted.error[kernel, "forward"] < 0.01


def test_spmm_variants_are_one_product():
    local = random_local(700, 5000)
    adjacency = Adjacency(local, torch.float64)
    values = torch.rand(700, 70, dtype=torch.float64, requires_grad=True)
    bias = torch.rand(70, dtype=torch.float64, requires_grad=True)
    weights = adjacency.weights["gcn"]
    plain = adjacency.aggregate(values, weights)
    assert torch.allclose(blocked(adjacency, values, weights), plain, rtol=1e-12)
    together, apart = fused(adjacency, values, weights, bias - 0.6), torch.relu(plain + bias - 0.6)
    assert torch.allclose(together, apart, rtol=1e-12) and 0 < (apart == 0).double().mean() < 1
    grad = torch.rand_like(apart)
    for mine, theirs in zip(
        torch.autograd.grad(together, (values, bias), grad),
        torch.autograd.grad(apart, (values, bias), grad),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, rtol=1e-10)


def test_topk_attention_of_all_neighbours_is_sparse_attention_and_of_few_the_strongest(karate):
    layout = topology(karate[0])
    ell = ell_layout(layout)
    torch.manual_seed(3)
    q, k, v = (torch.rand(2, 34, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    table = torch.rand(2, CLASSES, dtype=torch.float64)
    every = topk_attention(q, k, v, ell, most=99, table=table)
    exact = attention.sparse(q, k, v, layout, table)
    assert torch.allclose(every, exact, rtol=1e-10)
    grad = torch.rand_like(every)
    for mine, theirs in zip(
        torch.autograd.grad(every, (q, k, v), grad), torch.autograd.grad(exact, (q, k, v), grad), strict=True
    ):
        assert torch.allclose(mine, theirs, rtol=1e-9)
    one = topk_attention(q, k, v, ell, most=1)
    for head in range(2):
        for row in range(34):
            near = layout.indices[layout.indptr[row] : layout.indptr[row + 1]]
            strongest = near[int((k[head, near] @ q[head, row]).argmax())]
            assert torch.allclose(one[head, row], v[head, strongest])


def test_a_small_profile_is_kept_with_its_device_and_comes_back(tmp_path):
    rows = []
    for kernel in (spmm_kernel("csr", 50, 100, 8), attention_kernel("topk", 50, 100, d=8, heads=2)):
        forward, inputs = kernel.make()
        ahead, back = timed(forward, inputs)
        assert ahead > 0 and back > 0
        sizes = {name: getattr(kernel.sizes, name) for name in ("V", "E", "d", "out", "heads", "keys")}
        key = {"kernel": kernel.kernel, "direction": "forward"}
        rows.append({**key, **sizes, "ns": ahead, "low_ns": ahead, "high_ns": ahead})
    path = tmp_path / "device.parquet"
    save_profile(path, pd.DataFrame(rows))
    table, facts = load_profile(path)
    assert list(table["kernel"]) == ["spmm/csr", "attention/topk"]
    assert "torch" in facts["versions"] and "torch" in facts["device"]
    with pytest.raises(InputError, match="no backward times of spmm/csr"):
        fit_costs(table).ns("spmm/csr", "backward", Sizes(1))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table at all"])
def test_damaged_profiles_are_one_line(tmp_path, content):
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="profile: ") as caught:
        load_profile(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="there is no"):
        load_profile(tmp_path / "none.parquet")


def test_counts_are_those_of_the_local_graphs(blocks):
    graph = blocks[0]
    parts = np.random.default_rng(1).integers(0, 3, graph.num_vertices).astype(np.int32)

    class Parts:
        k = 3

    Parts.parts = parts
    share = count_parts(graph, parts, 3)
    for rank in range(3):
        local = local_graph(graph, Parts, rank)
        assert share.vertices[rank] == len(local.inner)
        assert share.edges[rank] == len(local.indices)
        assert share.halo[rank] == len(local.halo)
        assert share.sent[rank] == sum(len(rows) for rows in local.send)


def test_many_replicas_are_sampled_and_say_so(blocks):
    task = predictor(blocks, "gcn").task
    assert not network_work(task, Scheme(data=2), Balance()).sampled
    work = network_work(task, Scheme(data=64), Balance())
    assert work.sampled and len(work.shares) < 64


def test_parts_of_closures_may_be_scaled_from_the_whole_graphs(monkeypatch):
    """Of large graphs on many workers: one partition per number of parts, and not one per scheme."""
    graph = load_graph("planted:1500", features=True)
    task = Task(graph, training_data(graph, 1), model_spec("gcn"))
    for scheme in (Scheme(data=4, partition=4), Scheme(data=2, partition=8, accumulate=2)):
        exact = network_work(task, scheme, Balance(1.0, 0.1))
        with monkeypatch.context() as patch:
            patch.setattr(counts, "MOST_EDGE_WORKERS", 0)
            scaled = network_work(task, scheme, Balance(1.0, 0.1))
        assert scaled.sampled and not exact.estimated
        for mine, theirs in zip(scaled.shares[0], exact.shares[0], strict=True):
            for name in ("vertices", "edges", "halo", "sent"):
                told, counted = getattr(mine, name), getattr(theirs, name)
                assert told.sum() == pytest.approx(counted.sum(), rel=0.1), name
                assert told.max() == pytest.approx(counted.max(), rel=0.25), name
    whole = Scheme(partition=4)
    with monkeypatch.context() as patch:
        patch.setattr(counts, "MOST_EDGE_WORKERS", 0)
        assert not network_work(task, whole, Balance()).estimated  # nothing to scale


SET_OF_KERNELS = (
    ("linear", Sizes(20, d=4, out=3)),
    ("linear/first", Sizes(20, d=4, out=3)),
    ("relu", Sizes(20, d=4)),
    ("rows", Sizes(20, d=4)),
    ("loss", Sizes(20, d=4)),
    ("gcn", Sizes(20, 60, 4, 5)),
    ("mean", Sizes(20, 60, 4)),
    ("attend", Sizes(20, 60, 4, 5)),
    ("layer/gt", Sizes(20, d=8, out=4, heads=2, keys=6)),
    ("layer/graphormer", Sizes(20, d=8, out=8, heads=4, keys=8)),
    ("adam", Sizes(100, keys=4)),
    ("gradients", Sizes(100, keys=4)),
    ("message", Sizes(20, d=4)),
    ("spmm/fused", Sizes(20, 60, 4)),
    ("attention/sparse", Sizes(20, 60, 8, heads=2)),
    ("attention/dense", Sizes(20, 400, 8, heads=2)),
)


@pytest.mark.parametrize(("name", "sizes"), SET_OF_KERNELS)
def test_kernels_of_any_size_can_be_made_and_run(name, sizes):
    kernel = kernel_of(name, sizes)
    assert kernel.kernel == name
    same = ("V", "d", "out", "heads") if name != "attention/sparse" else ("V", "d", "heads")
    assert all(getattr(kernel.sizes, field) == getattr(sizes, field) for field in same)
    forward, inputs = kernel.make()
    ahead, back = timed(forward, inputs)
    assert ahead > 0 and (back > 0 or name in ("adam", "gradients", "message"))


def test_this_machine_is_measured_with_all_workers_at_it(monkeypatch):
    monkeypatch.setattr("workloads.parallel.local.ROUNDS", 2)
    network, exact = measure_local(2, SET_OF_KERNELS[:3])
    assert {kind for kind, members in network.curves if members == 2} == set(KINDS)
    times = [curve.times_ns for (_, members), curve in network.curves.items() if members == 2]
    assert all(ns > 0 for curve in times for ns in curve)
    assert sum(curve[-1] for curve in times) > sum(curve[0] for curve in times)  # 4 MB against 1 kB
    for name, sizes in SET_OF_KERNELS[:3]:
        assert exact[name, "forward", sizes] > 0 and exact[name, "backward", sizes] > 0


@pytest.mark.parametrize(
    ("name", "change"),
    [("gat", {}), ("sage", {}), ("gt", {"sequence_length": 60}), ("graphormer-slim", {"attention": "topk"})],
)
def test_the_kernels_of_predictions_are_known_beforehand(blocks, name, change):
    """Predictions can be made of nothing but kernels measured at their sizes."""
    made = predictor(blocks, name, **change)
    chosen = schemes(4, made.task.model.axes, turns=(1, 2))
    wanted = kernels_of(made.task, COSTS, chosen)
    exact = {(kernel, way, size): 1e5 for kernel, size in wanted for way in ("forward", "backward")}
    only = Predictor(made.task, CostModel({}, exact=exact), FlatNetwork(packed=True), balance=made.balance)
    told = only.rank(chosen)
    assert sum(one.why_not == "" for one in told) == sum(not one.why_not for one in made.rank(chosen)) > 0
    for one in told:
        if not one.why_not:
            assert one.compute_ns / 1e5 == pytest.approx(round(one.compute_ns / 1e5))


def test_measured_times_calibrate_the_model_of_a_kernels_other_sizes():
    near, far = Sizes(100, d=8, out=8), Sizes(900, d=8, out=8)
    model = COSTS.calibrated({("linear", "forward", near): 3 * COSTS.ns("linear", "forward", near)})
    for sizes in (near, far):
        told = model.ns("linear", "forward", sizes)
        assert told == pytest.approx(3 * COSTS.ns("linear", "forward", sizes))
    assert model.ns("linear", "backward", far) == COSTS.ns("linear", "backward", far)


def test_the_shortlist_is_what_the_prediction_cannot_tell_apart(blocks):
    made = predictor(blocks, "gcn")
    ranked = made.rank(schemes(4, made.task.model.axes, turns=(1,)))
    chosen = shortlist(ranked)
    assert chosen[0] == ranked[0].scheme and 1 <= len(chosen) <= 5
    times = {one.scheme: one.step_ns for one in ranked}
    assert all(times[scheme] <= NEAR * ranked[0].step_ns for scheme in chosen)
    assert shortlist(ranked, 1) == [ranked[0].scheme]
    assert shortlist(made.rank([Scheme(sequence=4)])) == []


def test_sequence_work_counts_every_vertex_once(blocks):
    task = predictor(blocks, "gt", sequence_length=60).task
    work = sequence_work(task, Scheme(data=2, accumulate=2), Balance())
    assert sum(v for one in work.shares for turn in one for v, _ in turn) == task.graph.num_vertices


def test_predicted_bytes_are_the_bytes_sent(blocks):
    """Of each kind of parallelism alone, on two workers, all traffic of a step."""
    cases = (
        ("gcn", {"hidden": 32}),
        ("sage", {"hidden": 32}),
        ("graphormer-slim", {"layers": 2, "sequence_length": 233}),
    )
    pairs = [
        (made, scheme)
        for made in (predictor(blocks, name, **change) for name, change in cases)
        for scheme in schemes(2, made.task.model.axes, turns=(1,), checkpoints=made.task.model.name != "sage")
    ]
    run = [(made.task, scheme) for made, scheme in pairs]
    measured = measure_pairs(run, rounds=1, balance=pairs[0][0].balance)
    for (made, scheme), one in zip(pairs, measured, strict=True):
        told, what = made.predict(scheme), (made.task.model.name, scheme.name)
        assert told.why_not == one.failure == ""
        # The busiest worker's; two workers send about alike.
        assert told.sent_bytes == pytest.approx(one.sent_bytes / 2, rel=0.12), what
        assert told.memory["activations"] == pytest.approx(one.kept_bytes, rel=0.3) or scheme.checkpoint
        assert told.memory["activations"] >= 0.9 * one.kept_bytes, what


@pytest.mark.parametrize("name", ["gcn", "sage", "jknet", "gcnii", "dagnn", "sgc", "gat"])
def test_what_a_traced_model_keeps_is_what_it_keeps(blocks, name):
    made = predictor(blocks, name, hidden=16)
    told = made.predict(Scheme())
    training = Training(made.task, Scheme(), 0)
    kept = training.step(measure=True).kept_bytes
    training.close()
    assert told.memory["activations"] == pytest.approx(kept, rel=0.1)


def test_ops_of_a_trace_are_the_models():
    trace = trace_network("gcn", (30, 20, 5), 3)
    assert [(op.kind, op.width, op.out) for op in trace.ops] == [
        ("gcn", 30, 30),
        ("linear", 30, 20),
        ("gcn", 20, 20),
        ("linear", 20, 20),
        ("gcn", 20, 20),
        ("linear", 20, 5),
    ]
    assert [op.grad for op in trace.ops] == [False, False, True, True, True, True]
    assert trace.parameters == 30 * 20 + 20 + 20 * 20 + 20 + 20 * 5 + 5


def test_the_choice_follows_graph_model_and_machine(blocks):
    """Free transfers favour divisions without repeated work; dear ones favour those that send least."""
    four = schemes(4, ("data", "partition", "tensor"), turns=(1,), checkpoints=False)
    free = predictor(blocks, "gcn", FlatNetwork(0, 0)).rank(four)
    dear = predictor(blocks, "gcn", FlatNetwork(1e9, 1e3)).rank(four)
    assert free[0].scheme.data == 1  # closures overlap: replicas compute most vertices again
    assert dear[0].scheme == Scheme(data=4)
    assert dear[0].step_ns > free[0].step_ns
    assert [one.step_ns for one in free] == sorted(one.step_ns for one in free)


def test_what_does_not_fit_is_ranked_last_and_says_why(blocks):
    made = predictor(blocks, "gcn", hidden=256)
    chosen = schemes(2, made.task.model.axes, turns=(1,))
    sizes = sorted(one.memory_bytes for one in made.rank(chosen))
    tight = predictor(blocks, "gcn", hidden=256, memory_bytes=(sizes[0] + sizes[-1]) / 2)
    ranked = tight.rank(chosen)
    assert not ranked[0].why_not and ranked[-1].why_not.startswith("needs ")
    assert "activations" in ranked[-1].why_not and "features" in ranked[-1].why_not
    fits = [not one.why_not for one in ranked]
    assert fits == sorted(fits, reverse=True)


def test_checkpoints_and_turns_trade_time_for_memory(blocks):
    made = predictor(blocks, "graphormer-slim", sequence_length=60)
    plain, turns, checkpoint = (
        made.predict(scheme) for scheme in (Scheme(), Scheme(accumulate=4), Scheme(checkpoint=True))
    )
    assert turns.memory_bytes < plain.memory_bytes and checkpoint.memory_bytes < plain.memory_bytes
    assert checkpoint.step_ns > plain.step_ns


def test_alpha_and_beta_are_the_profiles(blocks):
    fast_sums = replace(COSTS, coefficients=COSTS.coefficients | {("gcn", "forward"): (1, 0, 0, 0, 0)})
    assert fast_sums.balance(64)[1] < COSTS.balance(64)[1]
    made = predictor(blocks, "gcn")
    assert (made.balance.alpha, made.balance.beta) == COSTS.balance(64)


def test_a_slow_worker_gets_a_smaller_part(blocks):
    made = predictor(blocks, "gcn", worker_factors=(1.0, 3.0), speeds=True)
    share = made.work(Scheme(partition=2)).shares[0][0]
    assert share.vertices[1] < 0.6 * share.vertices[0]
    even = predictor(blocks, "gcn", worker_factors=(1.0, 3.0))
    assert made.predict(Scheme(partition=2)).step_ns < even.predict(Scheme(partition=2)).step_ns
    assert made.balance_of(Scheme(data=2)).shares == ()


def test_watch_waits_for_two_epochs_beyond_the_threshold():
    def seen(ns):
        return Observed(np.array([ns, ns / 2]), np.array([0.0, ns / 2]))

    watch = Watch(1.5)
    assert not watch.beyond(100, seen(140.0))
    assert not watch.beyond(100, seen(200.0))
    assert not watch.beyond(100, seen(100.0))  # one hiccup
    assert not watch.beyond(100, seen(50.0))
    assert watch.beyond(100, seen(300.0))  # slower or faster, both are wrong
    assert watch.median().step_ns == pytest.approx(175)


@given(st.floats(0.2, 5), st.floats(0.2, 5), st.floats(0.2, 5))
@settings(max_examples=30, deadline=None)
def test_corrections_make_the_prediction_right(first, second, transfers):
    graph = load_graph("karate", features=True)
    made = predictor((graph, training_data(graph, 1)), "gcn")
    told = made.predict(Scheme(data=2))
    seen = Observed(
        np.array([first, second]) * told.compute_ns,
        np.array([1.0, 1.2]) * transfers * told.transfer_ns,
    )
    found = corrections(told, Corrections((1.0, 1.0), 1.0), seen)
    assert found.workers == pytest.approx((first, second))
    assert found.transfers == pytest.approx(transfers)
    again = Predictor(
        made.task, COSTS, made.network, worker_factors=found.workers, transfer_factor=found.transfers
    ).predict(Scheme(data=2))
    expected = max(first, second) * told.compute_ns + transfers * told.transfer_ns
    assert again.step_ns == pytest.approx(expected, rel=1e-6)
