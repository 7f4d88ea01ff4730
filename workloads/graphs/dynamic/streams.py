"""Edge streams of SNAP, JODIE and TGB, and their cut into snapshots.

snap-temporal: `src dst time` a line (whole numbers, `#` comments), or `src,dst,rating,time` as SNAP's
signed networks have it. sociopatterns: `time i j` and maybe attributes a line, as the face-to-face contacts
of SocioPatterns are given. jodie: a header `user_id,item_id,timestamp,state_label,...` and then, per
interaction, a label of the user and features. tgb: a csv whose header names a source, a target and a time.
Directions are dropped; vertices are numbered by first appearance in time, a user and an item of the same
name being two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from workloads.errors import InputError
from workloads.graphs.dynamic.graph import DynamicGraph, Task, distinct_edges, make_dynamic_graph
from workloads.graphs.formats.rows import first_line, read_rows
from workloads.graphs.formats.stream import open_stream, readable
from workloads.graphs.graph import Provenance

SNAPSHOTS, LIFETIME, WINDOW = 40, 3, 6  # where nothing else is asked for
MOST_VALUES = 1_000_000_000  # of all features, 4 GB
_COMMENT = "#%"
_SOURCES = ("src", "source", "user_id", "u", "from", "nation")
_TARGETS = ("dst", "destination", "target", "item_id", "i", "to", "trading nation", "genre", "subreddit")
_TIMES = ("ts", "time", "timestamp", "day", "year", "t")
_JODIE = ("user_id", "item_id", "timestamp", "state_label")


@dataclass(frozen=True, eq=False)
class EdgeStream:
    """n vertices; sources, targets: int64[e], time: float64[e] ascending; features: float32[e, F] of the
    interactions; labels: int64[e] of the sources (0 or 1), or None.
    """

    n: int
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    time: npt.NDArray[np.float64]
    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None


def recognise_stream(path: Path) -> str:
    """The name of a file's format by its first line. Raises InputError."""
    line, _ = first_line(path, _COMMENT)
    names = [name.strip().lower() for name in line.split(",")]
    if tuple(names[:3]) == _JODIE[:3]:
        return "jodie"
    if _find(names, _SOURCES) >= 0 and _find(names, _TARGETS) >= 0 and _find(names, _TIMES) >= 0:
        return "tgb"
    fields = line.split(",") if "," in line else line.split()
    if len(fields) in (3, 4) and all(_number(field) for field in fields):
        return "snap-temporal"
    if "," not in line and len(fields) in (5, 6) and _number(fields[0]):
        return "sociopatterns"
    raise InputError(
        f"{path}: first line {line[:40]!r} is of no known edge stream; allowed: `src dst time` or `time i j "
        "class class` a line, a csv with a header of JODIE or TGB (source, target and time columns)"
    )


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _find(names: list[str], allowed: tuple[str, ...]) -> int:
    return next((names.index(name) for name in allowed if name in names), -1)


def read_snap(path: Path) -> EdgeStream:
    """A SNAP temporal edge list. Raises InputError (file, line)."""
    line, _ = first_line(path, _COMMENT)
    if "," in line:
        columns = len(line.split(","))
        if columns not in (3, 4):
            raise InputError(f"{path}: {columns} columns in the first line; allowed: src,dst[,rating],time")
        table = _csv(path, columns, {0, 1}, header=False)
        return _stream(path, table[0], table[1], table[columns - 1], bipartite=False)
    parts = [whole for whole, _ in read_rows(path, 3, comment=_COMMENT)]
    if not parts:
        raise InputError(f"{path}: no edge in it; a temporal edge list has `src dst time` a line")
    whole = np.concatenate(parts)
    return _stream(path, whole[:, 0], whole[:, 1], whole[:, 2].astype(np.float64), bipartite=False)


def read_sociopatterns(path: Path) -> EdgeStream:
    """A SocioPatterns contact list; what it says of people is not read. Raises InputError (file, what)."""
    line, _ = first_line(path, _COMMENT)
    delimiter = "\t" if "\t" in line else " "
    columns = len(line.split(delimiter))
    if columns < 3:
        raise InputError(f"{path}: {columns} columns in the first line; allowed: time, i, j, attributes")
    table = _csv(path, columns, set(range(1, columns)), header=False, delimiter=delimiter)
    return _stream(path, table[1], table[2], table[0], bipartite=False)


