"""From graph, model and cluster to ranked predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.autoparallel.cluster import Cluster
from sim.collectives_network import SimulatedNetwork
from workloads.compute import load_device
from workloads.errors import InputError
from workloads.graphs.graph import Graph
from workloads.parallel.costs import CostModel, fit_costs, roofline_costs
from workloads.parallel.local import measure_local
from workloads.parallel.measure import Measured
from workloads.parallel.network import Network
from workloads.parallel.pieces import Balance
from workloads.parallel.predict import Prediction, Predictor, kernels_of
from workloads.parallel.profile import device_profile
from workloads.parallel.scheme import Scheme, schemes
from workloads.parallel.shortlist import MOST, measured_shortlist
from workloads.parallel.task import CHECKPOINTED, ModelSpec, Task, set_task
from workloads.training.data import TRAIN, TrainingData
from workloads.training.transformer.graph_set import GraphSet

Stage = Callable[[str], None]
Counted = Callable[[int, int], None]


@dataclass(frozen=True)
class Ranking:
    """predictions: best first; measured: a shortlist of them, the fastest first, on this machine. facts:
    JSON-able, of graph, device, network and balance.
    """

    predictions: list[Prediction]
    facts: dict[str, Any]
    task: Task
    costs: CostModel
    network: Network
    measured: tuple[Measured, ...] = ()


def shape_data(graph: Graph, classes: int, seed: int) -> TrainingData:
    """Data of the graph's shape for a prediction, which no value of it changes: a graph without labels, or
    without features, can be planned for. Training vertices are the split's, or a random 60 %.
    """
    n, width = graph.num_vertices, graph.feature_width or 64
    features = np.broadcast_to(np.float32(0), (n, width))
    split = graph.split
    if split is None or not (split == TRAIN).any():
        split = np.full(n, -1, dtype=np.int8)
        split[np.random.default_rng(seed).permutation(n)[: max(1, int(0.6 * n))]] = TRAIN
    labels = np.zeros(n, dtype=np.int64)
    return TrainingData(features, labels, split, graph.num_classes or classes, "shapes only")


def device_costs(
    device: str, profile: Path | None, *, fresh: bool, progress: Counted
) -> tuple[CostModel, str, dict[str, Any]]:
    """(costs, what they are of, facts). device: "" is the profile's, else one of workloads/devices.toml."""
    if device:
        if profile is not None or fresh:
            raise InputError("device: give --device, which is modelled, or a profile, which is measured")
        found = load_device(device)
        costs = roofline_costs(found.flops_per_s, found.memory_bytes_per_s)
        return costs, f"modelled (roofline, {found.title})", {"source": found.source}
    table, facts = device_profile(profile, fresh=fresh, progress=progress)
    costs = fit_costs(table)
    errors = {f"{kernel} {direction}": error for (kernel, direction), error in costs.error.items()}
    return costs, f"measured on {facts['device']}", {"versions": facts["versions"], "fit_error": errors}


