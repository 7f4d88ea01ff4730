"""`netfold run`, `scenario` and `show` on a [network] scenario: P4 switches among ordinary ns-3 hosts."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sim.network.scenario import NetworkScenario
from sim.network.scenario_io import dump_network, load_network
from sim.quantities import format_bytes, format_count, format_ns
from workloads.errors import InputError

# Options of `netfold run` that mean nothing without a propagation.
_FOREIGN = ("graph", "scale", "workers", "system", "memory", "compute", "recirculation", "residual")


def run(args: argparse.Namespace) -> int:
    """Simulate a network, keep its results, print them. 1 if an assert() of a program failed."""
    # pyarrow and rich take a moment to load.
    from rich.progress import BarColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    from sim.network.run import run_network  # noqa: PLC0415
    from workloads.terminal import PlainColumn, plain_console  # noqa: PLC0415

    if args.command != "run":
        raise InputError(
            f"{args.command}: {args.scenario} describes a network, and this compares systems; use run"
        )
    scenario = _load(args)
    place = args.output or Path("results") / f"network-{args.scenario.stem}"
    console = plain_console(stderr=True)
    columns = (
        PlainColumn("{task.description}"),
        BarColumn(bar_width=24),
        PlainColumn("{task.percentage:>3.0f}%"),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("preparing", total=1.0)
        outcome = run_network(
            scenario,
            place,
            progress=lambda share: bar.update(task, completed=share),
            stage=lambda text: bar.update(task, description=text),
            pcap=tuple(x.strip() for x in args.pcap.split(",") if x.strip()) if args.pcap else (),
        )
    print_results(outcome.summary, place, as_json=args.json)
    for warning in outcome.summary["warnings"]:
        print(f"netfold: warning: {warning}", file=sys.stderr)
    return 1 if outcome.summary["warnings"] else 0


def print_scenario(args: argparse.Namespace) -> int:
    """The resolved scenario as TOML, on stdout."""
    print(dump_network(_load(args), {"version": version("netfold")}), end="")
    return 0


def is_network_results(folder: Path) -> bool:
    """Whether a results folder is a network's."""
    try:
        return json.loads((folder / "summary.json").read_text(encoding="utf-8")).get("kind") == "network"
    except (OSError, ValueError, AttributeError):
        return False


def show(folder: Path, *, as_json: bool) -> int:
    """The tables of a results folder again."""
    print_results(json.loads((folder / "summary.json").read_text(encoding="utf-8")), folder, as_json=as_json)
    return 0


def print_results(summary: dict[str, Any], place: Path, *, as_json: bool) -> None:
    """Flows and programs as tables, or the summary as JSON."""
    if as_json:
        print(json.dumps({**summary, "results": str(place)}, indent=2, sort_keys=True))
        return
    from rich.table import Table  # noqa: PLC0415

    from analysis.render import wide_console  # noqa: PLC0415

    console = wide_console()
    console.print(
        f"{summary['topology']}: {summary['hosts']} hosts, {summary['switches']} switches, "
        f"{summary['links']} links, {format_ns(summary['duration_ns'])} of traffic (simulated)",
        markup=False,
        highlight=False,
    )
    flows = Table(
        "flow", "kind", "flows", "sent", "received", "lost", "throughput", "latency p50", "p99", "max"
    )
    for group in summary["flows"]:
        flows.add_row(*_flow_cells(group))
    console.print(flows)
    drops = ("queue drops", "program drops")
    programs = Table("program", "switches", "entries", "passes", "recirc.", *drops, "marks", "longest queue")
    for one in summary["programs"]:
        programs.add_row(
            one["program"],
            _names(one["switches"]),
            str(one["entries"]),
            format_count(one["passes"]),
            format_count(one["recirculated_passes"]),
            format_count(one["drops"]),
            format_count(one["program_drops"]) if "program_drops" in one else "-",
            format_count(one["ecn_marks"]),
            format_bytes(one["max_backlog_bytes"]),
        )
    console.print(programs)
    if summary.get("messages"):
        console.print(f"digests and lines of log_msg(): {summary['messages']}, in messages.parquet")
    if summary.get("no_link_drops"):
        console.print(f"{summary['no_link_drops']} packets sent to ports without a link")
    if summary["lost_frames"]:
        console.print(f"{summary['lost_frames']} frames lost on links")
    wall = f", {summary['wall_s']:.1f} s" if "wall_s" in summary else ""
    console.print(
        f"{place}: {format_count(summary['switch_packets'])} packets through switches{wall}", markup=False
    )


def _flow_cells(group: dict[str, Any]) -> list[str]:
    stream = group["kind"] == "tcp"
    sent, lost = group["sent_packets"], group["lost_packets"]
    share = f" ({lost / sent:.2%})" if sent and lost else ""
    latency = [format_ns(group[f"latency_{key}_ns"] or 0) if group[f"latency_{key}_ns"] is not None else "-"
               for key in ("p50", "p99", "max")]  # fmt: skip
    return [
        group["name"],
        group["kind"],
        str(group["flows"]),
        "-" if stream else format_count(sent),
        format_bytes(group["received_bytes"]) if stream else format_count(group["received_packets"]),
        f"{group['retransmits']} resent" if stream else f"{lost}{share}",
        _rate(group["throughput_bps"]),
        *latency,
    ]


def _rate(bits: float) -> str:
    return f"{format_count(bits)}bit/s".replace(" ", " ") if bits else "0 bit/s"


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)}: {names[0]} .. {names[-1]}"


def _load(args: argparse.Namespace) -> NetworkScenario:
    for name in _FOREIGN:
        if getattr(args, name, None) is not None:
            raise InputError(f"--{name}: {args.scenario} describes a network, which has none")
    given: dict[str, object] = {}
    for setting in args.settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set: {setting[:60]!a} given; expected section.key=value")
        given[name.strip()] = value.strip()
    for key, value in (("topology", args.topology), ("seed", args.seed)):
        if value is not None:
            given[f"network.{key}"] = value
    return load_network(args.scenario, given)
