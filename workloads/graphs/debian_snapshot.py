"""The compact file of a Debian dependency graph (.npz, numbers and package names only), read and written.

Arrays: `format` [version, feature width]; `text` (release name, date, source), `sections` and `names` as
UTF-8 bytes, one a line; `labels` int16[n]; `word_counts` uint8[n] and `words` uint8 (hashed description words
of each package in turn); `upper_counts` int32[n] and `upper_columns` (the neighbours of higher number of each
package).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.graphs.csr import build_csr
from workloads.graphs.formats.npz import read_npz
from workloads.graphs.graph import Graph, Provenance, make_graph

FORMAT = 1
FEATURE_WIDTH = 128
SNAPSHOT = Path(__file__).parent / "data" / "debian.npz"
EDGE_MEANING = (
    "an edge joins a package with the package that a Pre-Depends, Depends or Recommends clause leads to; "
    "label: section; features: counts of the hashed words of the one-line description"
)
_NAMES = (
    "format",
    "text",
    "sections",
    "names",
    "labels",
    "word_counts",
    "words",
    "upper_counts",
    "upper_columns",
)


def pack_lines(lines: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Lines of text as bytes."""
    return np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)


def _lines(path: Path, name: str, array: npt.NDArray[Any]) -> list[str]:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise InputError(f"{path}: array {name!r}: {array.dtype}{array.shape}, expected bytes of text")
    try:
        return array.tobytes().decode().split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path}: array {name!r}: not UTF-8 text") from None


def is_snapshot(names: Iterable[str]) -> bool:
    """Whether an .npz with arrays of these names is a snapshot of this kind."""
    return {"upper_counts", "upper_columns", "word_counts"} <= set(names)


def load_snapshot(path: Path = SNAPSHOT) -> Graph:
    """The graph of a snapshot. Raises InputError when the file is damaged or its arrays disagree."""
    arrays = read_npz(path, dict.fromkeys(_NAMES, True))
    if arrays["format"].tolist() != [FORMAT, FEATURE_WIDTH]:
        raise InputError(
            f"{path}: snapshot format {arrays['format'].tolist()}, allowed is {[FORMAT, FEATURE_WIDTH]}"
        )
    text = _lines(path, "text", arrays["text"])
    sections = _lines(path, "sections", arrays["sections"])
    labels, word_counts, words = arrays["labels"], arrays["word_counts"], arrays["words"]
    upper_counts, columns = arrays["upper_counts"], arrays["upper_columns"]
    n = len(_lines(path, "names", arrays["names"]))
    for name in ("labels", "word_counts", "words", "upper_counts", "upper_columns"):
        array = arrays[name]
        if array.dtype.kind not in "iu" or array.dtype == np.uint64 or array.ndim != 1:
            raise InputError(
                f"{path}: array {name!r}: {array.dtype}{array.shape}, expected a row of integers"
            )
        if name not in ("words", "upper_columns") and len(array) != n:
            raise InputError(f"{path}: array {name!r}: {len(array)} entries for {n} packages")
    for name, counts, values in (("words", word_counts, words), ("upper_columns", upper_counts, columns)):
        if (len(counts) and int(counts.min()) < 0) or int(counts.sum(dtype=np.int64)) != len(values):
            raise InputError(f"{path}: array {name!r}: {len(values)} entries, the counts say otherwise")
    if len(text) != 3 or labels.min() < 0 or labels.max() >= len(sections):
        raise InputError(
            f"{path}: section numbers {labels.min()}..{labels.max()}, allowed 0..{len(sections) - 1}"
        )
    if len(words) and not 0 <= int(words.min()) <= int(words.max()) < FEATURE_WIDTH:
        raise InputError(f"{path}: hashed words outside 0..{FEATURE_WIDTH - 1}")
    features = np.zeros((n, FEATURE_WIDTH), dtype=np.float32)
    np.add.at(features, (np.repeat(np.arange(n), word_counts), words), 1)
    rows = np.repeat(np.arange(n, dtype=np.int32), upper_counts)
    try:
        csr = build_csr(n, rows, columns.astype(np.int64))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    name, date, source = text
    notes = f"released {date}; {EDGE_MEANING}"
    return make_graph(
        name,
        csr,
        Provenance("real", source, notes=notes),
        feature_width=FEATURE_WIDTH,
        num_classes=len(sections),
        features=features,
        labels=labels.astype(np.int32),
    )
