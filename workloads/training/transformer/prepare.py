"""From a graph, or a set of graphs, to the workers' jobs, with the cost of every step of preparation."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.training.data import TEST, TRAIN, VALIDATION, TrainingData
from workloads.training.prepare import Keeping
from workloads.training.transformer.attention import kernel_of
from workloads.training.transformer.conditions import Conditions, check_conditions
from workloads.training.transformer.fits import check_fits
from workloads.training.transformer.graph_set import GraphSet, batches, with_virtual
from workloads.training.transformer.layout import PairLayout, permuted, topology
from workloads.training.transformer.measure import Choice, attention_ns, choose, pays_from, reform_error
from workloads.training.transformer.model import PLACES
from workloads.training.transformer.names import BATCH, SET_PREFIX
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.order import Order, make_order
from workloads.training.transformer.parallel import even_bounds
from workloads.training.transformer.patterns import Tiling, layout_row
from workloads.training.transformer.reform import density, reformed
from workloads.training.transformer.tokens import Tokens
from workloads.training.transformer.tuner import LADDER


@dataclass(frozen=True)
class Seat:
    """Which worker of how many."""

    rank: int
    workers: int


@dataclass(frozen=True, eq=False)
class TransformerJob:
    """What one worker is given. train: a step each; score: what is evaluated (the same one for a single
    graph). dense: one layer is fully connected every `dense_every` epochs. identity, checkpoints, ...: as of
    `Job`.
    """

    options: TransformerOptions
    local: Seat
    train: list[Tokens]
    score: list[Tokens]
    num_classes: int
    tiling: Tiling
    dense: bool
    identity: str = ""
    keeping: Keeping | None = None


@dataclass
class Prepared:
    """A run before it starts. costs: seconds of each step. order: tokens of the (first) sequence.
    reformations: a row per step of the tuner's ladder, what it moves and how far results move.
    """

    jobs: list[TransformerJob]
    conditions: Conditions
    dense: bool
    tiling: Tiling
    order: Order
    costs: dict[str, float] = field(default_factory=dict)
    tried: list[Choice] = field(default_factory=list)
    reformations: list[dict[str, Any]] = field(default_factory=list)


def identity(digest: str, workers: int, options: TransformerOptions) -> str:
    """What a run must have in common with the one that it continues: all but the number of epochs."""
    chosen = {name: value for name, value in asdict(options).items() if name not in ("epochs", "timeout_s")}
    return hashlib.sha256(f"{digest} {workers} {sorted(chosen.items(), key=str)}".encode()).hexdigest()


def check_workers(options: TransformerOptions, tokens: int, workers: int) -> None:
    """Raises InputError where a worker would have no head or no token. Uneven shares are fine."""
    heads = options.shape.heads
    if workers > heads and options.exchanging == "all-to-all":
        raise InputError(f"workers: {workers} given, but {options.model} has {heads} heads to share out")
    if workers > tokens:
        raise InputError(f"workers: {workers} given, but the sequence has only {tokens} tokens")


def check_one_graph(options: TransformerOptions, vertices: int, workers: int) -> None:
    """Raises InputError for what a sequence of one graph cannot have."""
    check_workers(options, vertices, workers)
    if options.batch is not None:
        raise InputError(f"batch: {options.batch} given with one graph; allowed with {SET_PREFIX}COUNT")
    if options.clusters > vertices:
        raise InputError(
            f"clusters: {options.clusters} given; allowed: 1 to {vertices}, the graph's vertices"
        )


def check_kernel(options: TransformerOptions, device: torch.device) -> None:
    """Raises InputError for a kernel that cannot train here, or that the system does not use."""
    if options.kernel == "auto":
        return
    if options.attention in ("dense", "flash"):
        raise InputError(f"kernel: given with system {options.system}, whose attention is torch's own")
    kernel_of(options.kernel, device, torch.float64 if options.precision == "float64" else torch.float32)


def check_set(options: TransformerOptions) -> None:
    """Raises InputError for what a set of graphs cannot have: each graph is a cluster of its own."""
    if options.exchanging == "all-gather":
        raise InputError("exchange: all-gather on a set of graphs; allowed: all-to-all")
    if options.order not in (None, "natural"):
        raise InputError(f"order: {options.order} on a set of graphs; allowed: natural, graph by graph")
    if options.clusters or options.beta is not None:
        name = "clusters" if options.clusters else "beta"
        raise InputError(
            f"{name}: given with a set of graphs, where nothing is reformed; allowed with one graph"
        )


def prepare_graph(
    graph: Graph,
    data: TrainingData,
    options: TransformerOptions,
    workers: int,
    device: torch.device,
    *,
    keeping: Keeping | None = None,
    kept: tuple[int, int, int] | None = None,
) -> Prepared:
    """One graph as one sequence. kept: (k, d_b, pairs of a tile) of a run that goes on, else measured."""
    check_one_graph(options, graph.num_vertices, workers)
    check_kernel(options, device)
    check_fits(options, graph.num_vertices, workers, device)
    costs: dict[str, float] = {}
    with _timed(costs, "structure"):
        pairs = topology(graph)
        places = laplacian_places(graph) if options.shape.style == "gt" else None
    tried: list[Choice] = []
    if options.attention == "cluster":
        with _timed(costs, "order_and_tiling"):
            order, whole, tiling, tried = choose(graph, pairs, options, device, kept=kept)
    else:
        with _timed(costs, "order"):
            order = make_order(graph, options.ordering, options.clusters or 8, options.seed)
            whole, tiling = permuted(pairs, order.order), Tiling(options.sub_block or 16, 1)
    with _timed(costs, "conditions"):
        conditions = check_conditions(whole, options.shape.layers)
    dense = interleaved(options, conditions)
    sequence = _sequence(graph, data, order, places)
    bounds = even_bounds(graph.num_vertices, workers)
    total = int((data.split == TRAIN).sum())
    segments = np.array([0, graph.num_vertices])
    run = identity(f"{graph.digest} {tiling} {order.clusters}", workers, options)
    jobs = []
    for rank in range(workers):
        rows = slice(bounds[rank], bounds[rank + 1])
        mine = {name: values[rows] for name, values in sequence.items()}
        tokens = Tokens(
            bounds,
            **mine,
            topology=whole,
            starts=order.starts,
            segments=segments,
            every=None,
            train_total=total,
        )
        seat = Seat(rank, workers)
        job = TransformerJob(options, seat, [tokens], [tokens], data.num_classes, tiling, dense, run, keeping)
        jobs.append(job)
    prepared = Prepared(jobs, conditions, dense, tiling, order, costs, tried)
    if options.attention == "cluster" and options.reform:
        with _timed(costs, "reformation_errors"):
            prepared.reformations = reformations(whole, order.starts, tiling, options.shape.head_width)
    return prepared


def prepare_set(
    graphs: GraphSet,
    options: TransformerOptions,
    workers: int,
    device: torch.device,
    *,
    keeping: Keeping | None = None,
    kept: tuple[int, int, int] | None = None,
) -> Prepared:
    """A set of small graphs as batches; each graph is a cluster, so nothing is reordered or reformed."""
    check_set(options)
    check_kernel(options, device)
    costs: dict[str, float] = {}
    gt = options.shape.style == "gt"
    with _timed(costs, "structure"):
        none = np.zeros((max(graph.num_vertices for graph in graphs.graphs), 0), dtype=np.float32)
        places = [laplacian_places(g) if gt else none[: g.num_vertices] for g in graphs.graphs]
        parts = {
            (part, rank): batches(
                graphs, part, size=options.batch or BATCH, seat=(rank, workers), places=places
            )
            for part in (TRAIN, VALIDATION, TEST)
            for rank in range(workers)
        }
    first = parts[TRAIN, 0][0]
    check_workers(options, min(tokens.count for batch in parts.values() for tokens in batch), workers)
    tiling = Tiling(options.sub_block or 16, 1)
    if kept is not None:
        tiling = Tiling(kept[1], kept[2])
    elif options.attention == "cluster":
        with _timed(costs, "tiling"):
            pair_ns = attention_ns(first.topology, options.shape.head_width, device) / first.topology.pairs
            tiling = Tiling(tiling.side, pays_from(tiling.side, options.shape.head_width, pair_ns, device))
    with _timed(costs, "conditions"):
        every = [check_conditions(with_virtual(graph), options.shape.layers) for graph in graphs.graphs]
    far = [found.reach for found in every if not found.all_pairs_reach]
    conditions = Conditions(
        all(found.self_attention for found in every),
        all(found.hamiltonian_path for found in every),
        not far,
        far[0] if far else "in every graph, by its virtual vertex",
    )
    dense = interleaved(options, conditions)
    run = identity(f"{graphs.digest} {tiling}", workers, options)
    jobs = []
    for rank in range(workers):
        train = parts[TRAIN, rank]
        score = [*train, *parts[VALIDATION, rank], *parts[TEST, rank]]
        seat = Seat(rank, workers)
        jobs.append(
            TransformerJob(options, seat, train, score, graphs.num_classes, tiling, dense, run, keeping)
        )
    order = Order(np.arange(first.count), first.starts)
    return Prepared(jobs, conditions, dense, tiling, order, costs)


def interleaved(options: TransformerOptions, conditions: Conditions) -> bool:
    """Whether fully connected layers are interleaved with TorchGT's topology pattern."""
    if options.attention != "cluster" or options.interleave == "never":
        return False
    return options.interleave == "always" or not conditions.hold


