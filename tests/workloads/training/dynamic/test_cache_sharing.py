"""The cache serves rows of the same position, of this window or an earlier one, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.training.dynamic.cache import CacheError, PositionCache
from workloads.training.dynamic.window import SlidingWindow
from workloads.training.dynamic.worker import DynamicTraining

CPU = torch.device("cpu")


def value(position: int, window: int, time: int, number: int) -> list[float]:
    """A row that says what it is."""
    return [position, window, time, number]


def store(cache, window, time, places):
    at, numbers = (torch.tensor(column) for column in zip(*places, strict=True))
    rows = torch.tensor([value(p, window, time, n) for p, n in places], dtype=torch.float64)
    cache.store("layer 1", at, numbers, rows, window=window, time=time)


def serve(cache, window, places):
    at, numbers = (torch.tensor(column) for column in zip(*places, strict=True))
    return cache.serve("layer 1", at, numbers, torch.zeros(0, 4, dtype=torch.float64), window=window)


def test_the_window_before_serves_the_next_by_position():
    cache = PositionCache(4, 8, 3, 5, CPU)
    store(cache, 2, 2, [(0, 1), (1, 1), (2, 4)])
    served = serve(cache, 3, [(1, 1), (2, 4), (2, 1)])
    assert served.values.tolist() == [value(1, 2, 2, 1), value(2, 2, 2, 4), [0, 0, 0, 0]]
    assert served.window.tolist() == [2, 2, -1] and served.time.tolist() == [2, 2, -1]


def test_a_newer_windows_rows_of_the_epoch_before_are_passed_over():
    cache = PositionCache(3, 9, 1, 2, CPU)
    assert [cache.set_of(window) for window in range(9)] == [0, 1, 1, 1, 1, 2, 2, 2, 2]
    store(cache, 1, 1, [(0, 0)])
    store(cache, 6, 6, [(0, 0), (0, 1)])
    assert serve(cache, 5, [(0, 0)]).values.tolist() == [value(0, 1, 1, 0)]
    assert serve(cache, 5, [(0, 1)]).window.tolist() == [-1]
    assert serve(cache, 7, [(0, 0)]).values.tolist() == [value(0, 6, 6, 0)]
    assert serve(cache, 0, [(0, 0)]).window.tolist() == [-1]
    store(cache, 0, 0, [(0, 0)])
    assert serve(cache, 0, [(0, 0)]).values.tolist() == [value(0, 0, 0, 0)]


@given(st.data(), st.integers(1, 6), st.integers(1, 9), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_tags_prove_position_window_and_age(data, sets, windows, positions, rows):
    """Random stores over epochs; what is served is what a list of all that was stored says."""
    cache = PositionCache(sets, windows, positions, rows, CPU)
    history: dict[
        tuple[int, int, int], tuple[int, int]
    ] = {}  # run, position, number: window and time, newest
    place = st.tuples(st.integers(0, positions - 1), st.integers(0, rows - 1))
    for time in range(data.draw(st.integers(1, 3)) * windows):
        window = time % windows
        for at, number in data.draw(st.sets(place, max_size=4)):
            store(cache, window, time, [(at, number)])
            history[cache.set_of(window), at, number] = (window, time)
        asked = data.draw(st.sets(place, min_size=1, max_size=4))
        served = serve(cache, window, sorted(asked))
        for (at, number), row, tag, sent in zip(
            sorted(asked), served.values.tolist(), served.window.tolist(), served.time.tolist(), strict=True
        ):
            known = [history.get((run, at, number)) for run in range(cache.set_of(window), -1, -1)]
            expected = next((entry for entry in known if entry and entry[0] <= window), None)
            if expected is None:
                assert tag == sent == -1 and row == [0, 0, 0, 0]
            else:
                assert (tag, sent) == expected and tag <= window and sent <= time
                assert row == value(at, *expected, number)


def test_a_row_in_another_positions_place_is_refused():
    cache = PositionCache(1, 4, 2, 2, CPU)
    store(cache, 0, 0, [(0, 0), (1, 0)])
    cache._sites["layer 1"].position[0, 1, 0] = 0
    with pytest.raises(CacheError, match="rows of another position"):
        serve(cache, 1, [(1, 0)])


def test_memory_is_bounded_whatever_is_stored():
    cache = PositionCache(3, 100, 4, 10, CPU)
    assert cache.held_bytes == 0
    for window in range(100):
        for site in ("layer 1", "layer 2"):
            rows = torch.zeros(40, 6)
            at, numbers = torch.arange(4).repeat(10), torch.arange(10).repeat_interleave(4)
            cache.store(site, at, numbers, rows, window=window, time=window)
    assert cache.held_bytes == cache.bound_bytes([6, 6], 4) == 3 * 4 * 10 * 2 * (6 * 4 + 16)
    assert PositionCache(50, 7, 1, 1, CPU).sets == 7


def test_no_sets_is_no_cache():
    cache = PositionCache(0, 4, 2, 2, CPU)
    store(cache, 0, 0, [(0, 0)])
    assert serve(cache, 0, [(0, 0)]).window.tolist() == [-1]
    assert cache.held_bytes == 0


@pytest.mark.parametrize("model", ["tgcn", "gclstm", "evolvegcn"])
def test_a_training_run_uses_old_rows_and_records_how_old(model, go, graphs):
    graph = graphs["link"]
    settings = {"model": model, "p": 0.3, "epochs": 3, "s": 2, "cache_windows": 2}
    workers = go(graph, 3, **settings)
    rows = workers[0].rows
    assert all(np.isfinite(row["loss"]) for row in rows)
    per_window = [row for worker in workers for row in worker.window_rows]
    assert all(not row["communicates"] or row["fresh_rows"] > 0 for row in per_window)
    silent = [row for row in per_window if not row["communicates"]]
    assert silent and all(
        row["fresh_rows"] == row["embeddings_bytes"] == row["topk_bytes"] == 0 for row in silent
    )
    assert any(row["cached_rows"] > 0 and row["distance_most"] > 0 for row in silent)
    windows = len(workers[0].job.windows[0])
    assert all(row["distance_most"] < windows and row["age_most"] < 3 * windows for row in per_window)
    assert any(row["age_most"] >= windows for row in per_window if row["epoch"] > 0)
    for worker in workers:
        told = worker.memory()
        assert 0 < told["cache_bytes"] <= told["cache_most_bytes"]
        assert told["index_bytes"] < told["separate_index_bytes"]


def test_without_a_cache_what_is_not_sent_is_missing(go, graphs):
    rows = go(graphs["regression"], 3, p=0.5, s=0, cache_windows=0)[0].rows
    assert all(row["cached_rows"] == 0 and row["missing_rows"] > 0 for row in rows)


def test_with_an_interval_the_epochs_between_send_nothing(go, graphs):
    rows = go(graphs["regression"], 2, k=3, s=0, p=1.0, epochs=4)[0].rows
    assert [row["embeddings_bytes"] > 0 for row in rows] == [True, False, False, True]
    assert rows[1]["missing_rows"] == 0 and rows[1]["distance_most"] == 0  # each window has its own set
    assert rows[2]["age_most"] == 2 * 3  # epochs times windows


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_with_the_cache_windows_see_nearly_what_they_would_if_all_was_sent(task, go, graphs, monkeypatch):
    """At equal k, s and p: how far a window's outputs lie from those that everything sent would give."""
    errors = []
    predict = DynamicTraining._predict

    def compared(self, plan, wire, *, exact, each):
        if exact:
            return predict(self, plan, wire, exact=exact, each=each)
        with torch.no_grad():
            wanted = self.model(SlidingWindow(self.engine, plan, self.quiet, exact=True, each=False))
        rows = []
        hook = self.model.register_forward_hook(lambda _, __, out: rows.append(out.detach()))
        made = predict(self, plan, wire, exact=exact, each=each)
        hook.remove()
        if plan.time >= len(self.job.windows[0]):  # the first epoch fills the cache
            errors.append(float(((rows[0] - wanted) ** 2).sum() / (wanted**2).sum()))
        return made

    monkeypatch.setattr(DynamicTraining, "_predict", compared)
    told = {}
    for sets in (4, 0):
        errors.clear()
        go(graphs[task], 3, model="tgcn", s=0, p=0.25, epochs=4, cache_windows=sets)
        told[sets] = np.sqrt(np.mean(errors))
    assert 0 < told[4] < 0.75 * told[0]
