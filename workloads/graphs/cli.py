"""`netfold graph`: what a graph looks like, which there are, other formats, and Debian's dependency graph."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from workloads.graphs.convert import TARGETS, convert
from workloads.graphs.debian_build import build_debian
from workloads.graphs.debian_index import default_indices
from workloads.graphs.formats.registry import FORMATS
from workloads.graphs.progress import shown
from workloads.graphs.sources import catalogue, load_graph
from workloads.graphs.stats import describe
from workloads.terminal import plain_console


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold graph info | list | convert | build-debian`."""
    graph = subparsers.add_parser("graph", help="look at, list, convert and build graphs")
    commands = graph.add_subparsers(metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="size, degrees, components and provenance of a graph")
    _add_source(info)
    info.add_argument("--json", action="store_true", help="print one JSON object")
    info.set_defaults(run=_info)

    listing = commands.add_parser("list", help="the graphs that can be named, and the file formats")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    listing.set_defaults(run=_list)

    conversion = commands.add_parser("convert", help="write a graph in another format")
    _add_source(conversion)
    conversion.add_argument(
        "-o", "--output", type=Path, required=True, help="file (netfold: folder) to write"
    )
    conversion.add_argument("--to", choices=TARGETS, required=True, help="format")
    conversion.add_argument(
        "--features", action="store_true", help="make features for a stand-in (netfold only)"
    )
    conversion.set_defaults(run=_convert)

    debian = commands.add_parser(
        "build-debian", help="build Debian's dependency graph from apt's Packages indices"
    )
    debian.add_argument(
        "indices", type=Path, nargs="*", help="Packages files, plain, .gz, .xz or .lz4 (default: apt's)"
    )
    debian.add_argument("-o", "--output", type=Path, required=True, help="snapshot to write (.npz)")
    debian.add_argument(
        "--json", action="store_true", help="print what the graph looks like as one JSON object"
    )
    debian.set_defaults(run=_build_debian)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a name, a shape such as star:100, a path, or FORMAT:path")
    parser.add_argument("--scale", type=float, default=1.0, help="share of a stand-in's vertices (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of stand-ins and rmat (default 1)")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _info(args: argparse.Namespace) -> int:
    graph = load_graph(args.source, scale=args.scale, seed=args.seed)
    about = describe(graph)
    _print_json(about) if args.json else _show(about)
    return 0


def _show(about: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, title=about["name"], title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    seed = "" if about["provenance_seed"] is None else f", seed {about['provenance_seed']}"
    labelled = about["labelled_vertices"]
    split = about["split"]
    rows = [
        ("vertices", f"{about['vertices']:,}, {about['isolated_vertices']:,} of them isolated"),
        ("directed edges", f"{about['directed_edges']:,}"),
        (
            "degree",
            f"mean {about['degree_mean']:.1f}, median {about['degree_median']:g}, "
            f"min {about['degree_min']:,}, max {about['degree_max']:,}",
        ),
        (
            "skew",
            f"20 % of the vertices carry {100 * about['top_fifth_edge_share']:.0f} % of the edges, "
            f"Gini {about['degree_gini']:.2f}",
        ),
        ("components", f"{about['components']:,}, the largest of {about['largest_component']:,} vertices"),
        (
            "features",
            f"{about['feature_width']} per vertex"
            + ("" if about["features_present"] else " (declared, not stored)")
            if about["feature_width"]
            else "none",
        ),
        (
            "labels",
            f"{about['num_classes']} classes"
            + (", several per vertex" if about["multi_label"] else "")
            + (" (declared, not stored)" if labelled is None else f", {labelled:,} vertices labelled")
            if about["num_classes"]
            else "none",
        ),
        ("split", ", ".join(f"{part} {count:,}" for part, count in split.items()) if split else "none"),
        ("provenance", f"{about['provenance_kind']}: {about['provenance_source']}{seed}"),
        ("notes", about["provenance_notes"] or "none"),
        ("digest", about["digest"]),
    ]
    for name, text in rows:
        table.add_row(name, text)
    plain_console().print(table)


def _list(args: argparse.Namespace) -> int:
    if args.json:
        graphs = [{"name": name, "kind": kind, "what": what} for name, kind, what in catalogue()]
        formats = [{"format": name, "what": form.title} for name, form in FORMATS.items()]
        _print_json({"graphs": graphs, "formats": formats})
        return 0
    console = plain_console()
    table = Table("graph", "kind", "what it is", box=None, header_style="bold")
    for row in catalogue():
        table.add_row(*row)
    console.print(table)
    console.print()
    table = Table("format", "what is read (name the path, or FORMAT:path)", box=None, header_style="bold")
    for name, form in FORMATS.items():
        table.add_row(name, form.title)
    console.print(table)
    return 0


def _convert(args: argparse.Namespace) -> int:
    graph = load_graph(args.source, scale=args.scale, seed=args.seed, features=args.features)
    with shown(f"writing {args.output}") as progress:
        convert(graph, args.output, args.to, progress)
    print(
        f"wrote {args.output}: {graph.name}, {graph.num_vertices:,} vertices, "
        f"{graph.num_edges:,} directed edges"
    )
    return 0


def _build_debian(args: argparse.Namespace) -> int:
    indices = args.indices or default_indices()
    with shown("reading Packages indices") as progress:
        graph = build_debian(indices, args.output, progress)
    about = describe(graph)
    _print_json(about) if args.json else _show(about)
    return 0
