"""The training systems: each says how an epoch exchanges (`EpochPlan`), and may learn from how it went.

dgl: exact. sar: exact, one remote partition at a time (Mostafa, MLSys 2022). pipegcn: one epoch stale, always
(Wan et al., ICLR 2022). bns-gcn: a random share of the halo each epoch (Wan et al., MLSys 2022). sylvie: bits
and staleness that follow the graph and the loss.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from workloads.training.controller import LOWEST_BITS, Controller
from workloads.training.extractor import node_bits
from workloads.training.options import TrainOptions
from workloads.training.traffic import EpochPlan


class System(Protocol):
    """One worker's copy; all copies decide alike, because they see the same numbers."""

    def plan(self, epoch: int) -> EpochPlan:
        """How this epoch exchanges."""
        ...

    def observe(self, loss: float, epoch_s: float) -> dict[str, float | int | bool]:
        """Take in the epoch's mean loss and its duration; returns what to log of the epoch."""
        ...

    def state(self) -> dict[str, Any]:
        """What it has learnt, for a checkpoint."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        ...


class Fixed:
    """dgl, sar, pipegcn and bns-gcn: the same every epoch; what is stale needs one synchronous epoch to
    start.
    """

    def __init__(self, *, stale: bool = False, share: float = 1.0, sequential: bool = False) -> None:
        self._stale, self._share, self._sequential = stale, share, sequential

    def plan(self, epoch: int) -> EpochPlan:
        late = self._stale and epoch > 0
        return EpochPlan(epoch, stale=late, keep=self._stale, share=self._share, sequential=self._sequential)

    def observe(self, loss: float, epoch_s: float) -> dict[str, float | int | bool]:
        return {"base_bits": 32}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Sylvie:
    """levels: uint8[ni+nh], the mask of the worker's local vertices."""

    def __init__(self, options: TrainOptions, levels: npt.NDArray[np.uint8]) -> None:
        self._options, self._levels = options, levels
        self._controller = Controller(options.smoothing, options.gap, options.warmup)
        self._late = False  # the latest epoch was asynchronous
        self._base = LOWEST_BITS
        self._forced = False

    def plan(self, epoch: int) -> EpochPlan:
        options, controller = self._options, self._controller
        self._base = controller.base if options.bits == "adaptive" else int(options.bits)
        wanted = controller.synchronous if options.mode == "adaptive" else options.mode == "sync"
        stale = not wanted and epoch > 0
        self._forced, self._late = self._late and not stale, stale
        bits = None if self._base == 32 else torch.from_numpy(node_bits(self._base, self._levels))
        return EpochPlan(epoch, stale=stale, keep=options.mode != "sync", bits=bits)

    def observe(self, loss: float, epoch_s: float) -> dict[str, float | int | bool]:
        base, forced = self._base, self._forced
        self._controller.observe(loss, epoch_s)
        return {
            "base_bits": base,
            "forced_sync": forced,
            "smoothed_loss": self._controller.smoothed[-1],
            "ldr": self._controller.rates[-1],
        }

    def state(self) -> dict[str, Any]:
        return {"controller": self._controller.state(), "late": self._late}

    def restore(self, state: dict[str, Any]) -> None:
        self._controller, self._late = Controller(**state["controller"]), bool(state["late"])


def make_system(options: TrainOptions, levels: npt.NDArray[np.uint8]) -> System:
    """The system of this name, for a worker whose local vertices have these mask levels."""
    if options.system == "sylvie":
        return Sylvie(options, levels)
    if options.system == "bns-gcn":
        return Fixed(share=options.share)
    return Fixed(stale=options.system == "pipegcn", sequential=options.system == "sar")
