"""Pulls: requests for single contributions, by the worker that has them and by chunk, 30 slots to a frame."""

from __future__ import annotations

import numpy as np

from emulator.protocol.frames import FrameMaker, Frames, Ints, sending
from emulator.protocol.layout import Exchange
from emulator.wire import VALUES_PER_PACKET, PacketType


def pull_frames(maker: FrameMaker, exchange: Exchange, round_: int, remote: Ints, chunk: Ints) -> Frames:
    """Frames that ask for (remote, chunk), positions in the exchange's `remote` and chunks of them.

    The slots stand in the values, their number in count.
    """
    to = exchange.remote_owner[remote]
    order = np.lexsort((remote, chunk, to))
    to, chunk, slots = to[order], chunk[order], exchange.remote[remote[order]]
    group = np.cumsum((np.diff(to, prepend=-1) != 0) | (np.diff(chunk, prepend=-1) != 0))
    place = np.arange(len(to)) - np.searchsorted(group, group)
    starts = np.flatnonzero(place % VALUES_PER_PACKET == 0)
    counts = np.diff(np.append(starts, len(to)))
    values = np.zeros((len(starts), VALUES_PER_PACKET), np.int32)
    values[np.repeat(np.arange(len(starts)), counts), place % VALUES_PER_PACKET] = slots
    return maker.make(
        PacketType.PULL, to[starts], len(starts), round=round_, block=sending(exchange.number),
        chunk=chunk[starts], count=counts, values=values,
    )  # fmt: skip
