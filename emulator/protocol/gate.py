"""The first look at what arrives: whole frames of this job, for this worker, from where they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.protocol.frames import Arrived, Frames, Job
from emulator.wire import FRAME_BYTES, PacketType

Mask = npt.NDArray[np.bool_]
_VERSION = wire.BITS["agg"]["reserved"].mask
_FOR_HOSTS = np.zeros(256, bool)
_FOR_HOSTS[[PacketType.RESULT, PacketType.DIRECT, PacketType.PULL]] = True
_FOR_HOSTS[[PacketType.COMPLETE, PacketType.CNP]] = True


class Gate:
    """``dropped``: where refused frames are counted by their reason."""

    def __init__(self, job: Job, dropped: Counter[str]) -> None:
        self.job, self.dropped = job, dropped

    def admit(self, frames: Frames, lengths: npt.NDArray[np.integer]) -> Arrived:
        """What of a burst concerns this worker; `lengths` are the bytes received of each."""
        fine = wire.valid(frames, lengths)
        if not fine.all():
            short = int((lengths < FRAME_BYTES).sum())
            self.dropped["length"] += short
            self.dropped["header"] += len(fine) - int(fine.sum()) - short
            frames = frames[fine]
        got = self.only(Arrived(frames), "job", lambda a: a.job == self.job.number)
        got = self.only(got, "version", lambda a: (a.flags & _VERSION) == 0)
        got = self.only(got, "type", lambda a: _FOR_HOSTS[a.type])
        got = self.only(got, "address", self._addressed)
        return self.only(got, "source", self._from_its_place)

    def only(self, got: Arrived, why: str, test: Callable[[Arrived], Mask]) -> Arrived:
        """Those that pass a test; the others are counted."""
        if not len(got):
            return got
        mask = test(got)
        if mask.all():
            return got
        self.dropped[why] += len(got) - int(mask.sum())
        return got.keep(mask)

    def _addressed(self, got: Arrived) -> Mask:
        return np.asarray(got.frames["ipv4"]["dst"] == self.job.ip[self.job.worker])

    def _from_its_place(self, got: Arrived) -> Mask:
        """Results come from the switch, everything between workers from the worker it names."""
        source = got.frames["ipv4"]["src"]
        peer = (got.worker < self.job.workers) & (got.worker != self.job.worker)
        named = peer & (source == self.job.ip[np.where(peer, got.worker, 0)])
        # A sum that another leaf's partial completed was on its way to this worker's address already.
        of_switch = (source == self.job.switch_ip) | (source == self.job.ip[self.job.worker])
        of_result, of_all = got.type == PacketType.RESULT, got.type == PacketType.COMPLETE
        return np.where(of_result, of_switch, named | of_all)
