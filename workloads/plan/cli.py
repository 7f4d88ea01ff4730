"""`netfold plan`: make a plan, save it, print its shape."""

from __future__ import annotations

import argparse
import json
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.partition.make import BALANCES, MAX_WORKERS, METHODS
from workloads.plan.capacity import P4_ACCOUNTING, PAPER_ACCOUNTING
from workloads.plan.files import check_plan_target
from workloads.plan.make import make_plan
from workloads.plan.plan import BlocksMode, Order, Plan, ResidualMode
from workloads.terminal import plain, plain_console

ACCOUNTINGS = {"paper": PAPER_ACCOUNTING, "p4": P4_ACCOUNTING}
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?")
_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}

DESCRIPTION = """Make the propagation plan of a partitioned graph and print its shape: levels, blocks,
uploads, and the bytes it moves against host-based sending. SOURCE is a graph as in `netfold graph`. With -o
the plan is saved. `netfold plan inspect FOLDER...` prints the shape of saved plans instead; a SOURCE there
is planned with the options given."""


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `plan` to the command line."""
    parser = subparsers.add_parser("plan", help="make or inspect a propagation plan", description=DESCRIPTION)
    parser.add_argument("source", nargs="+", metavar="SOURCE", help="a graph; or: inspect FOLDER|SOURCE...")
    parser.add_argument("--workers", type=int, default=8, metavar="K", help=f"1 to {MAX_WORKERS} (default 8)")
    parser.add_argument(
        "--memory", default="100MB", help='switch memory, "100MB" or "unlimited" (default 100MB)'
    )
    parser.add_argument("--width", type=int, default=256, help="values per vertex (default 256)")
    parser.add_argument(
        "--order", choices=get_args(Order), default="gamr", help="upload order (default gamr)"
    )
    parser.add_argument(
        "--blocks", choices=get_args(BlocksMode), default="multilevel", help="(default multilevel)"
    )
    parser.add_argument(
        "--residual",
        choices=get_args(ResidualMode),
        default="none",
        help="host: stop making blocks where host-based sending of the rest moves fewer bytes (default none)",
    )
    parser.add_argument(
        "--accounting",
        choices=tuple(ACCOUNTINGS),
        default="paper",
        help="what the memory pays: paper, aggregators only; p4, also the neighbour lists (default paper)",
    )
    parser.add_argument("--method", choices=METHODS, default="metis", help="partition method (default metis)")
    parser.add_argument(
        "--balance", choices=BALANCES, default="unit", help="what workers hold equally (default unit)"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of a stand-in's vertices (default 1)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the graph, the partition and the plan (default 1)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="save the plan here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    """`netfold plan SOURCE` and `netfold plan inspect FOLDER|SOURCE...`."""
    inspecting = args.source[0] == "inspect"
    sources = args.source[1:] if inspecting else args.source
    if not sources:
        raise InputError("plan inspect: nothing to inspect; give plan folders or graphs")
    if len(sources) > 1 and not inspecting:
        raise InputError(f"plan: one graph at a time; {len(sources)} given")
    if args.output is not None:
        if inspecting:
            raise InputError("plan inspect: -o is for making a plan: netfold plan SOURCE -o FOLDER")
        check_plan_target(args.output)
    console = plain_console()
    shapes = []
    for source in sources:
        is_plan = inspecting and Path(source, "plan.json").exists()
        plan = Plan.load(Path(source)) if is_plan else _make(source, args)
        if args.output is not None:
            plan.save(args.output)
        shape = plan.shape()
        shapes.append(shape)
        if not args.json:
            print_shape(shape, console)
            if args.output is not None:
                console.print(f"saved in {args.output}", soft_wrap=True)
    if args.json:
        print(json.dumps(shapes if inspecting else shapes[0], indent=1))
    return 0


def parse_memory(text: str) -> int | None:
    """Bytes of a size such as "100MB" (decimal) or "64KiB"; None for "unlimited". Raises InputError."""
    if text == "unlimited":
        return None
    match = _MEMORY.fullmatch(text.strip())
    if match is None or len(text) > 30:
        raise InputError(
            f'memory: {text[:40]!r} given; allowed: a size such as "100MB" or "64KiB", or "unlimited"'
        )
    return int(Decimal(match[1]) * _UNITS[match[2] or "B"])


def _make(source: str, args: argparse.Namespace) -> Plan:
    memory = parse_memory(args.memory)
    per_vertex, per_edge = ACCOUNTINGS[args.accounting]
    with _Telling(f"loading {source}") as tell:
        graph = load_graph(source, scale=args.scale, seed=args.seed)
        tell(f"partitioning {graph.name} for {args.workers} workers")
        partition = partition_graph(
            graph, args.workers, method=args.method, balance=args.balance, seed=args.seed
        )
        tell("boundary graph")
        return make_plan(
            graph,
            partition,
            width=args.width,
            memory_bytes=memory,
            blocks=args.blocks,
            order=args.order,
            residual=args.residual,
            per_vertex_bytes=per_vertex,
            per_edge_bytes=per_edge,
            seed=args.seed,
            progress=tell,
        )


class _Telling:
    """What is going on, on stderr: a spinner on a terminal, elsewhere a plain line every few seconds."""

    PLAIN_EVERY_S = 5.0

    def __init__(self, first: str) -> None:
        self.console = plain_console(stderr=True)
        self.status = self.console.status(plain(first))
        self.said = time.monotonic()

    def __enter__(self) -> _Telling:
        if self.console.is_terminal:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.status.stop()

    def __call__(self, line: str) -> None:
        if self.console.is_terminal:
            self.status.update(plain(line))
        elif time.monotonic() - self.said > self.PLAIN_EVERY_S:
            self.said = time.monotonic()
            self.console.print(line, soft_wrap=True)


def print_shape(shape: dict[str, Any], console: Console) -> None:
    """The shape as text: a few lines, a table of the levels, and the comparison with host-based sending."""

    def say(line: str) -> None:
        console.print(line, soft_wrap=True)

    memory = f"{shape['memory_bytes'] / 1e6:g} MB" if shape["memory_bytes"] else "unlimited"
    say(f"{shape['graph']}, {shape['workers']} workers, {shape['width']} values in {shape['chunks']} chunks")
    say(
        f"switch memory {memory}, {shape['aggregators']:,} aggregators; blocks {shape['blocks_mode']}, order "
        f"{shape['order']}, residual {shape['residual_mode']}, seed {shape['seed']}"
    )
    say(
        f"{shape['boundary_vertices']:,} boundary vertices, {shape['cross_edges']:,} directed cross edges"
        + (f", {shape['isolated_workers']} workers without one" if shape["isolated_workers"] else "")
    )
    if shape["levels"]:
        table = Table(box=None, pad_edge=False)
        for name in ("level", "blocks", "vertices per block", "uploads", "edges", "of edges left", "MB"):
            table.add_column(name, justify="right")
        for level in shape["levels"]:
            table.add_row(
                str(level["level"]),
                f"{level['blocks']:,}",
                f"{level['vertices_min']:,} to {level['vertices_max']:,}",
                f"{level['uploads']:,}",
                f"{level['edges']:,}",
                f"{level['edges_share_of_left']:.1%}",
                f"{level['bytes'] / 1e6:,.1f}",
            )
        console.print(table)
    say(
        f"in-network: {shape['uploads']:,} uploads and as many results "
        f"({shape['uploads_per_boundary_vertex']:.2f} per boundary vertex), {shape['passes']:,} passes, "
        f"{shape['in_network_bytes'] / 1e6:,.1f} MB"
    )
    say(
        f"host-based residual: {shape['residual_edges']:,} edges, {shape['residual_sends']:,} sends, "
        f"{shape['residual_bytes'] / 1e6:,.1f} MB"
    )
    say(
        f"all host-based: {shape['host_sends']:,} sends ({shape['replication_factor']:.2f} per boundary "
        f"vertex), {shape['host_bytes'] / 1e6:,.1f} MB; the plan moves {shape['bytes_ratio']:.1%} of that"
    )
