"""`netfold dynamic`: look at, convert, build and partition dynamic graphs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from workloads.errors import InputError
from workloads.files import write_whole
from workloads.graphs.dynamic import DynamicGraph, load_dynamic_graph
from workloads.graphs.dynamic.debian import debian_releases
from workloads.graphs.dynamic.describe import describe, sizes
from workloads.graphs.dynamic.sources import catalogue
from workloads.graphs.dynamic.store import save_dynamic
from workloads.graphs.dynamic.streams import TITLES
from workloads.graphs.progress import shown
from workloads.partition.dynamic import METHODS, partition_dynamic, travelling_rows
from workloads.partition.light_metis import KEEP
from workloads.terminal import plain_console

_EXAMPLES = """examples:
  netfold dynamic list
  netfold dynamic info contacts --json
  netfold dynamic info CollegeMsg.txt --snapshots 60 --lifetime 5 --window 8
  netfold dynamic partition social --workers 8
"""


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold dynamic info | list | sizes | convert | build-debian | partition`."""
    dynamic = subparsers.add_parser(
        "dynamic", help="look at, convert and partition dynamic graphs", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = dynamic.add_subparsers(metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="what can be named, and the file formats")
    listing.set_defaults(run=_list)
    info = commands.add_parser("info", help="size, task, split and provenance of a dynamic graph")
    info.set_defaults(run=_info)
    table = commands.add_parser("sizes", help="edges and bytes of every snapshot")
    table.set_defaults(run=_sizes)
    conversion = commands.add_parser(
        "convert", help="write as netfold's folder or as `src dst snapshot` lines"
    )
    conversion.add_argument("-o", "--output", type=Path, required=True, help="folder, or file for snap")
    conversion.add_argument(
        "--to", choices=("netfold", "snap"), default="netfold", help="default: %(default)s"
    )
    conversion.set_defaults(run=_convert)
    debian = commands.add_parser(
        "build-debian", help="Debian's dependency graph over releases, from four or more Packages indices"
    )
    debian.add_argument("indices", type=Path, nargs="+", help="Packages files, oldest release first")
    debian.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    debian.set_defaults(run=_debian)
    partition = commands.add_parser("partition", help="LightMetis and rivals: rows that travel, and time")
    partition.add_argument("--workers", type=int, default=4, help="default: %(default)s")
    partition.add_argument(
        "--method", action="append", choices=METHODS, help="repeatable; default: all but random"
    )
    partition.add_argument(
        "--keep",
        type=float,
        default=KEEP,
        help="share of the originals that light-metis merges (%(default)s)",
    )
    partition.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="make each N times, show the fastest"
    )
    partition.set_defaults(run=_partition)
    for one in (info, table, conversion, partition):
        _add_source(one)
    for one in (listing, info, table, debian, partition):
        one.add_argument("--json", action="store_true", help="print one JSON object")


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a name such as traffic or social:1000:40, a path, or FORMAT:path")
    parser.add_argument("--scale", type=float, default=1.0, help="share of a generated graph's vertices")
    parser.add_argument("--seed", type=int, default=1, help="of generated graphs and partitions (default 1)")
    parser.add_argument("--lifetime", type=int, metavar="Z", help="snapshots that an edge lives")
    parser.add_argument("--window", type=int, metavar="NS", help="snapshots of a training window")
    parser.add_argument("--snapshots", type=int, metavar="T", help="intervals that a stream is cut into")


def _load(args: argparse.Namespace) -> DynamicGraph:
    return load_dynamic_graph(
        args.source, scale=args.scale, seed=args.seed, lifetime=args.lifetime, window=args.window,
        snapshots=args.snapshots,
    )  # fmt: skip


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _rows(rows: list[dict[str, Any]]) -> None:
    table = Table(*rows[0], box=None, header_style="bold")
    for row in rows:
        cells = [
            f"{v:,}" if isinstance(v, int) else f"{v:.3f}" if isinstance(v, float) else v
            for v in row.values()
        ]
        table.add_row(*cells)
    console = plain_console()
    if not console.is_terminal:
        console.width = 140  # for a file or a pipe, whole columns rather than 80 characters
    console.print(table)


