"""The environment of one host: EAL arguments in, lcores and ports out, in DPDK's names.

with eal_init(["-l", "0-1", "--vdev", "net_af_packet0,iface=veth0"]) as eal:
    pool = eal.pktmbuf_pool_create("pool", 4096)
    port = eal.ports["net_af_packet0"]
    port.configure(pool)
    port.start()
    eal.remote_launch(loop, 1, port)
    eal.wait_lcore(1)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from emulator.host.ethdev import DEFAULT_MTU, EthDev
from emulator.host.fault import FaultEthDev, Faults
from emulator.host.lcore import Lcore
from emulator.host.mempool import DATA_ROOM_BYTES, Mempool
from emulator.host.packet import PacketEthDev
from emulator.host.pcap import Capture, PcapEthDev
from emulator.host.ring import Ring
from emulator.host.shm import SLOTS, ShmSocketDev
from workloads.errors import InputError

_OPTIONS = "-l LCORES, --vdev DEVICE, --no-huge, --file-prefix NAME, --"
_MOST_LCORES = 128  # RTE_MAX_LCORE


class _Driver(NamedTuple):
    """``needs`` and ``takes``: its keys. `make` gets (name, arguments, ports so far)."""

    needs: tuple[str, ...]
    takes: tuple[str, ...]
    make: Callable[[str, Mapping[str, str], dict[str, EthDev]], EthDev]


def _number(name: str, given: Mapping[str, str], key: str, default: int) -> int:
    text = given.get(key, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"--vdev {name}: {key}={text}: a number is needed")
    return int(text)


def _mac(name: str, given: Mapping[str, str]) -> bytes:
    text = given.get("mac", "00:00:00:00:00:00")
    if not re.fullmatch(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", text):
        raise InputError(f"--vdev {name}: mac={text}: allowed is 02:00:00:00:00:01 and the like")
    return bytes.fromhex(text.replace(":", ""))


def _shm(name: str, given: Mapping[str, str], _: dict[str, EthDev]) -> EthDev:
    role = given["role"]
    if role not in ("server", "client"):
        raise InputError(f"--vdev {name}: role={role}: allowed are server, client")
    slots = _number(name, given, "slots", SLOTS)
    if not 2 <= slots <= 1 << 20 or slots & (slots - 1):
        raise InputError(f"--vdev {name}: slots={slots}: allowed is a power of two, 2 to {1 << 20}")
    port = ShmSocketDev(name, given["socket"], server=role == "server", slots=slots, mac=_mac(name, given))
    port.mtu = _number(name, given, "mtu", DEFAULT_MTU)
    return port


def _packet(name: str, given: Mapping[str, str], _: dict[str, EthDev]) -> EthDev:
    return PacketEthDev(name, given["iface"])


def _pcap(name: str, given: Mapping[str, str], _: dict[str, EthDev]) -> EthDev:
    files = {key: Path(given[key]) if key in given else None for key in ("rx_pcap", "tx_pcap")}
    if not any(files.values()):
        raise InputError(f"--vdev {name}: rx_pcap= or tx_pcap= is needed")
    return PcapEthDev(name, rx_file=files["rx_pcap"], tx_file=files["tx_pcap"])


def _inner(name: str, given: Mapping[str, str], ports: dict[str, EthDev]) -> EthDev:
    if given["port"] not in ports:
        there = ", ".join(ports) or "none"
        raise InputError(f"--vdev {name}: port={given['port']}: no such port before it; there are: {there}")
    return ports.pop(given["port"])


def _fault(name: str, given: Mapping[str, str], ports: dict[str, EthDev]) -> EthDev:
    sides = {
        side: Faults.parse({k.removeprefix(side): v for k, v in given.items() if k.startswith(side)})
        for side in ("tx_", "rx_")
    }
    seed = _number(name, given, "seed", 1)
    return FaultEthDev(name, _inner(name, given, ports), tx=sides["tx_"], rx=sides["rx_"], seed=seed)


def _capture(name: str, given: Mapping[str, str], ports: dict[str, EthDev]) -> EthDev:
    return Capture(name, _inner(name, given, ports), Path(given["file"]))


_FAULTS = tuple(f"{side}_{name}" for side in ("tx", "rx") for name in Faults.__dataclass_fields__)
DRIVERS: dict[str, _Driver] = {
    "net_af_packet": _Driver(("iface",), (), _packet),
    "net_shm": _Driver(("socket", "role"), ("mac", "mtu", "slots"), _shm),
    "net_pcap": _Driver((), ("rx_pcap", "tx_pcap"), _pcap),
    "net_fault": _Driver(("port",), ("seed", *_FAULTS), _fault),
    "net_capture": _Driver(("port", "file"), (), _capture),
}


class Eal:
    """One host's lcores and ports. ``rest``: the arguments after ``--``; ``lcores[0]`` is the main one."""

    def __init__(
        self, lcores: list[int], ports: dict[str, EthDev], *, huge: bool, prefix: str, rest: list[str]
    ) -> None:
        self.lcores = lcores
        self.ports = ports
        self.huge = huge
        self.prefix = prefix
        self.rest = rest
        self.pools: list[Mempool] = []
        self._running: dict[int, Lcore] = {}
        for port_id, port in enumerate(ports.values()):
            port.port_id = port_id

    def add_port(self, port: EthDev) -> None:
        """A port that was made without arguments: on one end of a link, say."""
        port.port_id = len(self.ports)
        self.ports[port.name] = port

    def pktmbuf_pool_create(self, name: str, count: int, data_room: int = DATA_ROOM_BYTES) -> Mempool:
        """A pool of this host; `cleanup` checks that it is whole again."""
        pool = Mempool(count, data_room=data_room, name=f"{self.prefix}-{name}", huge=self.huge)
        self.pools.append(pool)
        return pool

    def ring_create(self, name: str, size: int, *, many_producers: bool = False) -> Ring:
        """A ring of this host."""
        return Ring(size, many_producers=many_producers, name=f"{self.prefix}-{name}", huge=self.huge)

    def remote_launch(self, function: Callable[..., Any], lcore: int, *args: Any) -> None:
        """`function(*args)` on an lcore that is not busy, in its own process."""
        if lcore not in self.lcores[1:]:
            raise InputError(
                f"lcore {lcore}: to launch on are {', '.join(map(str, self.lcores[1:])) or 'none'}"
            )
        if lcore in self._running:
            raise RuntimeError(f"lcore {lcore} is busy")
        self._running[lcore] = Lcore(function, *args, name=f"lcore {lcore}", cpu=lcore)

    def wait_lcore(self, lcore: int, timeout_s: float | None = None) -> Any:
        """What the function returned. Raises LcoreError."""
        result = self._running[lcore].join(timeout_s)
        del self._running[lcore]
        return result

    def cleanup(self) -> None:
        """End the lcores, close the ports. RuntimeError if an mbuf of a pool is still in use then."""
        for lcore in self._running.values():
            lcore.kill()
        killed = bool(self._running)
        self._running = {}
        for port in self.ports.values():
            port.close()
        leaked = sum(pool.in_use for pool in self.pools)
        if leaked and not killed:  # what was killed had no chance to free its own
            raise RuntimeError(f"eal: {leaked} mbufs were never freed")

    def __enter__(self) -> Eal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            self.cleanup()
        except RuntimeError:
            if kind is None:
                raise


