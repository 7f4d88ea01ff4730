"""When windows communicate, how the scheduler moves, and the metrics."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.training.dynamic.metrics import auc, average_precision, best_row, f1_macro
from workloads.training.dynamic.options import DynamicOptions
from workloads.training.dynamic.schedule import Knobs, Observed, Schedule, ladder


def seen(loss=1.0, comm=1.0, other=1.0, missing=0.0):
    return Observed(loss, comm, other, 1 - missing, 0.0, missing)


def test_every_kth_epoch_sends_in_s_windows_spread_evenly():
    schedule = Schedule(DynamicOptions(k=3, s=4), 10)
    epochs = [schedule.communicating(epoch) for epoch in range(7)]
    assert [sorted(epoch) for epoch in epochs] == [[0, 3, 5, 8], [], [], [0, 3, 5, 8], [], [], [0, 3, 5, 8]]
    assert Schedule(DynamicOptions(s=0), 5).communicating(0) == frozenset(range(5))
    assert sorted(Schedule(DynamicOptions(s=0.3), 10).communicating(0)) == [0, 4, 7]
    assert Schedule(DynamicOptions(s=99), 5).communicating(0) == frozenset(range(5))
    assert sorted(Schedule(DynamicOptions(s=2, when="first"), 5).communicating(0)) == [0, 1]
    random = Schedule(DynamicOptions(s=2, when="random"), 50)
    drawn = [random.communicating(epoch) for epoch in range(8)]
    assert len(set(drawn)) > 4 and all(len(windows) == 2 for windows in drawn)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.01, 1), st.integers(1, 40))
def test_the_ladder_goes_from_everything_down_to_the_least(k, s, p, windows):
    least = Knobs(k, min(s, windows), p)
    steps = ladder(least, windows)
    assert steps[0] == Knobs(1, windows, 1.0) and steps[-1] == least
    cost = [knobs.windows * knobs.share / knobs.interval for knobs in steps]
    assert all(a > b for a, b in pairwise(cost))


def test_the_scheduler_saves_while_the_loss_falls_and_goes_back_when_it_does_not():
    schedule = Schedule(DynamicOptions(k=2, s=2, p=0.25, adaptive=True), 8)
    assert schedule.knobs == Knobs(1, 8, 1.0)
    assert schedule.observe(seen(1.0)) == "saving" and schedule.knobs.share == 0.5
    assert schedule.observe(seen(0.9)) == "saving" and schedule.knobs.share == 0.25
    assert schedule.observe(seen(0.8)) == "saving" and schedule.knobs == Knobs(1, 4, 0.25)
    assert schedule.observe(seen(2.0)) == "loss" and schedule.knobs == Knobs(1, 8, 0.25)
    assert schedule.observe(seen(0.5, missing=0.2)) == "missing" and schedule.knobs.share == 0.5
    assert schedule.observe(seen(0.4, comm=0.01)) == "cheap" and schedule.knobs.share == 0.5
    for loss in np.linspace(0.39, 0.1, 10):
        schedule.observe(seen(loss))
    assert schedule.knobs == Knobs(2, 2, 0.25)
    again = Schedule(DynamicOptions(k=2, s=2, p=0.25, adaptive=True), 8)
    again.restore(schedule.state())
    assert again.knobs == schedule.knobs


def test_fixed_knobs_stay():
    schedule = Schedule(DynamicOptions(k=2, s=2, p=0.25), 8)
    assert [schedule.observe(seen(loss)) for loss in (1, 2, 3)] == ["fixed"] * 3
    assert schedule.knobs == Knobs(2, 2, 0.25)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
def test_auc_and_average_precision_are_their_definitions(pairs):
    scores = np.array([score for score, _ in pairs], dtype=float)
    labels = np.array([label for _, label in pairs], dtype=float)
    good, bad = scores[labels > 0], scores[labels == 0]
    if not len(good) or not len(bad):
        assert np.isnan(auc(scores, labels))
        return
    wins = [(a > b) + (a == b) / 2 for a in good for b in bad]
    assert auc(scores, labels) == pytest.approx(np.mean(wins))
    expected, before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        taken = scores >= threshold
        recall = labels[taken].sum() / len(good)
        expected += (recall - before) * labels[taken].mean()
        before = recall
    assert average_precision(scores, labels) == pytest.approx(expected)


def test_f1_is_the_mean_over_classes_that_occur():
    table = np.array([[8, 2, 0], [1, 4, 0], [0, 0, 0]], dtype=float)
    assert f1_macro(table) == pytest.approx((2 * 8 / 19 + 2 * 4 / 11) / 2)


def test_the_best_epoch_is_by_validation_and_lower_is_better_for_rmse():
    rows = [{"validation_rmse": value, "at": i} for i, value in enumerate([3.0, float("nan"), 1.0, 2.0])]
    assert best_row("regression", rows)["at"] == 2
    rows = [{"validation_auc": value, "at": i} for i, value in enumerate([0.3, float("nan"), 0.1])]
    assert best_row("link", rows)["at"] == 0
