"""What a Tofino has, each number with its public source."""

from __future__ import annotations

from dataclasses import dataclass

# Where the numbers are published.
OPEN_TOFINO = "Open Tofino compiler (p4lang/p4c, backends/tofino/bf-p4c)"
MEMORIES = f"{OPEN_TOFINO}: mau/tofino/memories.h"
MAU = f"{OPEN_TOFINO}: specs/mau_spec.h, mau_spec.cpp"
DEVICE = f"{OPEN_TOFINO}: specs/device.h, device.cpp"
PHV = f"{OPEN_TOFINO}: specs/phv_spec.cpp"
PARDE = f"{OPEN_TOFINO}: specs/parde_spec.h"
RMT = "Bosshart et al., Forwarding Metamorphosis (RMT), SIGCOMM 2013, sections 2.1 and 4"
COMPILING = "Jose et al., Compiling Packet Programs to Reconfigurable Switches, NSDI 2015, section 3"
ONE_ACCESS = (
    "one access to a register array a pass: ATP (NSDI 2021) section 2, SwitchML (NSDI 2021) section 4"
)
PORTS = (
    "Open Tofino TNA (PUBLIC_Tofino-Native-Arch): recirculation ports 68 to 71 of each pipe, 100 Gb/s each"
)


@dataclass(frozen=True)
class Chip:
    """Per pipe; ingress and egress share the stages.

    Blocks of SRAM hold 128 x 1024 bits, of TCAM 44 x 512.
    """

    name: str
    title: str
    stages: int
    # in a stage
    stateful_alus: int = 4
    counter_alus: int = 4
    sram_blocks: int = 80
    map_rams: int = 48
    tcam_blocks: int = 24
    logical_tables: int = 16
    gateways: int = 16
    exact_bytes: int = 128
    ternary_bytes: int = 66
    hash_slices: int = 6
    # of a register and its actions
    register_bits: int = 64
    comparisons: int = 2
    inputs: int = 2
    outputs: int = 1
    updates: int = 2  # ways a word may be updated
    actions_per_register: int = 4
    # headers and metadata
    containers: tuple[tuple[int, int], ...] = ((8, 64), (16, 96), (32, 64))
    parser_rows: int = 256
    select_bits: int = 32
    extract_bytes: int = 28  # of one parser row: four containers of each size
    # recirculation
    recirculation_ports: int = 4
    recirculation_gbps: int = 100

    @property
    def phv_bits(self) -> int:
        return sum(bits * count for bits, count in self.containers)


TOFINO = Chip("tofino", "Tofino", 12)
TOFINO2 = Chip("tofino2", "Tofino 2", 20, register_bits=128, comparisons=4, outputs=4)
CHIPS = {chip.name: chip for chip in (TOFINO, TOFINO2)}
