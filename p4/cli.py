"""The `netfold p4 ...` commands: check, build, show, test, run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from p4 import show
from p4.codegen import generate
from p4.codegen.build import BuildError, build
from p4.lang import Collector, Diagnostic, P4Error, ir, load_program
from p4.targets.engine import Engine
from p4.targets.pcap import PcapError, Record, read_pcap, write_pcap
from p4.targets.stf import StfError, run_stf
from p4.targets.target import TargetError


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Register `p4` and its commands with the front door."""
    room = subparsers.add_parser(
        "p4", help="check, build, test and run P4_16 programs, with no toolchain but a C++ compiler"
    )
    commands = room.add_subparsers(metavar="COMMAND", required=True)
    _command(commands, "check", _check, "report everything that is wrong with a program")
    parser = _command(
        commands, "build", _build, "make the program's shared library (cached) and say where it is"
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="also write the generated C++ here")
    parser = _command(commands, "show", _show, "list tables, state and parser of a program")
    parser.add_argument("--dot", action="store_true", help="print the parser's graph in Graphviz DOT instead")
    parser = _command(commands, "test", _test, "run an STF test on the embedded engine")
    parser.add_argument(
        "--stf", type=Path, metavar="FILE", help="the test (default: PROGRAM with .stf for .p4)"
    )
    parser = _command(
        commands, "run", _run, "send pcap files through a program, write a pcap file for each port"
    )
    parser.add_argument(
        "--in",
        dest="inputs",
        action="append",
        required=True,
        metavar="PORT=FILE",
        help="packets into a port; repeatable",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="where port<N>.pcap files go"
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="table entries and the like, as STF commands"
    )


def _command(
    commands: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="a P4_16 file")
    parser.add_argument(
        "-I",
        dest="include",
        action="append",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="look for includes here too",
    )
    parser.add_argument(
        "-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=lambda args: _reported(run, args))
    return parser


def _reported(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Diagnostics and refusals to standard error, exit status 2."""
    try:
        return run(args)
    except P4Error as error:
        for diagnostic in error.diagnostics:
            print(diagnostic.render(), file=sys.stderr)
        if args.json:
            print(json.dumps({"errors": [_as_data(d) for d in error.diagnostics]}, indent=1))
        return 2
    except (BuildError, StfError, TargetError, PcapError) as error:
        print(f"netfold: error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"netfold: error: {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


def _as_data(d: Diagnostic) -> dict[str, object]:
    place = {"file": d.span.file.path, "line": d.span.line, "column": d.span.col} if d.span else {}
    return {**place, "severity": d.severity, "message": d.message, "expected": d.expected}


def _load(args: argparse.Namespace) -> ir.Program:
    """The program, its warnings printed."""
    sink = Collector()
    defines = {}
    for define in args.defines:
        name, _, value = define.partition("=")
        defines[name] = value or "1"
    program = load_program(args.program, include=args.include, defines=defines, sink=sink)
    for warning in sink.warnings:
        print(warning.render(), file=sys.stderr)
    return program


def _check(args: argparse.Namespace) -> int:
    program = _load(args)
    if args.json:
        print(
            json.dumps(
                {"errors": [], "controls": sorted(program.controls), "parsers": sorted(program.parsers)}
            )
        )
    else:
        print(f"{args.program}: correct")
    return 0


def _build(args: argparse.Namespace) -> int:
    generated = generate(_load(args))
    if args.source:
        temporary = args.source.with_name(f".{args.source.name}.tmp")
        temporary.write_text(generated.source)
        temporary.replace(args.source)
    library = build(generated)
    if args.json:
        print(
            json.dumps({"library": str(library), "schema": json.loads(generated.schema.to_json())}, indent=1)
        )
    else:
        print(library)
    return 0


def _show(args: argparse.Namespace) -> int:
    program = _load(args)
    if args.dot:
        print(show.parser_dot(program))
    elif args.json:
        print(
            json.dumps(
                {
                    "schema": json.loads(generate(program).schema.to_json()),
                    "parsers": show.parser_edges(program),
                },
                indent=1,
            )
        )
    else:
        print(show.describe(program, generate(program).schema))
    return 0


def _engine(args: argparse.Namespace) -> Engine:
    return Engine(build(generate(_load(args))))


def _test(args: argparse.Namespace) -> int:
    stf = args.stf or args.program.with_suffix(".stf")
    with _engine(args) as engine:
        report = run_stf(engine, stf)
    failures = [vars(f) for f in report.failures]
    if args.json:
        print(json.dumps({"sent": report.sent, "matched": report.matched, "failures": failures}, indent=1))
    else:
        for f in report.failures:
            where = f"{stf}:{f.line}" if f.line else str(stf)
            print(f"{where}: port {f.port}: {f.message}")
            for label, value in (("expected", f.expected), ("got", f.got)):
                if value:
                    print(f"  {label:8} {value}")
        verdict = "failed" if failures else "passed"
        print(f"{verdict}: {report.sent} packets sent, {report.matched} as expected, {len(failures)} not")
    return 1 if failures else 0


def _run(args: argparse.Namespace) -> int:
    arriving: list[tuple[int, int, bytes]] = []
    for text in args.inputs:
        port, _, name = text.partition("=")
        if not port.isdigit() or not name or int(port) > 511:
            raise PcapError(f"--in {text}: PORT=FILE is needed, with a port of 0 to 511")
        arriving += [(r.time_us, int(port), r.data) for r in read_pcap(Path(name))]
    arriving.sort(key=lambda x: x[0])
    out: dict[int, list[Record]] = {}
    with _engine(args) as engine:
        if args.control:
            run_stf(engine, args.control)
        for time_us, port, data in arriving:
            engine.now_us = time_us
            engine.send(port, data)
            for packet in engine.receive():
                out.setdefault(packet.port, []).append(Record(time_us, packet.data))
        statistics = engine.statistics()
    args.out.mkdir(parents=True, exist_ok=True)
    for port, records in out.items():
        write_pcap(args.out / f"port{port}.pcap", records)
    counts = {str(p): len(r) for p, r in sorted(out.items())}
    if args.json:
        print(json.dumps({"in": len(arriving), "out": counts, **statistics}, indent=1))
    else:
        print(
            f"{len(arriving)} packets in; out: "
            + (", ".join(f"port {p}: {n}" for p, n in counts.items()) or "none")
        )
    return 0
