"""Time, traffic and memory per device of a scheme, from the profile's cost model and a network.

Computation is the slowest worker's; transfers are not overlapped with it, as in the trainers. A turn is
forward, backward, and again forward with checkpoints. Memory is what a worker holds at its peak: weights with
gradients and Adam's moments, features, the graph's arrays, and what autograd keeps of the largest turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.parallel.costs import CostModel
from workloads.parallel.counts import Known, Share, Work, network_work, sequence_work
from workloads.parallel.grid import splits
from workloads.parallel.kernels import Sizes
from workloads.parallel.network import Network
from workloads.parallel.pieces import Balance
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task
from workloads.parallel.trace import Op, Trace, layer_kept, trace_network
from workloads.parallel.training import ROWS, check_scheme
from workloads.training.transformer.model import PLACES, VIRTUAL_DEGREE
from workloads.training.transformer.shapes import SHAPES
from workloads.training.transformer.structure import EDGE_KINDS, spatial_of_class

VALUE_BYTES = 4
WEIGHT_COPIES = 4  # value, gradient, Adam's two moments
EDGE_BYTES = 52  # per directed edge: ends, the transposed order, weights of both aggregators, host copies
VERTEX_BYTES = 24  # per vertex: offsets, degrees, ids
PAIR_BYTES = 24  # per attended pair: a layout's arrays and their tensors


@dataclass
class Parts:
    """Named ns or bytes that add up. factor: of the worker that they are of."""

    compute_ns: dict[str, float] = field(default_factory=dict)
    transfer_ns: dict[str, float] = field(default_factory=dict)
    sent_bytes: float = 0.0
    factor: float = 1.0

    def scale(self, factor: float) -> None:
        """Multiply computation."""
        self.compute_ns = {name: ns * factor for name, ns in self.compute_ns.items()}

    def compute(self, name: str, ns: float) -> None:
        """Add to a kernel's time."""
        self.compute_ns[name] = self.compute_ns.get(name, 0.0) + ns

    def transfer(self, name: str, ns: float, sent: float) -> None:
        """Add to a transfer's time, and to what the busiest worker sends."""
        self.transfer_ns[name] = self.transfer_ns.get(name, 0.0) + ns
        self.sent_bytes += sent


@dataclass(frozen=True)
class Prediction:
    """step_ns = compute_ns + transfer_ns. compute, transfers: by kernel and by transfer; sent_bytes: of the
    busiest worker in a step; memory: bytes by what holds them. why_not: why it cannot be, or "".
    """

    scheme: Scheme
    step_ns: float = float("inf")
    compute: dict[str, float] = field(default_factory=dict)
    transfers: dict[str, float] = field(default_factory=dict)
    sent_bytes: float = 0.0
    memory: dict[str, float] = field(default_factory=dict)
    sampled: bool = False
    why_not: str = ""

    @property
    def compute_ns(self) -> float:
        """The slowest worker's."""
        return sum(self.compute.values())

    @property
    def transfer_ns(self) -> float:
        """All transfers'."""
        return sum(self.transfers.values())

    @property
    def memory_bytes(self) -> float:
        """At the peak."""
        return sum(self.memory.values())