def read_jodie(path: Path) -> EdgeStream:
    """A JODIE csv. Raises InputError (file, what)."""
    with open_stream(path) as stream, readable(path):
        stream.readline()
        second = stream.readline(1 << 20).decode("utf-8", errors="replace")
    columns = len(second.split(","))
    if columns < 4:
        raise InputError(
            f"{path}: {columns} columns in the second line; allowed: {','.join(_JODIE)}, features"
        )
    table = _csv(path, columns, {0, 1}, header=True)
    labels = table[3]
    if not np.isin(labels, (0, 1)).all():
        raise InputError(f"{path}: state_label {labels[~np.isin(labels, (0, 1))][0]:g}; allowed: 0 and 1")
    features = np.stack(table[4:], axis=1) if columns > 4 else np.zeros((len(labels), 0))
    with np.errstate(over="ignore"):  # what lies beyond float32 becomes infinite, and is refused by its row
        narrow = features.astype(np.float32)
    return _stream(
        path, table[0], table[1], table[2], bipartite=True, features=narrow,
        labels=labels.astype(np.int64) if labels.any() else None,
    )  # fmt: skip


def read_tgb(path: Path) -> EdgeStream:
    """A csv of TGB. Raises InputError (file, what)."""
    line, _ = first_line(path)
    names = [name.strip().strip('"').lower() for name in line.split(",")]
    places = [_find(names, allowed) for allowed in (_SOURCES, _TARGETS, _TIMES)]
    if min(places) < 0:
        raise InputError(
            f"{path}: header {line[:60]!r} names no source, target and time; allowed names: "
            f"{', '.join(_SOURCES)}; {', '.join(_TARGETS)}; {', '.join(_TIMES)}"
        )
    table = _csv(path, len(names), set(range(len(names))) - {places[2]}, header=True)
    # Where both columns name the same kind of thing, it is one set of vertices.
    bipartite = names[places[0]] == "user_id" or names[places[1]] in ("genre", "subreddit", "item_id")
    return _stream(path, table[places[0]], table[places[1]], table[places[2]], bipartite=bipartite)


def _csv(path: Path, columns: int, texts: set[int], *, header: bool, delimiter: str = ",") -> list[Any]:
    """The columns, those in `texts` as text, others as float64."""
    names = [f"{place}" for place in range(columns)]
    kinds = {name: pa.string() if place in texts else pa.float64() for place, name in enumerate(names)}
    try:
        with open_stream(path) as stream, readable(path):
            table = pyarrow.csv.read_csv(
                pa.PythonFile(stream, mode="r"),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=names, skip_rows=int(header), use_threads=False
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=kinds, strings_can_be_null=False, null_values=[]
                ),
            )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        first = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not a csv of {columns} columns with numbers where they belong ({first})"
        ) from None
    if not table.num_rows:
        raise InputError(f"{path}: no interaction in it")
    return [
        table[name].combine_chunks().dictionary_encode() if place in texts else table[name].to_numpy()
        for place, name in enumerate(names)
    ]


def _stream(
    path: Path,
    sources: Any,
    targets: Any,
    time: npt.NDArray[np.float64],
    *,
    bipartite: bool,
    features: npt.NDArray[np.float32] | None = None,
    labels: npt.NDArray[np.int64] | None = None,
) -> EdgeStream:
    if not np.isfinite(time).all():
        raise InputError(
            f"{path}: interaction {int(np.flatnonzero(~np.isfinite(time))[0]) + 1} has no finite time"
        )
    if features is not None and not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise InputError(f"{path}: interaction {row + 1} has a feature that is not finite, or beyond float32")
    order = np.argsort(time, kind="stable")
    first, second = (
        _numbers(path, sources)[order],
        _numbers(path, targets, sources, bipartite=bipartite)[order],
    )
    both = np.stack([first, second], axis=1).reshape(-1)
    found, at, inverse = np.unique(both, return_index=True, return_inverse=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.argsort(at, kind="stable")] = np.arange(len(found))
    number = rank[inverse].reshape(-1, 2)
    rows = np.zeros((len(time), 0), dtype=np.float32) if features is None else features[order]
    return EdgeStream(
        len(found), number[:, 0], number[:, 1], time[order].astype(np.float64), rows,
        None if labels is None else labels[order],
    )  # fmt: skip


