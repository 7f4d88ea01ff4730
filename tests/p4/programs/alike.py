"""Tests that hold for switchgnn.p4 and for its twin on TNA: each program's test files import them.

`switch` is a star of four workers with the program; `busy` one in the middle of a block.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from p4.targets import Engine, Packet
from tests.p4.programs.switchgnn_net import (
    CHUNKS,
    UPLOAD,
    Block,
    Frame,
    load_blocks,
    results,
    same_state,
    state,
)

TRIANGLE = Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])
WHOLE = Frame(UPLOAD, vertex=1, worker=1, values=[1] * 30, round=1, block=1).encode()


def test_a_duplicate_in_the_middle_is_not_added(switch: Engine) -> None:
    x = {(u, c): [u + 1] * 30 for u in range(3) for c in range(CHUNKS)}
    load_blocks(switch, [TRIANGLE])
    packets: list[Packet] = []
    for frame in TRIANGLE.uploads(x, round=7):
        for _ in range(3):
            switch.send(1, frame.encode())
        packets += switch.receive()
    assert {key: frame.values for key, frame in results(TRIANGLE, packets).items()} == TRIANGLE.sums(x)


def test_an_upload_that_was_saturated_flags_every_sum_it_is_in(switch: Engine) -> None:
    block = Block([0, 1, 2], [[1, 2], [0], [0]])
    x = {(u, c): [1] * 30 for u in range(3) for c in range(CHUNKS)}
    load_blocks(switch, [block])
    for frame in block.uploads(x):
        switch.send(1, replace(frame, saturated=int(frame.vertex == 1)).encode())
    got = results(block, switch.receive())
    assert {v: got[v, 0].saturated for v in range(3)} == {0: 1, 1: 0, 2: 0}


def test_a_result_keeps_the_mark_of_its_last_contribution(switch: Engine) -> None:
    load_blocks(switch, [Block([0, 1], [[1], [0]])])
    switch.send(1, Frame(UPLOAD, vertex=1, worker=1, ecn=3).encode())
    [packet] = switch.receive()
    assert Frame.decode(packet.data).ecn == 3


@pytest.mark.parametrize("cut", [20, 33, 35, 41, 43, 61, 62, 100, 181])
def test_a_short_packet_is_dropped(busy: Engine, cut: int) -> None:
    before = state(busy)
    busy.send(1, WHOLE[:cut])
    assert busy.receive() == []
    assert same_state(before, state(busy))


@pytest.mark.parametrize("byte", range(14, 34))
def test_a_broken_ip_header_is_dropped(busy: Engine, byte: int) -> None:
    before = state(busy)
    broken = bytearray(WHOLE)
    broken[byte] ^= 0x40
    busy.send(1, bytes(broken))
    assert busy.receive() == []
    assert same_state(before, state(busy))
