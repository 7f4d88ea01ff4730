"""SYLVIE's epochs in a deep residual model, written once more with dense matrices."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, relu

from workloads.partition import partition_graph
from workloads.training.data import training_data

_spec = importlib.util.spec_from_file_location(
    "dense_reference", Path(__file__).with_name("dense_reference.py")
)
assert _spec is not None and _spec.loader is not None
dense = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dense)

LAYERS = 4


class _Late(torch.autograd.Function):
    """inside h + cross h', where h' and the gradient that other workers owe are of the epoch before."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, parts: tuple[Tensor, Tensor], kept: dict[str, Tensor], stale: bool):
        inside, cross = ctx.parts = parts
        ctx.kept, ctx.stale = kept, stale
        other = kept["rows"] if stale else hidden
        kept["rows"] = hidden.detach().clone()
        return inside @ hidden + cross @ other

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        inside, cross = ctx.parts
        owed = cross.T @ grads[0]
        used = ctx.kept["owed"] if ctx.stale else owed
        ctx.kept["owed"] = owed
        return inside.T @ grads[0] + used, None, None, None


def test_gcnii_follows_the_definition_wherever_the_controller_changes_the_mode(debian_part, run):
    """Current in a forced synchronous epoch, one epoch late in an asynchronous one, in every layer and both
    directions; the initial residual, the loss and Adam's step are never late.
    """
    got = run(
        debian_part, 3, system="sylvie", bits="32", gap=2, model="gcnii", layers=LAYERS, hidden=8, epochs=30
    )
    modes = [row["mode"] == "asynchronous" for row in got.epochs]
    assert any(row["forced_sync"] for row in got.epochs) and sum(modes) > 5

    owner = torch.from_numpy(partition_graph(debian_part, 3).parts.astype(np.int64))
    a = dense.normalised(debian_part)
    cross = a * (owner[:, None] != owner[None, :])
    w, x = dense.start(debian_part, "gcnii", LAYERS, 8)
    data = training_data(debian_part, 1)
    members = torch.from_numpy(np.flatnonzero(data.split == 0))
    labels = torch.from_numpy(data.labels.copy())
    optimiser = torch.optim.Adam(w.values(), lr=0.01)
    kept: list[dict[str, Tensor]] = [{} for _ in range(LAYERS)]
    for row, stale in zip(got.epochs, modes, strict=True):
        first = hidden = relu(linear(x, w["first.weight"], w["first.bias"]))
        for i in range(LAYERS):
            near = 0.9 * _Late.apply(hidden, (a - cross, cross), kept[i], stale) + 0.1 * first
            beta = math.log(0.5 / (i + 1) + 1)
            hidden = relu((1 - beta) * near + beta * linear(near, w[f"dense.{i}.weight"]))
        scores = linear(hidden, w["last.weight"], w["last.bias"])
        loss = cross_entropy(scores[members], labels[members])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        np.testing.assert_allclose(row["loss"], float(loss.detach()), rtol=1e-8)
    for name, value in w.items():
        np.testing.assert_allclose(got.weights[name], value.detach().numpy(), rtol=1e-5, atol=1e-8)
