"""The plan that the simulation carries names the very rows that training sends, window after window."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.graphs.dynamic.graph import distinct_edges, make_dynamic_graph
from workloads.graphs.graph import Provenance
from workloads.plan.dynamic import Knobs, merge_boundary, merge_ends, sends
from workloads.training.dynamic.choose import Chooser
from workloads.training.dynamic.task import make_task

EPOCHS = 4


def random_graph(random, task):
    """Any edges at all, on vertices of which some are alone; features and targets of no meaning."""
    n, count = int(random.integers(12, 40)), int(random.integers(9, 14))
    pairs = [random.integers(0, n, (int(random.integers(1, 3 * n)), 2)) for _ in range(count)]
    arrivals = [distinct_edges(n, ends[:, 0], ends[:, 1]) for ends in pairs]
    return make_dynamic_graph(
        "random", n, arrivals, Provenance("generated", "any edges", 1),
        lifetime=int(random.integers(1, 4)), window=int(random.integers(2, 5)),
        features=random.standard_normal((count, n, 3)).astype(np.float32), task=task,
        targets=None if task == "link" else random.standard_normal((count, n, 1)).astype(np.float32),
    )  # fmt: skip


@pytest.fixture
def sent(monkeypatch):
    """{(what, time, position): {(owner, reader, row of the owner)}} of all that choosers give out."""
    found = {}
    part = Chooser.part

    def noted(self, route, position, share, time):
        made = part(self, route, position, share, time)
        # Which of a worker's two choosers: the ends' has one position.
        what = "ends" if self._sent.times.shape[1] == 1 else "rows"
        here = self._index.rank
        for q, (rows, numbers) in enumerate(zip(made.send, made.received, strict=True)):
            key = (what, time, position)
            found.setdefault(key, set()).update((here, q, int(row)) for row in rows)
            received = {(q, here, int(vertex)) for vertex in self._index.halo[numbers]}
            found.setdefault((*key, "received"), set()).update(received)
        return made

    monkeypatch.setattr(Chooser, "part", noted)
    return found


@pytest.mark.parametrize("task", ["regression", "link"])
@pytest.mark.parametrize("case", range(6))
def test_row_for_row(case, task, go, sent, split):
    random = np.random.default_rng([case, 5, task == "link"])
    graph = random_graph(random, task)
    workers = int(random.integers(2, 5))
    partition = split(graph, workers, "swash")
    windows = graph.train_end - graph.window + 1
    knobs = Knobs(
        interval=int(random.integers(1, 3)),
        windows=int(random.integers(0, windows + 1)),
        share=float(random.choice([1.0, 0.6, 0.25, 0.01])),
        choose=("importance", "importance", "weight", "random")[case % 4],
        when=("even", "random", "first")[case % 3],
        cache_windows=int(random.choice([0, 1, 3, 99])),
        seed=case,
    )
    go(
        graph, workers, model="tgcn", k=knobs.interval, s=knobs.windows, p=knobs.share, choose=knobs.choose,
        when=knobs.when, cache_windows=knobs.cache_windows, seed=case, epochs=EPOCHS,
    )  # fmt: skip
    rows_of = [np.flatnonzero(partition.parts == rank) for rank in range(workers)]
    boundary, ends = merge_boundary(graph, partition), None
    if task == "link":
        pairs = make_task(graph, case).pairs
        ends = merge_ends(graph, partition, pairs)
    planned = {}
    for epoch, made in enumerate(sends(graph, boundary, knobs, EPOCHS, ends)):
        for window in made:
            time = epoch * windows + window.number
            for at, rows in enumerate(window.rows):
                planned["rows", time, at] = named(boundary, rows)
            if ends is not None:
                planned["ends", time, 0] = named(ends, window.ends)
    got = {
        key: {(owner, reader, int(rows_of[owner][row])) for owner, reader, row in rows}
        for key, rows in sent.items()
        if key[-1] != "received"
    }
    assert any(planned.values())
    assert {key: rows for key, rows in planned.items() if rows} == {k: v for k, v in got.items() if v}
    for key, rows in got.items():
        assert sent[*key, "received"] == rows


def named(boundary, numbers):
    """(owner, reader, vertex) of numbers of a merged boundary."""
    columns = (boundary.owner, boundary.reader, boundary.vertex)
    return {tuple(int(column[number]) for column in columns) for number in numbers}
