"""Every test of this room has a cache of its own, and writers of data sets in the layouts people have."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

# A small graph with a triangle, a tail, and an isolated vertex 5.
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]
VERTICES = 6


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NETFOLD_CACHE points into this test's own folder."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NETFOLD_CACHE", str(folder))
    return folder


def write_gz(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_ogb(folder: Path) -> Path:
    raw = folder / "raw"
    write_gz(raw / "edge.csv.gz", "".join(f"{a},{b}\n" for a, b in EDGES))
    write_gz(raw / "num-node-list.csv.gz", f"{VERTICES}\n")
    write_gz(raw / "num-edge-list.csv.gz", f"{len(EDGES)}\n")
    write_gz(raw / "node-feat.csv.gz", "".join(f"{v},{-v}.5,1e-3\n" for v in range(VERTICES)))
    write_gz(raw / "node-label.csv.gz", "".join(f"{v % 3}\n" for v in range(VERTICES)))
    for name, ids in (("train", [0, 1, 2]), ("valid", [3]), ("test", [5, 4])):
        write_gz(folder / "split" / "sales_ranking" / f"{name}.csv.gz", "".join(f"{v}\n" for v in ids))
    return folder


def adjacency() -> sp.coo_matrix:
    rows = [a for a, b in EDGES] + [b for a, b in EDGES]
    columns = [b for a, b in EDGES] + [a for a, b in EDGES]
    return sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(VERTICES, VERTICES))


def write_dgl(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "reddit_graph.npz", adjacency())
    np.savez(
        folder / "reddit_data.npz",
        feature=np.arange(VERTICES * 2, dtype=np.float32).reshape(VERTICES, 2),
        label=np.arange(VERTICES, dtype=np.int64) % 4,
        node_types=np.array([1, 1, 2, 2, 3, 3]),
        node_ids=np.arange(VERTICES),
    )
    return folder


def write_graphsaint(folder: Path, *, multi: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "adj_full.npz", adjacency().tocsr())
    np.save(folder / "feats.npy", np.arange(VERTICES * 3, dtype=np.float64).reshape(VERTICES, 3))
    classes = {str(v): [v % 2, 1, 0] if multi else v % 2 for v in range(VERTICES)}
    (folder / "class_map.json").write_text(json.dumps(classes))
    (folder / "role.json").write_text(json.dumps({"tr": [0, 1], "va": [2], "te": [3, 4]}))
    return folder


def write_snap(path: Path) -> Path:
    # Ids far apart: SNAP's are arbitrary.
    lines = "".join(f"{1000 + 7 * a}\t{1000 + 7 * b}\n" for a, b in EDGES)
    path.write_text(f"# A graph\n# Nodes: 5 Edges: {len(EDGES)}\n# FromNodeId\tToNodeId\n" + lines)
    return path


def write_mtx(path: Path) -> Path:
    lines = "".join(f"{b + 1} {a + 1} 2.5\n" for a, b in EDGES)
    header = (
        f"%%MatrixMarket matrix coordinate real symmetric\n% a comment\n{VERTICES} {VERTICES} {len(EDGES)}\n"
    )
    path.write_text(header + lines)
    return path


def write_metis(path: Path) -> Path:
    rows: list[list[int]] = [[] for _ in range(VERTICES)]
    for a, b in EDGES:
        rows[a].append(b + 1)
        rows[b].append(a + 1)
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    path.write_text(f"% a comment\n{VERTICES} {len(EDGES)}\n" + text)
    return path


# Forced format, how to write a valid example under a folder, the files that make it up.
EXAMPLES: dict[str, Callable[[Path], Path]] = {
    "ogb": lambda folder: write_ogb(folder / "ogbn_mini"),
    "dgl-reddit": lambda folder: write_dgl(folder / "reddit"),
    "graphsaint": lambda folder: write_graphsaint(folder / "yelp"),
    "snap": lambda folder: write_snap(folder / "edges.txt"),
    "matrixmarket": lambda folder: write_mtx(folder / "graph.mtx"),
    "metis": lambda folder: write_metis(folder / "mini.graph"),
}


@pytest.fixture
def examples() -> dict[str, Callable[[Path], Path]]:
    """Writers of one valid data set per format."""
    return EXAMPLES


@pytest.fixture
def small_edges() -> list[tuple[int, int]]:
    """The undirected edges of every example."""
    return EDGES
