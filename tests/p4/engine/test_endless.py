"""Programs without an end are stopped, counted and named; the switch goes on with the next packet."""

from collections.abc import Callable

import pytest

from p4.targets import Engine, Packet
from p4.targets.batch import pack

PARTS = {
    "types": "header k_t { bit<8> op; bit<8> n; }",
    "headers": "k_t k;",
    "parser": """
        bit<8> turns = 0;
        state start { p.extract(h.k); transition select(h.k.op) { 1: around; 8: slow; default: accept; } }
        state around { turns = turns + 1; transition around; }
        state slow { turns = turns + 1; transition select(turns) { 200: accept; default: slow; } }
    """,
    "ingress": """
        s.egress_spec = 1;
        if (s.parser_error == error.ParserTimeout) { h.k.n = 0xEE; }
        if (h.k.op == 2) { for (bit<8> i = 0; true; i = i + 1) { h.k.n = h.k.n + i; } }
        if (h.k.op == 3) { for (bit<64> i in 0 .. 64w0xFFFFFFFFFFFFFFFF) { h.k.n = h.k.n + (bit<8>)i; } }
        if (h.k.op == 4) { resubmit_preserving_field_list(1); }
        if (h.k.op == 5) { s.mcast_grp = 1; }
        if (h.k.op == 9) { for (bit<32> i = 0; i < 100000; i = i + 1) { h.k.n = h.k.n + 1; } }
    """,
    "egress": """
        if (h.k.op == 5) { recirculate_preserving_field_list(1); }
        if (h.k.op == 6) { clone(CloneType.E2E, 1); }
        if (h.k.op == 7) { for (bit<8> i = 0; true; i = i + 1) { h.k.n = i; } }
    """,
    "deparser": "p.emit(h.k);",
}
GONE_ROUND = "packets recirculated, resubmitted or cloned without end, stopped and dropped"
LOOPED = "packets in a loop or parser without end, stopped and dropped"


@pytest.fixture
def switch(engine: Callable[..., Engine]) -> Engine:
    made = engine(**PARTS)
    made.multicast_group(1, [(port, 0) for port in range(1, 100)])
    made.clone_session(1, port=3)
    return made


def ask(switch: Engine, op: int, n: int = 0) -> list[bytes]:
    switch.send(0, bytes([op, n]))
    return [p.data for p in switch.receive()]


@pytest.mark.parametrize(
    ("op", "problem"),
    [(2, LOOPED), (3, LOOPED), (7, LOOPED), (4, GONE_ROUND), (5, GONE_ROUND), (6, GONE_ROUND)],
    ids=["for", "for_in", "for_in_egress", "resubmit", "multicast_recirculate", "clone_of_clones"],
)
def test_it_is_stopped_counted_and_named(switch: Engine, op: int, problem: str) -> None:
    def endless() -> None:  # as arrays: the copies that came out before the end are many
        switch.run(pack([Packet(0, bytes([op, 0]))]))

    endless()
    assert switch.problems() == [f"{problem}: 1"]
    assert ask(switch, 0, 5) == [bytes([0, 5])]
    endless()
    assert switch.problems() == [f"{problem}: 2"]


def test_an_endless_parser_times_out_as_p4_says(switch: Engine) -> None:
    """core.p4's ParserTimeout; the packet goes on, as any whose parser fails."""
    assert ask(switch, 1) == [bytes([1, 0xEE])]
    told = "packets whose parser loops without end: it ended in error.ParserTimeout: 1"
    assert switch.problems() == [told]


def test_what_is_long_but_has_an_end_is_not_stopped(switch: Engine) -> None:
    assert ask(switch, 8, 3) == [bytes([8, 3])]
    assert ask(switch, 9, 0) == [bytes([9, 100000 % 256])]
    assert switch.problems() == []


def test_an_endless_packet_in_a_batch_does_not_stop_the_others(switch: Engine) -> None:
    for op in (0, 2, 0, 4, 0):
        switch.send(0, bytes([op, 1]))
    assert [p.data for p in switch.receive()] == [bytes([0, 1])] * 3


def test_endless_recirculation_through_a_slow_queue(switch: Engine) -> None:
    """Each round takes its time in the queue: what is due is done, and no more."""
    switch.multicast_group(1, [(1, 0)])
    switch.egress_queue(1, rate_pps=1000)
    switch.send(0, bytes([5, 0]))
    switch.now_us = 1_000_000
    assert switch.receive() == []
    assert 1990 <= switch.statistics()["passes"] <= 2010
