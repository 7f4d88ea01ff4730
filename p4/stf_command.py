"""`netfold p4 test`: an STF test on the engine, on BMv2, or on both and compared."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p4.codegen import generate
from p4.codegen.build import BuildError, build
from p4.lang import ir
from p4.targets.both import Difference, FieldDifference, field_differences, first_difference
from p4.targets.engine import Engine
from p4.targets.stf import Report, StfError, ports_named, read_stf, run_stf
from p4.targets.target import TargetError

_PORTS = 16  # BMv2 has at least these, and those that the test names


def run_test(program: ir.Program, args: argparse.Namespace) -> int:
    """0: all as expected, and on both switches the same; 1: not."""
    stf = args.stf or args.program.with_suffix(".stf")
    ports = sorted({*range(_PORTS), *ports_named(read_stf(stf))})
    reports: dict[str, Report] = {}
    logs: dict[str, Path] = {}
    if args.target in ("engine", "both"):
        with Engine(build(generate(program))) as engine:
            reports["engine"] = run_stf(engine, stf)
            engine.report()
    if args.target in ("bmv2", "both"):
        reports["bmv2"], log = _on_bmv2(args, stf, ports)
        if log:
            logs["bmv2"] = log
    difference = fields = None
    if args.target == "both":
        difference = first_difference(reports["engine"].packets, reports["bmv2"].packets, ports)
        fields = field_differences(program, difference) if difference else []
    failed = difference is not None or any(r.failures for r in reports.values())
    if args.json:
        print(json.dumps(_as_data(reports, logs, difference, fields or []), indent=1))
    else:
        for name, report in reports.items():
            _print_report(report, stf, f"{name}: " if len(reports) > 1 else "", logs.get(name))
        if args.target == "both":
            _print_difference(difference, fields or [])
    return 1 if failed else 0


def _on_bmv2(args: argparse.Namespace, stf: Path, ports: Sequence[int]) -> tuple[Report, Path | None]:
    """The report, and where the switch's log is if something failed."""
    # grpc takes a while to import, and is needed here only.
    from p4.targets.bmv2 import Bmv2, missing_tools  # noqa: PLC0415

    if missing := missing_tools():
        raise BuildError(missing)
    defines = dict(d.partition("=")[::2] for d in args.defines)
    with Bmv2(
        args.program,
        ports=ports,
        kind=args.ports,
        include=args.include,
        defines={name: value or "1" for name, value in defines.items()},
    ) as switch:
        try:
            report = run_stf(switch, stf)
        except (StfError, TargetError):
            switch.keep_log()
            raise
        return report, switch.keep_log() if report.failures else None


def _print_report(report: Report, stf: Path, prefix: str, log: Path | None) -> None:
    for f in report.failures:
        where = f"{stf}:{f.line}" if f.line else str(stf)
        print(f"{prefix}{where}: port {f.port}: {f.message}")
        for label, value in (("expected", f.expected), ("got", f.got)):
            if value:
                print(f"  {label:8} {value}")
    verdict = "failed" if report.failures else "passed"
    print(
        f"{prefix}{verdict}: {report.sent} packets sent, {report.matched} as expected, "
        f"{len(report.failures)} not"
    )
    if log:
        print(f"{prefix}the switch's log: {log}")


def _print_difference(difference: Difference | None, fields: list[FieldDifference]) -> None:
    if difference is None:
        print("both: the same packets on every port")
        return
    print(f"both: packet {difference.number} of port {difference.port} is not the same")
    for name, data in (("engine", difference.engine), ("bmv2", difference.bmv2)):
        if data is None:
            print(f"  {name} has no such packet")
    if difference.engine is not None and difference.bmv2 is not None:
        width = max(len(f.name) for f in fields) if fields else 0
        for f in fields:
            print(f"  {f.name:{width}}  engine {_shown(f.engine)}  bmv2 {_shown(f.bmv2)}")


def _shown(value: Any) -> str:
    if value is None:
        return "(not there)"
    return f"{value} ({value:#x})" if isinstance(value, int) else str(value) or "(empty)"


def _as_data(
    reports: dict[str, Report],
    logs: dict[str, Path],
    difference: Difference | None,
    fields: list[FieldDifference],
) -> dict[str, Any]:
    each = {
        name: {
            "sent": r.sent,
            "matched": r.matched,
            "failures": [vars(f) for f in r.failures],
            **({"log": str(logs[name])} if name in logs else {}),
        }
        for name, r in reports.items()
    }
    if len(each) == 1:
        return next(iter(each.values()))
    shown = None
    if difference:
        shown = {
            "port": difference.port,
            "packet": difference.number,
            "engine": None if difference.engine is None else difference.engine.hex(),
            "bmv2": None if difference.bmv2 is None else difference.bmv2.hex(),
            "fields": [vars(f) for f in fields],
        }
    return {**each, "difference": shown}
