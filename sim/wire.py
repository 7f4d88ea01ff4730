"""Sizes of what goes on the wire, in one place."""

from __future__ import annotations

ETHERNET_BYTES = 14  # IEEE 802.3: destination, source, type
FCS_BYTES = 4
IPV4_BYTES = 20  # RFC 791, no options
UDP_BYTES = 8  # RFC 768
NETFOLD_BYTES = 16  # netfold's own header: what, whose and where (block, vertex, chunk, level, flags)
GAP_BYTES = (
    20  # preamble, start delimiter and inter-frame gap: they take time on the link, not room in a queue
)

FRAME_OVERHEAD_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + NETFOLD_BYTES + FCS_BYTES
CONTROL_FRAME_BYTES = 64  # the smallest Ethernet frame: finish, completion, CNP
PULL_ENTRY_BYTES = 8  # one missing (vertex, chunk) in a pull request
