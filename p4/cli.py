"""The arguments of the `netfold p4 ...` commands. What they do is in commands.py, loaded when one runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Register `p4` and its commands with the front door."""
    room = subparsers.add_parser(
        "p4", help="check, build, test and run P4_16 programs, with no toolchain but a C++ compiler"
    )
    commands = room.add_subparsers(metavar="COMMAND", required=True)
    parser = _command(
        commands, "check", "report everything that is wrong with a program; of a TNA program, whether it fits"
    )
    parser.add_argument(
        "--target",
        choices=("tofino", "tofino2"),
        default="tofino",
        help="which chip a TNA program must fit (a model of it)",
    )
    parser.add_argument(
        "--recirculations",
        type=float,
        metavar="N",
        help="passes beyond its first that a packet makes on average (with --load)",
    )
    parser.add_argument(
        "--load",
        type=float,
        metavar="GBPS",
        help="traffic into a pipe that makes them: what goes round must fit the recirculation ports",
    )
    parser = _command(commands, "build", "make the program's shared library (cached) and say where it is")
    parser.add_argument("--source", type=Path, metavar="FILE", help="also write the generated C++ here")
    parser = _command(commands, "show", "list tables, state, parser and control flow of a program")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw them to an .svg or .png file instead"
    )
    parser.add_argument("--dot", action="store_true", help="print the parser's graph in Graphviz DOT instead")
    parser = _command(commands, "test", "run an STF test on the embedded engine, on BMv2 or on both")
    parser.add_argument("--stf", type=Path, metavar="FILE", help="the test (default: PROGRAM, .stf for .p4)")
    parser.add_argument(
        "--target", choices=("engine", "bmv2", "both"), default="engine", help="where (default: engine)"
    )
    parser.add_argument(
        "--ports", choices=("veth", "pcap"), help="what BMv2's ports are (default: veth, for root)"
    )
    parser = _command(commands, "run", "send pcap files through a program, write a pcap file for each port")
    parser.add_argument(
        "--in",
        dest="inputs",
        action="append",
        required=True,
        metavar="PORT=FILE",
        help="packets into a port; repeatable",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for port<N>.pcap files")
    parser.add_argument("--control", type=Path, metavar="FILE", help="table entries etc., as STF commands")
    parser = _command(
        commands, "trace", "show one packet's path: states, tables hit, registers before and after"
    )
    parser.add_argument("--port", type=int, required=True, metavar="N", help="the port it comes in by")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--hex", metavar="DIGITS", help="the packet")
    which.add_argument("--pcap", type=Path, metavar="FILE", help="a file with the packet")
    parser.add_argument(
        "--packet", type=int, default=1, metavar="K", help="which of the file's packets (from 1)"
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="table entries and packets before it, as STF commands"
    )


def _command(commands: argparse._SubParsersAction, name: str, text: str) -> argparse.ArgumentParser:
    sentence = text[0].upper() + text[1:] + "."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=sentence)
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="a P4_16 file")
    parser.add_argument(
        "-I",
        dest="include",
        action="append",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="includes are here too",
    )
    parser.add_argument(
        "-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="a macro"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    # The front end and numpy take a moment to import: other rooms' commands do not wait for them.
    parser.set_defaults(run=lambda args: import_module("p4.commands").run_command(name, args))
    return parser
