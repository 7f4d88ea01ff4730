"""Programs that would go on for ever, or fill memory: the run ends with one line, soon, in bounded memory.

And what becomes of packets and messages where a program does end."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from workloads.errors import InputError

# What it does with every packet is a number in a register: see MODES.
PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header word_t { bit<512> x; }
struct meta_t { }
struct told_t { bit<32> nth; bit<8> seven; }
struct headers_t { word_t word; word_t[2] stack; }
register<bit<32>>(2) memory;

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { transition select(s.packet_length) { 542: overflow; default: accept; } }
    state overflow {
        p.extract(h.stack.next);
        transition select(p.lookahead<bit<8>>()) { 0xee: accept; default: overflow; }
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<32> mode;
        bit<32> number;
        memory.read(mode, 0);
        memory.read(number, 1);
        memory.write(1, number + 1);
        s.egress_spec = 1;
        if (mode == 1) { s.mcast_grp = 1; }
        if (mode == 2) { s.egress_spec = 100; clone(CloneType.I2E, 1); }
        if (mode == 3) { s.egress_spec = 100; }
        if (mode == 4) { resubmit_preserving_field_list(0); }
        if (mode == 6) {
            bit<32> kept = 9;
            bit<32> index = 0xfffffff0 + (bit<32>)s.ingress_port;
            memory.write(index, 7);
            memory.read(kept, index);
            h.stack[index & 0xff].x = 1;
            h.stack.push_front(2);
            s.egress_spec = (bit<9>)kept + (s.parser_error == error.StackOutOfBounds ? 9w1 : 9w511);
        }
        if (mode == 7) {
            if (number == 0) { mark_to_drop(s); }
            if (number == 1) { s.mcast_grp = 9; }
            if (number == 2) { s.egress_spec = 77; }
        }
        if (mode == 8) {
            log_msg("packet {}", {number});
            digest<told_t>(1, {number, 7});
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<32> mode;
        memory.read(mode, 0);
        if (mode == 3) { h.word.setValid(); }
        if (mode == 5) { clone(CloneType.E2E, 2); }
        if (s.egress_port == 100) { recirculate_preserving_field_list(0); }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.word); p.emit(h.stack); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
MODES = {
    "replicate": 1,
    "clone": 2,
    "grow": 3,
    "resubmit": 4,
    "clone at egress": 5,
    "out of bounds": 6,
    "drop": 7,
    "tell": 8,
}
# Group 1: twice to port 100, which has no link. Session 1: to that port; 2: to port 1.
ENTRIES = ["mc_mgrp_create 1", "mc_node_create 1 100", "mc_node_create 2 100", "mc_node_associate 1 0",
           "mc_node_associate 1 1", "mirroring_add 1 100", "mirroring_add 2 1"]  # fmt: skip
AT_ONCE = 'recirculation_bps = "unlimited"'


def scenario(folder: Path, mode: str, rule: str = "", payload: int = 1000) -> str:
    (folder / "mine.p4").write_text(PROGRAM)
    entries = [*ENTRIES, f"register_write memory 0 {MODES[mode]}"]
    flow = f'[[flow]]\nfrom = "h0"\nto = "h1"\npacket_bytes = {payload}\nbytes = {4 * payload}\n'
    switch = f'[[switch]]\nprogram = "mine.p4"\nentries = {entries}\n{rule}\n'
    return f'[network]\nhosts = 2\nduration_ns = "1ms"\n{switch}{flow}rate_bps = "1Gbps"\n'


@pytest.mark.parametrize(
    ("mode", "rule", "said"),
    [
        # both replicas come back in the same nanosecond, and are replicated again
        ("replicate", AT_ONCE, "recirculates or resubmits a packet without end"),
        ("replicate", f"{AT_ONCE}\nmax_rounds = 10_000_000", "makes more than 65536 copies of a packet"),
        ("clone", f"{AT_ONCE}\nmax_rounds = 10_000_000", "makes more than 65536 copies of a packet"),
        ("grow", AT_ONCE, "makes a packet longer than 65536 bytes"),
        ("resubmit", "max_rounds = 1000", "recirculates or resubmits a packet without end"),
        ("clone at egress", "max_rounds = 9", "clones a packet without end"),
        pytest.param(
            *("replicate", 'recirculation_bps = "10Tbps"', "has more than 1048576 packets that wait"),
            marks=pytest.mark.slow,  # two gigabytes of packets
        ),
    ],
)
def test_it_is_stopped(simulate, tmp_path: Path, mode: str, rule: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        simulate(scenario(tmp_path, mode, rule))
    text = str(caught.value)
    assert text.startswith("s0: mine.p4 ") and said in text and "; port " in text and "\n" not in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4_000_000  # KiB


def test_out_of_bounds_is_no_end(simulate, tmp_path: Path) -> None:
    """Registers, stacks, and a parser that overflows one: zeros are read, nothing written, packets go on."""
    out = simulate(scenario(tmp_path, "out of bounds", payload=500))
    assert out.summary["flows"][0]["sent_packets"] == 4
    assert out.summary["program_drops"] == 0 and out.tables["ports"]["packets"].sum() == 4


def test_drops_are_told_by_cause(simulate, tmp_path: Path) -> None:
    """A dropped packet, one to a group that is not there, one to a port without a link."""
    out = simulate(scenario(tmp_path, "drop"))
    [program] = out.summary["programs"]
    for told in (out.summary, program):
        assert (told["program_drops"], told["no_link_drops"], told["drops"]) == (2, 1, 0)
    assert out.summary["flows"][0]["received_packets"] == 1


def test_digests_and_log_lines_are_kept(simulate, tmp_path: Path) -> None:
    out = simulate(scenario(tmp_path, "tell"))
    told = list(zip(*out.tables["messages"].values(), strict=True))
    assert out.summary["messages"] == len(told) == 8
    assert told[:2] == [("s0", "digest", "told_t", f'{{"nth": {i}, "seven": 7}}') for i in range(2)]
    assert told[4:] == [("s0", "log", "", f"packet {i}") for i in range(4)]
