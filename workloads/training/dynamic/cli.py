"""`netfold train-dynamic`: train a dynamic graph network on sliding windows, with SWASH or a rival."""

from __future__ import annotations

import argparse
import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from workloads.errors import InputError
from workloads.graphs.dynamic import load_dynamic_graph
from workloads.partition.dynamic import METHODS, partition_dynamic
from workloads.terminal import plain_console
from workloads.training.around import folders, size, trained_and_told
from workloads.training.display import training_progress
from workloads.training.dynamic.options import (
    CHOICES,
    INPUTS,
    MODEL_NAMES,
    SYSTEM_NAMES,
    TIMINGS,
    DynamicOptions,
    make_options,
)
from workloads.training.dynamic.task import METRICS
from workloads.training.options import CLOCKS, DEVICES, PRECISIONS
from workloads.training.require import require_torch

if TYPE_CHECKING:
    from workloads.training.dynamic.worker import DynamicTrained

PARTITIONS = {"swash": "light-metis", "snapshot": "snapshot", "chunk": "chunk"}
_EXAMPLES = """examples:
  netfold train-dynamic                               # T-GCN with SWASH on generated traffic, 4 workers
  netfold train-dynamic --graph social:1000:40 --model evolvegcn --workers 2
  netfold train-dynamic --system full --epochs 30 --json     # what SWASH is compared with
  netfold train-dynamic --k 2 --s 8 --cache-windows 8     # 8 windows of every 2nd epoch
"""


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold train-dynamic`."""
    train = subparsers.add_parser(
        "train-dynamic",
        help="train a dynamic graph network on sliding windows, every byte counted",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    base = DynamicOptions()
    train.add_argument("--system", choices=SYSTEM_NAMES, default=base.system, help="default: %(default)s")
    train.add_argument("--model", choices=MODEL_NAMES, default=base.model, help="default: %(default)s")
    train.add_argument(
        "--graph", default="traffic", help="dynamic graph, by name or path (default: %(default)s)"
    )
    train.add_argument("--scale", type=float, default=1.0, help="share of its usual vertices (default 1)")
    train.add_argument(
        "--lifetime", type=int, metavar="Z", help="snapshots that an edge lives (default: its own)"
    )
    train.add_argument(
        "--window", type=int, metavar="NS", help="snapshots of a window (default: the graph's own)"
    )
    train.add_argument("--workers", type=int, default=4, help="worker processes (default: %(default)s)")
    train.add_argument(
        "--partition",
        choices=METHODS,
        help="default: light-metis for swash, chunk, snapshot, else metis-union",
    )
    for flag, what in (
        ("--layers", "blocks of the model"),
        ("--hidden", "hidden width"),
        ("--epochs", "epochs"),
        ("--lr", "Adam's learning rate"),
        ("--seed", "seed of graph, partition, weights, pairs and choices"),
        ("--eval-every", "epochs between evaluations"),
        ("--threads", "torch threads of a worker"),
    ):
        _number(train, flag, getattr(base, flag.removeprefix("--").replace("-", "_")), what)
    _number(train, "--timeout", base.timeout_s, "seconds a worker waits for another", dest="timeout_s")
    train.add_argument("--precision", choices=PRECISIONS, help="float64 shows exactness to the digit")
    train.add_argument("--device", choices=DEVICES, help="auto: CUDA where each worker finds a device")
    train.add_argument(
        "--checkpoint-every",
        type=int,
        default=0,
        metavar="N",
        help="epochs between checkpoints, beside the results folder (default 0: only when interrupted)",
    )
    train.add_argument(
        "--resume", action="store_true", help="the same command again: go on from its newest checkpoint"
    )
    train.add_argument(
        "-o", "--output", type=Path, help="results folder (default: results/train-dynamic-...)"
    )
    train.add_argument(
        "--json", action="store_true", help="print settings, summary and every epoch's log as one JSON object"
    )
    swash = train.add_argument_group("swash", "how much is sent, and when; the rest comes from the cache")
    _number(swash, "--k", base.k, "interval: every k-th epoch communicates")
    _number(swash, "--s", base.s, "windows that communicate in such an epoch; below 1 a share of them, 0 all")
    _number(swash, "--p", base.p, "share of each snapshot's boundary rows that such a window sends")
    swash.add_argument("--choose", choices=CHOICES, help=f"which rows (default {base.choose})")
    swash.add_argument("--when", choices=TIMINGS, help=f"which windows (default {base.when})")
    _number(swash, "--cache-windows", base.cache_windows, "windows whose Ns matrices are kept; 0: no cache")
    swash.add_argument(
        "--adaptive",
        action="store_true",
        default=None,
        help="start with everything and go down to k, s, p as cost, cache and loss allow",
    )
    swash.add_argument("--inputs", choices=INPUTS, help=f"send features (default {base.inputs})")
    swash.add_argument(
        "--clock", choices=CLOCKS, help=f"what --adaptive takes as cost (default {base.clock})"
    )
    _number(swash, "--link-gbps", base.link_gbps, "link rate of the counted clock")
    train.set_defaults(run=_train)


def _number(parser: Any, flag: str, default: float, what: str, dest: str | None = None) -> None:
    name = dest or flag.removeprefix("--").replace("-", "_")
    parser.add_argument(flag, dest=name, type=type(default), metavar="N", help=f"{what} (default {default})")


def _train(args: argparse.Namespace) -> int:
    require_torch("train-dynamic")
    options = make_options({field.name: getattr(args, field.name) for field in fields(DynamicOptions)})
    folder, checkpoints = folders(args, "train-dynamic", options.system, options.model)
    from workloads.training.dynamic.records import write_run  # noqa: PLC0415  # imports torch, which is optional

    def train() -> tuple[dict[str, Any], DynamicTrained | None]:
        return _trained(args, options, checkpoints)

    return trained_and_told(args, (folder, checkpoints), train, write_run, _show)


def _trained(
    args: argparse.Namespace, options: DynamicOptions, checkpoints: Path
) -> tuple[dict[str, Any], DynamicTrained | None]:
    """(settings, what the run left), the latter on worker 0 only."""
    from workloads.training import launch  # noqa: PLC0415
    from workloads.training.checkpoint import refuse_other_run  # noqa: PLC0415
    from workloads.training.dynamic.prepare import make_dynamic_jobs  # noqa: PLC0415
    from workloads.training.dynamic.records import settings  # noqa: PLC0415
    from workloads.training.dynamic.worker import train_dynamic_worker  # noqa: PLC0415
    from workloads.training.failure import out_of_memory  # noqa: PLC0415
    from workloads.training.member import join_torchrun  # noqa: PLC0415
    from workloads.training.prepare import Keeping  # noqa: PLC0415

    member = join_torchrun(options, args.workers)
    try:
        graph = load_dynamic_graph(
            args.graph, scale=args.scale, seed=options.seed, lifetime=args.lifetime, window=args.window
        )
        method = args.partition or PARTITIONS.get(options.system, "metis-union")
        partition = partition_dynamic(graph, args.workers, method=method, seed=options.seed)
        keeping = Keeping(checkpoints, args.checkpoint_every, args.resume)
        about = settings(graph, partition, options)
        ranks = None if member is None else [member.rank]
        jobs = make_dynamic_jobs(graph, partition, options, ranks=ranks, keeping=keeping)
        if args.resume and member is None:
            refuse_other_run(checkpoints, args.workers, jobs[0].identity)
        first = METRICS[graph.task][0]

        def told(row: dict[str, Any]) -> str:
            value = row[f"validation_{first}"]
            scored = "" if math.isnan(value) else f"validation {first} {value:.4f}, "
            sent = row["embeddings_bytes"] + row["gradients_bytes"]
            return f"loss {row['loss']:.4f}, {scored}{row['epoch_s']:.2f} s, boundary {size(sent)}"

        with training_progress(f"{options.system} {options.model}", options.epochs, told) as on_epoch:
            if member is not None:
                return about, member.run(jobs[0], on_epoch, train_dynamic_worker)
            return about, launch.run_cluster(jobs, on_epoch, train_dynamic_worker)
    except Exception as error:
        if member is not None:
            member.fail(error)
        if not isinstance(error, InputError) and out_of_memory(error):
            raise InputError(
                "train-dynamic: out of memory; use a smaller --hidden, --window or --scale, or fewer "
                "--cache-windows"
            ) from None
        raise


def _show(about: dict[str, Any], figures: dict[str, Any], folder: Path) -> None:
    title = f"{about['system']}, {about['model']} on {about['graph']}, {about['workers']} workers"
    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    epochs = figures["epochs"]
    table.add_row("loss", f"{figures['final_loss']:.4f} after {epochs} epochs")
    for name in METRICS[about["task"]]:
        table.add_row(
            name,
            f"test {figures[f'test_{name}']:.4f}, validation {figures[f'validation_{name}']:.4f} "
            f"(best, epoch {figures['best_epoch']})",
        )
    kinds = ("features", "embeddings", "gradients", "states", "topk", "weights")
    sizes = ", ".join(f"{kind} {size(figures[f'{kind}_bytes'] / epochs)}" for kind in kinds)
    table.add_row("sent an epoch", sizes)
    if about["system"] == "swash":
        table.add_row(
            "remote rows",
            f"{100 * figures['fresh_share']:.1f} % fresh, {100 * figures['cached_share']:.1f} % cached "
            f"({figures['distance_mean']:.1f} windows away, at most {figures['distance_most']}), "
            f"{100 * figures['missing_share']:.1f} % missing",
        )
        table.add_row(
            "cache",
            f"{size(figures['cache_bytes'])} of at most {size(figures['cache_most_bytes'])} a worker",
        )
    waited = f"{figures['wait_s']:.3f} s of it sending and receiving"
    table.add_row(
        "epoch", f"{figures['epoch_s']:.3f} s, {waited}, measured on this machine ({figures['device']})"
    )
    table.add_row("records", str(folder))
    plain_console().print(table)
