"""Sizes of what goes on the wire.

p4/programs/include/wire.p4 defines the headers; tests/sim/test_wire.py holds these numbers against it
through p4.lang, so that a run need not parse P4.
"""

from __future__ import annotations

ETHERNET_BYTES = 14  # IEEE 802.3: destination, source, type
FCS_BYTES = 4
IPV4_BYTES = 20  # RFC 791, no options
UDP_BYTES = 8  # RFC 768
NETFOLD_BYTES = 20  # aggregation_t
GAP_BYTES = (
    20  # preamble, start delimiter and inter-frame gap: they take time on the link, not room in a queue
)

FRAME_OVERHEAD_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + NETFOLD_BYTES + FCS_BYTES
CONTROL_FRAME_BYTES = 64  # the smallest Ethernet frame: finish, completion, CNP
PULL_ENTRY_BYTES = 8  # one missing (vertex, chunk) in a pull request
