"""The models, each written once for any number of workers: T-GCN, GC-LSTM and EvolveGCN-H on sliding windows.

A model maps a window to its last snapshot's rows, through a `Window` (workloads/training/dynamic/window.py)
that moves rows between workers; every window starts from zero states. Weights are drawn from torch's seeded
generator, so every worker starts with the same ones.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import relu


class Window(Protocol):
    """What a model sees of a window of `positions` snapshots. Rows are one tensor per position."""

    positions: int

    def features(self) -> list[Tensor]:
        """Input features of the rows whose neighbourhoods this worker sums."""
        ...

    def mixed_features(self, first: int = 0) -> list[Tensor]:
        """Their weighted sums over neighbourhoods, from position `first` on."""
        ...

    def mix(self, rows: list[Tensor], site: str, first: int = 0, *, summed: bool = False) -> list[Tensor]:
        """Weighted sums of a layer's rows, of positions first, first + 1, ... . summed: the rows are where
        sums are, not where states are.
        """
        ...

    def to_states(self, rows: list[Tensor], first: int = 0) -> list[Tensor]:
        """Sums' rows, moved to where the states are."""
        ...

    def carry(self, state: Tensor, position: int) -> Tensor:
        """The states after position - 1, moved to where those of `position` are."""
        ...

    def top(self, rows: list[Tensor], scorer: Tensor, count: int, site: str) -> list[Tensor]:
        """Per position the `count` rows of the whole graph with the highest scores, float[count, w], each
        times the hyperbolic tangent of its score.
        """
        ...


class Model(nn.Module):
    """outputs: values per vertex; 0 for links, whose pairs are scored by `score_pairs`.

    summed_output: the output's rows are where the sums are.
    """

    summed_output = False

    def __init__(self, features: int, hidden: int, outputs: int, layers: int) -> None:
        super().__init__()
        self.widths = [features, *[hidden] * layers]
        self.hidden, self.layers = hidden, layers
        self.build()
        self.head = nn.Linear(hidden, outputs or 1)

    def build(self) -> None:
        """Create the weights."""
        raise NotImplementedError

    def forward(self, window: Window) -> Tensor:
        """float[r, hidden]: the last snapshot's rows."""
        raise NotImplementedError

    def predict(self, rows: Tensor) -> Tensor:
        """float[r, outputs]."""
        scores: Tensor = self.head(rows)
        return scores

    def score_pairs(self, left: Tensor, right: Tensor) -> Tensor:
        """float[e]: the logits of pairs, from the products of their ends' rows."""
        scores: Tensor = self.head(left * right).squeeze(1)
        return scores

    @staticmethod
    def sites(layers: int, hidden: int, features: int) -> dict[str, int]:
        """Names and widths of the exchanges of hidden rows in a window."""
        raise NotImplementedError

    @staticmethod
    def hops(layers: int, positions: int) -> int:
        """Exchanges of hidden rows that an output row depends on, one after the other."""
        raise NotImplementedError


class TGCN(Model):
    """GCN + GRU: T-GCN (Zhao et al., T-ITS 2020), whose cell takes the graph convolution of a snapshot in
    place of its features. `layers` blocks, each a convolution and a GRU; the next block convolves the states
    of the one before.
    """

    def build(self) -> None:
        """Create the weights."""
        self.convolutions = nn.ModuleList(nn.Linear(width, self.hidden) for width in self.widths[:-1])
        self.cells = nn.ModuleList(nn.GRUCell(self.hidden, self.hidden) for _ in range(self.layers))

    def forward(self, window: Window) -> Tensor:
        """float[r, hidden]: the last block's last states."""
        states: list[Tensor] = []
        for layer, (convolve, cell) in enumerate(zip(self.convolutions, self.cells, strict=True)):
            mixed = window.mix(states, f"layer {layer}") if layer else window.mixed_features()
            inputs = window.to_states([relu(convolve(rows)) for rows in mixed])
            states = [cell(inputs[0])]
            for position in range(1, window.positions):
                states.append(cell(inputs[position], window.carry(states[-1], position)))
        return states[-1]

    @staticmethod
    def sites(layers: int, hidden: int, features: int) -> dict[str, int]:
        """Every block but the first exchanges states, all positions at once."""
        return {f"layer {layer}": hidden for layer in range(1, layers)}

    @staticmethod
    def hops(layers: int, positions: int) -> int:
        """One per block but the first."""
        return layers - 1


