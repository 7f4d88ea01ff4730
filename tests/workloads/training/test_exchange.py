"""The boundary exchange, between threads: who gets what of which epoch, sampling, bytes; the ring sum."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.training import lanes
from workloads.training.adjacency import Adjacency
from workloads.training.exchange import Exchange
from workloads.training.local_graph import local_graph
from workloads.training.traffic import EpochPlan
from workloads.training.view import View


def feature(vertices: np.ndarray, epoch: int = 0) -> torch.Tensor:
    """float64[n, 3]: rows that tell vertex and epoch."""
    ids = torch.from_numpy(vertices).double()
    return torch.stack([ids, ids * ids, torch.full_like(ids, epoch)], dim=1)


@pytest.fixture(scope="module")
def parted(karate):
    return karate, partition_graph(karate, 3, method="random")


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(0, 50), st.sampled_from(["random", "metis", "contiguous"]))
def test_local_graphs_hold_every_edge_once_and_agree_on_what_is_sent(workers, seed, method):
    graph = load_graph("karate")
    partition = partition_graph(graph, workers, method=method, seed=seed)
    locals_ = [local_graph(graph, partition, rank) for rank in range(workers)]
    assert sorted(np.concatenate([part.inner for part in locals_])) == list(range(34))
    for part in locals_:
        vertices = part.vertices
        for at, v in enumerate(part.inner):
            near = vertices[part.indices[part.indptr[at] : part.indptr[at + 1]]]
            assert sorted(near) == sorted(graph.indices[graph.indptr[v] : graph.indptr[v + 1]])
        assert (part.degrees == graph.degrees[vertices]).all()
        at = 0
        for peer, count in enumerate(part.receive):
            wanted = part.halo[at : at + count]
            sent = locals_[peer].inner[locals_[peer].send[part.rank]]
            assert wanted.tolist() == sent.tolist()
            at += count
        assert at == len(part.halo)
    if workers > 1:
        sends = sum(len(rows) for part in locals_ for rows in part.send)
        assert sends == partition.stats(graph)["host_sends"]


def test_forward_brings_the_owners_rows_and_backward_adds_up_what_halos_owe(parted, in_threads):
    graph, partition = parted

    def body(exchange, local, wire):
        exchange.begin(EpochPlan(0))
        inner = feature(local.inner).requires_grad_()
        halo = exchange.halo(inner, 1)
        assert torch.equal(halo, feature(local.halo))
        (halo * feature(local.halo)).sum().backward()
        return local.inner, inner.grad

    for vertices, grad in in_threads(graph, partition, body):
        for v, row in zip(vertices, grad, strict=True):
            near = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
            users = set(partition.parts[near].tolist()) - {int(partition.parts[v])}
            assert row.tolist() == (len(users) * feature(np.array([v]))[0]).tolist()


def test_stale_epochs_use_the_previous_messages_and_a_forced_sync_the_current_ones(parted, in_threads):
    stale = [False, True, True, False, True]
    expected = [0, 0, 1, 3, 3]

    def body(exchange, local, wire):
        seen, grads = [], []
        for epoch, lagging in enumerate(stale):
            exchange.begin(EpochPlan(epoch, stale=lagging, keep=True))
            inner = feature(local.inner, epoch).requires_grad_()
            halo = exchange.halo(inner, 1)
            assert torch.equal(halo[:, 0], feature(local.halo)[:, 0])
            seen.append(halo[:, 2].unique().tolist())
            (halo * (epoch + 1)).sum().backward()
            users = sum(
                torch.bincount(torch.from_numpy(rows), minlength=len(local.inner)) for rows in local.send
            )
            sent = users > 0
            grads.append((inner.grad[sent, 0] / users[sent]).unique().tolist())
        tags = {(t.epoch, t.direction): t.message_epoch for t in exchange.traffic}
        return seen, grads, tags

    for seen, grads, tags in in_threads(*parted, body):
        assert seen == [[epoch] for epoch in expected]
        assert grads == [[epoch + 1] for epoch in expected]
        for direction in ("forward", "backward"):
            assert [tags[epoch, direction] for epoch in range(5)] == expected


def test_what_was_handed_over_may_be_overwritten_at_once(parted, in_threads):
    def body(exchange, local, wire):
        got = []
        for epoch in range(30):
            exchange.begin(EpochPlan(epoch, stale=epoch > 0, keep=True))
            inner = feature(local.inner, epoch)
            got.append(exchange.halo(inner, 1)[:, 2].clone())
            inner.fill_(-1)
        return got

    for got in in_threads(*parted, body):
        for epoch, tags in enumerate(got):
            assert (tags == max(0, epoch - 1)).all()


STALE = [False, True, True, False, True, True]
USED = [0, 0, 1, 3, 3, 4]


def tags_seen(parted, in_threads) -> bool:
    """Whether models see inner rows of the epoch and halo rows of that which `USED` says, on a slow wire."""

    def body(exchange, local, wire):
        swap, right = wire.all_to_all, True

        def slow(outgoing, sizes):
            received = swap(outgoing, sizes)
            time.sleep(0.05)
            return received

        wire.all_to_all = slow
        adjacency = Adjacency(local, torch.float64)
        degree = torch.from_numpy(local.degrees[: len(local.inner)]).double()
        near = np.add.reduceat(local.indices < len(local.inner), local.indptr[:-1])
        inside = torch.from_numpy(near).double()
        for epoch, stale in enumerate(STALE):
            exchange.begin(EpochPlan(epoch, stale=stale, keep=True))
            view = View(adjacency, exchange, torch.from_numpy(local.inner), seed=1, epoch=epoch)
            mean = view.mean(torch.full((len(local.inner), 1), float(epoch + 1), dtype=torch.float64), 1)
            expected = (inside * (epoch + 1) + (degree - inside) * (USED[epoch] + 1)) / degree
            right &= torch.allclose(mean[:, 0], expected, rtol=1e-12)
        return right

    return all(in_threads(*parted, body))


def test_models_see_current_inner_rows_and_halo_rows_of_the_right_epoch(parted, in_threads):
    assert tags_seen(parted, in_threads)


def test_without_waiting_for_the_transfer_they_would_not(parted, in_threads, monkeypatch):
    monkeypatch.setattr(lanes._ThreadTicket, "wait", lambda ticket: None)
    assert not tags_seen(parted, in_threads)


def test_a_cuda_lane_orders_its_stream_after_what_was_computed_and_before_what_is_read():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    device = torch.device("cuda", 0)
    lane = lanes.make_lane(device)
    assert isinstance(lane, lanes.StreamLane)
    size, got = 1 << 22, torch.zeros(1 << 22, device=device)
    for epoch in range(1, 20):
        made = torch.full((size,), float(epoch), device=device)
        for _ in range(20):
            made = made * 1.0  # keeps the computing stream busy

        def transfer(made: torch.Tensor = made) -> None:
            got.copy_(made)

        lane.lend(made)
        ticket = lane.submit(transfer)
        del made
        ticket.wait()
        assert float((got - epoch).abs().max()) == 0
        assert ticket.elapsed_ns() > 0
    lane.close()


def test_what_the_next_epoch_needs_survives_a_checkpoint(parted, in_threads):
    def body(exchange, local, wire):
        other = Exchange(local, wire, seed=5)
        seen = []
        for epoch in range(6):
            now = exchange if epoch < 3 else other
            now.begin(EpochPlan(epoch, stale=epoch > 0, keep=True))
            if epoch == 3:
                now.restore(exchange.state())
            halo = now.halo(feature(local.inner, epoch), 1)
            seen.append(halo[:, 2].unique().tolist())
        other.close()
        return seen

    for seen in in_threads(*parted, body):
        assert seen == [[0], [0], [1], [2], [3], [4]]


def test_a_share_of_the_halo_is_unbiased_and_costs_its_share(parted, in_threads):
    epochs, share = 150, 0.3

    def body(exchange, local, wire):
        inner = feature(local.inner)
        total = torch.zeros(len(local.halo), 3, dtype=torch.float64)
        for epoch in range(epochs):
            exchange.begin(EpochPlan(epoch, share=share))
            total += exchange.halo(inner, 1)
        sent = sum(t.main_bytes for t in exchange.traffic)
        return total / epochs, feature(local.halo), sent, sum(len(rows) for rows in local.send) * 24

    results = in_threads(*parted, body)
    # Each of these is Binomial(epochs, share) / (epochs * share), vertex 0 left out, whose row is 0.
    ratios = torch.cat([(mean / exact)[exact[:, 0] > 0, 0] for mean, exact, _, _ in results])
    error = ((1 - share) / share / epochs) ** 0.5
    assert torch.all((ratios - 1).abs() <= 5 * error)
    assert abs(float(ratios.mean()) - 1) <= 5 * error / len(ratios) ** 0.5
    sent, whole = (sum(result[at] for result in results) for at in (2, 3))
    assert abs(sent / epochs / whole / share - 1) <= 5 * error / (whole / 24) ** 0.5


def test_sampled_gradients_go_to_the_owners_of_the_sampled_rows(parted, in_threads):
    def body(exchange, local, wire):
        exchange.begin(EpochPlan(7, share=0.5))
        inner = feature(local.inner, epoch=1).requires_grad_()
        halo = exchange.halo(inner, 1)
        halo.sum().backward()
        taken = local.halo[(halo[:, 2] != 0).numpy()]
        return taken.tolist(), {int(v): float(g) for v, g in zip(local.inner, inner.grad[:, 0], strict=True)}

    results = in_threads(*parted, body)
    taken = [v for rows, _ in results for v in rows]
    assert 0 < len(taken) < sum(len(local_graph(*parted, rank).halo) for rank in range(3))
    for _, grads in results:
        for vertex, grad in grads.items():
            assert grad == 2 * taken.count(vertex)  # every sampled row brings 1/share home


def test_quantised_rows_stay_within_a_step_and_count_main_and_scale_bytes(parted, in_threads):
    def body(exchange, local, wire):
        bits = torch.from_numpy(np.array([1, 2, 4, 8], np.uint8)[local.vertices % 4])
        exchange.begin(EpochPlan(0, bits=bits))
        rows = torch.sin(feature(local.inner)).float().repeat(1, 3)
        expected = torch.sin(feature(local.halo)).float().repeat(1, 3)
        halo = exchange.halo(rows, 1)
        step = (expected.max(1).values - expected.min(1).values) / (2.0 ** bits[len(local.inner) :] - 1)
        assert torch.all((halo - expected).abs() <= step[:, None] * 1.0001 + 1e-6)
        sent = np.concatenate([local.inner[rows] for rows in local.send])
        widths = np.array([1, 2, 4, 8])[sent % 4]
        [record] = exchange.traffic
        assert record.main_bytes == int(np.sum(-(-9 * widths // 8)))
        assert record.scale_bytes == 8 * len(sent)
        return True

    assert in_threads(*parted, body) == [True] * 3


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_the_ring_sums_alike_everywhere_and_counts_what_it_sends(count, parted, in_threads):
    def body(exchange, local, wire):
        values = torch.arange(count, dtype=torch.float64) * (local.rank + 1) + local.rank
        return values, wire.all_reduce(values)

    results = in_threads(*parted, body)
    expected = torch.arange(count, dtype=torch.float64) * 6 + 3
    for values, _ in results:
        assert torch.equal(values, expected)
    assert sum(sent for _, sent in results) == 2 * 2 * count * 8
