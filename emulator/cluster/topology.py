"""A cluster's shape as a user may ask for it, and its jobs; p4/control/fabric.py has ports and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator.protocol.frames import Job
from p4.control.fabric import FIRST_IP, GATEWAY_MAC, MOST_PORTS, SWITCH_IP, Fabric, worker_mac
from workloads.errors import InputError


@dataclass(frozen=True)
class Topology(Fabric):
    """A `Fabric` that can be built.

    Raises InputError for a shape that does not come out even or has more ports than a switch.
    """

    def __post_init__(self) -> None:
        if self.workers < 2:
            raise InputError(f"workers: {self.workers} given; at least 2")
        if self.racks and self.workers % self.racks:
            raise InputError(f"racks: {self.workers} workers cannot be spread evenly over {self.racks} racks")
        if self.racks and self.spines < 1:
            raise InputError(f"racks: {self.racks} leaves need at least one spine")
        if self.most_ports > MOST_PORTS:
            raise InputError(f"workers: {self.most_ports} ports on one switch; at most {MOST_PORTS}")

    def jobs(self, number: int, secret: int) -> Sequence[Job]:
        """One `Job` per worker."""
        ip = np.array([FIRST_IP + w for w in range(self.workers)], np.uint32)
        mac = np.array([list(worker_mac(w)) for w in range(self.workers)], np.uint8)
        return [
            Job(number, w, self.workers, ip, mac, SWITCH_IP, GATEWAY_MAC, secret) for w in range(self.workers)
        ]
