"""Who is connected to whom: workers, switches, ports and addresses of a star or a two-level leaf-spine."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_IP = 0x0A000001  # 10.0.0.1 is worker 0
SWITCH_IP = 0x0AFF0001  # 10.255.0.1: where uploads and reports go, whichever switch serves them
GATEWAY_MAC = bytes.fromhex("02ff00000001")  # locally administered
# The UDP source port tells who sent a contribution; results keep the last contributor's (as do partials), so
# a marked result says whom to slow down. IANA's dynamic ports begin here.
FIRST_SOURCE_PORT = 49152
MOST_PORTS = 500  # bit<9> ports, a few of which the program uses itself


@dataclass(frozen=True)
class Switch:
    """One switch. kind: "star", "leaf" or "spine". links: for each port, the name of the node there."""

    name: str
    kind: str
    number: int
    links: tuple[str, ...]

    def port_to(self, node: str) -> int:
        """The port that leads to a node next to it."""
        return self.links.index(node)


@dataclass(frozen=True)
class Fabric:
    """racks = 0: a star; else leaves of workers / racks workers each, and spines above them."""

    workers: int
    racks: int = 0
    spines: int = 0

    @property
    def per_leaf(self) -> int:
        """Workers under one leaf, or at the star's switch."""
        return self.workers // max(self.racks, 1)

    @property
    def leaves(self) -> int:
        """Switches that workers are connected to."""
        return max(self.racks, 1)

    @property
    def most_ports(self) -> int:
        """Ports of the switch that has the most."""
        return max(self.per_leaf + self.spines, self.racks)

    def leaf_of(self, worker: int) -> int:
        """The number of the leaf that a worker is connected to."""
        return worker // self.per_leaf

    def rack(self, leaf: int) -> range:
        """The workers of a leaf."""
        return range(leaf * self.per_leaf, (leaf + 1) * self.per_leaf)

    @property
    def switches(self) -> list[Switch]:
        """Leaves first. Workers are on a leaf's ports from 0 on, then the spines."""
        if not self.racks:
            return [Switch("switch", "star", 0, tuple(f"worker{w}" for w in range(self.workers)))]
        up = tuple(f"spine{s}" for s in range(self.spines))
        leaves = [
            Switch(f"leaf{i}", "leaf", i, tuple(f"worker{w}" for w in self.rack(i)) + up)
            for i in range(self.racks)
        ]
        down = tuple(f"leaf{i}" for i in range(self.racks))
        return leaves + [Switch(f"spine{s}", "spine", s, down) for s in range(self.spines)]

    @property
    def nodes(self) -> list[str]:
        """Every worker and switch by name."""
        return [f"worker{w}" for w in range(self.workers)] + [switch.name for switch in self.switches]


def worker_mac(worker: int) -> bytes:
    """02:00:00:00:xx:xx, locally administered."""
    return bytes.fromhex("02000000") + worker.to_bytes(2, "big")