def _numbers(
    path: Path,
    ids: Any,
    others: Any = None,
    *,
    bipartite: bool = False,
) -> npt.NDArray[np.int64]:
    """A number per id. others: those of the sources, whose numbers equal names share, unless bipartite."""
    if isinstance(ids, np.ndarray):
        return ids.astype(np.int64)
    names = ids.dictionary.to_pylist()
    if any(not name.strip() for name in names):
        raise InputError(f"{path}: an interaction without a source or a target")
    known = (
        {} if others is None else {name: place for place, name in enumerate(others.dictionary.to_pylist())}
    )
    base = len(known)
    shared = {} if bipartite else known
    table = np.array([shared.get(name, base + place) for place, name in enumerate(names)], dtype=np.int64)
    return table[ids.indices.to_numpy()]


def cut_stream(
    stream: EdgeStream, name: str, provenance: Provenance, *, snapshots: int, lifetime: int, window: int
) -> DynamicGraph:
    """Snapshots of a stream in equal intervals of time.

    features of a vertex: log(1 + degree in the snapshot), log(1 + its interactions in the interval), 1, and
    the mean of its interactions' features. Task: the source's label in the next interval, where there are
    labels (classification), else the next interval's links. Raises InputError.
    """
    n, width = stream.n, 3 + stream.features.shape[1]
    span = stream.time[-1] - stream.time[0]
    if not span > 0:
        raise InputError(f"{name}: all interactions have the same time; nothing changes")
    if n * snapshots * width > MOST_VALUES:
        raise InputError(
            f"{name}: {n} vertices, {snapshots} snapshots and {width} features are more than {MOST_VALUES} "
            "values; take fewer snapshots"
        )
    at = np.minimum((stream.time - stream.time[0]) / span * snapshots, snapshots - 1).astype(np.int64)
    starts = np.searchsorted(at, np.arange(snapshots + 1))
    features = np.zeros((snapshots, n, width), dtype=np.float32)
    features[:, :, 2] = 1
    targets = None if stream.labels is None else np.full((snapshots, n), -1, dtype=np.int64)
    arrivals = []
    for t in range(snapshots):
        part = slice(starts[t], starts[t + 1])
        sources, ends = stream.sources[part], stream.targets[part]
        arrivals.append(distinct_edges(n, sources, ends))
        both = np.concatenate([sources, ends])
        count = np.bincount(both, minlength=n)
        features[t, :, 1] = np.log1p(count)
        if width > 3 and len(both):
            np.add.at(features[t, :, 3:], both, np.tile(stream.features[part], (2, 1)))
            features[t, :, 3:] /= np.maximum(count, 1)[:, None]
        live = np.concatenate(arrivals[max(0, t - lifetime + 1) :])
        keys = np.unique(live[:, 0].astype(np.int64) * n + live[:, 1])
        features[t, :, 0] = np.log1p(np.bincount(np.r_[keys // n, keys % n], minlength=n))
        if targets is not None and stream.labels is not None and t:
            np.maximum.at(targets[t - 1], sources, stream.labels[part])
    task: Task = "link" if targets is None else "classification"
    return make_dynamic_graph(
        name, n, arrivals, provenance, lifetime=lifetime, window=window, features=features, task=task,
        targets=targets, num_classes=0 if targets is None else 2,
    )  # fmt: skip


READERS = {
    "snap-temporal": read_snap,
    "sociopatterns": read_sociopatterns,
    "jodie": read_jodie,
    "tgb": read_tgb,
}
TITLES = {
    "snap-temporal": "SNAP temporal edge list: src dst time a line, or src,dst,rating,time",
    "sociopatterns": "SocioPatterns contact list: time i j a line, perhaps with attributes of both",
    "jodie": "JODIE csv: user_id,item_id,timestamp,state_label,features",
    "tgb": "TGB csv: a header that names source, target and time",
}


def read_stream(kind: str, path: Path) -> EdgeStream:
    """The stream of a file. Raises InputError."""
    return READERS[kind](path)
