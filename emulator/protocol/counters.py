"""What an endpoint counts. Nothing is dropped without a name for why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass
class Counters:
    """Frames, unless the name says otherwise. ``dropped``: arrived frames that changed nothing, by reason:

    length, header (link, IP or UDP, checksum included), version, job, type, address, source, vertex, chunk,
    owner, count, entries (of a pull), forged (completions), stale and ahead (block or round), unasked,
    early (more than is kept for the next block), not ready (pulls before the asked worker has sent).
    """

    uploads: int = 0
    directs: int = 0  # host-based by plan
    answers: int = 0  # to pulls
    pulls: int = 0
    pulled_chunks: int = 0  # asked for in pulls
    reports: int = 0
    reports_resent: int = 0
    results: int = 0
    completions: int = 0
    contributions: int = 0  # received one by one
    duplicates: int = 0
    timeouts: int = 0
    bypassed_chunks: int = 0  # sums made by their owner from pulled contributions
    saturated: int = 0  # sums with a value at an end of int32
    ecn_marks: int = 0
    cnps_sent: int = 0
    cnps: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, int]:
        """Flat: dropped.REASON for each reason met."""
        flat = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "dropped"}
        return flat | {f"dropped.{why}": count for why, count in sorted(self.dropped.items()) if count}