def _list(args: argparse.Namespace) -> int:
    graphs = [{"name": name, "what": what} for name, what in catalogue()]
    formats = [{"format": name, "what": what} for name, what in TITLES.items()]
    if args.json:
        _print_json({"graphs": graphs, "formats": formats})
    else:
        _rows(graphs)
        print()
        _rows(formats)
    return 0


def _show(about: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, title=about["name"], title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    labels = "" if about["labels"] is None else f", labels {about['labels']}"
    seed = "" if about["provenance_seed"] is None else f", seed {about['provenance_seed']}"
    live = f"{about['snapshots']}, an edge lives {about['lifetime']}, windows of {about['window']}"
    edges = f"{about['directed_edges_mean']:,.0f} a snapshot, at most {about['directed_edges_most']:,}"
    again = f"{about['seen_again']:.1f} times"
    split = [f"{part} {about[f'{part}_snapshots']}" for part in ("train", "validation", "test")]
    rows = {
        "vertices": f"{about['vertices']:,}",
        "snapshots": live,
        "directed edges": edges,
        "arrivals": f"{about['arrivals']:,} of {about['distinct_edges']:,} edges, each {again}",
        "features": f"{about['feature_width']} per vertex and snapshot",
        "task": f"{about['task']}{labels}",
        "split": ", ".join(split) + " snapshots",
        "provenance": f"{about['provenance_kind']}: {about['provenance_source']}{seed}",
        "notes": about["provenance_notes"] or "none",
        "digest": about["digest"],
    }
    for name, text in rows.items():
        table.add_row(name, text)
    plain_console().print(table)


def _info(args: argparse.Namespace) -> int:
    about = describe(_load(args))
    _print_json(about) if args.json else _show(about)
    return 0


def _sizes(args: argparse.Namespace) -> int:
    rows = sizes(_load(args))
    _print_json({"snapshots": rows}) if args.json else _rows(rows)
    return 0


def _convert(args: argparse.Namespace) -> int:
    graph = _load(args)
    if args.to == "netfold":
        save_dynamic(graph, args.output)
    else:
        rows = [np.column_stack([pairs, np.full(len(pairs), t)]) for t, pairs in enumerate(graph.arrivals)]
        write_whole(args.output, lambda path: np.savetxt(path, np.concatenate(rows), fmt="%d"))
    print(
        f"wrote {args.output}: {graph.name}, {graph.num_vertices:,} vertices, {graph.num_snapshots} snapshots"
    )
    return 0


def _debian(args: argparse.Namespace) -> int:
    with shown("reading Packages indices") as progress:
        graph = debian_releases(args.indices, progress)
    save_dynamic(graph, args.output)
    about = describe(graph)
    _print_json(about) if args.json else _show(about)
    return 0


def _partition(args: argparse.Namespace) -> int:
    if not 1 <= args.repeat <= 1000:
        raise InputError(f"--repeat: {args.repeat} given; allowed: 1 to 1000")
    graph = _load(args)
    rows = []
    methods = args.method or [name for name in METHODS if name != "random"]
    with shown(f"partitioning {graph.name}") as progress:
        for place, method in enumerate(methods):
            made = [
                partition_dynamic(graph, args.workers, method=method, keep=args.keep, seed=args.seed)
                for _ in range(args.repeat)
            ]
            rows.append(travelling_rows(graph, made[-1]) | {"made_s": min(one.made_s for one in made)})
            progress(place + 1, len(methods))
    if args.json:
        _print_json({"graph": graph.name, "digest": graph.digest, "partitions": rows})
    else:
        _rows(rows)
    return 0
