"""Frames that are wrong in one way, to every endpoint and switch of a running cluster: all are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator import wire
from emulator.cluster.station import as_bytes, as_frames
from emulator.wire import PacketType

CONTRIBUTIONS = (PacketType.UPLOAD, PacketType.PARTIAL, PacketType.RESULT, PacketType.DIRECT)
WAYS = ("version", "length", "vertex", "job", "stale", "forged", "noise")


class Rogue:
    """Stands beside every link: of frames that arrive it sends damaged copies as well, before or after."""

    def __init__(self, cluster: Any, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.sent: Counter[str] = Counter()
        self.cluster = cluster
        self._arrive = cluster._arrive
        cluster._arrive = self.arrive

    def arrive(self, source: str, target: str, frames: Any, lengths: Any) -> None:
        before = self.random.random() < 0.5
        if not before:
            self._arrive(source, target, frames, lengths)
        at = int(self.random.integers(len(frames)))
        forged = as_frames(frames[at : at + 1].copy()).copy()
        size = np.array(lengths[at : at + 1])
        way = WAYS[int(self.random.integers(len(WAYS)))]
        if self._damage(way, forged, size, target):
            self.sent[way] += 1
            self._arrive(source, target, as_bytes(forged), size)
        if before:
            self._arrive(source, target, frames, lengths)

    def _damage(self, way: str, frame: Any, size: Any, target: str) -> bool:
        agg, draw = frame["agg"], self.random.integers
        kind = int(agg["type"][0])
        match way:
            case "version":
                agg["flags"] |= wire.BITS["agg"]["reserved"].mask
            case "length":
                size[0] = draw(0, size[0])
            case "vertex":
                if kind not in CONTRIBUTIONS:
                    return False
                agg["vertex"] = draw(60_000, 2**32)
            case "job":
                agg["job"] = draw(2, 256)
            case "stale":
                if kind not in CONTRIBUTIONS or agg["round"][0] == 0:
                    return False
                agg["round"] -= 1
            case "forged":
                agg["type"], agg["vertex"], agg["count"] = PacketType.COMPLETE, draw(2**32), draw(2**32)
                agg["level"] = draw(2)
                if target.startswith("worker"):
                    frame["ipv4"]["dst"] = self.cluster.stations[0].jobs[1].ip[int(target[6:])]
                    wire.seal(frame)
            case "noise":
                raw = frame.view(np.uint8)
                raw[:] = draw(0, 256, len(raw))
        return True


@pytest.mark.parametrize("rules", [[], ["*: loss=0.03, duplicate=0.1, reorder=0.1, late=100us"]])
@pytest.mark.parametrize("shape", [{"workers": 3}, {"workers": 4, "racks": 2, "memory": 2600}])
def test_a_rogue_changes_nothing(
    make_case: Callable[..., Any], shape: dict[str, Any], rules: list[str]
) -> None:
    case = make_case(graph="rmat:5:4", **shape)
    with case.cluster(rules, patience_ns=2_000_000_000) as cluster:
        cluster.load()
        rogue = Rogue(cluster, 1)
        random = np.random.default_rng(1)
        for _ in range(3):
            values = case.values(random)
            np.testing.assert_array_equal(cluster.propagate(1, values), case.sums(values))
        assert set(rogue.sent) == set(WAYS)
        dropped: Counter[str] = Counter()
        for station in cluster.stations:
            dropped.update(station.endpoint.counters.dropped)
        assert all(dropped[why] > 0 for why in ("length", "version", "vertex", "job", "stale", "forged"))
        events = cluster.switch_events()
        assert events["refused"] > 0
        assert events["stale"] > 0
