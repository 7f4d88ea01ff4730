"""Sets of small graphs with a label each, and their batches as sequences.

`families:COUNT` is generated: which of four random families a graph comes from, all with about the same mean
degree, so that only its structure tells: independent edges, a rewired ring, preferential attachment, two
communities. Every graph of a batch gets a virtual vertex, joined to all of its others, whose scores are the
graph's (Graphormer, section 3.2). A batch is the graphs after each other; its attention never crosses from
one to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Graph, Provenance, content_digest, make_graph
from workloads.training.data import TEST, TRAIN, VALIDATION
from workloads.training.transformer.layout import PairLayout, from_pairs, topology
from workloads.training.transformer.names import SET_PREFIX
from workloads.training.transformer.parallel import even_bounds
from workloads.training.transformer.structure import SELF, VIRTUAL, distance_classes
from workloads.training.transformer.tokens import Tokens

FAMILIES = ("independent edges", "rewired ring", "preferential attachment", "two communities")
_LEAST, _MOST = 20, 100_000
_SIZES = (16, 33)


@dataclass(frozen=True, eq=False)
class GraphSet:
    """graphs, and labels int64[g] and split int8[g] of theirs."""

    name: str
    graphs: list[Graph]
    labels: npt.NDArray[np.int64]
    split: npt.NDArray[np.int8]
    num_classes: int
    provenance: Provenance
    digest: str


def families(source: str, seed: int) -> GraphSet:
    """The set of `families:COUNT`, 60/20/20 per cent to train, validate and test. Raises InputError."""
    text = source.removeprefix(SET_PREFIX)
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
    if not _LEAST <= count <= _MOST:
        raise InputError(
            f"graph {source[:80]!r}: graphs {text[:40]!r}, allowed is a whole number {_LEAST}..{_MOST}"
        )
    random = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int64) % len(FAMILIES)
    graphs = [_member(int(label), random) for label in labels]
    order = random.permutation(count)
    split = np.full(count, TEST, dtype=np.int8)
    split[order[: int(0.6 * count)]] = TRAIN
    split[order[int(0.6 * count) : int(0.8 * count)]] = VALIDATION
    arrays: list[Any] = [labels, split, *(part for graph in graphs for part in (graph.indptr, graph.indices))]
    digest = content_digest(arrays, 1, len(FAMILIES))
    told = Provenance("generated", "four families of random graphs", seed, ", ".join(FAMILIES))
    return GraphSet(source, graphs, labels, split, len(FAMILIES), told, digest)


def _member(label: int, random: np.random.Generator) -> Graph:
    n, seed = int(random.integers(*_SIZES)), int(random.integers(2**31))
    if label == 0:
        drawn = nx.gnm_random_graph(n, 2 * n, seed=seed)
    elif label == 1:
        drawn = nx.watts_strogatz_graph(n, 4, 0.15, seed=seed)
    elif label == 2:
        drawn = nx.barabasi_albert_graph(n, 2, seed=seed)
    else:
        half = n // 2
        inside, across = min(1.0, 3.4 / (half - 1)), 0.6 / half
        drawn = nx.stochastic_block_model([half, n - half], [[inside, across], [across, inside]], seed=seed)
    ends = np.array(list(drawn.edges), dtype=np.int32).reshape(-1, 2)
    place = random.permutation(n).astype(np.int32)  # numbers must not tell
    csr = build_csr(n, place[ends[:, 0]], place[ends[:, 1]])
    return make_graph("one", csr, Provenance("generated", FAMILIES[label], seed))


def batches(
    graphs: GraphSet, part: int, *, size: int, seat: tuple[int, int], places: list[npt.NDArray[np.float32]]
) -> list[Tokens]:
    """The batches of `size` graphs of one part of the split, as a worker gets them. seat: (rank, workers).
    places: Laplacian eigenvectors of each graph's vertices.
    """
    members = np.random.default_rng(part + 1).permutation(np.flatnonzero(graphs.split == part))
    groups = [members[at : at + size] for at in range(0, len(members), size)]
    return [batch(graphs, group, seat, places) for group in groups]


def with_virtual(graph: Graph) -> PairLayout:
    """Edges, self loops and a last vertex that attends to all and is attended by all."""
    own, n = topology(graph), graph.num_vertices
    row, column = own.ends()
    all_of_them, last = np.arange(n), np.full(n, n)
    ends = np.concatenate([row, all_of_them, last, [n]]), np.concatenate([column, last, all_of_them, [n]])
    classes = np.concatenate([own.classes, np.full(2 * n, VIRTUAL), [SELF]]).astype(np.uint8)
    return from_pairs(n + 1, n + 1, ends, classes)


def batch(
    graphs: GraphSet,
    members: npt.NDArray[np.int64],
    seat: tuple[int, int],
    places: list[npt.NDArray[np.float32]],
) -> Tokens:
    """One batch of these members, as `batches` makes them."""
    chosen = [graphs.graphs[member] for member in members]
    near = [with_virtual(graph) for graph in chosen]
    sizes = [layout.rows for layout in near]
    segments = np.concatenate([[0], np.cumsum(sizes)])
    total = int(segments[-1])
    bounds = even_bounds(total, seat[1])
    rows = slice(bounds[seat[0]], bounds[seat[0] + 1])
    degrees = np.concatenate([np.append(graph.degrees, -1) for graph in chosen])
    labels, split = np.zeros(total, dtype=np.int64), np.full(total, -1, dtype=np.int8)
    virtual = segments[1:] - 1
    labels[virtual], split[virtual] = graphs.labels[members], graphs.split[members]
    spots = np.concatenate([np.vstack([places[m], np.zeros((1, places[m].shape[1]))]) for m in members])
    every = [all_pairs(layout) for layout in near]
    return Tokens(
        bounds,
        np.ones((total, 1), dtype=np.float32)[rows],
        degrees[rows],
        spots.astype(np.float32)[rows],
        np.arange(total, dtype=np.int32)[rows],
        labels[rows],
        split[rows],
        topology=_beside(near, segments),
        starts=segments,
        segments=segments,
        every=_beside(every, segments),
        train_total=int((split == TRAIN).sum()),
    )


def all_pairs(layout: PairLayout) -> PairLayout:
    """Every pair of a graph with a virtual vertex, by distance in the graph without it."""
    n = layout.rows - 1
    row, column = layout.ends()
    inner = (row < n) & (column < n)
    own = from_pairs(n, n, (row[inner], column[inner]), layout.classes[inner])
    classes = np.full((n + 1, n + 1), VIRTUAL, dtype=np.uint8)
    classes[:n, :n] = distance_classes(own.indptr, own.indices, own.classes)
    classes[n, n] = SELF
    indptr = np.arange(n + 2, dtype=np.int64) * (n + 1)
    return PairLayout(n + 1, indptr, np.tile(np.arange(n + 1, dtype=np.int32), n + 1), classes.ravel())


def _beside(layouts: list[PairLayout], segments: npt.NDArray[np.int64]) -> PairLayout:
    """Layouts of graphs as one, without pairs between them."""
    total = int(segments[-1])
    lengths = np.concatenate([np.diff(layout.indptr) for layout in layouts])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = [layout.indices + np.int32(at) for layout, at in zip(layouts, segments[:-1], strict=True)]
    return PairLayout(
        total, indptr, np.concatenate(indices), np.concatenate([part.classes for part in layouts])
    )
