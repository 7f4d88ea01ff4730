"""The models' shapes (TorchGT, table IV) and what one pass of them computes, moves and keeps."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.errors import InputError


@dataclass(frozen=True)
class Shape:
    """A graph transformer. ffn: width of the feed-forward network between its two products. style: what it is
    made of (see `model`): "graphormer" or "gt".
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    style: str

    @property
    def head_width(self) -> int:
        """Values of a head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights and biases of one layer, norms included."""
        d, f = self.hidden, self.ffn
        return 4 * d * (d + 1) + d * f + f + f * d + d + 4 * d


SHAPES = {
    shape.name: shape
    for shape in (
        # Graphormer's feed-forward network is as wide as its hidden states; GT's twice as wide.
        Shape("graphormer-slim", 4, 64, 8, 64, "graphormer"),
        Shape("graphormer-large", 12, 768, 32, 768, "graphormer"),
        Shape("gt", 4, 128, 8, 256, "gt"),
    )
}
MODEL_NAMES = tuple(SHAPES)


def shape_of(name: str) -> Shape:
    """Raises InputError for a model that is not known."""
    if name not in SHAPES:
        raise InputError(f"model: {name[:40]!r} given; allowed: {', '.join(SHAPES)}")
    return SHAPES[name]


@dataclass(frozen=True)
class Cost:
    """Of one layer, forward and backward together, on one device. flops: multiplications and additions;
    bytes: read and written at least; kept_bytes: what the forward pass leaves for the backward pass.
    """

    flops: float
    bytes: float
    kept_bytes: float


def attention_cost(
    kind: str, *, rows: int, keys: int, pairs: int, heads: int, width: int, size: int = 4
) -> Cost:
    """What an attention kind costs for `rows` queries of `heads` heads of `width` values over `keys` keys.

    pairs: attended pairs (rows * keys for dense, flash and full; for cluster give places in tiles plus single
    pairs). size: bytes of a value. Forward: two products of 2 w flops a pair; backward: five, because all but
    dense compute the scores again. A softmax counts 5 flops a pair.
    """
    products = 6 if kind == "dense" else 7
    flops = heads * pairs * (products * 2 * width + 10)
    states = (2 * rows + 2 * keys) * heads * width * size
    if kind == "dense":
        matrix = heads * rows * keys * size
        return Cost(flops, 3 * states + 8 * matrix, states + 2 * matrix)
    # Each pair reads a key and a value, and forward and backward read them again; flash tiles reuse theirs.
    per_pair = 0 if kind in ("flash", "full") else 5 * heads * pairs * width * size
    layout = 0 if kind in ("flash", "full") else 2 * heads * pairs * 5
    return Cost(flops, 3 * states + per_pair + layout, states + heads * rows * size)


def dense_part_cost(shape: Shape, rows: int, size: int = 4) -> Cost:
    """A layer without its attention: four projections, the feed-forward network, two norms, for `rows`."""
    d, f = shape.hidden, shape.ffn
    multiply = 4 * d * d + 2 * d * f
    flops = 3 * 2 * rows * multiply
    activations = rows * (8 * d + 2 * f) * size
    return Cost(flops, 3 * activations + 3 * shape.layer_parameters * size, activations)


def exchanged_values(sequence: float, hidden: int, workers: int, exchange: str = "all-to-all") -> float:
    """Values a worker hands to the exchanges of a layer's forward pass, the backward pass as many again: 4 S
    d / P with two all-to-alls (TorchGT, III-C), 2 S d when keys and values are copied to all. (P-1)/P of them
    leave it.
    """
    return 4 * sequence * hidden / workers if exchange == "all-to-all" else 2.0 * sequence * hidden
