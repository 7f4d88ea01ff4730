"""`netfold emulate`: a scenario's propagations as real packets through a real P4 program."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.errors import InputError

if TYPE_CHECKING:
    from emulator.cluster.measured import Measured
    from emulator.cluster.prepare import Prepared
    from sim.scenario import Scenario

DEFAULT_WORKERS = 8
DEFAULT_PATIENCE_S = 30.0


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register this room's command."""
    emulate = subparsers.add_parser("emulate", help="send a scenario's propagations through a P4 switch")
    emulate.add_argument("scenario", nargs="?", type=Path, help="scenario.toml, as for `netfold run`")
    emulate.add_argument("--graph", metavar="NAME|PATH", help="see `netfold graph list`")
    emulate.add_argument("--scale", metavar="SHARE", help="share of a stand-in's vertices, 0..1")
    emulate.add_argument("--workers", metavar="N", help=f"2 to 64 (default {DEFAULT_WORKERS}, or the file's)")
    emulate.add_argument("--racks", type=int, metavar="R", help="leaf-spine with R leaves (default: a star)")
    emulate.add_argument("--spines", type=int, metavar="S", help="spines above the leaves (default 1)")
    emulate.add_argument(
        "--system", metavar="NAME", help="switchgnn (default) or another that reserves, or host"
    )
    emulate.add_argument("--memory", metavar="SIZE", help="memory of the switch's aggregators")
    emulate.add_argument("--seed", metavar="N", help="of the values, the faults and the order of events")
    emulate.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings")
    emulate.add_argument(
        "--switch",
        choices=("engine", "bmv2"),
        default="engine",
        help="what runs switchgnn.p4 (default: engine)",
    )
    emulate.add_argument("--in-process", action="store_true", help="one process, virtual time, reproducible")
    emulate.add_argument("--propagations", type=int, metavar="N", help="default: those of one epoch")
    emulate.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="RULE",
        help="'worker3.up: loss=0.01'; see docs/emulator.md",
    )
    emulate.add_argument(
        "--patience", type=float, default=DEFAULT_PATIENCE_S, metavar="S",
        help="seconds without anything new after which a run ends (default %(default)g)",
    )  # fmt: skip
    emulate.add_argument(
        "--compare", action="store_true", help="simulate the same propagations and compare what was sent"
    )
    emulate.add_argument("--clean", action="store_true", help="remove what a crashed BMv2 run left, and end")
    emulate.add_argument("--pcap", type=Path, metavar="FOLDER", help="what passes each switch port, as pcap")
    emulate.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="default: results/emulate-...")
    emulate.add_argument("--json", action="store_true", help="print the summary as JSON")
    emulate.set_defaults(run=_emulate)


def _emulate(args: argparse.Namespace) -> int:
    if args.clean:
        from emulator.cluster.clean import clean  # noqa: PLC0415

        return clean()
    from emulator.cluster import report, run  # noqa: PLC0415  (numpy, pyarrow and the graph room)
    from emulator.cluster.bmv2 import require_bmv2  # noqa: PLC0415
    from emulator.cluster.prepare import prepare  # noqa: PLC0415
    from emulator.cluster.progress import Progress  # noqa: PLC0415
    from sim.results import ResultsFolder  # noqa: PLC0415
    from sim.scenario_io import dump_scenario  # noqa: PLC0415

    refuse_network(args.scenario)
    scenario = _scenario(args)
    if args.propagations is not None and not 1 <= args.propagations <= 10**6:
        raise InputError(f"--propagations: {args.propagations} given; allowed: 1 to 1000000")
    if not 0.01 <= args.patience <= 86_400:
        raise InputError(f"--patience: {args.patience:g} given; allowed: 0.01 to 86400 seconds")
    if args.switch == "bmv2":
        require_bmv2()
    prepared = prepare(scenario)
    count = args.propagations or len(prepared.propagations)
    if not count:
        raise InputError("model.layers: a model of one layer propagates nothing; set it to 2 or more")
    folder = ResultsFolder(args.output or Path("results") / _default_name(scenario))
    try:
        cluster = run.make_cluster(
            scenario, prepared, args.fault,
            in_process=args.in_process, bmv2=args.switch == "bmv2", patience_s=args.patience,
            captures=args.pcap,
        )  # fmt: skip
        try:
            with Progress() as progress:
                measured = run.run(cluster, scenario, prepared, count, progress)
        finally:
            cluster.close()
        about = report.summary(prepared, measured, args.switch)
        if args.compare:
            about["substrates"] = _compare(scenario, prepared, measured, count)
        toml = dump_scenario(scenario, {"version": version("netfold")})
        report.write(folder, toml, prepared, measured, about)
    except BaseException:
        folder.discard()
        raise
    if args.json:
        print(json.dumps(about | {"folder": str(folder.given)}, indent=2))
    else:
        report.show(about, str(folder.given))
    differs = any(row["differs"] for row in about.get("substrates", ()))
    return 0 if about["values_equal_oracle"] and not differs else 1


def refuse_network(path: Path | None) -> None:
    """Raises InputError for a file that describes a network, not a propagation."""
    from sim.network.scenario_io import is_network  # noqa: PLC0415

    if is_network(path):
        raise InputError(f"{path}: a [network] scenario has no propagations to emulate; see `netfold run`")


def _compare(scenario: Scenario, prepared: Prepared, measured: Measured, count: int) -> list[dict[str, Any]]:
    from emulator.compare import as_dicts, compare, simulate  # noqa: PLC0415

    return as_dicts(compare(simulate(scenario, prepared, count), prepared, measured))


def _scenario(args: argparse.Namespace) -> Scenario:
    from sim.scenario_io import load_scenario, parse_overrides  # noqa: PLC0415

    given = parse_overrides(args.settings)
    named: dict[str, object | None] = {
        "graph.source": args.graph,
        "graph.scale": args.scale,
        "cluster.workers": args.workers,
        "run.systems": args.system,
        "switch.memory_bytes": args.memory,
        "run.seed": args.seed,
    }
    if args.spines is not None and args.racks is None:
        raise InputError("--spines: needs --racks")
    if args.racks is not None:
        named["cluster.topology"] = f"leaf-spine:{args.racks}x{args.spines or 1}" if args.racks else "star"
    given |= {key: value for key, value in named.items() if value is not None}
    if args.scenario is None:
        given = {"cluster.workers": DEFAULT_WORKERS, "cluster.topology": "star"} | given
    return load_scenario(args.scenario, given)


def _default_name(scenario: Scenario) -> str:
    source = Path(scenario.graph.source).name
    topology = scenario.cluster.topology.replace("leaf-spine:", "ls")
    name = f"emulate-{source}-{scenario.cluster.workers}w-{topology}"
    return "".join(c if c.isalnum() or c in "._" else "-" for c in name)[:100]