def reformations(
    whole: PairLayout, starts: npt.NDArray[np.int64], tiling: Tiling, width: int
) -> list[dict[str, Any]]:
    """Each step of the ladder: its threshold, what moves, and the error on random states."""
    rows = []
    own = density(whole)
    for multiple in LADDER:
        layout = reformed(whole, starts, side=tiling.side, beta=multiple * own, least=tiling.least)
        changed, everywhere = reform_error(whole, layout, width)
        errors = {"error_changed_rows": changed, "error": everywhere}
        rows.append({"beta_multiple": multiple, "beta": multiple * own, **layout_row(layout), **errors})
    return rows


def laplacian_places(graph: Graph) -> npt.NDArray[np.float32]:
    """float32[n, PLACES]: eigenvectors of the normalised Laplacian with the smallest eigenvalues above the
    first, times sqrt(n); their signs, which are arbitrary, such that the largest entry is positive. Fewer
    than PLACES + 2 vertices have zeros.
    """
    n = graph.num_vertices
    places = np.zeros((n, PLACES), dtype=np.float32)
    if n < PLACES + 2 or graph.num_edges == 0:
        return places
    scale = 1 / np.sqrt(np.maximum(1, graph.degrees))
    row = np.repeat(np.arange(n), graph.degrees)
    values = scale[row] * scale[graph.indices]
    matrix = sparse.csr_matrix((values, graph.indices, graph.indptr), shape=(n, n))
    start = np.random.default_rng(1).standard_normal(n)
    try:
        found, vectors = eigsh(matrix, k=PLACES + 1, which="LA", v0=start, tol=1e-3, maxiter=3000)
    except ArpackNoConvergence as error:
        raise InputError(f"graph {graph.name}: its Laplacian eigenvectors did not converge") from error
    vectors = vectors[:, np.argsort(-found)][:, 1:]
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(PLACES)]
    places[:] = vectors * np.where(largest < 0, -1, 1) * np.sqrt(n)
    return places


def _sequence(
    graph: Graph, data: TrainingData, order: Order, places: npt.NDArray[np.float32] | None
) -> dict[str, npt.NDArray[Any]]:
    """Everything that belongs to vertices, in the order of tokens."""
    at = order.order
    return {
        "features": data.features[at],
        "degrees": graph.degrees[at],
        "places": np.zeros((len(at), 0), dtype=np.float32) if places is None else places[at],
        "ids": at.astype(np.int32),
        "labels": data.labels[at],
        "split": data.split[at],
    }


@contextmanager
def _timed(costs: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    costs[f"{name}_s"] = time.perf_counter() - start
