"""Which rows travel between each pair of workers in an exchange, and the seeds that both sides derive."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass
class Round:
    """By peer: the rows to send to it, and where those that it sends belong; int64[] each."""

    send: list[Tensor] = field(default_factory=list)
    receive: list[Tensor] = field(default_factory=list)

    def reversed(self) -> Round:
        """The way home: what was received is sent back."""
        return Round(self.receive, self.send)


def sampled(whole: Round, rank: int, share: float, where: tuple[int, int]) -> Round:
    """A random `share` of a forward round. Each pair draws from a seed that both know, so that the choice
    itself costs no bytes. where: seed and epoch.
    """
    chosen = Round()
    for peer in range(len(whole.send)):
        for rows, kept, receiver, owner in (
            (whole.send[peer], chosen.send, peer, rank),
            (whole.receive[peer], chosen.receive, rank, peer),
        ):
            seed = mixed(*where, receiver, owner)
            draw = torch.rand(len(rows), generator=torch.Generator().manual_seed(seed))
            kept.append(rows[draw < share])
    return chosen


def mixed(*parts: int) -> int:
    """63 bits that depend on all parts."""
    words = np.random.SeedSequence([int(part) for part in parts]).generate_state(2, np.uint32)
    return int(words[0]) << 31 ^ int(words[1])
