"""The commands `netfold run`, `compare`, `show`, `scenario` and `systems`.

What needs pandas, matplotlib or pyarrow is imported by the command that uses it: they take seconds to load.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from analysis import network, substrates
from analysis.autoparallel import cli as autoparallel_cli
from analysis.compare import cli as compare_cli
from analysis.epoch_time import cli as epoch_time_cli
from analysis.report import cli as report_cli
from analysis.reproduce import cli as reproduce_cli
from analysis.sweep import cli as sweep_cli
from emulator.cli import refuse_network
from sim.network.scenario_io import is_network
from sim.scenario import Scenario
from sim.scenario_io import dump_scenario, load_scenario, parse_overrides
from workloads.errors import InputError
from workloads.systems import STATIC_SYSTEMS, SYSTEMS, find_systems

RUN_SYSTEMS = "host,g3,strawman,presum,switchgnn,switchgnn-no-gamr"
INTERRUPTED = 130


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register this room's commands."""
    run = subparsers.add_parser(
        "run",
        help="simulate one epoch and compare systems on it; or a network of P4 switches",
        epilog="A scenario with a [network] section is a network of P4 switches and ns-3 hosts: "
        "`netfold run docs/examples/router_128.toml --pcap leaf0` (docs/p4-in-ns3.md).",
    )
    _scenario_options(run)
    _run_options(run)
    run.add_argument(
        "--pcap", metavar="NODE[,NODE]", help="a network's hosts or switches to record; patterns too"
    )
    run.set_defaults(run=_run, default_systems=RUN_SYSTEMS, command="run")
    compare = subparsers.add_parser("compare", help="run with every system, and optionally several memories")
    _scenario_options(compare)
    _run_options(compare)
    substrates.add_options(compare)
    compare.set_defaults(run=_compare, default_systems=",".join(STATIC_SYSTEMS), command="compare")
    scenario = subparsers.add_parser("scenario", help="print a resolved scenario as TOML, to edit and run")
    _scenario_options(scenario)
    scenario.set_defaults(run=_scenario)
    show = subparsers.add_parser("show", help="tables and plots of a results folder")
    show.add_argument("results", type=Path, help="folder written by run, compare or train")
    _output_options(show)
    show.set_defaults(run=_show)
    systems = subparsers.add_parser("systems", help="the systems that can be compared")
    systems.add_argument("--json", action="store_true", help="print JSON")
    systems.set_defaults(run=_systems)
    sweep_cli.add_commands(subparsers)
    reproduce_cli.add_commands(subparsers)
    report_cli.add_commands(subparsers)
    compare_cli.add_commands(subparsers)
    autoparallel_cli.add_commands(subparsers)
    epoch_time_cli.add_commands(subparsers, _scenario_options, _overrides)


def _scenario_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", type=Path, help="scenario.toml (default: the paper's cluster)")
    parser.add_argument("--graph", metavar="NAME|PATH", help="see `netfold graph list`")
    parser.add_argument("--scale", metavar="SHARE", help="share of a stand-in's vertices, 0..1")
    parser.add_argument("--workers", metavar="N")
    parser.add_argument("--topology", metavar="star|leaf-spine:LxS")
    parser.add_argument(
        "--system", action="append", metavar="NAME[,NAME]", help="repeatable; see `netfold systems`"
    )
    for ablation in ("no-gamr", "no-blocks"):
        name = f"switchgnn-{ablation}"
        help_text = f"short for --system {name}"
        parser.add_argument(f"--{ablation}", dest="system", action="append_const", const=name, help=help_text)
    parser.add_argument(
        "--memory", metavar="SIZE[,SIZE]", help="switch memory; more than one also sweeps over them"
    )
    parser.add_argument(
        "--compute",
        metavar="TRACE",
        help="measured compute times: a file of `netfold trace`, or a shipped one",
    )
    parser.add_argument("--recirculation", metavar="both|free|tofino")
    parser.add_argument("--residual", metavar="none|host", help="what to do with the last cut edges")
    parser.add_argument("--seed", metavar="N", help="seed of the simulation")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="default: results/<command>-<graph>-..."
    )
    _output_options(parser)


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--no-plots", action="store_true", help="write no figures")


