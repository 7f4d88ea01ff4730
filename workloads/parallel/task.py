"""`Task`: what is trained: a graph with features and labels, and a model, with any scheme still open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.graph import Graph, make_graph
from workloads.parallel.scheme import GNN_AXES, TRANSFORMER_AXES
from workloads.training.data import TRAIN, TrainingData
from workloads.training.options import MODEL_NAMES
from workloads.training.transformer.graph_set import GraphSet
from workloads.training.transformer.prepare import laplacian_places
from workloads.training.transformer.shapes import SHAPES

ATTENTION = ("sparse", "dense", "flash", "topk")
CHECKPOINTED = ("gcn", "sage", *SHAPES)
TOPK_MOST = 32


@dataclass(frozen=True)
class ModelSpec:
    """A model and its sizes. heads, ffn, attention, topk: of transformers; topk: keys a query keeps."""

    name: str
    layers: int = 2
    hidden: int = 64
    heads: int = 8
    ffn: int = 64
    attention: str = "sparse"
    topk: int = 16

    def __post_init__(self) -> None:
        if self.name not in (*MODEL_NAMES, *SHAPES):
            allowed = ", ".join((*MODEL_NAMES, *SHAPES))
            raise InputError(f"model: {self.name[:40]!r} given; allowed: {allowed}")
        for what, most in (("layers", 256), ("hidden", 65_536), ("heads", 1024), ("ffn", 1 << 20)):
            if not 1 <= getattr(self, what) <= most:
                raise InputError(f"{what}: {getattr(self, what)} given; allowed: 1 to {most}")
        if self.attention not in ATTENTION:
            allowed = ", ".join(ATTENTION)
            raise InputError(f"attention: {self.attention[:40]!r} given; allowed: {allowed}")
        if not 1 <= self.topk <= TOPK_MOST:
            raise InputError(f"topk: {self.topk} given; allowed: 1 to {TOPK_MOST}")
        if self.transformer and self.hidden % self.heads:
            raise InputError(
                f"hidden: {self.hidden} given; {self.heads} heads need a multiple of {self.heads}"
            )

    @property
    def transformer(self) -> bool:
        """A graph transformer, not a message-passing network."""
        return self.name in SHAPES

    @property
    def axes(self) -> tuple[str, ...]:
        """Along which axes of a `Scheme` this model can be divided."""
        return TRANSFORMER_AXES if self.transformer else GNN_AXES


def model_spec(
    name: str,
    *,
    layers: int | None = None,
    hidden: int | None = None,
    attention: str = "sparse",
    topk: int = 16,
) -> ModelSpec:
    """A model by name, with its paper's sizes (transformers) or 2 x 64, where none are given."""
    if name in SHAPES:
        shape = SHAPES[name]
        wide = hidden or shape.hidden
        ffn = max(1, shape.ffn * wide // shape.hidden)
        return ModelSpec(name, layers or shape.layers, wide, shape.heads, ffn, attention, topk)
    return ModelSpec(name, 2 if layers is None else layers, 64 if hidden is None else hidden)


@dataclass(frozen=True, eq=False)
class Task:
    """sequence_length: a transformer's vertices per sequence; the graph is cut into about n / this many
    sequences by METIS, 0: one sequence, the whole graph. Full-batch: a step sees every training vertex.

    graphs: a set of small graphs, which `graph` has beside each other; labels and split are then a graph's
    (see `set_task`), a step sees every training graph, and a transformer's sequences are batches of them.
    """

    graph: Graph
    data: TrainingData
    model: ModelSpec
    sequence_length: int = 0
    seed: int = 1
    lr: float = 0.01
    precision: str = "float32"
    graphs: GraphSet | None = None

    def __post_init__(self) -> None:
        if self.data.multi_label:
            raise InputError(f"graph {self.graph.name}: several labels per vertex; allowed: one label")
        if self.sequence_length < 0:
            raise InputError(f"sequence length: {self.sequence_length} given; allowed: 0 or more")
        if self.graphs is not None and self.sequence_length:
            raise InputError("sequence length: not for a set of graphs, whose sequences are batches of them")

    @property
    def sequences(self) -> int:
        """Sequences of a step (transformers)."""
        return max(1, round(self.graph.num_vertices / self.sequence_length)) if self.sequence_length else 1

    @property
    def train_total(self) -> int:
        """Training vertices of the graph, or training graphs of the set."""
        return int((self.data.split == TRAIN).sum())

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        """The training vertices, or graphs."""
        return np.flatnonzero(self.data.split == TRAIN)

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """int64[g+1]: the first vertex of each graph of a set."""
        sizes = [graph.num_vertices for graph in self.graphs.graphs] if self.graphs else []
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def places(self) -> npt.NDArray[np.float32]:
        """float32[n, p]: GT's positional encoding, of each graph of a set; p = 0 for other models. Whoever
        starts workers asks for it first, so that all have the same bits: eigenvectors depend on rounding.
        """
        if not self.model.transformer or SHAPES[self.model.name].style != "gt":
            return np.zeros((self.graph.num_vertices, 0), dtype=np.float32)
        if self.graphs is None:
            return laplacian_places(self.graph)
        return np.concatenate([laplacian_places(graph) for graph in self.graphs.graphs])


DEGREE_CLASSES = 16


def set_task(
    graphs: GraphSet, model: ModelSpec, *, seed: int = 1, lr: float = 0.01, precision: str = "float32"
) -> Task:
    """The task of classifying the graphs of a set. Networks see each vertex's degree, one-hot (15: or more),
    and their scores are means over a graph's vertices; transformers score its virtual vertex.
    """
    sizes = [graph.num_vertices for graph in graphs.graphs]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.concatenate([np.diff(graph.indptr) for graph in graphs.graphs])
    indptr = np.concatenate([[0], np.cumsum(edges)]).astype(np.int64)
    moved = [graph.indices + np.int32(at) for graph, at in zip(graphs.graphs, starts[:-1], strict=True)]
    union = make_graph(graphs.name, (indptr, np.concatenate(moved).astype(np.int32)), graphs.provenance)
    features = np.eye(DEGREE_CLASSES, dtype=np.float32)[np.minimum(union.degrees, DEGREE_CLASSES - 1)]
    if model.transformer:
        features = np.ones((union.num_vertices, 1), dtype=np.float32)
    data = TrainingData(features, graphs.labels, graphs.split, graphs.num_classes, "degrees one-hot")
    return Task(union, data, model, seed=seed, lr=lr, precision=precision, graphs=graphs)
