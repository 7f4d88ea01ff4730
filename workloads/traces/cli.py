"""`netfold trace`: measure an epoch's compute times on this machine, for `netfold run`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from workloads.compute import propagation_widths
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.graphs.progress import shown
from workloads.partition import partition_graph
from workloads.partition.make import BALANCES, METHODS
from workloads.plan import make_plan
from workloads.systems import SYSTEMS
from workloads.terminal import plain_console
from workloads.training.options import DEVICES
from workloads.training.require import require_torch

if TYPE_CHECKING:
    from workloads.traces.measure import Measured

# An idle machine: what is allowed of the load before (this command's own start adds some), of waiting for a
# processor, and of the rounds' difference.
IDLE_LOAD, MOST_WAITED, MOST_APART = 0.5, 0.02, 0.05
MEMORY_BYTES = 100_000_000  # the default scenario's switch, whose plan the trace names


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold trace`."""
    trace = subparsers.add_parser("trace", help="measure an epoch's compute times on this machine")
    trace.add_argument("--graph", default="debian", help="name, shape or path (default: %(default)s)")
    trace.add_argument("--scale", type=float, default=1.0, help="share of a stand-in's vertices (default 1)")
    trace.add_argument("--model", choices=("gcn", "sage"), default="gcn", help="default: %(default)s")
    for flag, default, what in (
        ("--workers", 128, "workers the graph is partitioned for"),
        ("--layers", 4, "propagations of the model"),
        ("--hidden", 256, "hidden width"),
        ("--seed", 1, "seed of graph and partition"),
        ("--rounds", 3, "rounds over all workers"),
        ("--repeats", 5, "timings per step and round, after two to warm up"),
        ("--threads", 1, "threads that torch may use"),
    ):
        trace.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )
    trace.add_argument("--partition", choices=METHODS, default="metis", help="default: %(default)s")
    trace.add_argument("--balance", choices=BALANCES, default="unit", help="default: %(default)s")
    trace.add_argument(
        "--device", choices=DEVICES, default="auto", help="auto: CUDA where there is a device, else the CPU"
    )
    trace.add_argument(
        "--no-pp",
        action="store_true",
        help="the input layer propagates too (a scenario's model.use_pp=false)",
    )
    trace.add_argument(
        "--require-idle",
        action="store_true",
        help="write nothing where the machine is busy, before or meanwhile, instead of a warning",
    )
    trace.add_argument("-o", "--output", type=Path, required=True, help="Parquet file to write")
    trace.add_argument("--json", action="store_true", help="print what was measured as one JSON object")
    trace.set_defaults(run=_trace)


