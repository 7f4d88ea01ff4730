"""The byte model that plans are compared by: what host-based sending and a block move over the hosts'
links.
"""

from __future__ import annotations

from dataclasses import dataclass

VALUE_BYTES = 4
ETHERNET_BYTES = 14


@dataclass(frozen=True)
class ByteModel:
    """Bytes on the hosts' links, frame headers included, for vectors of `width` values of 4 B.

    Every packet carries one vertex's values behind `header_bytes` (Ethernet 14 + IPv4 20 + UDP 8 + own
    header 20). An in-network packet carries at most `values_per_packet` of them, a host-based packet as many
    as fit an IP packet of `mtu_bytes`. Bytes on the hosts' links are counted in both directions, so a vertex
    costs the same up and down:
        in-network, per upload:  2 * (ceil(width / values_per_packet) * header_bytes + 4 * width)
        host-based, per send:    2 * (ceil(4 * width / (mtu_bytes + 14 - header_bytes)) * header_bytes + 4 *
        width)
    since every upload is answered by one result and every send is received once.
    """

    width: int
    values_per_packet: int
    mtu_bytes: int = 1500
    header_bytes: int = 62

    @property
    def upload_bytes(self) -> int:
        """One vertex to or from the switch: ceil(width / values_per_packet) headers and the values."""
        packets = -(-self.width // self.values_per_packet)
        return packets * self.header_bytes + self.width * VALUE_BYTES

    @property
    def send_bytes(self) -> int:
        """One vertex over one host link, host-based."""
        payload = self.width * VALUE_BYTES
        room = (self.mtu_bytes + ETHERNET_BYTES - self.header_bytes) // VALUE_BYTES * VALUE_BYTES
        return -(-payload // room) * self.header_bytes + payload

    def in_network_bytes(self, uploads: int) -> int:
        """`uploads` vertices up and as many results down."""
        return 2 * uploads * self.upload_bytes

    def host_bytes(self, sends: int) -> int:
        """`sends` (vertex, distinct remote worker) pairs: each goes up from its owner and down to the
        worker.
        """
        return 2 * sends * self.send_bytes

    def least_bytes(self, vertices: int) -> int:
        """The least that vertices which still have an edge can cost: one upload or one send each."""
        return 2 * vertices * min(self.upload_bytes, self.send_bytes)
