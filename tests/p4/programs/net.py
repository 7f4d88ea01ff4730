"""A network for the tests: switches, hosts, and links that lose, copy and reorder packets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from p4.targets import Engine


class Endpoint(Protocol):
    """A host: every call gives the packets that it then sends."""

    @property
    def finished(self) -> bool: ...
    def start(self) -> list[bytes]: ...
    def receive(self, data: bytes) -> list[bytes]: ...
    def timeout(self) -> list[bytes]: ...


@dataclass
class Net:
    """`links`: (switch, port) -> (switch, port) or ("host", n). `faults`: shares lost and copied, a hop."""

    switches: dict[str, Engine]
    links: dict[tuple[str, int], tuple[str, int]]
    hosts: Sequence[Endpoint]
    rng: random.Random
    faults: float
    flying: list[tuple[str, int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.homes = {to[1]: place for place, to in self.links.items() if to[0] == "host"}

    def launch(self, place: tuple[str, int], data: bytes) -> None:
        for _ in range(1 + (self.rng.random() < self.faults)):
            if self.rng.random() >= self.faults:
                self.flying.append((*place, data))

    def send(self, host: int, packets: list[bytes]) -> None:
        for data in packets:
            self.launch(self.homes[host], data)

    def deliver(self) -> None:
        """Until nothing is on its way any more; in any order."""
        while self.flying:
            name, port, data = self.flying.pop(self.rng.randrange(len(self.flying)))
            if name == "host":
                self.send(port, self.hosts[port].receive(data))
                continue
            self.switches[name].send(port, data)
            for packet in self.switches[name].receive():
                self.launch(self.links[name, packet.port], packet.data)

    def run(self) -> int:
        """Until every host has finished; how often all had to time out."""
        for number, host in enumerate(self.hosts):
            self.send(number, host.start())
        for timeouts in range(1000):
            self.deliver()
            if all(h.finished for h in self.hosts):
                return timeouts
            for number, host in enumerate(self.hosts):
                self.send(number, host.timeout())
        raise AssertionError("the hosts wait for ever")

    def close(self) -> None:
        for switch in self.switches.values():
            switch.close()
