"""Training through the switch is training: the same gradients, losses and accuracy up to fixed point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.cluster.topology import Topology
from emulator.cluster.virtual import VirtualCluster
from emulator.propagation import ExactCluster, LocalSum, SwitchSum
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing
from emulator.training import Shape, train
from tests.workloads.training.labelled import handwritten_digits
from workloads.graphs import Graph, load_graph
from workloads.oracle import cross_matrix
from workloads.partition import partition_graph
from workloads.plan import make_plan
from workloads.training.data import training_data


class Through:
    """A graph's sums through a cluster, as a context manager."""

    def __init__(
        self,
        graph: Graph,
        widths: list[int],
        workers: int,
        rules: list[str],
        cluster: Callable[..., Any] = VirtualCluster,
    ) -> None:
        partition = partition_graph(graph, workers)
        plans = {
            number: make_plan(graph, partition, width=width, memory_bytes=200_000)
            for number, width in enumerate(widths, 1)
        }
        topology = Topology(workers)
        timing = Timing(1_000_000, 500_000_000, 60_000_000_000)
        self.cluster = cluster(
            topology, plans, parse_faults(rules, topology), Settings(timing, DcqcnConfig())
        )
        self.sums = SwitchSum(graph, partition, self.cluster, {w: n for n, w in enumerate(widths, 1)})

    def __enter__(self) -> SwitchSum:
        self.cluster.load()
        return self.sums

    def __exit__(self, *_: object) -> None:
        self.cluster.close()


def test_forward_and_backward_are_a_and_its_transpose() -> None:
    graph = load_graph("karate")
    dense = np.zeros((graph.num_vertices,) * 2)
    dense[np.repeat(np.arange(graph.num_vertices), graph.degrees), graph.indices] = 1
    random = np.random.default_rng(1)
    x, g = random.normal(size=(2, graph.num_vertices, 7))
    with Through(graph, [7], 4, ["*: loss=0.02"]) as sums:
        values = torch.tensor(x, requires_grad=True)
        out = sums(values)
        out.backward(torch.tensor(g))
        steps = sums.steps
    contributions = int(graph.degrees.max())
    assert len(steps) == 2
    assert np.abs(out.detach().numpy() - dense @ x).max() <= contributions * steps[0] / 2
    assert values.grad is not None
    assert np.abs(values.grad.numpy() - dense.T @ g).max() <= contributions * steps[1] / 2
    assert sums.saturated == 0


@pytest.mark.parametrize("rules", [[], ["*: loss=0.01"]])
def test_digits_on_eight_workers(rules: list[str]) -> None:
    pytest.importorskip("sklearn")
    graph, shape = handwritten_digits(5, every=6), Shape(layers=4, hidden=16, epochs=4, lr=0.02)
    data = training_data(graph, shape.seed)
    alone = train(graph, data, LocalSum(graph), shape)
    with Through(graph, shape.widths(data), 8, rules) as sums:
        through = train(graph, data, sums, shape)
        propagations = len(sums.steps)
    # the first layer's features are sent once; after that three layers forward, three backward
    assert propagations == 1 + 6 * shape.epochs
    np.testing.assert_allclose(through.losses, alone.losses, rtol=0, atol=1e-6)
    assert through.scores == alone.scores
    assert alone.losses[-1] < alone.losses[0]
    # Nothing but the fixed point makes a difference: the same integers in one process, bit for bit.
    partition = partition_graph(graph, 8)
    exact = ExactCluster(cross_matrix(graph, partition))
    same = train(graph, data, SwitchSum(graph, partition, exact, {16: 1, 64: 2}), shape)
    assert same.losses == through.losses


def test_in_processes() -> None:
    graph, shape = load_graph("karate"), Shape(layers=2, hidden=8, epochs=3)
    data = training_data(graph, shape.seed)
    alone = train(graph, data, LocalSum(graph), shape)
    with Through(graph, shape.widths(data), 3, [], ProcessCluster) as sums:
        through = train(graph, data, sums, shape)
    np.testing.assert_allclose(through.losses, alone.losses, rtol=0, atol=1e-6)
