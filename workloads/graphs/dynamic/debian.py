"""Debian's dependency graph over releases: a real dynamic graph from several apt `Packages` indices.

Each index is one snapshot, in the order given; vertices are all packages that any of them holds, edges as
in workloads/graphs/debian_build.py. Features: counts of the hashed words of the description, and whether
the release has the package. Task: the links that the next release brings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from workloads.errors import InputError
from workloads.graphs.debian_build import dependency_edges, summary_buckets
from workloads.graphs.debian_index import merge, read_index
from workloads.graphs.debian_snapshot import FEATURE_WIDTH
from workloads.graphs.dynamic.graph import DynamicGraph, distinct_edges, make_dynamic_graph
from workloads.graphs.graph import Provenance

LEAST = 4  # to train, to validate and to test on what the next one brings


def debian_releases(
    indices: Sequence[Path], progress: Callable[[int, int], None] = lambda done, total: None
) -> DynamicGraph:
    """The dynamic graph of these releases. Raises InputError."""
    if len(indices) < LEAST:
        raise InputError(
            f"releases: {len(indices)} Packages indices given; at least {LEAST}: to train, "
            "validate and test on what the next one brings"
        )
    releases = []
    for place, path in enumerate(indices):
        releases.append(merge(read_index(path)))
        progress(place + 1, len(indices))
    names = sorted(set().union(*releases))
    number = {name: place for place, name in enumerate(names)}
    n = len(names)
    features = np.zeros((len(releases), n, FEATURE_WIDTH + 1), dtype=np.float32)
    arrivals = []
    for t, packages in enumerate(releases):
        here = np.array([number[name] for name in packages], dtype=np.int64)
        edges = here[dependency_edges(packages)]
        arrivals.append(distinct_edges(n, edges[:, 0], edges[:, 1]))
        features[t, here, -1] = 1
        for place, package in zip(here, packages.values(), strict=True):
            np.add.at(features[t, place], summary_buckets(package.summary), 1)
    source = "apt indices " + ", ".join(path.name for path in indices)
    return make_dynamic_graph(
        f"debian over {len(releases)} releases", n, arrivals, Provenance("real", source),
        lifetime=1, window=1, features=features, task="link",
    )  # fmt: skip
