"""OGB node-property data sets as OGB unpacks them: raw/*.csv.gz, split/SCHEME/{train,valid,test}.csv.gz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import MAX_VERTICES, build_csr
from workloads.graphs.formats.rows import check_vertex_count, first_line, narrow, read_column, read_rows
from workloads.graphs.graph import Graph, Provenance, make_graph

_SPLITS = ("train", "valid", "test")
_MAX_WIDTH = 1_000_000


def raw_folder(path: Path) -> Path | None:
    """The folder with edge.csv.gz: `path` or its raw/."""
    return next((folder for folder in (path / "raw", path) if (folder / "edge.csv.gz").is_file()), None)


def _raw(path: Path) -> Path:
    folder = raw_folder(path)
    if folder is None:
        raise InputError(f"{path}: no edge.csv.gz in it or in its raw/; an OGB data set has one")
    return folder


def split_folder(raw: Path) -> Path | None:
    """The folder of one split scheme beside raw/; the first by name where there are several."""
    schemes = sorted((raw.parent / "split").glob("*/train.csv.gz")) if raw.name == "raw" else []
    return schemes[0].parent if schemes else None


def files(path: Path) -> list[Path]:
    """Every file that `read` reads."""
    raw = _raw(path)
    names = ("edge", "num-node-list", "num-edge-list", "node-feat", "node-label")
    found = [file for name in names if (file := raw / f"{name}.csv.gz").is_file()]
    split = split_folder(raw)
    return found + ([split / f"{name}.csv.gz" for name in _SPLITS] if split else [])


def _single(path: Path, what: str) -> int:
    values = read_column(path, low=0, high=2**62)
    if len(values) != 1:
        raise InputError(
            f"{path}: {len(values)} {what} counts, allowed is one (one graph, as in ogbn-* data sets)"
        )
    return int(values[0])


def _width(path: Path) -> int:
    width = first_line(path)[0].count(",") + 1
    if width > _MAX_WIDTH:
        raise InputError(f"{path}: {width} columns, allowed is 1..{_MAX_WIDTH}")
    return width


def _features(path: Path, n: int) -> npt.NDArray[np.float32]:
    width = _width(path)
    blocks, rows = [], 0
    for _, numbers in read_rows(path, 0, width, comma=True):
        rows += len(numbers)
        blocks.append(numbers)
        if rows > n:
            break
    if rows != n:
        raise InputError(
            f"{path}: {'more than ' if rows > n else ''}{min(rows, n)} rows of features for {n} vertices"
        )
    features = np.empty((n, width), dtype=np.float32)
    start = 0
    for block in blocks:
        features[start : start + len(block)] = block
        start += len(block)
    return features


def _labels(path: Path, n: int) -> tuple[npt.NDArray[np.int32], int]:
    width = _width(path)
    parts = [whole for whole, _ in read_rows(path, width, comma=True)]
    labels = np.concatenate(parts) if parts else np.empty((0, width), np.int64)
    if len(labels) != n:
        raise InputError(f"{path}: {len(labels)} rows of labels for {n} vertices")
    low, high = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
    most = 1 if width > 1 else n + 2**16
    if low < -1 or high > most:
        raise InputError(f"{path}: labels {low}..{high}, allowed is -1..{most}")
    if width > 1:
        return labels.astype(np.int32), width
    return labels[:, 0].astype(np.int32), high + 1


def _split(folder: Path, n: int) -> npt.NDArray[np.int8]:
    split = np.full(n, -1, dtype=np.int8)
    for number, name in enumerate(_SPLITS):
        file = folder / f"{name}.csv.gz"
        ids = read_column(file, low=0, high=n - 1)
        if len(np.unique(ids)) != len(ids) or (split[ids] >= 0).any():
            raise InputError(f"{file}: a vertex occurs twice in the split {folder.name!r}")
        split[ids] = number
    return split


def read(path: Path) -> Graph:
    """Read an OGB data set from its folder. Raises InputError (file, line)."""
    raw = _raw(path)
    nodes = raw / "num-node-list.csv.gz"
    n = _single(nodes, "vertex")
    sources, targets, edges = [], [], 0
    for whole, _ in read_rows(raw / "edge.csv.gz", 2, comma=True):
        ids = narrow(raw / "edge.csv.gz", whole, 0, min(n - 1, MAX_VERTICES))
        sources.append(ids[:, 0])
        targets.append(ids[:, 1])
        edges += len(ids)
    counts = raw / "num-edge-list.csv.gz"
    if counts.is_file() and (declared := _single(counts, "edge")) != edges:
        raise InputError(
            f"{raw / 'edge.csv.gz'}: {edges} edges, {counts.name} declares {declared} (truncated?)"
        )
    check_vertex_count(nodes, n, edges)
    csr = build_csr(n, sources, targets)
    del sources, targets
    features = _features(raw / "node-feat.csv.gz", n) if (raw / "node-feat.csv.gz").is_file() else None
    labels, classes = (
        _labels(raw / "node-label.csv.gz", n) if (raw / "node-label.csv.gz").is_file() else (None, 0)
    )
    folder = split_folder(raw)
    base = raw.parent if raw.name == "raw" else raw
    return make_graph(
        base.resolve().name,
        csr,
        Provenance(
            "real",
            f"OGB raw files {base.name}",
            notes=f"{edges} edge lines" + (f"; split {folder.name}" if folder else ""),
        ),
        feature_width=0 if features is None else features.shape[1],
        num_classes=classes,
        features=features,
        labels=labels,
        split=None if folder is None else _split(folder, n),
    )
