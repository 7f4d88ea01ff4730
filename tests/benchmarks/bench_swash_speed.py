"""Epoch times of dynamic training's systems: `python tests/benchmarks/bench_swash_speed.py --help`.

Every system trains by `netfold train-dynamic` on worker processes of this machine, over loopback. A row has,
per epoch: the measured wall time (median, slowest worker), the CPU time of the worker that computed most,
what the worker that sent most sent (bytes and messages), and the time *modelled* for a link: CPU time + bytes
/ rate + messages * latency, of the worker with the largest sum. The last columns divide a system's modelled
time by swash's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = "full,dynagraph,dynahb,snapshot,chunk,swash"


def main() -> None:
    """Run the systems and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graph", default="contacts:1000:30")
    parser.add_argument("--models", default="tgcn")
    parser.add_argument("--systems", default=SYSTEMS)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--links", default="1:50,0.1:500", help="Gb/s:latency in us, several with commas")
    args = parser.parse_args()
    links = [tuple(map(float, link.split(":"))) for link in args.links.split(",")]
    for model in args.models.split(","):
        rows = {system: run(args, system, model, links) for system in args.systems.split(",")}
        for system, row in rows.items():
            modelled = [f"{seconds:.2f}" for seconds in row["modelled_s"]]
            faster = [
                f"{a / b:.2f}" for a, b in zip(row["modelled_s"], rows["swash"]["modelled_s"], strict=True)
            ]
            cells = [args.graph, model, system, f"{row['wall_s']:.2f}", f"{row['cpu_s']:.2f}"]
            cells += [f"{row['bytes'] / 1e6:.2f}", str(row["messages"]), *modelled, *faster]
            print(f"| {' | '.join(cells)} |", flush=True)


def run(args: argparse.Namespace, system: str, model: str, links: list[tuple[float, ...]]) -> dict[str, Any]:
    """One system's figures per epoch; the first epoch, which has what is sent once, does not count."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "netfold", "train-dynamic", "--system", system, "--model", model]
        command += ["--graph", args.graph, "--workers", str(args.workers), "--epochs", str(args.epochs)]
        command += ["--hidden", str(args.hidden), "--eval-every", "1000", "--timeout", "300", "--json"]
        done = subprocess.run(
            [*command, "-o", f"{folder}/run"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        json.loads(done.stdout)
        times = pd.read_parquet(f"{folder}/run/times.parquet")
    times = times[times["epoch"] > 0]
    by_epoch = times.groupby("epoch")
    modelled = [
        times["cpu_ns"] * 1e-9 + times["sent_bytes"] * 8e-9 / rate + times["messages"] * latency * 1e-6
        for rate, latency in links
    ]
    return {
        "wall_s": by_epoch["epoch_ns"].max().median() * 1e-9,
        "cpu_s": by_epoch["cpu_ns"].max().median() * 1e-9,
        "bytes": by_epoch["sent_bytes"].max().median(),
        "messages": int(by_epoch["messages"].max().median()),
        "modelled_s": [seconds.groupby(times["epoch"]).max().median() for seconds in modelled],
    }


if __name__ == "__main__":
    main()