def rank(
    graph: Graph | GraphSet,
    model: ModelSpec,
    cluster: Cluster,
    *,
    costs: CostModel,
    device: str,
    memory_bytes: float,
    sequence_length: int = 0,
    in_network: bool = True,
    turns: tuple[int, ...] = (1, 2, 4),
    seed: int = 1,
    most_measured: int = MOST,
    stage: Stage = lambda _: None,
    counted: Counted = lambda done, total: None,
) -> Ranking:
    """Predict every scheme of the cluster's devices; on this machine, also run up to `most_measured` of the
    first. Raises InputError where none could be tried.
    """
    if isinstance(graph, GraphSet):
        if sequence_length:
            raise InputError("sequence length: not for a set of graphs, whose sequences are batches of them")
        task = set_task(graph, model, seed=seed)
    else:
        task = Task(graph, shape_data(graph, 16, seed), model, sequence_length, seed)
    graph = task.graph
    alpha, beta = costs.balance(model.hidden)
    balance = Balance(alpha, beta)
    checkpoints = model.name in CHECKPOINTED
    chosen = schemes(cluster.devices, model.axes, turns=turns, checkpoints=checkpoints)
    if cluster.scenario is None:
        stage(f"measuring transfers and kernels of {cluster.devices} workers of this machine")
        wanted = kernels_of(task, costs, chosen)
        network: Network
        network, exact = measure_local(cluster.devices, wanted, progress=counted)
        costs = costs.calibrated(exact)
    else:
        network = SimulatedNetwork(
            cluster.scenario,
            graph,
            balance,
            in_network=in_network,
            linear_sums=model.name != "gat",
            seed=seed,
            progress=stage,
        )
    predictor = Predictor(task, costs, network, memory_bytes=memory_bytes)
    stage(f"predicting {len(chosen)} schemes")
    found = predictor.rank(chosen, counted)
    measured: list[Measured] = []
    if cluster.scenario is None and most_measured > 1:
        stage(f"running up to {most_measured} of {len(chosen)} schemes")
        measured = measured_shortlist(
            task, found, balance=predictor.balance, most=most_measured, progress=counted
        )
    facts = {
        "graph": graph.name,
        "graph_kind": graph.provenance.kind,
        "vertices": graph.num_vertices,
        "directed_edges": graph.num_edges,
        "largest_degree": int(graph.degrees.max(initial=0)),
        "training_vertices": task.train_total,
        "sequences": task.sequences if model.transformer and task.graphs is None else 0,
        "graphs": len(task.graphs.graphs) if task.graphs else 0,
        "model": model.__dict__,
        "cluster": cluster.text,
        "devices": cluster.devices,
        "device": device,
        "memory_bytes": None if memory_bytes == float("inf") else memory_bytes,
        "network": network.provenance,
        "in_network": in_network and cluster.scenario is not None,
        "balance_alpha_ns": alpha,
        "balance_beta_ns": beta,
        "extrapolation_error": _errors(network),
    }
    return Ranking(found, facts, task, costs, network, tuple(measured))


def _errors(network: Network) -> dict[str, float]:
    """Of each simulated curve that was used, what its extrapolation beyond the simulated sizes misses."""
    if isinstance(network, SimulatedNetwork):
        return {name: curve.error for name, curve in network.used.items()}
    return {}


def best_of(ranking: Ranking) -> Prediction:
    """The fastest of those that were run, else the first that fits. Raises InputError where none does, with
    the nearest miss.
    """
    first = ranking.predictions[0]
    if ranking.measured:
        return next(one for one in ranking.predictions if one.scheme == ranking.measured[0].scheme)
    if first.why_not:
        least = min(ranking.predictions, key=lambda one: one.memory_bytes or float("inf"))
        raise InputError(f"autoparallel: no scheme fits; the nearest, {least.scheme.name}: {least.why_not}")
    return first


def why(best: Prediction, other: Prediction) -> str:
    """In a few words, what `other` costs more (or less) than the best."""
    if other.why_not:
        return other.why_not
    if other.scheme == best.scheme:
        return "the choice: fastest that fits"
    compute = (other.compute_ns - best.compute_ns) / 1e6
    transfer = (other.transfer_ns - best.transfer_ns) / 1e6
    parts = [f"compute {compute:+.2f} ms", f"transfers {transfer:+.2f} ms"]
    worst = max(other.transfers.items(), key=lambda item: item[1], default=None)
    if worst is not None and transfer > 0 and transfer >= compute:
        parts.append(f"most in {worst[0]}")
    return ", ".join(parts)


def scheme_row(best: Prediction, one: Prediction) -> dict[str, Any]:
    """One line of the table, JSON-able."""
    scheme: Scheme = one.scheme
    possible = one.step_ns != float("inf")
    return {
        "scheme": scheme.name,
        "data": scheme.data,
        "partition": scheme.partition,
        "sequence": scheme.sequence,
        "tensor": scheme.tensor,
        "turns": scheme.accumulate,
        "checkpoint": scheme.checkpoint,
        "fits": not one.why_not,
        "step_ns": round(one.step_ns) if possible else None,
        "compute_ns": {name: round(ns) for name, ns in one.compute.items()},
        "transfer_ns": {name: round(ns) for name, ns in one.transfers.items()},
        "sent_bytes": round(one.sent_bytes) if possible else None,
        "memory_bytes": {name: round(size) for name, size in one.memory.items()},
        "sampled": one.sampled,
        "why": why(best, one),
    }
