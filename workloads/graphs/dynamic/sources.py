"""`load_dynamic_graph`: from what a user names to a `DynamicGraph`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import InputError
from workloads.graphs.dynamic import contacts, social, traffic
from workloads.graphs.dynamic.graph import DynamicGraph
from workloads.graphs.progress import shown


@dataclass(frozen=True)
class Generator:
    """A generated dynamic graph: its function (n, T, seed, lifetime, window), defaults and what it is."""

    make: Callable[[int, int, int, int, int], DynamicGraph]
    vertices: int
    snapshots: int
    lifetime: int
    window: int
    what: str


GENERATORS = {
    "traffic": Generator(
        traffic.traffic, 2000, 96, traffic.LIFETIME, traffic.WINDOW,
        "sensors along roads: regression, the speeds that follow",
    ),
    "contacts": Generator(
        contacts.contacts, 4000, 60, contacts.LIFETIME, contacts.WINDOW,
        "contacts with an infection: classification, infectious or not",
    ),
    "social": Generator(
        social.social, 4000, 60, social.LIFETIME, social.WINDOW, "a growing social graph: link prediction"
    ),
}  # fmt: skip
MOST_VERTICES, MOST_SNAPSHOTS = 1_000_000, 2_000
MOST_CELLS = 50_000_000  # vertices times snapshots: features and targets of ~20 values each


def load_dynamic_graph(
    source: str,
    *,
    scale: float = 1.0,
    seed: int = 1,
    lifetime: int | None = None,
    window: int | None = None,
    cache: Path | None = None,
) -> DynamicGraph:
    """Generate a dynamic graph: `traffic`, `contacts` or `social`, or with sizes `traffic:N[:T]`.

    scale: share of the default number of vertices, for a name without sizes. lifetime z and window Ns, in
    snapshots: the source's own where None. Raises InputError.
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"seed: {seed}, allowed is 0..{2**63 - 1}")
    kind, colon, sizes = source.partition(":")
    if kind not in GENERATORS:
        close = difflib.get_close_matches(kind, GENERATORS, 2)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        names = ", ".join(GENERATORS)
        raise InputError(f"dynamic graph {source[:80]!r}: not known{hint}; allowed are {names}")
    made = GENERATORS[kind]
    if colon and scale != 1.0:
        raise InputError(f"scale: {scale:g} beside sizes in {source[:80]!r}; give one of them")
    if not 0 < scale <= 100:
        raise InputError(f"scale: {scale:g} given, allowed is more than 0 to 100")
    first, _, second = sizes.partition(":")
    n = _whole(source, "vertices", first, MOST_VERTICES) if first else round(made.vertices * scale)
    snapshots = _whole(source, "snapshots", second, MOST_SNAPSHOTS) if second else made.snapshots
    if n < 20 or snapshots < 5 or n * snapshots > MOST_CELLS:
        raise InputError(
            f"dynamic graph {source[:80]!r}: {n} vertices, {snapshots} snapshots; allowed are 20 or "
            f"more, 5 or more, and together at most {MOST_CELLS} vertices times snapshots"
        )
    with shown(f"generating {kind}"):
        return made.make(
            n,
            snapshots,
            seed,
            made.lifetime if lifetime is None else lifetime,
            min(made.window, snapshots * 6 // 10) if window is None else window,
        )


def _whole(source: str, what: str, text: str, most: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not 1 <= value <= most:
        raise InputError(
            f"dynamic graph {source[:80]!r}: {what} {text[:40]!r}, allowed is a whole number 1..{most}"
        )
    return value
