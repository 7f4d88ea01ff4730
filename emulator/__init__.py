"""Hosts that really send: the wire format, DPDK-style ports and rings, the P4 engine as a switch process."""
