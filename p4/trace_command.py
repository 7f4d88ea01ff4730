"""`netfold p4 trace`: one packet's path through a program."""

from __future__ import annotations

import argparse
import json
import re

from p4.lang import ir
from p4.targets.pcap import PcapError, read_pcap
from p4.targets.stf import run_stf
from p4.targets.trace import TracedEngine
from p4.trace_text import render


def run_trace(program: ir.Program, args: argparse.Namespace) -> int:
    """Entries and earlier packets from --control first, then the packet, step by step."""
    if not 0 <= args.port <= 511:
        raise PcapError(f"--port {args.port}: a port is 0 to 511")
    time_us, data = _packet(args)
    engine = TracedEngine(program)
    with engine:
        if args.control:
            run_stf(engine, args.control)
        engine.now_us = max(engine.now_us, time_us)
        trace = engine.trace(args.port, data)
    print(json.dumps(trace, indent=1) if args.json else render(trace))
    return 0


def _packet(args: argparse.Namespace) -> tuple[int, bytes]:
    if args.hex is not None:
        digits = re.sub(r"[\s:]", "", args.hex)
        if len(digits) % 2 or re.search("[^0-9a-fA-F]", digits):
            raise PcapError(f"--hex {args.hex}: pairs of hexadecimal digits are needed")
        return 0, bytes.fromhex(digits)
    records = read_pcap(args.pcap)
    if not 1 <= args.packet <= len(records):
        raise PcapError(f"--packet {args.packet}: {args.pcap} has packets 1 to {len(records)}")
    return records[args.packet - 1].time_us, records[args.packet - 1].data
