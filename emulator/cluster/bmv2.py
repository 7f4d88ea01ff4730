"""switchgnn.p4 on BMv2 in the in-process cluster: real switch, virtual time for the workers.

A burst goes in packet by packet, and what comes out until the switch falls silent is its answer. That is
slow (a twentieth of a second a burst) and exact: it is there to check engine and protocol on the reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emulator.cluster.topology import Topology
from p4.control.fabric import Switch
from p4.control.switchgnn import SwitchJob, defines
from p4.programs import SWITCHGNN
from p4.targets import Target
from p4.targets.batch import Batch, pack, unpack
from workloads.errors import InputError

QUIET_S = 0.05


class PacketwiseSwitch:
    """Any Target as the cluster uses a switch. ``now_us`` is not passed on: the switch has its own clock."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.now_us = 0

    def run(self, batch: Batch) -> Batch:
        """All packets in, then all that come out."""
        for packet in unpack(batch):
            self.target.send(packet.port, packet.data)
        out = pack(self.target.receive())
        return out._replace(sources=np.zeros(len(out.ports), np.uint32))

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        return self.target.counter_read(name, index)

    def statistics(self) -> dict[str, int]:
        """A Target says nothing about its passes."""
        return {}

    def close(self) -> None:
        self.target.close()


def require_bmv2() -> None:
    """Raises InputError, saying what is missing and how to do without."""
    from p4.targets.bmv2 import missing_tools  # noqa: PLC0415  (gRPC is optional)
    from p4.targets.bmv2.process import may_make_networks  # noqa: PLC0415

    missing = missing_tools()
    if missing:
        raise InputError(f"--switch: {missing}; use --switch engine, which needs no toolchain")
    if not may_make_networks():
        raise InputError(
            "--switch: bmv2 needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW) for its ports; "
            "use --switch engine, which needs none"
        )


def bmv2_switch(switch: Switch, topology: Topology, jobs: Sequence[SwitchJob]) -> PacketwiseSwitch:
    """A simple_switch_grpc with a port for each of its links. Raises InputError if it does not start."""
    from p4.codegen.build import BuildError  # noqa: PLC0415
    from p4.targets import TargetError  # noqa: PLC0415
    from p4.targets.bmv2 import Bmv2  # noqa: PLC0415

    try:
        target = Bmv2(
            SWITCHGNN,
            ports=range(len(switch.links)),
            kind="veth",
            defines=defines(topology, jobs),
            log_level="off",
            quiet_s=QUIET_S,
        )
    except (BuildError, TargetError, OSError) as error:
        raise InputError(f"--switch: bmv2: {error}") from None
    return PacketwiseSwitch(target)
