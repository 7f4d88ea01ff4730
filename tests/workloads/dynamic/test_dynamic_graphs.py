"""Dynamic graphs: snapshots are unions of what arrived, generated ones need their graph, saved ones come
back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs.dynamic import load_dynamic_graph
from workloads.graphs.dynamic.graph import distinct_edges, merge_arrivals
from workloads.graphs.dynamic.store import load_dynamic, save_dynamic

SMALL = {"traffic": "traffic:60:20", "contacts": "contacts:60:15", "social": "social:80:15"}


def edge_set(ptr, adj):
    return {(v, int(u)) for v in range(len(ptr) - 1) for u in adj[ptr[v] : ptr[v + 1]]}


@pytest.mark.parametrize("lifetime", [1, 2, 5])
@pytest.mark.parametrize("source", SMALL.values())
def test_a_snapshot_is_the_union_of_the_last_arrivals(source, lifetime):
    graph = load_dynamic_graph(source, lifetime=lifetime)
    for t in range(graph.num_snapshots):
        live = {tuple(map(int, e)) for past in graph.arrivals[max(0, t - lifetime + 1) : t + 1] for e in past}
        assert edge_set(graph.indptr[t], graph.indices[t]) == live | {(b, a) for a, b in live}


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_merging_any_stream(stream, lifetime):
    pairs = [np.array(edges, dtype=np.int64).reshape(-1, 2) for edges in stream]
    arrivals = [distinct_edges(7, part[:, 0], part[:, 1]) for part in pairs]
    for part, edges in zip(arrivals, stream, strict=True):
        assert [tuple(row) for row in part.tolist()] == sorted(
            {(min(e), max(e)) for e in edges if e[0] != e[1]}
        )
    indptr, indices = merge_arrivals(7, arrivals, lifetime)
    for t in range(len(stream)):
        live = {tuple(e) for past in arrivals[max(0, t - lifetime + 1) : t + 1] for e in past.tolist()}
        assert edge_set(indptr[t], indices[t]) == live | {(b, a) for a, b in live}


@pytest.mark.parametrize("source", SMALL.values())
def test_equal_arguments_give_equal_graphs_and_others_do_not(source):
    one, same, other = (load_dynamic_graph(source, seed=seed) for seed in (1, 1, 2))
    assert one.digest == same.digest != other.digest
    assert one.provenance.kind == "generated" and one.provenance.seed == 1
    assert load_dynamic_graph(source, lifetime=5).digest != one.digest
    assert one.features.shape[:2] == (one.num_snapshots, one.num_vertices)
    assert 0 < one.train_end < one.val_end < one.num_snapshots


def mixed(graph, t, rounds):
    """Features of the window's snapshots beside their means over neighbours, and those of neighbours'."""
    columns = []
    for back in range(graph.window):
        ptr, adj, x = graph.indptr[t - back], graph.indices[t - back], graph.features[t - back].astype(float)
        rows = np.repeat(np.arange(graph.num_vertices), np.diff(ptr))
        columns.append(x)
        for _ in range(rounds):
            total = np.zeros_like(x)
            np.add.at(total, rows, x[adj])
            x = total / np.maximum(np.diff(ptr), 1)[:, None]
            columns.append(x)
    return np.concatenate(columns, axis=1)


def fitted(graph, rounds):
    """Predictions of least squares on the test windows, and the targets."""

    def parts(times):
        rows = np.concatenate([mixed(graph, t, rounds) for t in times])
        return rows, np.concatenate([graph.targets[t].reshape(graph.num_vertices) for t in times]).astype(
            float
        )

    x, y = parts(range(graph.window - 1, graph.train_end))
    weights = np.linalg.lstsq(x.T @ x + 1e-3 * np.eye(x.shape[1]), x.T @ y, rcond=None)[0]
    rows, wanted = parts(range(graph.val_end, graph.num_snapshots))
    return rows @ weights, wanted


def test_traffic_is_told_by_the_neighbours():
    graph = load_dynamic_graph("traffic:300:60")
    errors = [np.mean((np.subtract(*fitted(graph, rounds))) ** 2) for rounds in (0, 2)]
    assert errors[1] < 0.8 * errors[0]


def test_contacts_are_told_by_the_neighbours():
    graph = load_dynamic_graph("contacts:800:40")
    right = [np.mean((p > 0.5) == y) for p, y in (fitted(graph, rounds) for rounds in (0, 2))]
    majority = max(np.mean(graph.targets[graph.val_end :]), 1 - np.mean(graph.targets[graph.val_end :]))
    assert right[1] > right[0] + 0.005 > majority + 0.05


def test_the_next_links_are_told_by_the_graph():
    """Pairs that meet next time have common neighbours, or are neighbours, far more often than others."""
    graph = load_dynamic_graph("social:300:30")
    random = np.random.default_rng(5)
    near = {True: [], False: []}
    for t in range(10, 29):
        dense = np.zeros((300, 300), dtype=bool)
        dense[np.repeat(np.arange(300), np.diff(graph.indptr[t])), graph.indices[t]] = True
        known = np.flatnonzero(dense.any(axis=1))
        pairs = graph.arrivals[t + 1]
        pairs = pairs[np.isin(pairs, known).all(axis=1)]
        others = known[random.integers(0, len(known), (len(pairs), 2))]
        for meets, found in ((True, pairs), (False, others)):
            near[meets] += [bool(dense[a, b] or (dense[a] & dense[b]).any()) for a, b in found]
    assert np.mean(near[True]) > 3 * np.mean(near[False])


def test_saved_graphs_come_back(tmp_path):
    for source in SMALL.values():
        graph = load_dynamic_graph(source)
        folder = tmp_path / source.replace(":", "-")
        save_dynamic(graph, folder)
        back = load_dynamic_graph(str(folder))
        assert back.digest == graph.digest and back.provenance == graph.provenance
        assert load_dynamic_graph(str(folder), lifetime=1).snapshot_edges.sum() < graph.snapshot_edges.sum()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_folders_are_one_line(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged") / "graph"
    save_dynamic(load_dynamic_graph("contacts:20:5"), folder)
    victim = folder / data.draw(
        st.sampled_from(["dynamic.json", "arrivals.npy", "starts.npy", "features.npy", "targets.npy"])
    )
    content = bytearray(victim.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "gone"]))
    if kind == "gone":
        victim.unlink()
    elif kind == "cut":
        victim.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        victim.write_bytes(content)
    try:
        load_dynamic(folder)
    except InputError as error:
        assert "\n" not in str(error)
    else:  # a name or a note may differ; what the digest covers may not
        assert kind == "flip" and victim.name in (
            "dynamic.json",
            "features.npy",
            "arrivals.npy",
            "starts.npy",
            "targets.npy",
        )
        assert load_dynamic(folder).digest == load_dynamic_graph("contacts:20:5").digest


@pytest.mark.parametrize(
    ("source", "given", "told"),
    [
        ("nope", {}, "no such name, file or folder"),
        ("trafic", {}, "did you mean traffic"),
        ("traffic:1", {}, "20 or more"),
        ("traffic:x", {}, "whole number"),
        ("traffic:50:2", {}, "5 or more"),
        ("traffic:1000000:2000", {}, "together at most"),
        ("traffic:", {}, "whole number"),
        ("traffic:60:20", {"scale": 2.0}, "beside sizes"),
        ("traffic:60:20", {"window": 13}, "window: 13"),
        ("traffic:60:20", {"window": 0}, "window: 0"),
        ("traffic:60:20", {"lifetime": 0}, "lifetime: 0"),
        ("social:60:20", {"lifetime": 0}, "lifetime: 0"),
        ("contacts:60:20", {"lifetime": -3}, "lifetime: -3"),
        ("traffic:60:20", {"seed": -1}, "seed: -1"),
        ("traffic:60:20", {"snapshots": 9}, "traffic:N:T"),
        ("traffic", {"scale": float("nan")}, "scale"),
    ],
)
def test_what_cannot_be_generated_is_one_line(source, given, told):
    with pytest.raises(InputError, match=told) as caught:
        load_dynamic_graph(source, **given)
    assert "\n" not in str(caught.value)


def test_commands(tmp_path, capsys):
    from netfold import main

    assert main(["dynamic", "info", "contacts:60:15", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["vertices"], about["snapshots"], about["task"]) == (60, 15, "classification")
    assert main(["dynamic", "sizes", "contacts:60:15", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["snapshots"]
    assert sum(row["arrivals"] for row in rows) == about["arrivals"]
    assert main(["dynamic", "convert", "contacts:60:15", "-o", str(tmp_path / "saved")]) == 0
    capsys.readouterr()
    assert main(["dynamic", "info", str(tmp_path / "saved"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == about["digest"]
    assert main(["dynamic", "convert", "contacts:60:15", "--to", "snap", "-o", str(tmp_path / "c.txt")]) == 0
    capsys.readouterr()
    assert main(["dynamic", "info", str(tmp_path / "c.txt"), "--snapshots", "15", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["arrivals"], again["distinct_edges"]) == (about["arrivals"], about["distinct_edges"])
    assert main(["dynamic", "partition", "contacts:60:15", "--method", "chunk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"][0]["method"] == "chunk"
    assert main(["dynamic", "list", "--json"]) == 0
    assert main(["dynamic", "info", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_lifetime_of_none_is_one_line_for_a_stream_too(tmp_path):
    file = tmp_path / "mail.txt"
    file.write_text("1 2 100\n2 3 110\n3 1 150\n1 4 180\n")
    with pytest.raises(InputError, match="lifetime: 0 snapshots given; allowed: 1 to 10000"):
        load_dynamic_graph(str(file), lifetime=0, cache=tmp_path / "cache")


def test_sizes_and_brackets_in_a_name_are_printed_as_they_are(tmp_path, capsys):
    from netfold import main

    assert main(["dynamic", "info", "contacts:100:12"]) == 0
    assert "contacts:100:12" in capsys.readouterr().out
    file = tmp_path / "mail[bold].txt"
    file.write_text("1 2 100\n2 3 110\n3 1 150\n1 4 180\n")
    assert main(["dynamic", "info", str(file)]) == 0
    assert "mail[bold].txt" in capsys.readouterr().out