class _Nowhere:
    """A network on which nothing takes any time."""

    provenance, packed = "none", True

    def transfer_ns(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> float:
        return 0.0

    def boundary_ns(self, scheme: Scheme, width: int, size: float) -> float:
        return 0.0

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        return ""


class _Noting(CostModel):
    """Costs that note what they are asked for."""

    seen: set[tuple[str, Sizes]]

    def ns(self, kernel: str, direction: str, sizes: Sizes) -> float:
        self.seen.add((kernel, sizes))
        return super().ns(kernel, direction, sizes)


def kernels_of(
    task: Task, costs: CostModel, chosen: list[Scheme], balance: Balance | None = None
) -> list[tuple[str, Sizes]]:
    """The kernels, with their sizes, that predictions of these schemes are made of."""
    noting = _Noting(costs.coefficients)
    object.__setattr__(noting, "seen", set())
    Predictor(task, noting, _Nowhere(), balance=balance).rank(chosen)
    return sorted(noting.seen, key=str)


class Predictor:
    """Predicts schemes of one task. worker_factors, transfer_factor: what measured times said of predicted
    ones; speeds: the workers differ, so that parts of a graph should too. balance: other than the costs'.
    """

    def __init__(
        self,
        task: Task,
        costs: CostModel,
        network: Network,
        *,
        memory_bytes: float = float("inf"),
        worker_factors: tuple[float, ...] = (),
        transfer_factor: float = 1.0,
        speeds: bool = False,
        balance: Balance | None = None,
    ) -> None:
        self.task, self.costs, self.network = task, costs, network
        self.memory_bytes = memory_bytes
        self.worker_factors, self.transfer_factor, self.speeds = worker_factors, transfer_factor, speeds
        self.balance = balance or Balance(*costs.balance(task.model.hidden))
        self._work: dict[tuple[int, int, int], Work] = {}
        self._known = Known()

    def predict(self, scheme: Scheme) -> Prediction:
        """One scheme's prediction; `why_not` where it cannot be run or does not fit."""
        try:
            check_scheme(self.task, scheme)
            predict = _transformer if self.task.model.transformer else _network
            found = predict(self, scheme)
        except InputError as error:
            return Prediction(scheme, why_not=str(error))
        if found.memory_bytes > self.memory_bytes:
            reason = f"needs {_size(found.memory_bytes)} of {_size(self.memory_bytes)}: " + ", ".join(
                f"{name} {_size(value)}" for name, value in found.memory.items() if value > 0
            )
            return Prediction(**{**found.__dict__, "why_not": reason})
        return found

    def rank(
        self, chosen: list[Scheme], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> list[Prediction]:
        """All of them, the fastest that fits first; those that do not fit last."""
        found = []
        for number, scheme in enumerate(chosen, 1):
            found.append(self.predict(scheme))
            progress(number, len(chosen))
        return sorted(found, key=lambda one: (bool(one.why_not), one.step_ns, one.scheme))

    def work(self, scheme: Scheme) -> Work:
        """A network's counts, which tensor and checkpoints do not change."""
        key = scheme.data, scheme.accumulate, scheme.partition
        if key not in self._work:
            known = None if self._by_speed(scheme) else self._known
            self._work[key] = network_work(self.task, scheme, self.balance_of(scheme), known)
        return self._work[key]

    def balance_of(self, scheme: Scheme) -> Balance:
        """How a scheme's parts are evened out; by the workers' speeds where each has a part of its own."""
        if not self._by_speed(scheme):
            return self.balance
        shares = tuple(1 / factor for factor in self.worker_factors)
        return Balance(self.balance.alpha, self.balance.beta, shares)

    def factors(self, scheme: Scheme) -> NDArray[np.float64]:
        """float[partition]: of computation, by part; the slowest worker's where parts are shared."""
        if self._by_speed(scheme):
            return np.array(self.worker_factors)
        return np.full(scheme.partition, max(self.worker_factors, default=1.0))

    def _by_speed(self, scheme: Scheme) -> bool:
        return self.speeds and scheme.partition == scheme.workers == len(self.worker_factors) > 1

    def cost(self, kernel: str, direction: str, sizes: Sizes) -> float:
        """A kernel's time on a worker as fast as the profile says."""
        return self.costs.ns(kernel, direction, sizes)

    def transfer(
        self, parts: Parts, name: str, kind: str, *, scheme: Scheme, axes: tuple[str, ...], size: float
    ) -> None:
        """Add one collective along `axes` to `parts`, under `name`."""
        members = scheme.members(axes)
        if members == 1 or size <= 0:
            return
        share = (members - 1) / members
        sent = {"all-reduce": 2 * share, "all-gather": share, "all-to-all": 1.0}[kind] * size
        ns = self.transfer_factor * self.network.transfer_ns(kind, scheme, axes, size)
        how = self.network.how(kind, scheme, axes, size)
        parts.transfer(f"{name} ({how})" if how else name, ns, sent)


def _network(predictor: Predictor, scheme: Scheme) -> Prediction:
    task = predictor.task
    model, data = task.model, task.data
    widths = (data.features.shape[1], model.hidden, data.num_classes)
    trace = trace_network(model.name, widths, model.layers)
    kept = trace_network(model.name, widths, model.layers, checkpoints=True) if scheme.checkpoint else trace
    work = predictor.work(scheme)
    slowest: Parts | None = None
    for turns in work.shares:
        parts = Parts()
        for share in turns:
            _network_turn(predictor, scheme, trace, share, parts)
        if slowest is None or sum(parts.compute_ns.values()) > sum(slowest.compute_ns.values()):
            slowest = parts
    assert slowest is not None
    own = trace.parameters / scheme.tensor
    _update(predictor, scheme, own, trace.tensors, slowest)
    slowest.scale(slowest.factor)
    memory = _network_memory(scheme, trace, kept, work, (own, widths[0]))
    # The loss keeps its targets' probabilities; METIS spreads targets over parts about evenly.
    targets = _targets(task, scheme)
    memory["activations"] += VALUE_BYTES * targets * data.num_classes
    step = sum(slowest.compute_ns.values()) + sum(slowest.transfer_ns.values())
    return Prediction(
        scheme, step, slowest.compute_ns, slowest.transfer_ns, slowest.sent_bytes, memory, work.sampled
    )


def _update(predictor: Predictor, scheme: Scheme, own: float, tensors: int, parts: Parts) -> None:
    """Gradients added up, and Adam's step."""
    sizes = Sizes(int(own), keys=tensors)
    if scheme.members(ROWS) > 1:
        parts.compute("gradients", predictor.cost("gradients", "forward", sizes))
    predictor.transfer(parts, "gradients", "all-reduce", scheme=scheme, axes=ROWS, size=VALUE_BYTES * own)
    parts.compute("adam", predictor.cost("adam", "forward", sizes))


def _targets(task: Task, scheme: Scheme) -> int:
    """Targets of a turn on one worker, about."""
    shares = scheme.data * scheme.accumulate * scheme.partition * scheme.sequence
    return max(1, task.train_total // shares)


def _loss(predictor: Predictor, scheme: Scheme, parts: Parts) -> None:
    sizes = Sizes(_targets(predictor.task, scheme), d=predictor.task.data.num_classes)
    for direction in ("forward", "backward"):
        parts.compute("loss", predictor.cost("loss", direction, sizes))


def _network_turn(predictor: Predictor, scheme: Scheme, trace: Trace, share: Share, parts: Parts) -> None:
    weights = share.vertices * predictor.balance.alpha + share.edges * predictor.balance.beta
    worst = int((weights * predictor.factors(scheme)).argmax())
    parts.factor = float(predictor.factors(scheme)[worst])
    V, E, halo = int(share.vertices[worst]), int(share.edges[worst]), int(share.halo[worst])
    passes = ["forward", "forward", "backward"] if scheme.checkpoint else ["forward", "backward"]
    _loss(predictor, scheme, parts)
    for number, op in enumerate(trace.ops, 1):
        for direction in passes:
            if op.kind == "linear":
                last = number == len(trace.ops)
                _linear(predictor, scheme, op, V=V, direction=direction, parts=parts, last=last)
            elif direction == "forward" or op.grad:
                _propagate(
                    predictor, scheme, op, sizes=(V, E, halo), direction=direction, share=share, parts=parts
                )


def _linear(
    predictor: Predictor, scheme: Scheme, op: Op, *, V: int, direction: str, parts: Parts, last: bool
) -> None:
    whole = op.out == 1  # is not divided
    out = op.out if whole else max(1, splits(op.out, scheme.tensor)[0])
    kernel = "linear" if op.grad else "linear/first"
    parts.compute("linear", predictor.cost(kernel, direction, Sizes(V, d=op.width, out=out)))
    if not last:
        parts.compute("relu", predictor.cost("relu", direction, Sizes(V, d=op.out)))
    if whole:
        return
    if direction == "forward":
        size = VALUE_BYTES * V * op.out
        predictor.transfer(parts, "columns of maps", "all-gather", scheme=scheme, axes=("tensor",), size=size)
    elif op.grad:
        size = VALUE_BYTES * V * op.width
        predictor.transfer(
            parts, "gradients of inputs", "all-reduce", scheme=scheme, axes=("tensor",), size=size
        )


def _propagate(
    predictor: Predictor,
    scheme: Scheme,
    op: Op,
    *,
    sizes: tuple[int, int, int],
    direction: str,
    share: Share,
    parts: Parts,
) -> None:
    V, E, halo = sizes
    width = splits(op.width, scheme.tensor)[0]
    parts.compute(op.kind, predictor.cost(op.kind, direction, Sizes(V, E, width, halo)))
    if scheme.partition > 1:
        if not predictor.network.packed:
            parts.compute("message", predictor.cost("message", "forward", Sizes(halo, d=width)))
        sent = share.sent if direction == "forward" else share.halo
        size = VALUE_BYTES * width * float(sent.max())
        ns = predictor.transfer_factor * predictor.network.boundary_ns(scheme, width, size)
        parts.transfer("boundary exchange", ns, size)
    elif predictor.network.packed:  # nobody to swap with, and still a lane to go through
        parts.compute("exchange alone", predictor.network.boundary_ns(scheme, width, 0.0))
    size = VALUE_BYTES * V * op.width
    predictor.transfer(parts, "columns of sums", "all-gather", scheme=scheme, axes=("tensor",), size=size)
    if op.kind == "attend":
        for rows in (V + halo,) if direction == "forward" else (V, V + halo):
            size = VALUE_BYTES * rows
            predictor.transfer(parts, "scores", "all-reduce", scheme=scheme, axes=("tensor",), size=size)


def _network_memory(
    scheme: Scheme, trace: Trace, kept: Trace, work: Work, sizes: tuple[float, int]
) -> dict[str, float]:
    own, features = sizes
    shares = [share for turns in work.shares for share in turns]
    most = max(
        float((kept.kept_vertex * share.vertices + kept.kept_edge * share.edges).max()) for share in shares
    )
    if scheme.checkpoint:  # the layer being computed again keeps its own
        again = max(
            float((trace.kept_vertex * share.vertices + trace.kept_edge * share.edges).max())
            for share in shares
        )
        most += again / max(1, len({op.width for op in trace.ops}) and len(trace.ops) / 2)
    widest = max(op.width for op in trace.ops)
    rows = max(float((share.vertices + share.halo).max()) for share in shares)
    per_turn = [max(float(t.vertices.max()) for t in turns) * len(turns) for turns in work.shares]
    per_edge = [sum(float(t.edges.max()) for t in turns) for turns in work.shares]
    return {
        "weights": WEIGHT_COPIES * VALUE_BYTES * own + (2 * VALUE_BYTES * own if scheme.workers > 1 else 0),
        "features": VALUE_BYTES * features * max(per_turn),
        "graph": EDGE_BYTES * max(per_edge) + VERTEX_BYTES * max(per_turn),
        "activations": most,
        "buffers": 3 * VALUE_BYTES * rows * widest,
    }


def _transformer(predictor: Predictor, scheme: Scheme) -> Prediction:
    task = predictor.task
    work = sequence_work(task, scheme, predictor.balance)
    slowest: Parts | None = None
    for turns in work.shares:
        parts = Parts()
        for turn in turns:
            for size in turn:
                _sequence(predictor, scheme, size, parts)
            _loss(predictor, scheme, parts)
        if slowest is None or sum(parts.compute_ns.values()) > sum(slowest.compute_ns.values()):
            slowest = parts
    assert slowest is not None
    own, tensors = _transformer_weights(task, scheme.tensor)
    _update(predictor, scheme, own, tensors, slowest)
    slowest.scale(max(predictor.worker_factors, default=1.0))
    memory = _transformer_memory(task, scheme, work.shares, own)
    step = sum(slowest.compute_ns.values()) + sum(slowest.transfer_ns.values())
    return Prediction(scheme, step, slowest.compute_ns, slowest.transfer_ns, slowest.sent_bytes, memory)


def _transformer_weights(task: Task, parts: int) -> tuple[float, int]:
    """(weights, tensors that hold them) of one member of a tensor group; about, where sizes do not divide."""
    model = task.model
    graphormer = SHAPES[model.name].style == "graphormer"
    d, f, features, classes = model.hidden, model.ffn, task.data.features.shape[1], task.data.num_classes
    layer = (4 * d * d + 3 * d + 2 * d * f + f) / parts + 6 * d
    spatial = int(spatial_of_class().max()) + 1 if graphormer else 0
    table = (EDGE_KINDS + spatial) * model.heads / parts
    place = (VIRTUAL_DEGREE + 1 if graphormer else PLACES) * d
    ends = (features + 1) * d + place + d + (2 * d if graphormer else 0) + (d + 1) * classes
    return model.layers * layer + table + ends, 12 * model.layers + (10 if graphormer else 7)


def _sequence(predictor: Predictor, scheme: Scheme, size: tuple[int, int], parts: Parts) -> None:
    """One sequence on its slowest worker."""
    task, model = predictor.task, predictor.task.model
    total, pairs = size
    d, t, s = model.hidden, scheme.tensor, scheme.sequence
    rows = splits(total, s)[0]
    heads = splits(model.heads, t)[0]
    mine = splits(heads, s)[0]
    width = d // model.heads
    inner = splits(model.ffn, t)[0]
    style = SHAPES[model.name].style
    kind = model.attention if task.graphs is None or model.attention != "dense" else "sparse"
    # The table of topk is as wide as its widest row.
    cells = total * max(model.topk, pairs // max(total, 1) * 4) if kind == "topk" else pairs
    attended = Sizes(total, cells, mine * width, heads=mine, keys=model.topk)
    layer = Sizes(rows, d=d, out=heads * width, heads=heads, keys=inner)
    packing = Sizes(rows, d=2 * heads * width)
    passes = ["forward", "forward", "backward"] if scheme.checkpoint else ["forward", "backward"]
    for turn, direction in enumerate(passes):
        parts.compute(f"layer/{style}", model.layers * predictor.cost(f"layer/{style}", direction, layer))
        ns = predictor.cost(f"attention/{kind}", direction, attended)
        parts.compute(f"attention/{kind}", model.layers * ns)
        if s > 1 and not predictor.network.packed:
            parts.compute("message", 2 * model.layers * predictor.cost("message", "forward", packing))
        for _ in range(model.layers):
            # Queries, keys and values there, results back; the backward pass the other way round.
            share = (s - 1) / s * VALUE_BYTES * rows * heads * width
            for values in (3, 1):
                predictor.transfer(
                    parts,
                    "rows to heads",
                    "all-to-all",
                    scheme=scheme,
                    axes=("sequence",),
                    size=values * share,
                )
            # Computing again stops before the layer's last sum, which nothing needs.
            for _ in range(1 if scheme.checkpoint and turn == 1 else 2):
                predictor.transfer(
                    parts,
                    "sums of maps",
                    "all-reduce",
                    scheme=scheme,
                    axes=("tensor",),
                    size=VALUE_BYTES * rows * d,
                )
    features, classes = task.data.features.shape[1], task.data.num_classes
    for direction in ("forward", "backward"):
        first, last = Sizes(rows, d=features, out=d), Sizes(rows, d=d, out=classes)
        parts.compute("linear", predictor.cost("linear/first", direction, first))
        parts.compute("linear", predictor.cost("linear", direction, last))
        parts.compute("relu", 2 * predictor.cost("relu", direction, Sizes(rows, d=d)))


def _transformer_memory(
    task: Task, scheme: Scheme, shares: list[list[list[tuple[int, int]]]], own: float
) -> dict[str, float]:
    model = task.model
    d, t, s, f = model.hidden, scheme.tensor, scheme.sequence, model.ffn
    turns = [[(sum(v for v, _ in turn), sum(p for _, p in turn)) for turn in one] for one in shares]
    rows = max(v for one in turns for v, _ in one) / s
    pairs = max(p for one in turns for _, p in one)
    heads = splits(model.heads, t)[0]
    inner = splits(f, t)[0]
    layer = rows * layer_kept(d, heads, d // model.heads, inner, SHAPES[model.name].style)
    # Queries, keys and values of its heads, results and a number per head; results again where they travel.
    own_values = heads * d // model.heads
    layer += VALUE_BYTES * rows * (own_values * (5 if s > 1 else 4) + heads)
    if model.attention == "dense" and task.graphs is None:
        layer += VALUE_BYTES * heads / s * pairs
    if model.attention == "topk":
        layer += VALUE_BYTES * heads * rows * model.topk * (2 * d / model.heads + 4)
    resident = sum(v for v, _ in turns[0]) / s
    held = sum(p for _, p in turns[0])
    kept = layer * model.layers
    if scheme.checkpoint:
        kept = VALUE_BYTES * rows * d * model.layers + layer
    ends = VALUE_BYTES * rows * (3 * d + 2 * task.data.num_classes)
    return {
        "weights": WEIGHT_COPIES * VALUE_BYTES * own + (2 * VALUE_BYTES * own if scheme.workers > 1 else 0),
        "features": VALUE_BYTES * resident * task.data.features.shape[1],
        "graph": float(PAIR_BYTES * held + (4 * 3 * pairs if model.attention == "topk" else 0)),
        "activations": kept + ends,
        "buffers": VALUE_BYTES * rows * 6 * max(d, f),
    }


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f} B"
