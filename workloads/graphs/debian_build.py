"""Build Debian's dependency graph from apt `Packages` indices, as the compact snapshot of debian_snapshot.py.

A vertex is a binary package. An edge joins a package with the package that each clause of its Pre-Depends,
Depends and Recommends leads to. A clause leads to one package, the one apt would choose on a bare system: of
its alternatives the first that the index can satisfy; a virtual package (provided, not packaged) is satisfied
by its provider of highest priority, the first in name order among equals. Version restrictions are not
checked, because one index is one consistent release; architecture qualifiers (`:any`) are dropped. A clause
that nothing in the index satisfies is left out. The label is the section without its area (`contrib/x11` is
`x11`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.graphs.csr import build_csr
from workloads.graphs.debian_index import Package, merge, read_index
from workloads.graphs.debian_snapshot import FEATURE_WIDTH, FORMAT, load_snapshot, pack_lines
from workloads.graphs.formats.npz import save_npz
from workloads.graphs.graph import Graph

_WORD = re.compile(r"[a-z0-9]{2,}")
_MAX_WORDS = 255


def word_bucket(word: str) -> int:
    """The feature column of a word: the first 8 bytes of its BLAKE2b hash, big-endian, modulo the width."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") % FEATURE_WIDTH


def summary_buckets(summary: str) -> list[int]:
    """Sorted feature columns of the words (runs of two or more ASCII letters and digits) of a description."""
    return sorted(word_bucket(word) for word in _WORD.findall(summary.lower())[:_MAX_WORDS])


def dependency_edges(packages: dict[str, Package]) -> npt.NDArray[np.int32]:
    """int32[e, 2] edges (package, what it needs) as positions in `packages`; duplicates and loops may be."""
    number = {name: i for i, name in enumerate(packages)}
    provider: dict[str, tuple[int, str]] = {}
    for package in packages.values():
        rank = (package.priority, package.name)
        for virtual in package.provides:
            provider[virtual] = min(rank, provider.get(virtual, rank))
    pairs: list[tuple[int, int]] = []
    for i, package in enumerate(packages.values()):
        for clause in package.needs:
            for name in clause:
                chosen = name if name in number else provider.get(name, (0, ""))[1]
                if chosen:
                    pairs.append((i, number[chosen]))
                    break
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def release_of(main: Path, indices: Sequence[Path]) -> tuple[str, str, str]:
    """Name, date and source from the Release file that apt keeps by its index `main`, else its file name."""
    fields: dict[str, str] = {}
    prefix = re.match(r"(.*_dists_[^_]+)_", main.name)
    for kind in ("InRelease", "Release") if prefix else ():
        path = main.with_name(f"{prefix.group(1) if prefix else ''}_{kind}")
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            fields = dict(re.findall(r"^([A-Za-z]+): (.*)$", text.partition("\nMD5Sum:")[0], re.MULTILINE))
            break
    try:
        date = parsedate_to_datetime(fields["Date"]).date().isoformat()
    except (KeyError, ValueError):
        date = "on an unknown date"
    name = f"{fields.get('Origin', '').lower()}-{fields.get('Codename', '')}"
    if not re.fullmatch(r"[a-z]+-[a-z]+", name):
        name = f"debian ({main.name})"
    version = f"{fields['Label']} {fields['Version']}, " if {"Label", "Version"} <= fields.keys() else ""
    return name, date, version + "apt index " + ", ".join(path.name for path in indices)


def build_debian(
    indices: Sequence[Path], out: Path, progress: Callable[[int, int], None] = lambda done, total: None
) -> Graph:
    """Build the snapshot `out` from Packages indices and return its graph. Raises InputError.

    progress is called with (indices read, indices).
    """
    found: dict[Path, list[Package]] = {}
    for i, path in enumerate(indices):
        found[path] = list(read_index(path))
        progress(i + 1, len(indices))
    packages = merge(package for part in found.values() for package in part)
    main = max(found, key=lambda path: len(found[path]))
    sections = sorted({package.section for package in packages.values()})
    n = len(packages)
    edges = dependency_edges(packages)
    indptr, neighbours = build_csr(n, edges[:, 0].copy(), edges[:, 1].copy())
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    upper = neighbours > rows
    words = [summary_buckets(package.summary) for package in packages.values()]
    save_npz(
        out,
        {
            "format": np.array([FORMAT, FEATURE_WIDTH], dtype=np.int32),
            "text": pack_lines(release_of(main, indices)),
            "sections": pack_lines(sections),
            "names": pack_lines(packages),
            "labels": np.array([sections.index(p.section) for p in packages.values()], dtype=np.int16),
            "word_counts": np.array([len(row) for row in words], dtype=np.uint8),
            "words": np.array([bucket for row in words for bucket in row], dtype=np.uint8),
            "upper_counts": np.bincount(rows[upper], minlength=n).astype(np.int32),
            "upper_columns": neighbours[upper].astype(np.int32),
        },
    )
    return load_snapshot(out)
