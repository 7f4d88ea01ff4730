"""Labelled graphs to train on: planted communities, and the labels of multi-label stand-ins."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.graphs.standins import stand_in


def test_planted_communities_have_their_shape_and_repeat_by_seed():
    graph = load_graph("planted:2000:8")
    assert graph.num_vertices == 2000 and graph.num_classes == 8 and graph.provenance.kind == "generated"
    assert graph.num_edges == pytest.approx(2000 * 20, rel=0.01)
    assert set(np.bincount(graph.labels)) == {250}
    rows = np.repeat(np.arange(2000), graph.degrees)
    inside = (graph.labels[rows] == graph.labels[graph.indices]).mean()
    assert inside == pytest.approx(0.6, abs=0.02)
    assert graph.degrees.max() > 4 * 20  # a power law, not a bell
    assert load_graph("planted:2000:8").digest == graph.digest
    assert load_graph("planted:2000:8", seed=2).digest != graph.digest


def test_a_neighbourhood_tells_more_than_the_vertex_alone():
    from sklearn.linear_model import LogisticRegression

    graph = load_graph("planted:2000")
    rows = np.repeat(np.arange(2000), graph.degrees)
    mean = np.zeros_like(graph.features)
    np.add.at(mean, rows, graph.features[graph.indices])
    mean /= np.maximum(graph.degrees, 1)[:, None]
    train = np.arange(2000) % 5 < 3

    def score(features: np.ndarray) -> float:
        model = LogisticRegression(max_iter=300).fit(features[train], graph.labels[train])
        return model.score(features[~train], graph.labels[~train])

    alone, together = score(graph.features), score(np.hstack([graph.features, mean]))
    assert 0.3 < alone < 0.7
    assert together > alone + 0.2


@pytest.mark.parametrize(
    "source", ["planted:99", "planted:x", "planted:100:1", "planted:1000:999", "planted:"]
)
def test_impossible_sizes_are_refused(source):
    with pytest.raises(InputError, match="allowed is a whole number"):
        load_graph(source)


def test_multi_label_stand_ins_have_labels_with_features_only():
    bare, made = (stand_in("yelp", scale=0.001, features=features) for features in (False, True))
    assert bare.labels is None and bare.features is None
    assert made.labels.shape == (made.num_vertices, 100) and set(np.unique(made.labels)) == {0, 1}
    assert (made.indices == bare.indices).all()
    assert 0.08 < made.labels.mean() < 0.25
    again = stand_in("yelp", scale=0.001, features=True)
    assert again.digest == made.digest
    # Vertices of one block share its labels but for a few.
    likeness = (made.labels[:, None, :50] == made.labels[None, :, :50]).mean(2)
    assert np.quantile(likeness, 0.9) > 0.85
