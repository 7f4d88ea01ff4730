"""`netfold compare --substrates`: one scenario simulated and emulated, what both counted side by side.

The emulation is the in-process cluster in virtual time: real frames through the real P4 program, no process
slow enough for a timeout, so the counts must agree. Loss, which would fall on different frames, is left out
of both.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from sim.scenario import Scenario
from workloads.errors import InputError

PATIENCE_S = 30.0


def compare_substrates(scenario: Scenario, *, propagations: int | None, as_json: bool) -> int:
    """Print both substrates' counts; 1 if any differs without a reason, or a sum is wrong.

    propagations: how many of the scenario's epoch (None: all). Raises InputError for what cannot be emulated.
    """
    from emulator.cluster import report, run  # noqa: PLC0415  (numpy, pyarrow and the graph room)
    from emulator.cluster.prepare import prepare  # noqa: PLC0415
    from emulator.cluster.progress import Progress  # noqa: PLC0415
    from emulator.compare import as_dicts, compare, simulate  # noqa: PLC0415

    left_out = ["loss.rate"] if scenario.loss.rate else []
    quiet = replace(scenario, loss=type(scenario.loss)())
    prepared = prepare(quiet)
    count = propagations or len(prepared.propagations)
    if not count:
        raise InputError("model.layers: a model of one layer propagates nothing; set it to 2 or more")
    cluster = run.make_cluster(
        quiet, prepared, [], in_process=True, bmv2=False, patience_s=PATIENCE_S, captures=None
    )
    try:
        with Progress() as progress:
            measured = run.run(cluster, quiet, prepared, count, progress)
    finally:
        cluster.close()
    rows = as_dicts(compare(simulate(quiet, prepared, count), prepared, measured))
    right = bool(measured.equal) and all(measured.equal)
    about: dict[str, Any] = {
        "system": prepared.system.name, "graph": prepared.graph.name, "workers": prepared.topology.workers,
        "racks": prepared.topology.racks, "spines": prepared.topology.spines, "propagations": count,
        "values_equal_oracle": right, "equal": right and not any(row["differs"] for row in rows),
        "left_out": left_out, "unused_keys": prepared.unused, "rows": rows,
    }  # fmt: skip
    if as_json:
        print(json.dumps(about, indent=2))
    else:
        _show(about, report.substrates(rows))
    return 0 if about["equal"] else 1


def _show(about: dict[str, Any], table: Any) -> None:
    from analysis.render import wide_console  # noqa: PLC0415

    console = wide_console()
    racks = f", {about['racks']} racks, {about['spines']} spines" if about["racks"] else ", one switch"
    console.print(
        f"{about['system']} on {about['graph']}: {about['workers']} workers{racks}, "
        f"{about['propagations']} propagations, simulated and emulated (in virtual time)"
    )
    console.print(table)
    if about["left_out"]:
        console.print(f"left out of both: {', '.join(about['left_out'])}")
    differing = [row["what"] for row in about["rows"] if row["differs"]]
    if not about["values_equal_oracle"]:
        console.print("the emulated sums are WRONG")
    if differing:
        console.print(f"DIFFERENT: {', '.join(differing[:8])}{', ...' if len(differing) > 8 else ''}")
    elif about["values_equal_oracle"]:
        console.print("equal wherever they count the same thing; sums equal to A H, bit for bit")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `netfold compare` that are about substrates."""
    parser.add_argument(
        "--substrates",
        action="store_true",
        help="simulate and emulate the scenario (2 to 64 workers, one system) and compare what was sent: "
        "packets by kind, bytes by port, passes, bypasses; exit status 1 if they differ. "
        "Example: netfold compare --substrates scenario.toml --workers 8",
    )
    parser.add_argument(
        "--propagations",
        type=int,
        metavar="N",
        help="with --substrates: so many (default: those of an epoch)",
    )
