"""What the `netfold p4 ...` commands do; cli.py has their arguments."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track

from p4 import show
from p4.codegen import generate
from p4.codegen.build import BuildError, build
from p4.lang import Collector, Diagnostic, P4Error, ir, load_program
from p4.stf_command import run_test
from p4.targets.engine import Engine
from p4.targets.pcap import PcapError, Record, read_pcap, write_pcap
from p4.targets.stf import StfError, run_stf
from p4.targets.target import TargetError
from p4.tofino import CHIPS, Report, check_fit, is_tna, render_fit
from p4.trace_command import run_trace


def run_command(name: str, args: argparse.Namespace) -> int:
    """One command's exit status; diagnostics and refusals go to standard error, with status 2."""
    run = {"check": _check, "build": _build, "show": _show, "test": _test, "run": _run, "trace": _trace}[name]
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
    if program.main is None:
        raise P4Error([Diagnostic(None, f"{args.program}: a program without 'main'", "V1Switch(...) main;")])
    fit = _fit(program, args) if is_tna(program) else None
    if args.json:
        data: dict[str, object] = {
            "errors": [] if fit is None else [_as_data(d) for d in fit.problems],
            "controls": sorted(program.controls),
            "parsers": sorted(program.parsers),
        }
        print(json.dumps(data if fit is None else {**data, "tofino": fit.as_data()}, indent=1))
    elif fit is None:
        print(f"{args.program}: correct")
    else:
        print(render_fit(fit, str(args.program)))
    for problem in fit.problems if fit else []:
        print(problem.render(), file=sys.stderr)
    return 0 if fit is None or fit.fits else 2


def _fit(program: ir.Program, args: argparse.Namespace) -> Report:
    for name, value in (("--recirculations", args.recirculations), ("--load", args.load)):
        if value is not None and not 0 <= value < float("inf"):
            raise P4Error([Diagnostic(None, f"{name}: {value}, a number of 0 or more is needed")])
    if (args.recirculations is None) != (args.load is None):
        raise P4Error([Diagnostic(None, "--recirculations and --load: both are needed, or none")])
    return check_fit(program, CHIPS[args.target], recirculations=args.recirculations, load_gbps=args.load)


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
    if args.picture:
        if args.picture.suffix not in (".svg", ".png"):
            raise PcapError(f"--picture {args.picture}: a name that ends in .svg or .png is needed")
        show.picture(program, generate(program).schema, args.picture)
        print(args.picture)
        return 0
    if args.dot:
        print(show.parser_dot(program))
    elif args.json:
        print(
            json.dumps(
                {
                    "schema": json.loads(generate(program).schema.to_json()),
                    "parsers": show.parser_edges(program),
                    "controls": show.flow_edges(program),
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
    return run_test(_load(args), args)


def _trace(args: argparse.Namespace) -> int:
    return run_trace(_load(args), args)


def _run(args: argparse.Namespace) -> int:
    arriving: list[tuple[int, int, bytes]] = []
    for text in args.inputs:
        port, _, name = text.partition("=")
        if not (port.isascii() and port.isdigit()) or not name or int(port) > 511:
            raise PcapError(f"--in {text}: PORT=FILE is needed, with a port of 0 to 511")
        arriving += [(r.time_us, int(port), r.data) for r in read_pcap(Path(name))]
    arriving.sort(key=lambda x: x[0])
    out: dict[int, list[Record]] = {}
    with _engine(args) as engine:
        if args.control:
            run_stf(engine, args.control)
        shown = Console(stderr=True)
        bar = track(arriving, "packets", console=shown, disable=not shown.is_terminal, transient=True)
        for time_us, port, data in bar:
            engine.now_us = time_us
            engine.send(port, data)
            for packet in engine.receive():
                out.setdefault(packet.port, []).append(Record(time_us, packet.data))
        while (due_ns := engine.next_due_ns()) is not None:  # what still waits in egress queues
            engine.now_ns = due_ns
            for packet in engine.receive():
                out.setdefault(packet.port, []).append(Record(engine.now_us, packet.data))
        statistics = engine.statistics()
        engine.report()
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
