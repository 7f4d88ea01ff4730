"""`netfold autoparallel` and `netfold collectives`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from workloads.errors import InputError

EXAMPLES = """examples:
  netfold autoparallel --graph reddit --scale 0.02 --model gcn --cluster leaf-spine:8x8:128
  netfold autoparallel --graph karate --model graphormer-slim --cluster local:2 --json
  netfold autoparallel --graph debian --model sage --cluster star:64 --device a100 --memory 80GB
"""
COLLECTIVE_EXAMPLES = """example:
  netfold collectives --cluster leaf-spine:8x8:128 --bytes 100kB,10MB
"""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both."""
    auto = subparsers.add_parser(
        "autoparallel",
        help="how to divide a training over devices: predicted time, traffic and memory of every scheme",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    auto.add_argument(
        "--graph",
        default="karate",
        metavar="NAME|PATH",
        help="families:N is a set of N small graphs to classify (default: %(default)s)",
    )
    auto.add_argument("--scale", type=float, default=1.0, help="share of a stand-in's vertices (default 1)")
    auto.add_argument("--model", default="gcn", help="gcn, sage, ..., graphormer-slim, gt (default: gcn)")
    auto.add_argument("--layers", type=int, metavar="N", help="default: 2, or the transformer's own")
    auto.add_argument("--hidden", type=int, metavar="N", help="default: 64, or the transformer's own")
    auto.add_argument("--attention", default="sparse", help="sparse, dense, flash or topk (default: sparse)")
    auto.add_argument(
        "--sequence-length",
        type=int,
        default=0,
        metavar="N",
        help="vertices a sequence of a transformer has (default 0: the whole graph is one)",
    )
    _cluster_options(auto)
    auto.add_argument("--device", default="", metavar="NAME", help="modelled instead of profiled: a100, ...")
    auto.add_argument("--profile", type=Path, metavar="FILE", help="a profile, perhaps of another machine")
    auto.add_argument("--fresh-profile", action="store_true", help="measure this device again")
    auto.add_argument("--memory", default="", metavar="SIZE", help="of a device, as 24GB (default: no limit)")
    auto.add_argument("--no-in-network", action="store_true", help="the switches only forward")
    auto.add_argument("--turns", default="1,2,4", metavar="N[,N]", help="gradient accumulation to try")
    auto.add_argument(
        "--shortlist",
        type=int,
        metavar="N",
        help="on local clusters, run up to N of the first schemes for a few steps and take the fastest "
        "(default 5; 0: trust the prediction)",
    )
    auto.add_argument("--top", type=int, default=12, metavar="N", help="lines of the table (default 12)")
    auto.add_argument("--seed", type=int, default=1, help="default: 1")
    auto.add_argument("--train", type=int, default=0, metavar="EPOCHS", help="train with it (local clusters)")
    auto.add_argument(
        "--threshold",
        type=float,
        default=1.5,
        metavar="X",
        help="plan again when measured and predicted epochs differ by this factor (default 1.5)",
    )
    auto.add_argument("--json", action="store_true", help="print JSON")
    auto.set_defaults(run=_autoparallel)

    times = subparsers.add_parser(
        "collectives",
        help="times of all-to-all, all-gather and all-reduce on a simulated cluster",
        epilog=COLLECTIVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _cluster_options(times)
    times.add_argument("--bytes", default="1kB,100kB,10MB", metavar="SIZE[,SIZE]", help="%(default)s")
    times.add_argument("--group", type=int, default=0, metavar="N", help="devices of a group (default: all)")
    times.add_argument("--json", action="store_true", help="print JSON")
    times.set_defaults(run=_collectives)


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        default="star:8",
        metavar="star:N|leaf-spine:LxS:N|local:N|FILE",
        help="a simulated cluster, or workers of this machine (default: %(default)s)",
    )
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings")


def _autoparallel(args: argparse.Namespace) -> int:
    from workloads.training.require import require_torch  # noqa: PLC0415

    require_torch("autoparallel")
    import torch  # noqa: PLC0415

    from analysis.autoparallel import show  # noqa: PLC0415
    from analysis.autoparallel.cluster import parse_cluster  # noqa: PLC0415
    from analysis.autoparallel.plan import best_of, device_costs, rank  # noqa: PLC0415
    from sim.quantities import parse_quantity  # noqa: PLC0415
    from sim.scenario_io import parse_overrides  # noqa: PLC0415
    from workloads.graphs import Graph, load_graph  # noqa: PLC0415
    from workloads.parallel.shortlist import MOST  # noqa: PLC0415
    from workloads.parallel.task import model_spec  # noqa: PLC0415
    from workloads.training.transformer.graph_set import GraphSet, families  # noqa: PLC0415
    from workloads.training.transformer.names import SET_PREFIX  # noqa: PLC0415

    if args.top < 1:
        raise InputError(f"top: {args.top} given; at least 1")
    if not 1 < args.threshold <= 1000:
        raise InputError(f"threshold: {args.threshold} given; allowed: more than 1, at most 1000")
    model = model_spec(args.model, layers=args.layers, hidden=args.hidden, attention=args.attention)
    cluster = parse_cluster(args.cluster, parse_overrides(args.settings))
    turns = _turns(args.turns)
    memory = float(parse_quantity(args.memory, "bytes", "memory")) if args.memory else float("inf")
    if args.train < 0:
        raise InputError(f"train: {args.train} epochs given; at least 0")
    if args.shortlist is not None and not 0 <= args.shortlist <= 100:
        raise InputError(f"shortlist: {args.shortlist} given; allowed: 0 to 100")
    if args.shortlist is not None and cluster.scenario is not None:
        raise InputError(f"shortlist: {cluster.text} is simulated; allowed with --cluster local:N")
    if args.train and cluster.scenario is not None:
        raise InputError(f"train: {cluster.text} is simulated; allowed with --cluster local:N")
    torch.set_num_threads(1)  # a worker has one, and so has its profile
    with show.progress("autoparallel") as (stage, counted):
        stage(f"loading graph {args.graph}")
        graph: Graph | GraphSet
        if args.graph.startswith(SET_PREFIX):
            graph = families(args.graph, args.seed)
        else:
            graph = load_graph(args.graph, scale=args.scale, seed=args.seed, features=bool(args.train))
        stage("profiling this device" if not args.device else "modelling the device")
        costs, device, facts = device_costs(
            args.device, args.profile, fresh=args.fresh_profile, progress=counted
        )
        ranking = rank(
            graph,
            model,
            cluster,
            costs=costs,
            device=device,
            memory_bytes=memory,
            sequence_length=args.sequence_length,
            in_network=not args.no_in_network,
            turns=turns,
            seed=args.seed,
            most_measured=MOST if args.shortlist is None else args.shortlist,
            stage=stage,
            counted=counted,
        )
    best = best_of(ranking)
    log: list[dict[str, Any]] = []
    if args.train:
        log = _run(args, ranking, best)
    if args.json:
        print(json.dumps(show.as_json(ranking, best, facts, log), indent=1, allow_nan=False))
    else:
        show.table(ranking, best, args.top)
        show.training(log)
    return 0


def _run(args: argparse.Namespace, ranking: Any, best: Any) -> list[dict[str, Any]]:
    """Train on this machine, planning again where measured and predicted times part."""
    from dataclasses import replace  # noqa: PLC0415

    from analysis.autoparallel import show  # noqa: PLC0415
    from workloads.parallel.autopilot import Autopilot, fly  # noqa: PLC0415
    from workloads.training.data import training_data  # noqa: PLC0415

    task = ranking.task
    if task.graphs is None:
        task = replace(task, data=training_data(task.graph, args.seed))
    pilot = Autopilot(
        task,
        ranking.costs,
        ranking.network,
        best.scheme,
        [one.scheme for one in ranking.predictions if not one.why_not],
        args.train,
        args.threshold,
    )
    with show.progress("training") as (_, counted):
        return fly(pilot, lambda row: counted(row["epoch"] + 1, args.train))


def _turns(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1 or found[-1] > 64:
        raise InputError(f"turns: {text[:40]!r} given; expected numbers of 1 to 64, as 1,2,4")
    return found


def _collectives(args: argparse.Namespace) -> int:
    from analysis.autoparallel import show  # noqa: PLC0415
    from analysis.autoparallel.cluster import parse_cluster  # noqa: PLC0415
    from sim.collectives import ALGORITHMS, axis_groups, lower_bound_ns  # noqa: PLC0415
    from sim.collectives_model import collective_curve  # noqa: PLC0415
    from sim.quantities import parse_quantity  # noqa: PLC0415
    from sim.scenario_io import parse_overrides  # noqa: PLC0415

    cluster = parse_cluster(args.cluster, parse_overrides(args.settings))
    if cluster.scenario is None:
        raise InputError(f"cluster: {cluster.text} is not simulated; give star:N or leaf-spine:LxS:N")
    sizes = [parse_quantity(part, "bytes", "bytes") for part in args.bytes.split(",") if part.strip()]
    if not sizes or min(sizes) < 1:
        raise InputError(f"bytes: {args.bytes[:40]!r} given; expected sizes as 100kB,10MB")
    members = args.group or cluster.devices
    if not 2 <= members <= cluster.devices or cluster.devices % members:
        raise InputError(f"group: {members} given; allowed: divisors of {cluster.devices} from 2")
    groups = axis_groups([cluster.devices // members, members], 1)
    rows = []
    with show.progress("collectives") as (stage, _):
        for kind, algorithms in ALGORITHMS.items():
            for algorithm in algorithms:
                curve = collective_curve(cluster.scenario, kind, algorithm, groups, progress=stage)
                for size in sizes:
                    bound = lower_bound_ns(cluster.scenario, kind, algorithm, members, int(size))
                    rows.append(
                        {
                            "collective": kind,
                            "algorithm": algorithm,
                            "bytes": int(size),
                            "time_ns": round(curve.time_ns(size)),
                            "lower_bound_ns": round(bound),
                            "simulated": curve.simulated(size),
                            "extrapolation_error": curve.error,
                            "alpha_ns": round(curve.alpha_ns),
                            "beta_ns_per_byte": curve.beta,
                        }
                    )
    if args.json:
        answer = {"cluster": cluster.text, "devices": cluster.devices, "group": members, "times": rows}
        print(json.dumps(answer, indent=1))
    else:
        show.collectives(cluster.text, members, rows)
    return 0