def _run(args: argparse.Namespace) -> int:
    from analysis.render import render  # noqa: PLC0415
    from sim.progress import ProgressDisplay  # noqa: PLC0415
    from sim.run import run_scenario  # noqa: PLC0415

    if is_network(args.scenario):
        return network.run(args)
    if getattr(args, "pcap", None):
        raise InputError("--pcap: for a scenario with a [network] section only; see docs/p4-in-ns3.md")
    scenario = load_scenario(args.scenario, _overrides(args))
    place = args.output or Path("results") / _default_name(args.command, scenario)
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with ProgressDisplay() as display:
            outcome = run_scenario(scenario, place, display, default_systems=args.default_systems)
    finally:
        signal.signal(signal.SIGTERM, previous)
    render(place, plots=not args.no_plots, as_json=args.json)
    if outcome.interrupted:
        print(f"netfold: interrupted; finished systems are in {place}", file=sys.stderr)
        return INTERRUPTED
    wrong = any(run.get("values_equal_oracle") is False for run in outcome.runs.values())
    return 1 if outcome.failures or wrong else 0


def _compare(args: argparse.Namespace) -> int:
    if not args.substrates:
        if args.propagations is not None:
            raise InputError("--propagations: needs --substrates")
        return _run(args)
    if args.propagations is not None and not 1 <= args.propagations <= 10**6:
        raise InputError(f"--propagations: {args.propagations} given; allowed: 1 to 1000000")
    if args.output is not None or args.no_plots:
        given = "--no-plots" if args.no_plots else "--output"
        raise InputError(f"{given}: --substrates writes no folder; `netfold emulate --compare` does")
    refuse_network(args.scenario)
    small = {"cluster.workers": 8, "cluster.topology": "star"} if args.scenario is None else {}
    scenario = load_scenario(args.scenario, small | _overrides(args))
    return substrates.compare_substrates(scenario, propagations=args.propagations, as_json=args.json)


def _scenario(args: argparse.Namespace) -> int:
    if is_network(args.scenario):
        return network.print_scenario(args)
    scenario = load_scenario(args.scenario, _overrides(args))
    print(dump_scenario(scenario, {"version": version("netfold")}), end="")
    return 0


def _show(args: argparse.Namespace) -> int:
    from analysis.records.folder import training_summary  # noqa: PLC0415
    from analysis.render import render, show_training  # noqa: PLC0415

    if network.is_network_results(args.results):
        return network.show(args.results, as_json=args.json)
    trained = training_summary(args.results)
    if trained is not None:
        return show_training(args.results, trained, as_json=args.json)
    render(args.results, plots=not args.no_plots, as_json=args.json)
    return 0


def _systems(args: argparse.Namespace) -> int:
    if args.json:
        rows = [
            {"name": one.name, "title": one.title, "source": one.source, "dynamic": one.dynamic}
            for one in SYSTEMS.values()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    from rich.table import Table  # noqa: PLC0415

    from analysis.render import wide_console  # noqa: PLC0415

    table = Table("system", "title", "graph", "source")
    for system in SYSTEMS.values():
        table.add_row(system.name, system.title, "dynamic" if system.dynamic else "static", system.source)
    wide_console().print(table)
    return 0


def _overrides(args: argparse.Namespace) -> dict[str, object]:
    given = parse_overrides(args.settings)
    if args.system is not None:
        find_systems(args.system)  # an empty list must not fall back to the command's default
    named = {
        "graph.source": args.graph,
        "graph.scale": args.scale,
        "cluster.workers": args.workers,
        "cluster.topology": args.topology,
        "run.systems": ",".join(args.system) if args.system else None,
        "compute.table": args.compute,
        "run.recirculation": args.recirculation,
        "plan.residual": args.residual,
        "run.seed": args.seed,
    }
    if args.memory is not None:
        sizes = [size.strip() for size in args.memory.split(",") if size.strip()]
        if not sizes:
            raise InputError('--memory: no size given; expected "100MB" or "10MB,100MB,unlimited"')
        if len(sizes) == 1:
            named["switch.memory_bytes"] = sizes[0]
        else:
            named["run.memory_sweep"] = ",".join(sizes)
    return given | {name: value for name, value in named.items() if value is not None}


def _default_name(command: str, scenario: Scenario) -> str:
    source = Path(scenario.graph.source).name if "/" in scenario.graph.source else scenario.graph.source
    topology = scenario.cluster.topology.replace("leaf-spine:", "ls")
    parts = [command, source, f"{scenario.cluster.workers}w", topology]
    if scenario.graph.scale != 1.0:
        parts.insert(2, f"{scenario.graph.scale:g}")
    return "-".join("".join(c if c.isalnum() or c in "._" else "-" for c in part) for part in parts)[:100]


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
