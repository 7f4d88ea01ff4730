"""What an epoch's exchanges are to do (`EpochPlan`), and what one of them did (`Traffic`)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

FORWARD, BACKWARD, REFETCH = "forward", "backward", "refetch"


@dataclass(frozen=True)
class EpochPlan:
    """How one epoch exchanges.

    epoch: 0-based. stale: use the previous epoch's messages (its first epoch must not be). keep: the next
    epoch may be stale, so this one's messages must last. bits: uint8[ni+nh], the bit width of each local
    vertex's messages, or None for exact values. share: probability that a halo vertex takes part this epoch,
    its embedding scaled by 1/share (BNS-GCN). sequential: one peer after the other (SAR).
    """

    epoch: int
    stale: bool = False
    keep: bool = False
    bits: Tensor | None = None
    share: float = 1.0
    sequential: bool = False


@dataclass
class Traffic:
    """What one worker sent in one exchange, and how long it took: of the transfer (encoding and decoding
    included), of encoding and decoding alone (on the host), and of waiting. message_epoch: the epoch whose
    messages were used. values: how many values the bytes stand for.
    """

    epoch: int
    layer: int
    direction: str
    stale: bool
    message_epoch: int = -1
    values: int = 0
    main_bytes: int = 0
    scale_bytes: int = 0
    transfer_ns: int = 0
    encode_ns: int = 0
    decode_ns: int = 0
    wait_ns: int = 0
