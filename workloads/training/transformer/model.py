"""Graphormer and GT, written once for any number of workers.

Graphormer (Ying et al., NeurIPS 2021): degree (centrality) embeddings on the input, a bias per head for each
pair's distance and edge, norms before attention and feed-forward network. GT (Dwivedi and Bresson, 2021):
Laplacian eigenvectors on the input, a bias for edge kinds alone, norms after. Weights come from torch's
seeded generator, so that every worker starts with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu

from workloads.training.dropout import drop
from workloads.training.transformer.shapes import Shape
from workloads.training.transformer.structure import (
    CLASSES,
    EDGE_KINDS,
    FIRST_EDGE,
    TWO,
    spatial_of_class,
)
from workloads.training.transformer.tokens import Tokens

MOST_DEGREE = 511
"""Higher degrees share an embedding, as in Graphormer."""
VIRTUAL_DEGREE = MOST_DEGREE + 1
PLACES = 8
"""Laplacian eigenvectors of GT."""

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, [3, H, rows, w] queries, keys and values of all heads, table [H, CLASSES]) -> [H, rows, w]."""


class BiasTable(nn.Module):
    """The learned bias of each structural class and head, shared by all layers."""

    def __init__(self, heads: int, *, distances: bool) -> None:
        super().__init__()
        spatial = torch.from_numpy(spatial_of_class())
        self.register_buffer("spatial_of_class", spatial, persistent=False)
        self.edge = nn.Parameter(torch.zeros(EDGE_KINDS, heads))
        self.spatial = nn.Parameter(torch.zeros(int(spatial.max()) + 1, heads)) if distances else None

    def forward(self) -> Tensor:
        """float[H, CLASSES]."""
        edge = torch.zeros(CLASSES, self.edge.shape[1], dtype=self.edge.dtype, device=self.edge.device)
        edge = torch.cat([edge[:FIRST_EDGE], self.edge, edge[TWO:]])
        if self.spatial is not None:
            edge = edge + self.spatial[self.get_buffer("spatial_of_class")]
        return edge.t().contiguous()


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.hidden
        self.shape, self.before = shape, shape.style == "graphormer"
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.wide, self.narrow = nn.Linear(d, shape.ffn), nn.Linear(shape.ffn, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(
        self, x: Tensor, attend: Callable[[Tensor], Tensor], dropped: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """x: float[rows, d]. attend: [3, H, rows, w] -> [H, rows, w]."""
        rows, heads, w = x.shape[0], self.shape.heads, self.shape.head_width
        inner = self.norms[0](x) if self.before else x
        states = self.qkv(inner).view(rows, 3, heads, w).permute(1, 2, 0, 3)
        seen = self.out(attend(states).transpose(0, 1).reshape(rows, heads * w))
        x = x + dropped(seen)
        x = x if self.before else self.norms[0](x)
        inner = self.norms[1](x) if self.before else x
        x = x + dropped(self.narrow((gelu if self.before else relu)(self.wide(inner))))
        return x if self.before else self.norms[1](x)


class GraphTransformer(nn.Module):
    """Class scores of tokens from their features and structure."""

    def __init__(self, shape: Shape, features: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.shape, self.share = shape, dropout
        graphormer = shape.style == "graphormer"
        self.first = nn.Linear(features, shape.hidden)
        self.degree = nn.Embedding(VIRTUAL_DEGREE + 1, shape.hidden) if graphormer else None
        self.place = None if graphormer else nn.Linear(PLACES, shape.hidden, bias=False)
        self.virtual = nn.Parameter(torch.zeros(shape.hidden))
        self.table = BiasTable(shape.heads, distances=graphormer)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden) if graphormer else nn.Identity()
        self.last = nn.Linear(shape.hidden, classes)
        if self.degree is not None:
            nn.init.normal_(self.degree.weight, std=0.02)

    def forward(self, inputs: Inputs, attend: Attend, key: int) -> Tensor:
        """float[rows, classes]. key: 32 bits, another for every seed and epoch, for dropout."""
        x = self.first(inputs.features)
        if self.degree is not None:
            x = x + self.degree(inputs.degrees)
        if self.place is not None:
            x = x + self.place(inputs.places)
        x = torch.where(inputs.virtual[:, None], self.virtual.to(x.dtype), x)
        table = self.table()
        for number, layer in enumerate(self.layers):
            keys = iter((key + 2 * number, key + 2 * number + 1))

            def dropped(values: Tensor, keys: Iterator[int] = keys) -> Tensor:
                if not self.training or not self.share:
                    return values
                return drop(values, inputs.ids, self.share, next(keys) * 0x9E3779B1)

            x = layer(x, lambda states, number=number: attend(number, states, table), dropped)
        result: Tensor = self.last(self.norm(x))
        return result


class Inputs:
    """A worker's rows of a sequence on its device: see `tokens.Tokens`."""

    def __init__(self, tokens: Tokens, dtype: torch.dtype, device: torch.device) -> None:
        degrees = torch.from_numpy(tokens.degrees).to(device)
        self.virtual = degrees < 0
        self.degrees = torch.where(self.virtual, VIRTUAL_DEGREE, degrees.clamp(0, MOST_DEGREE))
        self.features = torch.tensor(tokens.features, dtype=dtype, device=device)
        self.places = torch.tensor(tokens.places, dtype=dtype, device=device)
        self.ids = torch.from_numpy(tokens.ids).to(device)
        labels = torch.tensor(tokens.labels)
        self.labels = (labels.to(dtype) if labels.dim() == 2 else labels).to(device)
        split = torch.from_numpy(tokens.split)
        self.members = [torch.nonzero(split == part)[:, 0].to(device) for part in range(3)]
