"""How a cluster runs, whatever it runs on."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing


@dataclass(frozen=True)
class Settings:
    """How a cluster runs. rate_bps, delay_ns: of each link; burst: frames at a time; ecn_frames: see Line."""

    timing: Timing
    dcqcn: DcqcnConfig
    rate_bps: float = 100e9
    delay_ns: int = 1_000
    burst: int = 32
    ecn_frames: int = 0
    seed: int = 1
