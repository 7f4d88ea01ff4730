"""The models once more, dense, in one process, on torch's own autograd: what training must equal."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, elu, leaky_relu, relu

from workloads.graphs import Graph
from workloads.training.data import training_data
from workloads.training.models import MODELS


def dense_adjacency(graph: Graph) -> Tensor:
    """float64[n, n] of 0 and 1."""
    matrix = torch.zeros(graph.num_vertices, graph.num_vertices, dtype=torch.float64)
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    matrix[torch.from_numpy(rows), torch.from_numpy(graph.indices.astype(np.int64))] = 1
    return matrix


def normalised(graph: Graph) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, D of A + I."""
    looped = dense_adjacency(graph) + torch.eye(graph.num_vertices, dtype=torch.float64)
    scale = looped.sum(1).rsqrt()
    return scale[:, None] * looped * scale


def scores(name: str, w: dict[str, Tensor], graph: Graph, x: Tensor, layers: int) -> Tensor:
    """Class scores of all vertices; w: the model's parameters by name."""
    a = normalised(graph)

    def linear(at: str, h: Tensor) -> Tensor:
        return h @ w[f"{at}.weight"].T + w.get(f"{at}.bias", torch.zeros(1, dtype=torch.float64))

    if name == "gcn":
        for i in range(layers):
            x = linear(f"dense.{i}", a @ x)
            x = relu(x) if i + 1 < layers else x
        return x
    if name == "sage":
        adjacency = dense_adjacency(graph)
        mean = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
        for i in range(layers):
            x = linear(f"own.{i}", x) + linear(f"near.{i}", mean @ x)
            x = relu(x) if i + 1 < layers else x
        return x
    if name == "sgc":
        return linear("dense", torch.linalg.matrix_power(a, layers) @ x)
    if name == "gcnii":
        first = h = relu(linear("first", x))
        for i in range(layers):
            p = 0.9 * a @ h + 0.1 * first
            beta = math.log(0.5 / (i + 1) + 1)
            weight = (1 - beta) * torch.eye(len(w[f"dense.{i}.weight"]), dtype=torch.float64)
            h = relu(p @ (weight + beta * w[f"dense.{i}.weight"].T))
        return linear("last", h)
    if name == "jknet":
        kept = []
        for i in range(layers):
            x = relu(linear(f"dense.{i}", a @ x))
            kept.append(x)
        return linear("last", torch.cat(kept, 1))
    if name == "dagnn":
        z = linear("second", relu(linear("first", x)))
        hops = torch.stack([torch.linalg.matrix_power(a, k) @ z for k in range(layers + 1)], 1)
        return (torch.sigmoid(linear("gate", hops)) * hops).sum(1)
    assert name == "gat"
    mask = dense_adjacency(graph) + torch.eye(graph.num_vertices, dtype=torch.float64)
    for i in range(layers):
        z = linear(f"dense.{i}", x)
        logits = leaky_relu(linear(f"target.{i}", z) + linear(f"source.{i}", z).T, 0.2)
        x = torch.softmax(logits.masked_fill(mask == 0, -torch.inf), 1) @ z + w[f"bias.{i}"]
        x = elu(x) if i + 1 < layers else x
    return x


def start(graph: Graph, name: str, layers: int, hidden: int) -> tuple[dict[str, Tensor], Tensor]:
    """(parameters as every worker draws them with seed 1, features)."""
    data = training_data(graph, 1)
    x = torch.from_numpy(data.features.copy()).double()
    torch.manual_seed(1)
    model = MODELS[name](x.shape[1], hidden, data.num_classes, layers, 0.0).double()
    return {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}, x


def trajectory(
    graph: Graph, name: str, *, layers: int, hidden: int, epochs: int
) -> tuple[list[float], dict[str, Tensor]]:
    """(losses, final parameters) of Adam on the mean loss over the training vertices."""
    data = training_data(graph, 1)
    w, x = start(graph, name, layers, hidden)
    optimiser = torch.optim.Adam(w.values(), lr=0.01)
    members = torch.from_numpy(np.flatnonzero(data.split == 0))
    labels = torch.from_numpy(data.labels.copy())
    losses = []
    for _ in range(epochs):
        loss = cross_entropy(scores(name, w, graph, x, layers)[members], labels[members])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses, w
