"""The three models again, with dense matrices and loops, from the papers' formulas; one process, autograd.

Nothing of workloads/training/dynamic computes here: it only lends its starting weights and the prepared task.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

Weights = dict[str, Tensor]


def dense(graph, t: int) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 of a snapshot, float64[n, n]."""
    n = graph.num_vertices
    adjacency = np.eye(n)
    for v in range(n):
        adjacency[v, graph.indices[t][graph.indptr[t][v] : graph.indptr[t][v + 1]]] = 1
    scale = 1 / np.sqrt(adjacency.sum(1))
    return torch.from_numpy(adjacency * scale[:, None] * scale[None, :])


def gru(w: Weights, at: str, x: Tensor, h: Tensor) -> Tensor:
    """Cho et al. 2014, as torch's weights lie: reset, update, new."""
    a = x @ w[f"{at}.weight_ih"].T + w[f"{at}.bias_ih"]
    b = h @ w[f"{at}.weight_hh"].T + w[f"{at}.bias_hh"]
    k = h.shape[1]
    reset = torch.sigmoid(a[:, :k] + b[:, :k])
    update = torch.sigmoid(a[:, k : 2 * k] + b[:, k : 2 * k])
    new = torch.tanh(a[:, 2 * k :] + reset * b[:, 2 * k :])
    return (1 - update) * new + update * h


def linear(w: Weights, at: str, x: Tensor) -> Tensor:
    out = x @ w[f"{at}.weight"].T
    return out + w[f"{at}.bias"] if f"{at}.bias" in w else out


def tgcn(w: Weights, layers: int, adjacency: list[Tensor], x: list[Tensor]) -> Tensor:
    rows = x
    for layer in range(layers):
        inputs = [
            torch.relu(linear(w, f"convolutions.{layer}", a @ r))
            for a, r in zip(adjacency, rows, strict=True)
        ]
        state, rows = torch.zeros(len(x[0]), w["head.weight"].shape[1], dtype=torch.float64), []
        for given in inputs:
            state = gru(w, f"cells.{layer}", given, state)
            rows.append(state)
    return rows[-1]


def gclstm(w: Weights, layers: int, adjacency: list[Tensor], x: list[Tensor]) -> Tensor:
    hidden = w["head.weight"].shape[1]
    rows = [a @ r for a, r in zip(adjacency, x, strict=True)]
    for layer in range(layers):
        h = torch.zeros(len(x[0]), hidden, dtype=torch.float64)
        c = torch.zeros_like(h)
        states = []
        for t, given in enumerate(rows):
            before = adjacency[max(t - 1, 0)]  # at t = 0 the states are zero
            gates = linear(w, f"inputs.{layer}", given) + (before @ h) @ w[f"hiddens.{layer}.weight"].T
            i, f, g, o = (gates[:, q * hidden : (q + 1) * hidden] for q in range(4))
            kept = (before @ c) @ w[f"cells.{layer}.weight"].T
            c = torch.sigmoid(f) * kept + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        rows = states
    return rows[-1]


def evolvegcn(w: Weights, layers: int, adjacency: list[Tensor], x: list[Tensor]) -> Tensor:
    rows = x
    for layer in range(layers):
        weight, scorer, following = w[f"first.{layer}"], w[f"scorers.{layer}"], []
        for a, r in zip(adjacency, rows, strict=True):
            score = r @ scorer / scorer.norm()
            best = torch.sort(score, descending=True, stable=True).indices[: weight.shape[1]]
            z = (r[best] * torch.tanh(score[best])[:, None]).T
            part = [
                [w[f"gates.{layer}.{kind}.{i}"] for i in range(3)] for kind in ("inputs", "hiddens", "biases")
            ]
            update = torch.sigmoid(part[0][0] @ z + part[1][0] @ weight + part[2][0])
            reset = torch.sigmoid(part[0][1] @ z + part[1][1] @ weight + part[2][1])
            new = torch.tanh(part[0][2] @ z + part[1][2] @ (reset * weight) + part[2][2])
            weight = (1 - update) * weight + update * new
            following.append(torch.relu(a @ r @ weight))
        rows = following
    return rows[-1]


MODELS = {"tgcn": tgcn, "gclstm": gclstm, "evolvegcn": evolvegcn}


def trajectory(graph, task, model: str, weights: Weights, *, layers: int, epochs: int, lr: float):
    """(mean loss of each epoch, weights at the end). weights: to start from."""
    w = {name: value.clone().requires_grad_() for name, value in weights.items()}
    optimiser = torch.optim.Adam(list(w.values()), lr=lr)
    adjacency = [dense(graph, t) for t in range(graph.num_snapshots)]
    features = torch.from_numpy(task.features.astype(np.float64))
    losses = []
    for _ in range(epochs):
        total = 0.0
        for last in task.windows[0]:
            span = range(last - graph.window + 1, last + 1)
            rows = MODELS[model](w, layers, [adjacency[t] for t in span], [features[t] for t in span])
            if task.kind == "regression":
                wanted = torch.from_numpy(task.targets[last].astype(np.float64))
                loss = ((linear(w, "head", rows) - wanted) ** 2).mean()
            elif task.kind == "classification":
                log = torch.log_softmax(linear(w, "head", rows), 1)
                loss = -log[torch.arange(len(rows)), torch.tensor(task.targets[last])].mean()
            else:
                ends, labels = task.pairs[last]
                score = linear(w, "head", rows[ends[:, 0]] * rows[ends[:, 1]])[:, 0]
                sign = torch.from_numpy(labels.astype(np.float64))
                loss = -(
                    sign * torch.log(torch.sigmoid(score)) + (1 - sign) * torch.log(torch.sigmoid(-score))
                ).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach())
        losses.append(total / len(task.windows[0]))
    return losses, {name: value.detach().numpy() for name, value in w.items()}
