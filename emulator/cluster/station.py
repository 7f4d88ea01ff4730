"""What runs on one worker: an endpoint per job, and the loaders of the switch that it is in charge of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Endpoint, Timing
from emulator.protocol.frames import Bytes, Job, as_bytes, as_frames
from emulator.protocol.layout import Share
from emulator.protocol.loader import Ints, Loader
from emulator.wire import FRAME_BYTES, PacketType
from p4.control.adjacency import Array
from workloads.plan import Plan

LOAD_RTO_NS = 50_000_000


class Station:
    """jobs: number -> this worker's Job; plans: number -> Plan. Frames are raw bytes here: uint8[n, size]."""

    def __init__(
        self, jobs: Mapping[int, Job], plans: Mapping[int, Plan], timing: Timing, dcqcn: DcqcnConfig
    ) -> None:
        self.jobs, self.timing = jobs, timing
        self.worker = next(iter(jobs.values())).worker
        self.shares = {number: Share(plan, self.worker) for number, plan in plans.items()}
        self.endpoints = {number: Endpoint(job, timing, dcqcn) for number, job in jobs.items()}
        self.active = next(iter(jobs))
        self.loaders: list[Loader] = []

    @property
    def endpoint(self) -> Endpoint:
        """The job that runs."""
        return self.endpoints[self.active]

    def load(self, arrays: Mapping[int, list[tuple[Array, Ints]]], turn: int) -> None:
        """Load the switch with these arrays of each job. turn: how often it was set up before."""
        patience_ns = self.timing.patience_ns
        self.loaders = [
            Loader(self.jobs[number], of_job, turn=turn, rto_ns=LOAD_RTO_NS, patience_ns=patience_ns)
            for number, of_job in arrays.items()
        ]

    @property
    def loading(self) -> bool:
        """Whether the switch does not have everything yet."""
        return any(not loader.done for loader in self.loaders)

    @property
    def error(self) -> str | None:
        """Why this worker gave up, if it did."""
        of_loading = [loader.error for loader in self.loaders if loader.error]
        return of_loading[0] if of_loading else self.endpoint.error

    def receive(self, frames: Bytes, lengths: npt.NDArray[np.integer], now_ns: int) -> None:
        """A burst; shorter frames are filled up with zeros, longer ones cut."""
        rows = as_frames(_of_size(frames))
        if len(self.endpoints) == 1 and not self.loading:
            self.endpoint.receive(rows, lengths, now_ns)
            return
        agg = rows["agg"]
        if self.loading:
            loads = agg["type"] == PacketType.LOAD
            for number, loader in zip(self.endpoints, self.loaders, strict=False):
                chosen = loads & (agg["job"] == number)
                if chosen.any():
                    loader.receive(rows[chosen], lengths[chosen], now_ns)
            rows, lengths = rows[~loads], lengths[~loads]
            agg = rows["agg"]
        if not len(rows):
            return
        if (agg["job"] == self.active).all():
            self.endpoint.receive(rows, lengths, now_ns)
            return
        known = np.zeros(len(rows), bool)
        for number, endpoint in self.endpoints.items():
            chosen = agg["job"] == number
            if chosen.any():
                known |= chosen
                endpoint.receive(rows[chosen], lengths[chosen], now_ns)
        if not known.all():
            self.endpoint.receive(rows[~known], lengths[~known], now_ns)  # which counts why it is dropped

    def send(self, now_ns: int, room: int) -> Bytes:
        """What is to leave now, about `room` frames at most: uint8[n, FRAME_BYTES]."""
        for loader in self.loaders:
            if not loader.done:
                frames = loader.send(now_ns, room)
                if len(frames):
                    return as_bytes(frames)
                break
        return as_bytes(self.endpoint.send(now_ns, room))

    def wake_ns(self, now_ns: int) -> int:
        """When `send` has something to do at the latest."""
        wake = self.endpoint.wake_ns(now_ns)
        for loader in self.loaders:
            if not loader.done:
                return min(wake, loader.wake_ns(now_ns))
        return wake

    def counters(self) -> dict[str, int]:
        """What the endpoints counted, all jobs together."""
        total: Counter[str] = Counter()
        for endpoint in self.endpoints.values():
            total.update(endpoint.counters.as_dict())
        return dict(total)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self.loading and self.endpoint.idle


def _of_size(raw: Bytes) -> Bytes:
    """Frames filled up or cut to FRAME_BYTES; their own lengths tell how much of each is real."""
    if raw.shape[1] == FRAME_BYTES:
        return raw
    sized = np.zeros((len(raw), FRAME_BYTES), np.uint8)
    most = min(raw.shape[1], FRAME_BYTES)
    sized[:, :most] = raw[:, :most]
    return sized
