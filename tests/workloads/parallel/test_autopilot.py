"""Re-planning while training: a wrong profile and a slow worker change the scheme, and not the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.graphs import load_graph
from workloads.parallel.autopilot import Autopilot, fly
from workloads.parallel.costs import CostModel, roofline_costs
from workloads.parallel.curve import Curve
from workloads.parallel.local import KINDS, LocalNetwork
from workloads.parallel.scheme import Scheme
from workloads.parallel.task import Task, model_spec
from workloads.parallel.training import Training
from workloads.training.data import TrainingData, training_data

EPOCHS = 8


@pytest.fixture(scope="module")
def task() -> Task:
    graph = load_graph("reddit", scale=0.002, features=True)
    return Task(graph, training_data(graph, 1), model_spec("gcn", hidden=32), precision="float64")


@pytest.fixture(scope="module")
def ring() -> Task:
    """On a ring closures hardly overlap: halving the targets halves the work, and sends weights alone."""
    graph, random = load_graph("ring:3000"), np.random.default_rng(1)
    features = random.random((3000, 48), dtype=np.float32)
    split = np.arange(3000, dtype=np.int8) % 3
    data = TrainingData(features, random.integers(0, 4, 3000), split, 4, "random")
    return Task(graph, data, model_spec("gcn", hidden=48), precision="float64")


def alone(task: Task) -> list[float]:
    training = Training(task, Scheme(), 0)
    losses = [training.step().loss for _ in range(EPOCHS)]
    training.close()
    return losses


def network(alpha_ns: float, beta: float) -> LocalNetwork:
    sizes = (1e3, 1e6)
    curve = Curve(sizes, tuple(alpha_ns + beta * size for size in sizes), 0.0)
    return LocalNetwork({(kind, 2): curve for kind in KINDS})


def test_a_profile_of_another_machine_is_found_out_and_training_goes_on_with_the_same_numbers(ring):
    """Transfers are promised to take a nanosecond, so the scheme with the most of them looks best; measured,
    they take milliseconds, and the scheme with the fewest takes over. Adam's moments come along: losses are
    those of one worker throughout.
    """
    pilot = Autopilot(
        ring,
        roofline_costs(1e11, 2e10),
        network(1.0, 1e-9),
        Scheme(tensor=2),
        [Scheme(tensor=2), Scheme(data=2)],
        EPOCHS,
    )
    rows = fly(pilot)
    assert [row["epoch"] for row in rows] == list(range(EPOCHS))
    assert rows[0]["scheme"] == "tensor 2" and rows[-1]["scheme"] == "data 2"
    changed = [row for row in rows if "on to data 2" in row["note"]]
    assert len(changed) == 1 and changed[0]["epoch"] >= 2  # after the first epoch, and two beyond
    assert [row["loss"] for row in rows] == pytest.approx(alone(ring), rel=1e-9)


def test_a_slow_worker_hands_vertices_to_the_other(task):
    costs = roofline_costs(1e11, 2e10)
    pilot = Autopilot(
        task,
        CostModel(costs.coefficients),
        network(1e5, 1.0),
        Scheme(partition=2),
        [Scheme(partition=2)],
        EPOCHS,
        threshold=1.2,
        slow=((1, 6.0),),
    )
    rows = fly(pilot)
    first, last = rows[0]["vertices"], rows[-1]["vertices"]
    assert sum(first) == sum(last) == task.graph.num_vertices
    assert any("other shares" in row["note"] for row in rows)
    assert last[1] < 0.7 * first[1]
    assert [row["loss"] for row in rows] == pytest.approx(alone(task), rel=1e-9)


def test_a_worker_that_becomes_slow_while_training_is_noticed_at_an_epochs_end(task):
    """The prediction is put right by the first epochs; then one worker gets a neighbour."""
    slow_from = 7
    pilot = Autopilot(
        task,
        roofline_costs(1e11, 2e10),
        network(1e5, 1.0),
        Scheme(partition=2),
        [Scheme(partition=2)],
        16,
        threshold=1.6,
        slow=((0, 12.0),),
        slow_from=slow_from,
    )
    rows = fly(pilot)
    before, after = rows[slow_from]["vertices"], rows[-1]["vertices"]
    late = [row for row in rows if row["note"] and row["epoch"] >= slow_from]
    assert late and late[0]["epoch"] > slow_from  # two epochs beyond the threshold
    assert any("other shares" in row["note"] for row in late)
    assert after[0] < 0.7 * before[0] and sum(after) == sum(before)
    changed = next(row["epoch"] for row in late if "other shares" in row["note"])
    assert rows[changed]["vertices"] == before and rows[changed + 1]["vertices"] != before
    assert [row["loss"] for row in rows[:EPOCHS]] == pytest.approx(alone(task), rel=1e-9)


def test_a_prediction_that_holds_is_left_alone(task):
    pilot = Autopilot(
        task,
        roofline_costs(1e11, 2e10),
        network(1e5, 1.0),
        Scheme(data=2),
        [Scheme(data=2), Scheme(tensor=2)],
        4,
        threshold=1e3,
    )
    assert all(row["note"] == "" and row["scheme"] == "data 2" for row in fly(pilot))