class GCLSTM(Model):
    """GCN + LSTM: GC-LSTM (Chen, Wang and Xu, Applied Intelligence 2022): an LSTM whose hidden and cell
    states are convolved over the snapshot before, one step after the other. The paper's input, a row of the
    adjacency matrix, is here the convolved features, as vertices have features. Further blocks take the
    states of the one before.
    """

    def build(self) -> None:
        """Create the weights."""
        hidden = self.hidden
        self.inputs = nn.ModuleList(nn.Linear(width, 4 * hidden) for width in self.widths[:-1])
        self.hiddens = nn.ModuleList(nn.Linear(hidden, 4 * hidden, bias=False) for _ in range(self.layers))
        self.cells = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(self.layers))

    def forward(self, window: Window) -> Tensor:
        """float[r, hidden]: the last block's last hidden states."""
        states: list[Tensor] = []
        for layer in range(self.layers):
            if layer:
                given = [self.inputs[layer](rows) for rows in states]
            else:
                given = window.to_states([self.inputs[0](rows) for rows in window.mixed_features()])
            states, both = [], None
            for position in range(window.positions):
                gates = given[position]
                cell: Tensor | None = None
                if both is not None:
                    [mixed] = window.mix([both], f"layer {layer}", position - 1)
                    [mixed] = window.to_states([mixed], position - 1)
                    mixed = window.carry(mixed, position)
                    gates = gates + self.hiddens[layer](mixed[:, : self.hidden])
                    cell = self.cells[layer](mixed[:, self.hidden :])
                let_in, forget, new, let_out = gates.chunk(4, dim=1)
                kept = torch.sigmoid(let_in) * torch.tanh(new)
                if cell is not None:
                    kept = kept + torch.sigmoid(forget) * cell
                state = torch.sigmoid(let_out) * torch.tanh(kept)
                both = torch.cat([state, kept], dim=1)
                states.append(state)
        return states[-1]

    @staticmethod
    def sites(layers: int, hidden: int, features: int) -> dict[str, int]:
        """Every block exchanges hidden and cell states, at each position but the last."""
        return {f"layer {layer}": 2 * hidden for layer in range(layers)}

    @staticmethod
    def hops(layers: int, positions: int) -> int:
        """One per step and block."""
        return layers * (positions - 1)


class EvolveGCN(Model):
    """EvolveGCN-H (Pareja et al., AAAI 2020): a GCN whose weight matrices are the hidden states of a GRU over
    the snapshots; the GRU's input is a summary of the snapshot, its top-k rows by a learnt score, one per
    column.
    """

    summed_output = True

    def build(self) -> None:
        """Create the weights."""
        pairs = list(zip(self.widths[:-1], self.widths[1:], strict=True))
        self.first = nn.ParameterList(_uniform(a, b, fan=b) for a, b in pairs)
        self.scorers = nn.ParameterList(_uniform(a, fan=a) for a, _ in pairs)
        self.gates = nn.ModuleList(MatrixGRU(a, b) for a, b in pairs)

    def forward(self, window: Window) -> Tensor:
        """float[r, hidden]: the last layer's rows of the last snapshot, which is all that it needs to sum."""
        rows = window.features()
        for layer, (first, scorer, gates) in enumerate(
            zip(self.first, self.scorers, self.gates, strict=True)
        ):
            last = layer + 1 == self.layers
            start = window.positions - 1 if last else 0
            if layer:
                mixed = window.mix(rows[start:], f"layer {layer}", start, summed=True)
            else:
                mixed = window.mixed_features(start)
            tops = window.top(rows, scorer, self.widths[layer + 1], f"top {layer}")
            weights: list[Tensor] = []
            for summary in tops:
                weights.append(gates(summary.T, weights[-1] if weights else first))
            rows = [relu(part @ weight) for part, weight in zip(mixed, weights[start:], strict=True)]
        return rows[-1]

    @staticmethod
    def sites(layers: int, hidden: int, features: int) -> dict[str, int]:
        """Every layer but the first exchanges rows: all positions at once, the last layer the last only."""
        return {f"layer {layer}": hidden for layer in range(1, layers)}

    @staticmethod
    def hops(layers: int, positions: int) -> int:
        """One per layer but the first."""
        return layers - 1


class MatrixGRU(nn.Module):
    """EvolveGCN's GRU cell, whose input and hidden state are matrices float[a, b]."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.inputs = nn.ParameterList(_uniform(a, a, fan=a) for _ in range(3))
        self.hiddens = nn.ParameterList(_uniform(a, a, fan=a) for _ in range(3))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(a, b)) for _ in range(3))

    def forward(self, given: Tensor, hidden: Tensor) -> Tensor:
        """float[a, b]: the next hidden state."""
        update, reset = (
            torch.sigmoid(self.inputs[i] @ given + self.hiddens[i] @ hidden + self.biases[i])
            for i in range(2)
        )
        new = torch.tanh(self.inputs[2] @ given + self.hiddens[2] @ (reset * hidden) + self.biases[2])
        return (1 - update) * hidden + update * new


def _uniform(*shape: int, fan: int) -> nn.Parameter:
    bound = fan**-0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


MODELS: dict[str, type[Model]] = {"tgcn": TGCN, "gclstm": GCLSTM, "evolvegcn": EvolveGCN}
