"""Which readers there are, and how the format of a path is recognised."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import check_csr
from workloads.graphs.debian_snapshot import is_snapshot, load_snapshot
from workloads.graphs.formats import dgl_reddit, graphsaint, matrixmarket, metis, ogb, snap
from workloads.graphs.formats.rows import first_line
from workloads.graphs.graph import Graph, content_digest
from workloads.graphs.store import load_saved

_PACKED = (".gz", ".xz")


@dataclass(frozen=True)
class Format:
    """A reader. files: what it reads of a path, for the cache's key. cached: whether to keep it."""

    title: str
    read: Callable[[Path], Graph]
    files: Callable[[Path], list[Path]]
    cached: bool = True


def _itself(path: Path) -> list[Path]:
    return [path]


def _read_saved(folder: Path) -> Graph:
    # A folder from elsewhere is checked in full; the cache's own entries are trusted after their checksums.
    graph = load_saved(folder)
    check_csr((graph.indptr, graph.indices))
    arrays: list[npt.NDArray[Any] | None] = [
        graph.indptr,
        graph.indices,
        graph.features,
        graph.labels,
        graph.split,
    ]
    if content_digest(arrays, graph.feature_width, graph.num_classes) != graph.digest:
        raise InputError(f"{folder}: its content does not have the digest that graph.json states")
    return graph


FORMATS: dict[str, Format] = {
    "ogb": Format("folder with raw/edge.csv.gz, as OGB unpacks it", ogb.read, ogb.files),
    "dgl-reddit": Format(
        "folder with reddit_graph.npz and reddit_data.npz (DGL)", dgl_reddit.read, dgl_reddit.files
    ),
    "graphsaint": Format(
        "folder with adj_full.npz, feats.npy, class_map.json, role.json", graphsaint.read, graphsaint.files
    ),
    "snap": Format("edge list, two ids a line, # comments (.txt, .csv, .gz)", snap.read, _itself),
    "matrixmarket": Format("MatrixMarket coordinate file (.mtx, .mtx.gz)", matrixmarket.read, _itself),
    "metis": Format("METIS graph file (.graph)", metis.read, _itself),
    "netfold": Format("folder that `netfold graph convert` wrote", _read_saved, _itself, cached=False),
    "debian": Format(
        "snapshot that `netfold graph build-debian` wrote (.npz)", load_snapshot, _itself, cached=False
    ),
}

_BY_SUFFIX = {
    ".mtx": "matrixmarket", ".graph": "metis", ".metis": "metis",
    ".txt": "snap", ".csv": "snap", ".tsv": "snap", ".edges": "snap", ".edgelist": "snap", ".el": "snap",
}  # fmt: skip


def _recognise_folder(path: Path) -> str:
    if (path / "graph.json").is_file() and (path / "indptr.npy").is_file():
        return "netfold"
    if any((path / name).is_file() for name in dgl_reddit.GRAPHS):
        return "dgl-reddit"
    if (path / "adj_full.npz").is_file():
        return "graphsaint"
    if ogb.raw_folder(path):
        return "ogb"
    folders = "; ".join(
        f"{name}: {FORMATS[name].title}" for name in ("ogb", "dgl-reddit", "graphsaint", "netfold")
    )
    raise InputError(f"{path}: holds no data set that is known here ({folders})")


def recognise(path: Path) -> str:
    """The name of a path's format, by a folder's files, a file's first line or suffix. Raises InputError."""
    if path.is_dir():
        return _recognise_folder(path)
    bare = path.with_suffix("") if path.suffix in _PACKED else path
    if path.suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                names = [Path(name).stem for name in archive.namelist()]
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(f"{path}: damaged .npz file ({error})") from None
        if is_snapshot(names):
            return "debian"
        raise InputError(f"{path}: not a Debian snapshot; for a data set of several files name its folder")
    line, _ = first_line(path)
    if line.lower().startswith("%%matrixmarket"):
        return "matrixmarket"
    if line.startswith("Package:"):
        raise InputError(
            f"{path}: a Packages index; make a graph of it: `netfold graph build-debian {path} -o OUT.npz`"
        )
    if bare.suffix in _BY_SUFFIX:
        return _BY_SUFFIX[bare.suffix]
    if line.startswith("#"):
        return "snap"
    raise InputError(
        f"{path}: format not recognised; name it as in `snap:{path}` (allowed: {', '.join(FORMATS)})"
    )
