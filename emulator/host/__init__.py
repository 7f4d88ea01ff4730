"""DPDK-style hosts: EAL, lcores, mempools, rings and ports, in DPDK's names."""

from emulator.host.eal import Eal, eal_init
from emulator.host.ethdev import BURST, EthDev, Link, wait
from emulator.host.fault import FaultEthDev, Faults
from emulator.host.lcore import Lcore, LcoreError
from emulator.host.mempool import HEADROOM_BYTES, META, Mbufs, Mempool
from emulator.host.packet import PacketEthDev
from emulator.host.pcap import Capture, PcapEthDev
from emulator.host.ring import Ring
from emulator.host.shm import ShmEnd, ShmEthDev, ShmLink, ShmSocketDev

__all__ = [
    "BURST",
    "HEADROOM_BYTES",
    "META",
    "Capture",
    "Eal",
    "EthDev",
    "FaultEthDev",
    "Faults",
    "Lcore",
    "LcoreError",
    "Link",
    "Mbufs",
    "Mempool",
    "PacketEthDev",
    "PcapEthDev",
    "Ring",
    "ShmEnd",
    "ShmEthDev",
    "ShmLink",
    "ShmSocketDev",
    "eal_init",
    "wait",
]