def _trace(args: argparse.Namespace) -> int:
    require_torch("trace")
    for name, most in (
        ("layers", 1000),
        ("hidden", 65_536),
        ("rounds", 1000),
        ("repeats", 10_000),
        ("threads", 1024),
    ):
        given = getattr(args, name)
        if not 1 <= given <= most:
            raise InputError(f"{name}: {given} given; allowed: 1 to {most}")
    if args.output.suffix != ".parquet":
        raise InputError(f"output: {args.output} given; the name must end in .parquet")
    # These import torch, which is optional.
    import torch  # noqa: PLC0415

    from workloads.traces.kernels import TraceModel  # noqa: PLC0415
    from workloads.traces.measure import WARMUPS, device_title, measure, versions  # noqa: PLC0415
    from workloads.traces.record import write_trace  # noqa: PLC0415
    from workloads.training.device import choose_device  # noqa: PLC0415

    load = os.getloadavg()[0]
    if args.require_idle and load > IDLE_LOAD:
        raise InputError(f"require-idle: the load average is {load:.2f}; allowed: {IDLE_LOAD}")
    device = choose_device(args.device, 0, 1)
    torch.set_num_threads(args.threads)
    graph = load_graph(args.graph, scale=args.scale, seed=args.seed)
    model = TraceModel(args.model, args.layers, args.hidden, use_pp=not args.no_pp)
    balances = {"": args.balance} | {s.balance: s.balance for s in SYSTEMS.values() if s.balance}
    partitions = {
        key: partition_graph(graph, args.workers, method=args.partition, balance=balance, seed=args.seed)
        for key, balance in balances.items()
    }
    widths = propagation_widths(model, graph)
    plans = {  # switchgnn's, by width
        str(width): make_plan(graph, partitions[""], width=width, memory_bytes=MEMORY_BYTES).digest
        for width in widths
    }
    with shown("measuring") as progress:
        measured = measure(
            graph,
            partitions,
            model,
            repeats=args.repeats,
            rounds=args.rounds,
            progress=progress,
            device=device,
        )
    trouble = _trouble(load, measured)
    if trouble and args.require_idle:
        raise InputError(f"require-idle: {trouble}; nothing was written")
    table = measured.table
    facts: dict[str, Any] = {
        "device": device_title(device),
        "versions": versions(),
        "graph": graph.name,
        "graph_provenance": graph.provenance.kind,
        "graph_digest": graph.digest,
        "workers": args.workers,
        "partition_digests": {balances[key]: partition.digest for key, partition in partitions.items()},
        "plan_digests": plans,
        "model": args.model,
        "layers": args.layers,
        "hidden": args.hidden,
        "use_pp": model.use_pp,
        "warmups": WARMUPS,
        "rounds": args.rounds,
        "repeats": args.repeats,
        "load_average": round(load, 2),
        "rounds_apart": round(measured.rounds_apart, 4),
        "waited_share": round(measured.waited_share, 4),
    }
    write_trace(args.output, table, facts)
    host = table[(table["system"] == "*") & table["phase"].isin(("pre", "post"))]
    quantiser = table[(table["system"] == "*") & table["phase"].isin(("quantise", "dequantise"))]
    worker_ns = host.groupby("worker")["ns"].sum()
    spread = float(((host["high_ns"] - host["low_ns"]).sum()) / max(1, host["ns"].sum()))
    figures = {
        "compute_ns_median_worker": int(worker_ns.median()),
        "compute_ns_slowest_worker": int(worker_ns.max()),
        "quantiser_ns_slowest_worker": int(quantiser.groupby("worker")["ns"].sum().max()),
        "interquartile_share": spread,
    }
    if trouble:
        print(f"netfold: warning: {trouble}: measure again on an idle machine", file=sys.stderr)
    if args.json:
        print(json.dumps({"file": str(args.output), **facts, **figures}, indent=1))
    else:
        _show(facts, figures, args.output)
    return 0


def _trouble(load: float, measured: Measured) -> str:
    """What speaks against an idle machine; empty where nothing does."""
    found = []
    if load > IDLE_LOAD:
        found.append(f"the load average was {load:.2f} before")
    if measured.waited_share > MOST_WAITED:
        found.append(f"the work waited {100 * measured.waited_share:.0f} % of the time for a processor")
    if measured.rounds_apart > MOST_APART:
        found.append(f"the rounds lie {100 * measured.rounds_apart:.0f} % apart")
    return ", ".join(found)


def _show(facts: dict[str, Any], figures: dict[str, Any], path: Path) -> None:
    title = f"{facts['model']} on {facts['graph']}, {facts['workers']} workers, host-based"
    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    median, slowest = (figures[f"compute_ns_{which}_worker"] / 1e6 for which in ("median", "slowest"))
    table.add_row("an epoch's work", f"{median:.3f} ms (median worker), {slowest:.3f} ms (slowest)")
    table.add_row(
        "quantising", f"{figures['quantiser_ns_slowest_worker'] / 1e6:.3f} ms more with sylvie (slowest)"
    )
    table.add_row(
        "spread",
        f"quartiles {100 * figures['interquartile_share']:.0f} % of the median apart, rounds "
        f"{100 * facts['rounds_apart']:.0f} %",
    )
    table.add_row("measured on", facts["device"])
    table.add_row("use it", f"netfold run --compute {path}")
    plain_console().print(table)
