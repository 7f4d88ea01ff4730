"""Any number of workers trains what one does, and what they exchange is the formula's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workloads.errors import InputError
from workloads.training.transformer.graph_set import families
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.parallel import Gather, Ring, ToHeads, ToTokens, even_bounds
from workloads.training.transformer.prepare import check_workers
from workloads.training.transformer.shapes import exchanged_values

SYSTEMS = ("torchgt", "gp-raw", "gp-flash", "gp-sparse")


def losses(trainings) -> list[float]:
    return [row["loss"] for row in trainings[0].rows]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("workers", [2, 4, 3])
def test_workers_train_what_one_trains(karate, run_threads, system, workers):
    """34 tokens are not divisible by 4 or 3, and 8 heads not by 3."""
    common = {"system": system, "dropout": 0.1, "dense_every": 2}
    _, alone = run_threads(karate, 1, **common)
    _, together = run_threads(karate, workers, **common)
    np.testing.assert_allclose(losses(together), losses(alone), rtol=1e-9)
    own, theirs = alone[0].model.state_dict(), together[-1].model.state_dict()
    for name, value in own.items():
        assert torch.allclose(theirs[name], value, rtol=1e-7, atol=1e-10), name
    assert [row["validation_score"] for row in alone[0].rows] == [
        row["validation_score"] for row in together[0].rows
    ]


@pytest.mark.parametrize("exchange", ["all-to-all", "all-gather"])
def test_torchgt_with_either_exchange(debian_part, run_threads, exchange):
    common = {"epochs": 2, "exchange": exchange, "model": "gt", "beta": 10.0}
    _, alone = run_threads(debian_part, 1, **common)
    _, together = run_threads(debian_part, 2, **common)
    np.testing.assert_allclose(losses(together), losses(alone), rtol=1e-9)


@pytest.mark.parametrize("workers", [2, 4])
def test_the_exchange_is_4_s_d_over_p(debian_part, run_threads, workers):
    """400 tokens, width 64: counted where bytes leave, for each layer and both directions."""
    _, trainings = run_threads(debian_part, workers, epochs=1, precision="float32")
    formula = exchanged_values(400, 64, workers)
    assert formula == 4 * 400 * 64 / workers
    for training in trainings:
        for layer in range(4):
            for direction in ("forward", "backward"):
                rows = [
                    row
                    for row in training.ring.counted
                    if (row["layer"], row["direction"]) == (layer, direction)
                ]
                assert len(rows) == 2
                assert sum(row["handed_values"] for row in rows) == formula
                sent = formula * (workers - 1) / workers
                assert sum(row["sent_values"] for row in rows) == sent
                assert sum(row["sent_bytes"] for row in rows) == 4 * sent
    total = sum(row["sent_bytes"] for training in trainings for row in training.ring.counted)
    row = trainings[0].rows[0]
    assert row["forward_bytes"] + row["backward_bytes"] == total


def test_bfloat16_halves_the_bytes_and_all_gather_multiplies_them(debian_part, run_threads):
    sent = {}
    for name, options in (
        ("float32", {}),
        ("bfloat16", {"precision": "bfloat16"}),
        ("gather", {"exchange": "all-gather"}),
    ):
        _, trainings = run_threads(debian_part, 4, **{"epochs": 1, "precision": "float32", **options})
        sent[name] = trainings[0].rows[0]["forward_bytes"]
    assert sent["bfloat16"] * 2 == sent["float32"]
    # 2 S d (P-1)/P per worker against 4 S d (P-1)/P^2
    assert sent["gather"] == sent["float32"] * 4 / 2


def test_exchanges_are_each_others_inverse_and_gradient(threads):
    bounds, heads = even_bounds(11, 3), even_bounds(5, 3)
    whole = torch.arange(3 * 5 * 11 * 2, dtype=torch.float64).view(3, 5, 11, 2)

    def body(wire):
        ring = Ring(wire, heads, bounds)
        mine = whole[:, :, bounds[wire.rank] : bounds[wire.rank + 1]].clone().requires_grad_()
        seen = ToHeads.apply(mine, ring)
        assert torch.equal(seen, whole[:, ring.own_heads])
        back = ToTokens.apply(seen, ring)
        (back * mine.detach()).sum().backward()
        assert torch.equal(back, mine) and torch.equal(mine.grad, mine.detach())
        mine.grad = None
        every = Gather.apply(mine, ring)
        (every * (wire.rank + 1)).sum().backward()
        assert torch.equal(every, whole) and torch.equal(mine.grad, torch.full_like(mine, 1 + 2 + 3))
        return True

    assert threads(3, body) == [True] * 3


@pytest.mark.parametrize("system", ["torchgt", "gp-raw", "gp-flash"])
def test_batches_of_graphs_train_alike_on_workers(run_threads, system):
    graphs = families("families:40", 3)
    common = {"system": system, "exchange": "all-to-all", "epochs": 2, "batch": 16, "dense_every": 1}
    _, alone = run_threads(graphs, 1, **common)
    _, together = run_threads(graphs, 2, **common)
    np.testing.assert_allclose(losses(together), losses(alone), rtol=1e-9)
    assert losses(alone)[1] != losses(alone)[0]


def test_full_torchgt_layers_equal_gp_raw_on_graphs(run_threads):
    """On a set of graphs every pair's class is known, so a fully connected layer is GP-RAW's."""
    graphs = families("families:40", 3)
    _, ours = run_threads(graphs, 1, pattern="full", exchange="all-to-all", epochs=2)
    _, raw = run_threads(graphs, 1, system="gp-raw", exchange="all-to-all", epochs=2)
    np.testing.assert_allclose(losses(ours), losses(raw), rtol=1e-9)


def test_more_workers_than_heads_or_tokens_is_refused():
    with pytest.raises(InputError, match="8 heads to share out"):
        check_workers(TransformerOptions(), 1000, 9)
    with pytest.raises(InputError, match="only 5 tokens"):
        check_workers(TransformerOptions(), 5, 6)
    check_workers(TransformerOptions(exchange="all-gather"), 1000, 9)
