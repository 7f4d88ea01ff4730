"""`netfold epoch-time`: what an epoch takes with each training system, over any topology and rate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim.scenario import Scenario
from sim.scenario_io import dump_scenario, load_scenario
from workloads.errors import InputError

Overrides = Callable[[argparse.Namespace], dict[str, object]]
BASES = (1, 2, 4, 8)


def add_commands(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    scenario_options: Callable[[argparse.ArgumentParser], None],
    overrides: Overrides,
) -> None:
    """Add `netfold epoch-time`; a scenario is chosen as for `netfold run`."""
    command = subparsers.add_parser(
        "epoch-time", help="estimate a training epoch: SwitchGNN, SYLVIE, both, and host-based systems"
    )
    scenario_options(command)
    command.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="take over what `netfold run` simulated, and its scenario",
    )
    command.add_argument(
        "--bits", type=int, choices=BASES, default=2, help="SYLVIE's base width (default: %(default)s)"
    )
    command.add_argument(
        "--share",
        type=float,
        default=0.1,
        metavar="P",
        help="bns-gcn's share of the halo (default: %(default)s)",
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="default: results/epoch-time-..."
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    command.add_argument("--no-plots", action="store_true", help="write no figure")
    command.set_defaults(run=lambda args: _epoch_time(args, overrides))


def _epoch_time(args: argparse.Namespace, overrides: Overrides) -> int:
    # These load pandas and matplotlib, which take seconds.
    from analysis.epoch_time.estimate import Estimator  # noqa: PLC0415
    from analysis.epoch_time.show import draw, estimate_table, published_pairs, published_table  # noqa: PLC0415
    from analysis.epoch_time.simulated import simulated_estimates  # noqa: PLC0415
    from analysis.render import wide_console  # noqa: PLC0415
    from workloads.cache import new_folder  # noqa: PLC0415
    from workloads.graphs import load_graph  # noqa: PLC0415

    if not 0 < args.share <= 1:
        raise InputError(f"share: {args.share} given; allowed: more than 0, at most 1")
    simulated: list[Any] = []
    if args.results is not None:
        if args.scenario is not None:
            raise InputError("results: give a scenario or --results, which has its own, not both")
        scenario, simulated = simulated_estimates(args.results)
        changed = overrides(args)
        if changed:
            raise InputError(f"results: {', '.join(changed)} cannot be changed of what was simulated")
    else:
        scenario = load_scenario(args.scenario, overrides(args))
    chosen = scenario.graph
    stage = _stage if not args.json else (lambda text: None)
    stage(f"loading graph {chosen.source}")
    graph = load_graph(chosen.source, scale=chosen.scale, seed=chosen.seed)
    estimator = Estimator(scenario, graph, stage)
    estimates = [*_counted(estimator, args.bits, args.share), *simulated]
    about = (
        f"graph {graph.name} ({graph.provenance.kind}), {_cluster(scenario)}; compute "
        f"{estimator.compute_from}; communication from counted bytes over a link model"
    )
    if simulated:
        about += f", or simulated ({args.results})"
    pairs = published_pairs(estimates)
    data = {
        "about": about,
        "systems": [_plain(one) for one in estimates],
        "published": pairs,
    }
    place = args.output or Path("results") / f"epoch-time-{Path(chosen.source).name.replace(':', '-')}"
    with new_folder(place) as work:
        (work / "scenario.toml").write_text(dump_scenario(scenario, {}), encoding="utf-8")
        (work / "epoch-time.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        if not args.no_plots:
            draw(estimates, about, work / "figures")
    if args.json:
        print(json.dumps({"folder": str(place), **data}, indent=1))
        return 0
    console = wide_console()
    console.print(estimate_table(estimates, "An epoch, by system"))
    console.print(_legend())
    console.print(published_table(pairs))
    for one in estimates:
        if one.note and one.note != "simulated":
            console.print(f"{one.system}: {one.note}")
    console.print(about)
    console.print(f"records: {place}", soft_wrap=True)
    return 0


def _counted(estimator: Any, bits: int, share: float) -> list[Any]:
    both = (
        "in no paper: quantised on one range per propagation so that the switch can add; it must unpack and "
        "lift values onto the 8-bit grid; its accuracy is not known"
    )
    return [
        estimator.host_based("dgl"),
        estimator.host_based(
            "bns-gcn", share=share, note=f"{share:g} of the halo; compute as dgl's, an upper bound"
        ),
        estimator.host_based("pipegcn", asynchronous=True),
        estimator.host_based("sylvie, sync", base=bits, note=f"base width {bits}, every epoch synchronous"),
        estimator.host_based(
            "sylvie, async", base=bits, asynchronous=True, note=f"base width {bits}, every epoch asynchronous"
        ),
        estimator.in_network("switchgnn", note="recirculation free, as in the paper"),
        estimator.in_network("switchgnn+sylvie, sync", base=bits, note=both),
        estimator.in_network("switchgnn+sylvie, async", base=bits, asynchronous=True, note=both),
    ]


def _plain(one: Any) -> dict[str, Any]:
    from analysis.epoch_time.show import ALL_KINDS as kinds  # noqa: N811, PLC0415

    return {
        "system": one.system,
        "asynchronous": one.asynchronous,
        "note": one.note,
        "epoch_ns": {"value": one.epoch_ns, "provenance": one.provenance(*kinds)},
        "exposed_ns": {"value": one.exposed_ns, "provenance": one.provenance(*kinds[1:4])},
        "layers": [asdict(part) for part in one.parts],
    }


def _legend() -> str:
    from analysis.epoch_time.show import LEGEND  # noqa: PLC0415

    return LEGEND


def _cluster(scenario: Scenario) -> str:
    cluster = scenario.cluster
    rate = f"{cluster.host_link_bps / 1e9:g} Gb/s"
    return f"{cluster.workers} workers, {cluster.topology}, {rate}"


def _stage(text: str) -> None:
    print(text, file=sys.stderr)