def _lcores(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= _MOST_LCORES:
            raise InputError(
                f"-l {text}: allowed are numbers and ranges from 0 to {_MOST_LCORES - 1}, as in 0-3,5"
            )
        found += [n for n in range(first, last + 1) if n not in found]
    return found


def _device(text: str, ports: dict[str, EthDev]) -> EthDev:
    name, *parts = text.split(",")
    match = re.fullmatch(r"(net_[a-z_]+)\d+", name)
    if not match or match[1] not in DRIVERS:
        raise InputError(f"--vdev {text}: no such driver; allowed are {', '.join(f'{d}N' for d in DRIVERS)}")
    if name in ports:
        raise InputError(f"--vdev {name}: given twice")
    driver = DRIVERS[match[1]]
    allowed = driver.needs + driver.takes
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in allowed or not equals or not value or key in given:
            raise InputError(
                f"--vdev {name}: {part!r}; allowed, once each: {', '.join(f'{k}=' for k in allowed)}"
            )
        given[key] = value
    for key in driver.needs:
        if key not in given:
            raise InputError(f"--vdev {name}: {key}= is needed")
    return driver.make(name, given, ports)


def eal_init(args: list[str]) -> Eal:
    """From DPDK's arguments: -l, --vdev, --no-huge, --file-prefix. Raises InputError for anything else.

    Ports are made, not started. Lcores beyond the machine's CPUs are processes that run where there is room.
    Without --no-huge, pools and rings go on huge pages if any are free.
    """
    lcores = sorted(os.sched_getaffinity(0))[:1]
    ports: dict[str, EthDev] = {}
    huge, prefix, rest = True, "netfold", []
    left = list(args)
    while left:
        option = left.pop(0)
        if option == "--":
            rest, left = left, []
            continue
        if option == "--no-huge":
            huge = False
            continue
        option, equals, value = option.partition("=") if option.startswith("--") else (option, "", "")
        if option not in ("-l", "--vdev", "--file-prefix"):
            raise InputError(f"eal: {option!r}: unknown; allowed are {_OPTIONS}")
        if not equals:
            if not left:
                raise InputError(f"eal: {option}: its value is missing")
            value = left.pop(0)
        if option == "-l":
            lcores = _lcores(value)
        elif option == "--vdev":
            device = _device(value, ports)
            ports[device.name] = device
        elif re.fullmatch(r"[\w.-]{1,64}", value):
            prefix = value
        else:
            raise InputError(f"eal: --file-prefix {value!r}: allowed are up to 64 letters, digits, _ . -")
    return Eal(lcores, ports, huge=huge, prefix=prefix, rest=rest)
