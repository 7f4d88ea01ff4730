"""Every reader on a small data set in its real layout, and the one line it says when the files are bad."""

# One bad file a row reads better than a wrapped one.
# ruff: noqa: E501

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.graphs.csr import check_csr
from workloads.graphs.formats.registry import recognise

Examples = dict[str, Callable[[Path], Path]]
FORMATS = ["ogb", "dgl-reddit", "graphsaint", "snap", "matrixmarket", "metis"]


def undirected(graph: Graph) -> set[tuple[int, int]]:
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    return {(int(a), int(b)) for a, b in zip(rows, graph.indices, strict=True) if a < b}


@pytest.mark.parametrize("name", FORMATS)
def test_a_data_set_is_recognised_and_read(
    name: str, examples: Examples, small_edges: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = examples[name](tmp_path)
    assert recognise(path) == name
    graph = load_graph(str(path))
    assert undirected(graph) == {(min(edge), max(edge)) for edge in small_edges}
    # SNAP lists edges only, so it cannot know of the isolated vertex.
    assert graph.num_vertices == (5 if name == "snap" else 6)
    assert graph.provenance.kind == "real"
    assert graph.digest == load_graph(f"{name}:{path}").digest
    check_csr((graph.indptr, graph.indices))


def test_ogb_features_labels_and_split(examples: Examples, tmp_path: Path) -> None:
    graph = load_graph(str(examples["ogb"](tmp_path) / "raw"))
    assert graph.features is not None and graph.labels is not None and graph.split is not None
    assert graph.name == "ogbn_mini" and graph.features[2].tolist() == [2.0, -2.5, np.float32(1e-3)]
    assert graph.labels.tolist() == [0, 1, 2, 0, 1, 2] and graph.num_classes == 3
    assert graph.split.tolist() == [0, 0, 0, 1, 2, 2]


def test_dgl_features_labels_and_split(examples: Examples, tmp_path: Path) -> None:
    graph = load_graph(str(examples["dgl-reddit"](tmp_path)))
    assert graph.features is not None and graph.labels is not None and graph.split is not None
    assert graph.feature_width == 2 and graph.features[5].tolist() == [10, 11]
    assert graph.labels.tolist() == [0, 1, 2, 3, 0, 1] and graph.split.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_dgl_reads_both_sparse_layouts(kind: str, examples: Examples, tmp_path: Path) -> None:
    folder = examples["dgl-reddit"](tmp_path)
    digest = load_graph(str(folder)).digest
    matrix = sp.load_npz(folder / "reddit_graph.npz")
    sp.save_npz(folder / "reddit_graph.npz", matrix.asformat(kind), compressed=False)
    assert load_graph(str(folder)).digest == digest


def test_graphsaint_multi_label_and_split(examples: Examples, tmp_path: Path) -> None:
    graph = load_graph(str(examples["graphsaint"](tmp_path)))
    assert graph.features is not None and graph.labels is not None and graph.split is not None
    assert graph.features.dtype == np.float32 and graph.features[1].tolist() == [3, 4, 5]
    assert graph.labels[:2].tolist() == [[0, 1, 0], [1, 1, 0]] and graph.num_classes == 3
    assert graph.split.tolist() == [0, 0, 1, 2, 2, -1]


def test_graphsaint_single_label(examples: Examples, tmp_path: Path) -> None:
    folder = examples["graphsaint"](tmp_path)
    (folder / "class_map.json").write_text(json.dumps({str(v): v % 2 for v in range(6)}))
    graph = load_graph(str(folder))
    assert graph.labels is not None and graph.labels.tolist() == [0, 1, 0, 1, 0, 1] and graph.num_classes == 2


@pytest.mark.parametrize("name", ["snap", "matrixmarket", "metis"])
def test_text_files_are_read_packed_and_with_windows_line_ends(
    name: str, examples: Examples, tmp_path: Path
) -> None:
    path = examples[name](tmp_path)
    digest = load_graph(str(path)).digest
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_graph(str(packed)).digest == digest
    windows = path.read_bytes().replace(b"\n", b"\r\n")
    # In METIS the last, empty line is the isolated vertex; elsewhere the last line need not end.
    path.write_bytes(windows if name == "metis" else windows.rstrip())
    assert load_graph(str(path)).digest == digest


@pytest.mark.parametrize(
    "text",
    ["1 2\n2 3\n", "1,2\n2,3\n", "1 , 2\n 2,3\n", "5\t9\t0.5\n9\t70\t-1\n", "% c\n1 2 3\n2 3 4\n",
     f"0 {2**62}\n{2**62} {2**62 + 1}", "1 2\n1 2\n2 1\n3 3\n2 3\n"],
)  # fmt: skip
def test_snap_accepts_what_people_have(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    graph = load_graph(str(path))
    assert graph.num_vertices == 3 and undirected(graph) == {(0, 1), (1, 2)}


@pytest.mark.parametrize(
    ("text", "vertices", "edges"),
    [
        ("3 2\n2\n1 3\n2\n", 3, {(0, 1), (1, 2)}),
        ("%c\n3 2 001\n2 7\n1 7 3 9\n2 9\n\n\n", 3, {(0, 1), (1, 2)}),
        ("3 2 11\n4 2 7\n4 1 7 3 9\n%c\n4 2 9\n", 3, {(0, 1), (1, 2)}),
        ("3 2 010 2\n4 4 2\n4 4 1 3\n4 4 2\n", 3, {(0, 1), (1, 2)}),
        ("3 2 110 2\n1 4 4 2\n1 4 4 1 3\n1 4 4 2\n", 3, {(0, 1), (1, 2)}),
        ("2 0\n\n\n", 2, set()),
    ],
)
def test_metis_formats(text: str, vertices: int, edges: set[tuple[int, int]], tmp_path: Path) -> None:
    path = tmp_path / "x.graph"
    path.write_text(text)
    graph = load_graph(str(path))
    assert graph.num_vertices == vertices and undirected(graph) == edges


BAD_TEXT = [
    ("snap", "", "no edge"),
    ("snap", "# only\n", "no edge"),
    ("snap", "1 2\n3\n", "line 2: found '3', expected 2 fields"),
    ("snap", "1 2\n3 x\n", "line 2: found 'x', expected a whole number"),
    ("snap", "1 2\n\n#c\n3 -4\n", "negative vertex id -4"),
    ("snap", "1 2 3 4\n", "4 fields"),
    ("snap", "1 2\n1.5 2\n", "line 2: found '1.5'"),
    ("snap", f"1 {2**63}\n", "whole number"),
    ("snap", "1 2 nan\n", "finite"),
    ("snap", "1,2\n3,\n", "line 2"),
    ("snap", "1,2\n3,,4\n", "line 2"),
    ("snap", "# Nodes: 9 Edges: 3\n1 2\n2 3\n", "truncated"),
    ("snap", "1 2\n\x00\x01\n", "line 2: found '??'"),
    ("matrixmarket", "", "line 1"),
    ("matrixmarket", "%%MatrixMarket matrix array real general\n", "allowed is `matrix coordinate`"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate complex general\n", "allowed is"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern hermitian\n", "allowed is"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n% c\n", "expected rows, columns"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 2\n", "square"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n", "1 entries, line 2"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n0 2\n", "vertex 0, allowed is 1..3"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n", "vertex 4, allowed is 1..3"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2 3\n", "line 3"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n", "line 3"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n2000000000 2000000000 1\n1 2\n", "declared"),
    ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n", "0 vertices"),
    ("matrixmarket", f"%%MatrixMarket matrix coordinate pattern general\n{9**30} 1 1\n", "expected rows"),
    ("metis", "", "header"),
    ("metis", "3\n", "header"),
    ("metis", "3 2 5\n", "fmt"),
    ("metis", "3 2 11 0\n", "ncon"),
    ("metis", "3 2\n2\n1 3\n", "2 vertex lines"),
    ("metis", "3 2\n2\n1 3\n2\n1\n", "more than the 3"),
    ("metis", "3 1\n2\n1 3\n2\n", "4 neighbours listed"),
    ("metis", "3 2\n2\n1 4\n2\n", "vertex 4, allowed is 1..3"),
    ("metis", "3 2\n2 3\n1\n2\n", "one of its ends"),
    ("metis", "3 2 001\n2\n1 3\n2\n", "vertex 1: 1 numbers, expected 0 and pairs"),
    ("metis", "3 2 010\n\n1 3\n2\n", "vertex 1: 0 numbers, expected 1 or more"),
    ("metis", "3 2\n2\n1 x\n2\n", "line 3: found 'x'"),
    ("metis", "2000000000 0\n", "0 vertex lines"),
    ("metis", "0 0\n", "0 vertices"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), BAD_TEXT)
def test_bad_text_is_one_line_with_file_and_place(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_graph(f"{name}:{path}")
    assert said in str(caught.value) and str(path) in str(caught.value)


def gz(text: str) -> bytes:
    return gzip.compress(text.encode())


class Exploit:
    """A pickle that would write a file if it were loaded."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, ("exploited", "w"))


def npz_bytes(tmp_path: Path, **arrays: object) -> bytes:
    np.savez(tmp_path / "made.npz", **arrays)  # type: ignore[arg-type]
    return (tmp_path / "made.npz").read_bytes()


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue()


BAD_FILES = [
    ("ogb", "raw/edge.csv.gz", lambda p: gz("0,1\n1,2\n2,0\n2,3\n"), "4 edges, num-edge-list.csv.gz declares 5"),
    ("ogb", "raw/edge.csv.gz", lambda p: gz("0,1\n1,2\n2,0\n2,3\n3,6\n"), "vertex 6, allowed is 0..5"),
    ("ogb", "raw/edge.csv.gz", lambda p: gz("0,1\n1,2\n2,-1\n2,3\n3,4\n"), "vertex -1"),
    ("ogb", "raw/edge.csv.gz", lambda p: gz("0,1\n1\n"), "line 2"),
    ("ogb", "raw/edge.csv.gz", lambda p: gz("0,1\n1,2\n")[:-9], "ends early"),
    ("ogb", "raw/edge.csv.gz", lambda p: b"\x1f\x8b\x08" + bytes(30), "damaged"),
    ("ogb", "raw/num-node-list.csv.gz", lambda p: gz("6\n7\n"), "one graph"),
    ("ogb", "raw/num-node-list.csv.gz", lambda p: gz(""), "0 vertex counts"),
    ("ogb", "raw/num-node-list.csv.gz", lambda p: gz("4000000000000\n"), "declared"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 5), "5 rows of features for 6"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 7), "more than 6 rows"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 5 + "1,nan\n"), "line 6: found 'nan', expected a finite"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 5 + "1,1e39\n"), "finite"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 5 + "1\n"), "line 6"),
    ("ogb", "raw/node-feat.csv.gz", lambda p: gz("1,2\n" * 5 + "1,\n"), "line 6"),
    ("ogb", "raw/node-label.csv.gz", lambda p: gz("1\n" * 5), "5 rows of labels"),
    ("ogb", "raw/node-label.csv.gz", lambda p: gz("1\n" * 5 + "999999999\n"), "labels 1..999999999"),
    ("ogb", "split/sales_ranking/test.csv.gz", lambda p: gz("6\n"), "found 6, allowed is 0..5"),
    ("ogb", "split/sales_ranking/test.csv.gz", lambda p: gz("0\n"), "occurs twice"),
    ("ogb", "split/sales_ranking/test.csv.gz", None, "No such file"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: b"PK\x03\x04nonsense", "damaged"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: b"", "damaged"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, a=1), "no array 'shape'; it holds a"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[6, 6]), "neither COO"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[6, 7], row=[0], col=[1]), "equal vertex counts"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[6, 6], row=[0], col=[6]), "outside 0..5"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[6, 6], row=[0, 1], col=[1]), "as many"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[6, 6], row=[.5], col=[1]), "row of integers"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[2**31 - 1] * 2, row=[0], col=[1]), "declared"),
    ("dgl-reddit", "reddit_graph.npz", lambda p: npz_bytes(p, shape=[2, 2], indptr=[0, 9, 1], indices=[1]), "ascend"),
    ("dgl-reddit", "reddit_data.npz", lambda p: npz_bytes(p, feature=np.ones((6, 2)), label=np.array([Exploit()] * 6),
                                                          node_types=[1] * 6), "pickle"),
    ("dgl-reddit", "reddit_data.npz", lambda p: npz_bytes(p, feature=np.full((6, 2), np.nan), label=[0] * 6,
                                                          node_types=[1] * 6), "row 0 holds NaN"),
    ("dgl-reddit", "reddit_data.npz", lambda p: npz_bytes(p, feature=np.ones((5, 2)), label=[0] * 6,
                                                          node_types=[1] * 6), "[6, width]"),
    ("dgl-reddit", "reddit_data.npz", lambda p: npz_bytes(p, feature=np.ones((6, 2)), label=[0] * 5,
                                                          node_types=[1] * 6), "'label'"),
    ("dgl-reddit", "reddit_data.npz", lambda p: npz_bytes(p, feature=np.ones((6, 2)), label=[0] * 6,
                                                          node_types=[0] * 6), "allowed is 1..3"),
    ("dgl-reddit", "reddit_data.npz", None, "needs reddit_graph.npz and"),
    ("graphsaint", "feats.npy", lambda p: pickle.dumps(Exploit()), "damaged .npy"),
    ("graphsaint", "feats.npy", lambda p: npy_header((6, 10**11)), "bytes, 0 are there"),
    ("graphsaint", "feats.npy", lambda p: npy_header((-6, 3)), "negative"),
    ("graphsaint", "feats.npy", lambda p: npy_header((6, 3))[:30], "damaged .npy"),
    ("graphsaint", "class_map.json", lambda p: b"{", "damaged JSON"),
    ("graphsaint", "class_map.json", lambda p: b"[" * 100_000, "damaged JSON"),
    ("graphsaint", "class_map.json", lambda p: b"[]", "expected an object"),
    ("graphsaint", "class_map.json", lambda p: json.dumps({str(v): 0 for v in range(5)}).encode(), "5 vertices"),
    ("graphsaint", "class_map.json", lambda p: json.dumps({str(v + 1): 0 for v in range(6)}).encode(), "vertex '6'"),
    ("graphsaint", "class_map.json", lambda p: json.dumps({str(v): -1 for v in range(6)}).encode(), "class -1"),
    ("graphsaint", "class_map.json", lambda p: json.dumps({str(v): [0, 2] for v in range(6)}).encode(), "zeros and"),
    ("graphsaint", "role.json", lambda p: b'{"tr": [0], "va": [1]}', "no list 'te'"),
    ("graphsaint", "role.json", lambda p: b'{"tr": [0], "va": [0], "te": []}', "each once"),
    ("graphsaint", "role.json", lambda p: b'{"tr": [6], "va": [0], "te": []}', "'tr' holds 6"),
    ("graphsaint", "role.json", None, "lacks role.json"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "content", "said"), BAD_FILES)
def test_a_bad_file_in_a_data_set_is_one_line(
    *, name: str, file: str, content: Callable[[Path], bytes] | None, said: str, examples: Examples, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    folder = examples[name](tmp_path)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content(tmp_path))
    with pytest.raises(InputError) as caught:
        load_graph(str(folder))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "exploited").exists()


def test_unknown_files_and_folders_say_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ogb: folder with"):
        load_graph(str(tmp_path))
    (tmp_path / "x.dat").write_text("3 4\n")
    with pytest.raises(InputError, match="format not recognised"):
        load_graph(str(tmp_path / "x.dat"))
    (tmp_path / "Packages").write_text("Package: a\n")
    with pytest.raises(InputError, match="build-debian"):
        load_graph(str(tmp_path / "Packages"))
    np.savez(tmp_path / "x.npz", a=1)
    with pytest.raises(InputError, match="name its folder"):
        load_graph(str(tmp_path / "x.npz"))


def test_a_data_set_named_like_a_stand_in_is_a_path_only_when_written_as_one(
    examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.move(examples["dgl-reddit"](tmp_path), tmp_path / "reddit2")
    shutil.move(tmp_path / "reddit2", tmp_path / "reddit")
    assert load_graph("./reddit").provenance.kind == "real"
    assert load_graph("reddit", scale=0.001).provenance.kind == "synthetic stand-in"
